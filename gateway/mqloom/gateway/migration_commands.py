"""What the commands that move clients share: their options, whom they ask, and what they print."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.errors import BrokerError, ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import AT_ONCE, AT_ONCE_MAX, MIGRATION_S, ORDER_S_MAX
from mqloom.core.migration_records import RATE_MAX, Bounds, MigrationAnswer
from mqloom.core.wording import counted
from mqloom.gateway.assembly import keyring_of, reachable_brokers
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.drivers.migrating import DRAINED, Asking, survey
from mqloom.gateway.key_file import order_keys_in

KINDS: Final = {
    "keyless": (
        "without this federation's public key, or set not to move",
        "stopped, or started again with what `mqloom keys public` prints, as MQLOOM_PUBLIC_KEY in its environment",
    ),
    "plain": (
        "of another program than mqloom.client, which knows nothing of orders",
        "stopped, or connected to another broker by hand",
    ),
}
"""Of what kind those are that cannot be moved, and until when they stay, for each `Immovable`."""

NAMES_MAX: Final = 10
"""How many clients of a kind are named in one line."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how fast clients are moved, and for whom it is printed."""
    add_configuration(parser)
    rate = positive_number(RATE_MAX)
    parser.add_argument("--rate", type=rate, default=0.0, metavar="N", help="move N clients a second; else no limit")
    help_text = f"move N clients at the same time, {AT_ONCE} where nothing is said"
    parser.add_argument("--at-once", type=whole_number(AT_ONCE_MAX), default=AT_ONCE, metavar="N", help=help_text)
    deadline_s = positive_number(ORDER_S_MAX)
    help_text = f"how long a client may take to get there before it stays; {MIGRATION_S:g} where nothing is said"
    parser.add_argument("--deadline", type=deadline_s, default=MIGRATION_S, metavar="SECONDS", help=help_text)
    parser.add_argument("--json", action="store_true", help="for programs: one object, at the end")


def bounds_of(arguments: argparse.Namespace) -> Bounds:
    """Return what these options say."""
    return Bounds(rate=arguments.rate, at_once=arguments.at_once, deadline_s=arguments.deadline)


def asking_in(configuration: Configuration) -> tuple[Asking, dict[GatewayId, str]]:
    """Return how the gateways are asked, and who cannot be; raises ConfigurationError if none would order clients."""
    if configuration.key_path is None or order_keys_in(configuration.key_path) is None:
        problem = "the federation has no order key, without which clients obey nobody: "
        problem += "`mqloom keys new` makes one, `mqloom keys order` adds it to a file that has none"
        raise ConfigurationError(configuration.source, (problem,))
    addresses, problems = reachable_brokers(configuration)
    return Asking(addresses, keyring_of(configuration), WAIT_S), problems


def refuse_drained(asking: Asking, targets: Sequence[GatewayId]) -> None:
    """Raise BrokerError if a target is drained: only its own broker and gateway know that, not those who order."""
    addresses = {target: asking.addresses[target] for target in targets if target in asking.addresses}
    for target, reason in survey(addresses, WAIT_S).items():
        if reason == DRAINED:
            problem = f"it is drained, and would send on at once whoever comes: run `mqloom undrain {target}` first"
            raise BrokerError(target, f"{problem}, or name another broker with --to")


class Teller:
    """Prints how far each gateway is: at the beginning, after each twentieth part of its clients, and at the end."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._said: dict[GatewayId, int] = {}

    def __call__(self, gateway: GatewayId, answer: MigrationAnswer) -> None:
        """Print a line, if it is time."""
        ended, open_ones = answer.moved + answer.stayed, answer.under_way + answer.waiting
        if self._is_quiet or not (ended or open_ones):
            return
        said = self._said.get(gateway)
        if said is None or ended >= said + max(1, (ended + open_ones) // 20) or (not open_ones and ended != said):
            self._said[gateway] = ended
            sys.stdout.write(f"  {gateway}: {progress(answer)}\n")
            sys.stdout.flush()


def progress(answer: MigrationAnswer) -> str:
    """Return how far a gateway is, for people."""
    parts = [f"{answer.moved:,} moved"]
    if answer.under_way:
        parts.append(f"{answer.under_way:,} under way")
    if answer.waiting:
        parts.append(f"{answer.waiting:,} waiting")
    if answer.stayed:
        parts.append(f"{answer.stayed:,} stayed")
    return ", ".join(parts)


def clients(count: int) -> str:
    """Return how many clients, for people."""
    return counted(count, "client")


def stayed(answers: Sequence[MigrationAnswer]) -> dict[str, str]:
    """Return why clients stayed, as far as they are named."""
    return {client: problem for answer in answers for client, problem in sorted(answer.problems.items())}


def tell_immovable(command: str, answers: Sequence[tuple[GatewayId, MigrationAnswer]]) -> None:
    """Explain on stderr who of those that were asked for is at which gateway and cannot be moved."""
    found: dict[GatewayId, dict[str, str]] = {}
    for gateway, answer in answers:
        found.setdefault(gateway, {}).update(answer.immovable)
    for gateway, immovable in found.items():
        _tell_kinds(f"mqloom {command}: at {gateway}, and cannot be moved", Counter(immovable.values()), immovable)


def tell_left(command: str, gateway: GatewayId, answer: MigrationAnswer) -> None:
    """Explain on stderr who is still at a gateway that is drained, and whether another try may help."""
    begin = f"mqloom {command}: still at {gateway}"
    if answer.left:
        sys.stderr.write(f"{begin}: {clients(answer.left)} that could be moved; run this again to try once more\n")
    unexplained = answer.fixed - sum(answer.fixed_by.values())
    if unexplained > 0:  # by a gateway of an earlier version
        text = "that cannot be moved, why its gateway does not say; to run this again does not help"
        sys.stderr.write(f"{begin}: {clients(unexplained)} {text}\n")
    _tell_kinds(begin, answer.fixed_by, answer.immovable)


def _tell_kinds(begin: str, counts: Mapping[str, int], immovable: Mapping[str, str]) -> None:
    """Write a line for each reason why clients cannot be moved, with how many they are and the first of their names."""
    for reason, count in sorted(counts.items()):
        names = sorted(client for client, other in immovable.items() if other == reason)[:NAMES_MAX]
        more = f" and {count - len(names):,} more" if count > len(names) else ""
        kind, until = KINDS.get(reason, (reason, "stopped"))
        advice = f"to run this again does not help, such a client stays until it is {until}"
        sys.stderr.write(f"{begin}: {clients(count)} {kind}: {', '.join(names)}{more}; {advice}\n")


def tell_problems(command: str, answers: Sequence[MigrationAnswer], problems: Mapping[GatewayId, str]) -> None:
    """Explain on stderr who stayed, and which gateways could not be asked."""
    sys.stdout.flush()
    named = stayed(answers)
    for client, problem in named.items():
        sys.stderr.write(f"mqloom {command}: client {client} stays where it is: {problem}\n")
    more = sum(answer.stayed for answer in answers) - len(named)
    if more > 0:
        sys.stderr.write(f"mqloom {command}: and {clients(more)} more\n")
    for gateway, problem in problems.items():
        sys.stderr.write(f"mqloom {command}: {gateway}: {problem}\n")


def print_json(answers: Sequence[MigrationAnswer], problems: Mapping[GatewayId, str], **more: object) -> None:
    """Print what became of it, for programs."""
    found = {
        "moved": sum(answer.moved for answer in answers),
        "stayed": sum(answer.stayed for answer in answers),
        "left": sum(answer.left for answer in answers),
        "fixed": sum(answer.fixed for answer in answers),
        "immovable": {client: reason for answer in answers for client, reason in answer.immovable.items()},
        "clients": stayed(answers),
        "problems": problems,
        **more,
    }
    sys.stdout.write(f"{json.dumps(found, ensure_ascii=False)}\n")

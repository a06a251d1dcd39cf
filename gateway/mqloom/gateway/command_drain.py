"""Move all clients of a broker to others, and whoever comes, so that it can be stopped for maintenance.

All that have subscriptions in the federation: who only publishes, or is a plain client, is unknown to its gateway.
Those that cannot be moved are named, with what to do about them.
"""

import argparse
import sys

from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.core.migration_records import MigrationRequest
from mqloom.gateway.command_options import WAIT_S
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.migrating import Asking, ask_gateways, survey
from mqloom.gateway.migration_commands import (
    Teller,
    add_options,
    asking_in,
    bounds_of,
    clients,
    print_json,
    refuse_drained,
    tell_left,
    tell_problems,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("broker", metavar="BROKER", help="the broker that is to be empty")
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="BROKER",
        help="where they go, in turn; may be repeated. Else to all others whose gateway runs and is not drained itself",
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Empty it; 1 if clients are left, which is explained on stderr. Raises ConfigurationError, and BrokerError."""
    configuration = load_federation(arguments.configuration).configuration
    gateway = configuration.broker(arguments.broker).id
    asking, unreachable = asking_in(configuration)
    if gateway in unreachable:
        raise BrokerError(gateway, unreachable[gateway])
    targets = list(dict.fromkeys(configuration.broker(name).id for name in arguments.to))
    refuse_drained(asking, [target for target in targets if target != gateway])
    targets = targets or _targets(asking, gateway)
    request = MigrationRequest(number=1, action="drain", to=tuple(targets), bounds=bounds_of(arguments))
    if not arguments.json:
        sys.stdout.write(f"{gateway} is drained to {', '.join(targets)}, until `mqloom undrain {gateway}`\n")
        sys.stdout.flush()
    outcome = ask_gateways(asking, {gateway: request}, Teller(is_quiet=arguments.json))
    answer = outcome.answers.get(gateway)
    if arguments.json:
        print_json(list(outcome.answers.values()), outcome.problems, to=targets)
    elif answer is not None:
        tell_problems("drain", [answer], {})
    if answer is None or answer.answer != "done":
        problem = outcome.problems.get(gateway, "it did not end")
        going_on = "" if answer is None else "; the gateway goes on by itself, run this again to see how far it is"
        raise BrokerError(gateway, f"{problem}{going_on}")
    if answer.left or answer.fixed:
        sys.stdout.flush()
        tell_left("drain", gateway, answer)
        return 1
    if not arguments.json:
        sys.stdout.write(f"{gateway} has no clients of the federation any more: {clients(answer.moved)} moved\n")
    return 0


def _targets(asking: Asking, gateway: GatewayId) -> list[GatewayId]:
    """Return all that may take clients; raises BrokerError if there is none."""
    reasons = survey({each: at for each, at in asking.addresses.items() if each != gateway}, WAIT_S)
    for other, reason in reasons.items():
        if reason:
            sys.stderr.write(f"mqloom drain: nobody is sent to {other}: {reason}\n")
    targets = sorted(other for other, reason in reasons.items() if not reason)
    if not targets:
        raise BrokerError(gateway, "there is no other broker whose gateway runs: its clients have nowhere to go")
    return targets

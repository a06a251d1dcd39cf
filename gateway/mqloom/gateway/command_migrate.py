"""Move clients to another broker while they run; they lose nothing and get nothing twice."""

import argparse
import sys

from msgspec.structs import replace

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import MIGRATION_CLIENTS_MAX
from mqloom.core.migration_records import MigrationAnswer, MigrationRequest
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.migrating import Asking, Outcome, ask_gateways
from mqloom.gateway.migration_commands import (
    Teller,
    add_options,
    asking_in,
    bounds_of,
    clients,
    print_json,
    refuse_drained,
    tell_immovable,
    tell_problems,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("client", nargs="+", metavar="CLIENT", help="a client, by the name of its record")
    parser.add_argument("--to", required=True, metavar="BROKER", help="the broker that is to serve them")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Move them, wherever they are; 1 if one stays, is not found or not known to have moved: stderr explains it.

    Raises ConfigurationError, and BrokerError if the target is drained: they would be sent away from there at once.
    """
    configuration = load_federation(arguments.configuration).configuration
    to = configuration.broker(arguments.to).id
    asking, unreachable = asking_in(configuration)
    refuse_drained(asking, [to])
    names = [ClientId(name) for name in dict.fromkeys(arguments.client)]
    answers, problems, unknown = list[tuple[GatewayId, MigrationAnswer]](), dict(unreachable), list[str]()
    for begin in range(0, len(names), MIGRATION_CLIENTS_MAX):
        part = tuple(names[begin : begin + MIGRATION_CLIENTS_MAX])
        request = MigrationRequest(number=1, action="migrate", clients=part, to=(to,), bounds=bounds_of(arguments))
        found = _move(asking, request, Teller(is_quiet=arguments.json))
        answers += found.answers.items()
        problems.update(found.problems)
        unknown += [name for name in part if all(name in answer.unknown for answer in found.answers.values())]
    said = [answer for _, answer in answers]
    moved = sum(answer.moved for answer in said)
    if arguments.json:
        print_json(said, problems, unknown=unknown)
    else:
        sys.stdout.write(f"{clients(moved)} moved to {to}\n")
        tell_problems("migrate", said, problems)
        tell_immovable("migrate", answers)
        for name in unknown:
            sys.stderr.write(
                f"mqloom migrate: client {name} was not found: no gateway that was asked serves one of that name. Its "
                "name is that of its record, the MQTT client id where the program says nothing else; one without "
                "subscriptions in the federation, and a plain MQTT client, have no record. One that has just connected "
                "has it some seconds later: try again\n"
            )
    return 0 if moved >= len(names) else 1


def _move(asking: Asking, request: MigrationRequest, tell: Teller) -> Outcome:
    """Ask all gateways but the target, and that one only about whom no other knows: the others may be there by then."""
    (to,) = request.to
    outcome = ask_gateways(asking, {each: request for each in asking.addresses if each != to}, tell)
    unknown = [name for name in request.clients if all(name in each.unknown for each in outcome.answers.values())]
    if unknown and to in asking.addresses:
        there = ask_gateways(asking, {to: replace(request, clients=tuple(unknown))}, tell)
        outcome.answers.update(there.answers)
        outcome.problems.update(there.problems)
    return outcome

"""Move clients to another broker while they run; they lose nothing and get nothing twice."""

import argparse
import sys

from mqloom.core.ids import ClientId
from mqloom.core.limits import MIGRATION_CLIENTS_MAX
from mqloom.core.migration_records import MigrationRequest
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.migrating import Outcome, ask_gateways
from mqloom.gateway.migration_commands import (
    Teller,
    add_options,
    asking_in,
    bounds_of,
    clients,
    print_json,
    tell_problems,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("client", nargs="+", metavar="CLIENT", help="a client, by the name of its record")
    parser.add_argument("--to", required=True, metavar="BROKER", help="the broker that is to serve them")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Move them, wherever they are; 1 if one stays or is not found, which is explained on stderr.

    Raises ConfigurationError.
    """
    configuration = load_federation(arguments.configuration).configuration
    to = configuration.broker(arguments.to).id
    asking, unreachable = asking_in(configuration)
    names = [ClientId(name) for name in dict.fromkeys(arguments.client)]
    moved, unknown = 0, list[str]()
    outcome = Outcome({}, dict(unreachable))
    stayed = False
    for begin in range(0, len(names), MIGRATION_CLIENTS_MAX):
        part = names[begin : begin + MIGRATION_CLIENTS_MAX]
        request = MigrationRequest(
            number=1, action="migrate", clients=tuple(part), to=(to,), bounds=bounds_of(arguments)
        )
        found = ask_gateways(asking, dict.fromkeys(asking.addresses, request), Teller(is_quiet=arguments.json))
        outcome.answers.update(found.answers)
        outcome.problems.update(found.problems)
        answers = list(found.answers.values())
        moved += sum(answer.moved for answer in answers)
        stayed = stayed or any(answer.stayed for answer in answers)
        unknown += [name for name in part if all(name in answer.unknown for answer in answers)]
        if not arguments.json:
            tell_problems("migrate", answers, {} if begin else {**unreachable, **found.problems})
    if arguments.json:
        print_json(outcome, moved=moved, unknown=unknown)
    else:
        sys.stdout.write(f"{clients(moved)} moved to {to}\n")
        sys.stdout.flush()
        for name in unknown:
            sys.stderr.write(
                f"mqloom migrate: client {name} was not found: no gateway that was asked serves one of that name that "
                "reads orders (mqloom.client does, with the public key of the federation)\n"
            )
    return 1 if stayed or unknown else 0

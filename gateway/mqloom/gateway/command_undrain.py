"""Let clients stay at a broker again that was drained; and bring back those that came from there."""

import argparse
import sys

from mqloom.core.errors import BrokerError
from mqloom.core.migration_records import MigrationRequest
from mqloom.gateway.command_options import WAIT_S
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.migrating import DRAINED, Outcome, ask_gateways, survey
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
    parser.add_argument("broker", metavar="BROKER", help="the broker that was drained")
    parser.add_argument(
        "--bring-back", action="store_true", help="move those back that were moved away from it, as far as is known"
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it; 1 if some do not come back, which is explained on stderr. Raises ConfigurationError, and BrokerError."""
    configuration = load_federation(arguments.configuration).configuration
    gateway = configuration.broker(arguments.broker).id
    asking, unreachable = asking_in(configuration)
    if gateway in unreachable:
        raise BrokerError(gateway, unreachable[gateway])
    undrain = MigrationRequest(number=1, action="undrain")
    was_drained = survey({gateway: asking.addresses[gateway]}, WAIT_S)[gateway] == DRAINED
    said = ask_gateways(asking, {gateway: undrain}, lambda *_: None)
    # It is asked all the same: it may drain without its mark, which somebody has removed.
    problem = said.problems.get(gateway, "") or ("" if was_drained else f"{gateway} is not being drained")
    if problem and not (arguments.bring_back and "is not being drained" in problem):  # so that it can be run again
        raise BrokerError(gateway, problem)
    outcome = Outcome({}, {})
    if arguments.bring_back:
        bring = MigrationRequest(number=1, action="return", to=(gateway,), bounds=bounds_of(arguments))
        others = [each for each in asking.addresses if each != gateway]
        outcome = ask_gateways(asking, dict.fromkeys(others, bring), Teller(is_quiet=arguments.json))
    answers = list(outcome.answers.values())
    if arguments.json:
        print_json(answers, outcome.problems)
    else:
        moved = sum(answer.moved for answer in answers)
        came_back = f"; {clients(moved)} came back" if arguments.bring_back else ""
        sys.stdout.write(f"{gateway} is no longer drained: clients may stay{came_back}\n")
        tell_problems("undrain", answers, outcome.problems)
    return 1 if outcome.problems or any(answer.stayed for answer in answers) else 0

"""Have running gateways read their configuration again, and say what is different then, or why nothing is."""

import argparse
import json
import sys

from mqloom.core.ids import GatewayId
from mqloom.core.reload_records import ReloadAnswer
from mqloom.gateway.assembly import keyring_of, reachable_brokers
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.reload_orders import order_reloads


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    help_text = "the broker whose gateway is meant; may be repeated. Else all of them"
    parser.add_argument("broker", nargs="*", metavar="BROKER", help=help_text)
    parser.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Order it; 1 if a gateway refuses or does not answer, which stderr explains. Raises ConfigurationError."""
    configuration = load_federation(arguments.configuration).configuration
    wanted = [configuration.broker(name).id for name in arguments.broker] or [each.id for each in configuration.brokers]
    addresses, unreachable = reachable_brokers(configuration)
    problems = {gateway: unreachable[gateway] for gateway in wanted if gateway in unreachable}
    reachable = {gateway: addresses[gateway] for gateway in dict.fromkeys(wanted) if gateway in addresses}
    answers, silent = order_reloads(reachable, keyring_of(configuration), WAIT_S)
    problems |= silent
    for gateway, answer in answers.items():
        if answer.answer != "reloaded":
            problems[gateway] = f"it goes on as before: {answer.problem}"
    if arguments.json:
        sys.stdout.write(f"{json.dumps(_as_object(answers, problems), ensure_ascii=False)}\n")
    else:
        for gateway, answer in answers.items():
            sys.stdout.write("".join(f"{gateway}: {line}\n" for line in _lines(answer)))
    sys.stdout.flush()
    for gateway, problem in problems.items():
        sys.stderr.write(f"mqloom reload: {gateway}: {problem}\n")
    return 1 if problems else 0


def _lines(answer: ReloadAnswer) -> list[str]:
    if answer.answer != "reloaded":
        return []
    if not answer.changed and not answer.waiting:
        return ["nothing is changed"]
    changed = [f"changed now: {place}" for place in answer.changed]
    return changed + [f"changed in the file, but waits for a new start: {place}" for place in answer.waiting]


def _as_object(answers: dict[GatewayId, ReloadAnswer], problems: dict[GatewayId, str]) -> dict[str, object]:
    gateways = {
        gateway: {"changed": answer.changed, "waiting": answer.waiting}
        for gateway, answer in answers.items()
        if answer.answer == "reloaded"
    }
    return {"gateways": gateways, "problems": problems}

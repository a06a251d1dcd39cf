"""Show what the load agents of a federation see, decide and have done; see docs/balancing.md."""

import argparse
import json
import sys
from typing import Final

import msgspec

from mqloom.core.balance_records import (
    BalanceAnswer,
    BalanceQuestion,
    decode_balance_answer,
    encode_balance_question,
)
from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import keyring_of, reachable_brokers
from mqloom.gateway.balance_view import explain_lines, status_lines
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.asking import ask_agents

AGENT: Final = "pie"


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="status|explain")
    status = actions.add_parser("status", help="how all brokers stand, and the last sessions")
    explain = actions.add_parser("explain", help="one session: what was seen, considered, predicted, and what came")
    explain.add_argument("session", metavar="SESSION", help="its name, as `mqloom balance status` prints it")
    for each in (status, explain):
        add_configuration(each)
        each.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Print what the agents answer; 1 if one does not, or none knows the session, which stderr says."""
    configuration = load_federation(arguments.configuration).configuration
    question = BalanceQuestion()
    if arguments.action == "explain":
        question = BalanceQuestion(ask="explain", session=arguments.session)
    answers, problems = ask(configuration, question)
    if arguments.action == "explain":
        answers = {gateway: answer for gateway, answer in answers.items() if answer.sessions}
    if arguments.json:
        told = {gateway: msgspec.to_builtins(answer) for gateway, answer in answers.items()}
        sys.stdout.write(f"{json.dumps({'gateways': told, 'problems': problems}, indent=2, ensure_ascii=False)}\n")
    elif answers:
        sys.stdout.write("\n".join(_lines(arguments.action, answers)) + "\n")
    sys.stdout.flush()
    for gateway, problem in problems.items():
        sys.stderr.write(f"mqloom balance: {gateway}: {problem}\n")
    if arguments.action == "explain" and not answers:
        who = "no gateway that answered" if problems else "no gateway"
        known = "`mqloom balance status` lists those that are remembered"
        sys.stderr.write(f"mqloom balance: {who} knows session {arguments.session!r}: {known}\n")
    return 1 if problems or not answers else 0


def ask(
    configuration: Configuration, question: BalanceQuestion, wait_s: float = WAIT_S
) -> tuple[dict[GatewayId, BalanceAnswer], dict[GatewayId, str]]:
    """Return what the load agents of all gateways answer, and why others do not."""
    addresses, problems = reachable_brokers(configuration)
    body, keyring = encode_balance_question(question), keyring_of(configuration)
    answered = ask_agents(addresses, AGENT, body, keyring, wait_s)
    problems |= answered.problems
    answers = {}
    for gateway, data in answered.bodies.items():
        try:
            answers[gateway] = decode_balance_answer(data)
        except RecordError as error:
            problems[gateway] = f"its answer cannot be read: {error.problem}; is it of another version?"
    return answers, problems


def _lines(action: str, answers: dict[GatewayId, BalanceAnswer]) -> list[str]:
    if action == "status":
        return status_lines(list(answers.values()))
    return [line for answer in answers.values() for line in explain_lines(answer.gateway, answer.sessions[0])]

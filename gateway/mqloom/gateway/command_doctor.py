"""Examine every broker of a federation: can what is promised be kept there, and if not, what to change."""

import argparse
import json
import secrets
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from mqloom.core import layout
from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import BrokerError, ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import DOCTOR_BROKERS_MAX, DOCTOR_MESSAGES_MAX
from mqloom.core.topics import topic_matches
from mqloom.gateway.assembly import reachable_brokers, visiting_address
from mqloom.gateway.command_options import add_configuration
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.doctor_topics import Needs, needs_abroad, needs_at_home
from mqloom.gateway.doctoring import (
    Examination,
    Finding,
    as_lines,
    as_rows,
    judge_log,
    judge_openness,
    judge_permissions,
    judge_protocol,
    judge_queue,
    judge_session,
    judge_size,
)
from mqloom.gateway.drivers.probing import try_as_stranger, try_log, try_needs, try_queue, try_size, try_versions
from mqloom.gateway.interfaces import BrokerAddress

Tell = Callable[[str], None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--broker", metavar="BROKER", help="examine this one only; else all")
    parser.add_argument(
        "--messages",
        type=whole_number(DOCTOR_MESSAGES_MAX),
        default=2_000,
        metavar="N",
        help=f"how many messages a broker is given to keep, up to {DOCTOR_MESSAGES_MAX:,}; default: 2000",
    )
    parser.add_argument(
        "--data-topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="a data topic where a probe, one byte, harms nobody: to see whether gateways may use it; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found at each broker; 1 if something is wrong."""
    configuration = load_federation(arguments.configuration).configuration
    _check_data_topics(configuration, arguments.data_topic)
    brokers = [configuration.broker(arguments.broker)] if arguments.broker else configuration.brokers

    def tell(broker: BrokerTable, text: str) -> None:
        sys.stderr.write(f"mqloom doctor: {broker.id}: {text} ...\n")

    def examine_one(broker: BrokerTable) -> Examination:
        return examine(configuration, broker, arguments.messages, partial(tell, broker), arguments.data_topic)

    with ThreadPoolExecutor(DOCTOR_BROKERS_MAX) as pool:
        examinations = dict(zip((broker.id for broker in brokers), pool.map(examine_one, brokers), strict=True))
    if arguments.json:
        sys.stdout.write(f"{json.dumps(as_rows(examinations), indent=2, ensure_ascii=False)}\n")
    else:
        for broker, examination in examinations.items():
            sys.stdout.write("\n".join([*as_lines(broker, examination), ""]))
        wrong = [broker for broker, examination in examinations.items() if not examination.is_well]
        verdict = (
            f"not well: {', '.join(wrong)}"
            if wrong
            else "all is well, as far as that can be seen: what cannot is noted"
        )
        sys.stdout.write(f"federation {configuration.federation.name}: {verdict}\n")
    return 0 if all(examination.is_well for examination in examinations.values()) else 1


def _check_data_topics(configuration: Configuration, topics: Sequence[str]) -> None:
    for topic in topics:
        if not any(topic_matches(data, topic) for data in configuration.federation.data) or {*topic} & {*"+#"}:
            problem = f"--data-topic {topic!r}: it is no topic of the federation's data"
            raise ConfigurationError(configuration.source, (problem,))


def examine(
    configuration: Configuration, broker: BrokerTable, messages: int, tell: Tell, data_topics: Sequence[str] = ()
) -> Examination:
    """Return what is found at one broker; to data topics nothing is written but to those."""
    where = f"{broker.host}:{broker.port}"
    addresses, problems = reachable_brokers(configuration)
    if broker.id in problems:
        return Examination(where, (Finding("account", "wrong", problems[broker.id], ("set it, and try again",)),))
    address, mark = addresses[broker.id], f"doctor-{secrets.token_hex(4)}"
    name = f"mqloom-{mark}"
    tell("which MQTT it speaks")
    refusals = try_versions(address, name)
    findings = [judge_protocol(refusals)]
    version = next((each for each, refusal in refusals.items() if not refusal), None)
    if version is None:
        return Examination(where, tuple(findings))
    findings += _size(address, name, version, configuration.federation.payload_bytes_max)
    tell(f"whether it keeps {messages:,} messages for a client that is away")
    was_known, counts = try_queue(address, name, version, layout.park(broker.id, GatewayId(mark)), messages)
    findings.append(judge_session(was_known))
    if was_known and counts is not None:
        findings.append(judge_queue(messages, counts[1], counts[0]))
    tell("what the gateways' accounts may do")
    home = needs_at_home(configuration, broker, mark, data_topics)
    findings += _permissions(configuration, broker, address, version, name, home)
    if broker.adapter == "mosquitto":
        tell("whether its log tells what plain clients subscribe to")
        findings.append(_log(address, name, version, layout.park(broker.id, GatewayId(mark))))
    link = layout.link(broker.id, GatewayId(mark))
    findings += judge_openness(try_as_stranger(address, name, version, link))
    return Examination(where, tuple(findings))


def _size(address: BrokerAddress, name: str, version: str, payload_bytes_max: int) -> Sequence[Finding]:
    try:
        return tuple(judge_size(try_size(address, name, version), payload_bytes_max))
    except BrokerError as error:
        return (Finding("size", "unknown", error.problem),)


def _log(address: BrokerAddress, name: str, version: str, topic: str) -> Finding:
    try:
        return judge_log(try_log(address, name, version, topic))
    except BrokerError as error:
        return Finding("plain clients", "wrong", error.problem, ("try again; see the broker's log",))


def _permissions(
    configuration: Configuration, broker: BrokerTable, address: BrokerAddress, version: str, name: str, home: Needs
) -> Sequence[Finding]:
    """Try the topics of the gateway beside a broker, and of all neighbours, each by its own account."""
    findings: list[Finding] = []
    subject = f"gateway {broker.id}"
    try:
        permissions = try_needs(address, name, version, home)
        findings += judge_permissions(subject, permissions)
    except BrokerError as error:
        findings.append(Finding(subject, "wrong", error.problem, ("try again; see the broker's log",)))
    for visitor in configuration.neighbours(broker.id):
        subject = f"gateway {visitor}"
        try:
            there = visiting_address(configuration, broker.id, visitor)
            permissions = try_needs(there, name, version, needs_abroad(broker.id, visitor), address)
            findings += judge_permissions(subject, permissions)
        except ConfigurationError as error:
            findings.append(Finding(subject, "unknown", f"its account was not tried: {error.problems[0]}"))
        except BrokerError as error:
            advice = ("are `link_username` and `link_password_env` right, and does the broker know that account?",)
            findings.append(Finding(subject, "wrong", error.problem, advice))
    return findings

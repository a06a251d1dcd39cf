"""Say where a running gateway would send a publication, and why; it is not published."""

import argparse
import json
import secrets
import sys

import msgspec

from mqloom.core import layout
from mqloom.core.errors import BrokerError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Question, RouteAnswer, decode_route, encode_question
from mqloom.core.seals import Keyring
from mqloom.gateway.assembly import keyring_of
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.command_visits import address_of
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.visiting import sealed_request, visiting
from mqloom.gateway.interfaces import BrokerAddress


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--at", required=True, metavar="BROKER", help="the broker where it would be published")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic of the publication")
    parser.add_argument("--payload", default="", metavar="PAYLOAD", help="its payload")
    parser.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 1 if the gateway refuses the question. Raises BrokerError if none comes."""
    configuration = load_federation(arguments.configuration).configuration
    gateway = configuration.broker(arguments.at).id
    address = address_of(configuration, gateway)
    payload = arguments.payload.encode(errors="surrogateescape")
    question = Question(number=1, topic=arguments.topic, payload=payload)
    answer = ask(gateway, address, question, keyring=keyring_of(configuration))
    if arguments.json:
        sys.stdout.write(f"{json.dumps(msgspec.to_builtins(answer), ensure_ascii=False)}\n")
    if answer.answer == "refused":
        sys.stdout.flush()
        sys.stderr.write(f"mqloom route: gateway {gateway} cannot say: {answer.problem}\n")
        return 1
    if not arguments.json:
        sys.stdout.write(f"{explain(gateway, answer)}\n")
    return 0


def ask(
    gateway: GatewayId,
    address: BrokerAddress,
    question: Question,
    wait_s: float = WAIT_S,
    keyring: Keyring | None = None,
) -> RouteAnswer:
    """Return what a running gateway answers; raises BrokerError if it does not, RecordError if it is nonsense."""
    client = ClientId(f"route-{secrets.token_hex(4)}")
    topic = layout.control(gateway, client)
    with visiting({gateway: (address, (topic, layout.status(gateway)))}) as visits:
        visit = visits.each[gateway]
        if not visits.wait(lambda _, visit: visit.is_ready, wait_s) or visit.problem:
            raise BrokerError(visit.address, visit.problem or f"it does not answer within {wait_s:g} s")
        to_topic = layout.question(gateway, client)
        asked = sealed_request(visits, gateway, to_topic, encode_question(question), keyring, wait_s)
        visit.client.publish(to_topic, asked, 1)
        if not visits.wait(lambda _, visit: topic in visit.messages, wait_s) or visit.problem:
            silent = f"gateway {gateway} does not answer within {wait_s:g} s; is it running, and may we ask it?"
            raise BrokerError(visit.address, visit.problem or silent)
        return decode_route(visit.messages[topic])


def explain(gateway: GatewayId, answer: RouteAnswer) -> str:
    """Return the answer for people."""
    total = answer.here + sum(answer.anchors.values())
    known = "1 subscription known" if total == 1 else f"{total:,} subscriptions known"
    if answer.left_out:
        known = f"at least {known}"
    lines = [f"{known} at {gateway} {'wants' if total == 1 else 'want'} it: {answer.here:,} of its own clients"]
    lines += [f"  {count:,} towards {anchor}" for anchor, count in answer.anchors.items()]
    if answer.left_out:
        lines.append(f"  and more, towards {answer.left_out:,} other gateways")
    lines += [f"not read by codec {problem}" for problem in answer.undecoded]
    rule = f"by {answer.strategy}" if answer.strategy else "by an overlay that gives no reasons"
    copies = "1 copy leaves" if len(answer.ways) == 1 else f"{len(answer.ways):,} copies leave"
    lines.append(f"{copies}, {rule}" if answer.ways else "no copy leaves")
    for way in answer.ways:
        serves = f", serves {', '.join(way.serves)}" if way.serves else ""
        lines.append(f"  to {way.gateway} over a {way.kind} link{serves}")
    if answer.unheard:
        lines.append(f"not yet heard from, so they get everything: {', '.join(answer.unheard)}")
    if answer.bypassed:
        lines.append(f"down, so their copies wait, and they are bypassed where it can be: {', '.join(answer.bypassed)}")
    return "\n".join(lines)

"""Asking running gateways to move their clients, and following them to the end: for commands."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mqloom.core import layout
from mqloom.core.errors import BrokerError, RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import MIGRATION_SILENCE_S
from mqloom.core.migration_records import MigrationAnswer, MigrationRequest, decode_migration_answer, encode_migration
from mqloom.core.seals import Keyring
from mqloom.gateway.drivers.visiting import Visit, Visits, sealed_request, visiting
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.status_reading import running_status

PATIENCE_S: Final = 4 * MIGRATION_SILENCE_S
"""How long the next word of a gateway that has answered is waited for."""

DRAINED: Final = "it is being drained itself"
"""Why nobody should be sent to a broker, if it has the mark of a drain."""


class Outcome(NamedTuple):
    """The last words of the gateways, and why there is none of some."""

    answers: dict[GatewayId, MigrationAnswer]
    problems: dict[GatewayId, str]


class Asking(NamedTuple):
    """How gateways are asked."""

    addresses: Mapping[GatewayId, BrokerAddress]
    keyring: Keyring | None
    wait_s: float
    """How long brokers, and the first words of gateways, are waited for."""


def ask_gateways(
    asking: Asking, requests: Mapping[GatewayId, MigrationRequest], tell: Callable[[GatewayId, MigrationAnswer], None]
) -> Outcome:
    """Ask some gateways at once, each for its own; `tell` is given every word of theirs. Returns when all are done."""
    client = ClientId(f"migrate-{secrets.token_hex(4)}")
    outcome = Outcome({}, {})
    places = {
        gateway: (asking.addresses[gateway], (layout.control(gateway, client), layout.status(gateway)))
        for gateway in requests
    }
    with visiting(places) as visits:
        visits.wait(lambda _, visit: visit.is_ready, asking.wait_s)
        heard_at = {}
        for gateway, request in requests.items():
            problem = _ask(visits, gateway, client, request, asking)
            if problem:
                outcome.problems[gateway] = problem
            else:
                heard_at[gateway] = time.monotonic()
        _follow(visits, client, heard_at, outcome, asking.wait_s, tell)
    return outcome


def _ask(visits: Visits, gateway: GatewayId, client: ClientId, request: MigrationRequest, asking: Asking) -> str:
    """Ask one; return why that cannot be, if so."""
    visit = visits.each[gateway]
    if visit.problem or not visit.is_ready:
        silent = f"it does not answer within {asking.wait_s:g} s; is it an MQTT broker?"
        return f"broker at {visit.address}: {visit.problem or silent}"
    topic = layout.order(gateway, client)
    try:
        order = sealed_request(visits, gateway, topic, encode_migration(request), asking.keyring, asking.wait_s)
    except BrokerError as error:
        return str(error)
    said = running_status(visit.messages.get(layout.status(gateway)))
    if isinstance(said, str):
        return f"broker at {visit.address}: {said}"
    visit.client.publish(topic, order, 1)
    return ""


def _follow(
    visits: Visits,
    client: ClientId,
    heard_at: dict[GatewayId, float],
    outcome: Outcome,
    wait_s: float,
    tell: Callable[[GatewayId, MigrationAnswer], None],
) -> None:
    """Read the words of those who were asked, until each has said its last, or none for too long."""
    seen: dict[GatewayId, int] = {}

    def news(gateway: GatewayId) -> bytes | None:
        """Return a word that was not read yet, even if it is the same as before: a gateway that repeats it lives."""
        visit, topic = visits.each[gateway], layout.control(gateway, client)
        return visit.messages[topic] if visit.heard[topic] > seen.get(gateway, 0) else None

    while heard_at:
        visits.wait(lambda *_: any(news(gateway) is not None for gateway in heard_at), 0.2)
        for gateway in list(heard_at):
            visit = visits.each[gateway]
            count, data = visit.heard[layout.control(gateway, client)], news(gateway)
            if data is not None:
                seen[gateway] = count
                heard_at[gateway] = time.monotonic()
                if _hear(gateway, data, outcome, tell):
                    del heard_at[gateway]
                continue
            patience_s = PATIENCE_S if gateway in seen else wait_s
            if visit.problem or time.monotonic() > heard_at[gateway] + patience_s:
                silent = f"gateway {gateway} says nothing for {patience_s:g} s; is it running, and may we order it?"
                outcome.problems[gateway] = f"broker at {visit.address}: {visit.problem or silent}"
                del heard_at[gateway]


def _hear(
    gateway: GatewayId, data: bytes, outcome: Outcome, tell: Callable[[GatewayId, MigrationAnswer], None]
) -> bool:
    """Take a word; whether it is the last one."""
    try:
        answer = decode_migration_answer(data)
    except RecordError as error:
        outcome.problems[gateway] = f"its answer cannot be read: {error.problem}; is it of another version?"
        return True
    if answer.answer in ("refused", "stayed"):
        outcome.problems[gateway] = answer.problem
        return True
    outcome.answers[gateway] = answer
    tell(gateway, answer)
    return answer.answer == "done"


def survey(addresses: Mapping[GatewayId, BrokerAddress], wait_s: float) -> dict[GatewayId, str]:
    """Return, of each broker, why clients should not be sent there; nothing if they may."""
    places = {each: (address, (layout.drain(each), layout.status(each))) for each, address in addresses.items()}
    with visiting(places) as visits:
        visits.wait(lambda gateway, visit: layout.status(gateway) in visit.messages, wait_s)
        return {gateway: _reason(gateway, visit) for gateway, visit in visits.each.items()}


def _reason(gateway: GatewayId, visit: Visit) -> str:
    if visit.problem:
        return f"broker at {visit.address}: {visit.problem}"
    said = running_status(visit.messages.get(layout.status(gateway)))
    if isinstance(said, str):
        return said
    return DRAINED if visit.messages.get(layout.drain(gateway)) else ""

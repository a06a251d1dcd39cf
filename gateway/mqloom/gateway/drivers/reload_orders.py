"""Ordering running gateways to read their configuration again, and waiting for what they say: for commands."""

import secrets
from collections.abc import Mapping
from typing import Final

from mqloom.core import layout
from mqloom.core.errors import BrokerError, RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.reload_records import ReloadAnswer, ReloadRequest, decode_reload_answer, encode_reload
from mqloom.core.seals import Keyring
from mqloom.gateway.drivers.visiting import Visit, Visits, sealed_request, visiting
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.status_reading import running_status

READ_S_MAX: Final = 30.0
"""How long a gateway may take to read its configuration, with all plugins that are in it."""


def order_reloads(
    addresses: Mapping[GatewayId, BrokerAddress], keyring: Keyring | None, wait_s: float
) -> tuple[dict[GatewayId, ReloadAnswer], dict[GatewayId, str]]:
    """Order gateways at once; return what each has answered, and why there is no answer of others."""
    client = ClientId(f"reload-{secrets.token_hex(4)}")
    places = {
        gateway: (address, (layout.control(gateway, client), layout.status(gateway)))
        for gateway, address in addresses.items()
    }
    answers: dict[GatewayId, ReloadAnswer] = {}
    problems: dict[GatewayId, str] = {}
    with visiting(places) as visits:
        visits.wait(lambda gateway, visit: visit.is_ready and layout.status(gateway) in visit.messages, wait_s)
        for gateway in addresses:
            problem = _order(visits, gateway, client, keyring, wait_s)
            if problem:
                problems[gateway] = problem

        def has_answered(gateway: GatewayId, visit: Visit) -> bool:
            return gateway in problems or layout.control(gateway, client) in visit.messages

        visits.wait(has_answered, READ_S_MAX)
        for gateway, visit in visits.each.items():
            if gateway not in problems:
                found = _answer(gateway, visit, client)
                if isinstance(found, str):
                    problems[gateway] = f"broker at {visit.address}: {found}"
                else:
                    answers[gateway] = found
    return answers, problems


def _order(visits: Visits, gateway: GatewayId, client: ClientId, keyring: Keyring | None, wait_s: float) -> str:
    """Order one; return why that cannot be, if so."""
    visit = visits.each[gateway]
    if visit.problem or not visit.is_ready:
        silent = f"it does not answer within {wait_s:g} s; is it an MQTT broker?"
        return f"broker at {visit.address}: {visit.problem or silent}"
    said = running_status(visit.messages.get(layout.status(gateway)))
    if isinstance(said, str):
        return f"broker at {visit.address}: {said}"
    topic = layout.order(gateway, client)
    try:
        order = sealed_request(visits, gateway, topic, encode_reload(ReloadRequest(number=1)), keyring, wait_s)
    except BrokerError as error:
        return str(error)
    visit.client.publish(topic, order, 1)
    return ""


def _answer(gateway: GatewayId, visit: Visit, client: ClientId) -> ReloadAnswer | str:
    data = visit.messages.get(layout.control(gateway, client))
    if data is None:
        silent = f"gateway {gateway} says nothing for {READ_S_MAX:g} s; is it running, and may we order it?"
        return visit.problem or silent
    try:
        return decode_reload_answer(data)
    except RecordError as error:
        return f"its answer cannot be read: {error.problem}; is it of another version?"

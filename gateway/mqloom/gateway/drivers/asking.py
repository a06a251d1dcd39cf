"""Questions to the agents of running gateways, for commands: all are asked at once."""

import secrets
from collections.abc import Mapping
from typing import NamedTuple

from mqloom.core import layout
from mqloom.core.agent_records import AgentQuestion, decode_agent_answer, encode_agent_question
from mqloom.core.errors import BrokerError, RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.seals import Keyring
from mqloom.gateway.drivers.visiting import Visit, sealed_request, visiting
from mqloom.gateway.interfaces import BrokerAddress


class AgentsAnswered(NamedTuple):
    """What agents say, by gateway; and for those that say nothing, why."""

    bodies: dict[GatewayId, bytes]
    problems: dict[GatewayId, str]


def ask_agents(
    addresses: Mapping[GatewayId, BrokerAddress], agent: str, body: bytes, keyring: Keyring | None, wait_s: float
) -> AgentsAnswered:
    """Ask the agent of this name at every gateway the same."""
    client = ClientId(f"ask-{secrets.token_hex(4)}")
    answered = AgentsAnswered({}, {})
    places = {
        gateway: (address, (layout.control(gateway, client), layout.status(gateway)))
        for gateway, address in addresses.items()
    }
    with visiting(places) as visits:
        visits.wait(lambda _, visit: visit.is_ready, wait_s)
        for gateway, visit in visits.each.items():
            if not visit.is_ready or visit.problem:
                visit.problem = visit.problem or f"it does not answer within {wait_s:g} s"
                continue
            topic = layout.question(gateway, client)
            question = encode_agent_question(AgentQuestion(number=1, agent=agent, body=body))
            try:
                asked = sealed_request(visits, gateway, topic, question, keyring, wait_s)
            except BrokerError as error:
                visit.problem = str(error)
            else:
                visit.client.publish(topic, asked, 1)
        visits.wait(lambda gateway, visit: layout.control(gateway, client) in visit.messages, wait_s)
        for gateway, visit in visits.each.items():
            _read(gateway, visit, layout.control(gateway, client), answered, wait_s)
    return answered


def _read(gateway: GatewayId, visit: Visit, topic: str, answered: AgentsAnswered, wait_s: float) -> None:
    data = visit.messages.get(topic)
    if data is None:
        silent = f"gateway {gateway} does not answer within {wait_s:g} s; is it running, and may we ask it?"
        answered.problems[gateway] = visit.problem or f"broker at {visit.address}: {silent}"
        return
    try:
        answer = decode_agent_answer(data)
    except RecordError as error:
        answered.problems[gateway] = f"its answer cannot be read: {error.problem}; is it of another version?"
        return
    if answer.answer == "refused":
        answered.problems[gateway] = answer.problem
    else:
        answered.bodies[gateway] = answer.body

"""Ordering a running gateway to move a primary link, and following it to the end."""

import secrets
from collections.abc import Callable
from typing import Final

from mqloom.core import layout
from mqloom.core.errors import BrokerError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import MOVE_S
from mqloom.core.records import MoveAnswer, Order, decode_move, encode_order
from mqloom.core.seals import Keyring
from mqloom.gateway.command_options import WAIT_S
from mqloom.gateway.drivers.visiting import Visit, sealed_request, visiting
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.moves import LEAVE_S

END_S: Final = MOVE_S + LEAVE_S + WAIT_S
"""How long the end of a move is waited for."""

STEPS: Final = {
    "asking": "keeping, on its own broker, what to do after a crash",
    "freezing": "asking everybody near; soft links keep off the path",
    "linking": "linked to both; subscriptions go the new way too",
    "sweeping": "waiting for what came by the old way alone",
    "settling": "finishing what the old neighbour sent",
    "holding": "holding what is for the old neighbour, until that has all before it",
    "keeping": "keeping the new place on its own broker",
    "leaving": "parting",
}
"""What a gateway does in each step, for people."""


def order_move(
    gateway: GatewayId,
    address: BrokerAddress,
    to: GatewayId,
    tell: Callable[[str], None],
    wait_s: float = WAIT_S,
    keyring: Keyring | None = None,
) -> MoveAnswer:
    """Return how a move ended; `tell` is given every step. Raises BrokerError if nobody answers."""
    client = ClientId(f"move-{secrets.token_hex(4)}")
    topic = layout.control(gateway, client)
    with visiting({gateway: (address, (topic, layout.status(gateway)))}) as visits:
        visit = visits.each[gateway]
        if not visits.wait(lambda _, visit: visit.is_ready, wait_s) or visit.problem:
            raise BrokerError(visit.address, visit.problem or f"it does not answer within {wait_s:g} s")
        order = encode_order(Order(number=1, move_to=to))
        to_topic = layout.order(gateway, client)
        order = sealed_request(visits, gateway, to_topic, order, keyring, wait_s)
        visit.client.publish(to_topic, order, 1)
        seen: bytes | None = None

        def is_new(_: GatewayId, visit: Visit) -> bool:
            return visit.messages.get(topic) != seen

        while True:
            patience_s = wait_s if seen is None else END_S
            if not visits.wait(is_new, patience_s) or visit.problem:
                silent = (
                    f"gateway {gateway} does not answer within {patience_s:g} s; is it running, and may we order it?"
                )
                raise BrokerError(visit.address, visit.problem or silent)
            seen = visit.messages[topic]
            answer = decode_move(seen)
            if answer.answer != "moving":
                return answer
            tell(STEPS.get(answer.step, answer.step))

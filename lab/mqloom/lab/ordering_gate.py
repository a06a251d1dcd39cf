"""A node that orders clients to other brokers; they, the operators and the broker are played by hand: for tests."""

from dataclasses import replace

import msgspec

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import OrderAnswered, Ordered, RecordReceived, Woke
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.migration_records import (
    Bounds,
    MigrationAnswer,
    MigrationRequest,
    decode_migration_answer,
    encode_migration,
)
from mqloom.core.orders import MoveOrder, OrderAnswer, RosterBroker, encode_order_answer, is_order, read_order
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.node import NodeParts
from mqloom.gateway.pace import Pace
from mqloom.gateway.rosters import OrderParts
from mqloom.lab.gate import US, Gate, parts_of, said_to

KEY = OrderKey(b"k" * 32)
EAST, NORTH = GatewayId("east"), GatewayId("north")
BROKERS = {each: RosterBroker(host=each) for each in (US, EAST, NORTH)}
WALL = 1_000_000.0
ORDERS = OrderParts(federation="bank", keys=OrderKeys(KEY), brokers=BROKERS, wall_at=lambda now: WALL + now)
OPERATOR = ClientId("operator")
KEYLESS = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame")
HERE = msgspec.structs.replace(KEYLESS, incarnation="first")
CAROL = ClientId("carol")


def parts(orders: OrderParts | None = ORDERS, *, pace: Pace | None = None) -> NodeParts:
    """Return the parts of a node that signs orders, or of one that cannot."""
    return replace(parts_of(), orders=orders, pace=pace)


class OrderingGate(Gate):
    """A node that orders clients."""

    def write(self, client: ClientId, record: Record | None = HERE, **fields: object) -> list[Effect]:
        """Let a client write its record, or remove it."""
        data = b"" if record is None else encode_record(msgspec.structs.replace(record, **fields))
        return self.handle(RecordReceived(client=client, data=data))

    def ask(
        self, action: str, *clients: ClientId, to: tuple[GatewayId, ...] = (EAST,), **bounds: float
    ) -> list[Effect]:
        """Let an operator ask for something."""
        limits = msgspec.convert(bounds, Bounds)
        request = msgspec.convert({"number": 7, "action": action}, MigrationRequest)
        request = msgspec.structs.replace(request, clients=clients, to=to, bounds=limits)
        return self.handle(Ordered(client=OPERATOR, data=encode_migration(request)))

    def answer(self, client: ClientId, order: MoveOrder, answer: str, problem: str = "") -> list[Effect]:
        """Let a client answer an order."""
        said = msgspec.convert({"session": order.session, "answer": answer, "problem": problem}, OrderAnswer)
        return self.handle(OrderAnswered(client=client, data=encode_order_answer(said)))

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass."""
        self.now += seconds
        return self.handle(Woke())


def orders(effects: list[Effect]) -> dict[ClientId, MoveOrder]:
    """Return the orders among effects, by client."""
    found = {}
    for effect in effects:
        if isinstance(effect, PublishLocally) and "/ctl/" in effect.topic and is_order(effect.payload):
            order = read_order(effect.payload, [KEY.public])
            assert effect.topic == layout.control(US, order.client)
            assert (effect.qos, effect.retain) == (1, False)
            found[order.client] = order
    return found


def told(effects: list[Effect], operator: ClientId = OPERATOR) -> list[MigrationAnswer]:
    """Return what an operator is answered."""
    return [decode_migration_answer(data) for data in said_to(effects, operator)]


def marks(effects: list[Effect]) -> list[bytes]:
    """Return what is kept of a drain."""
    return [each.payload for each in effects if isinstance(each, PublishLocally) and each.topic == layout.drain(US)]


def counted(desk: OrderingGate) -> dict[str, int]:
    """Return what is counted of moves."""
    return {name: count for name, count in desk.node.counters.snapshot().items() if name.startswith("migrations")}

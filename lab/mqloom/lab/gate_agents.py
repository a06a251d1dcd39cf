"""A node with an agent that orders what one likes: for tests of what stands between agents and their gateway."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from mqloom.core.effects import Effect
from mqloom.core.events import LoadMeasured, RecordReceived, Woke
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import Load
from mqloom.core.orders import RosterBroker
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.agent_interfaces import AgentEffect, AgentEvent, AgentView, AgentWoke, LoadSampled
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.subscribers import Standing
from mqloom.lab.gate import US, Gate, parts_of, wakings

KEY: Final = OrderKey(b"k" * 32)
EAST: Final = GatewayId("east")
BROKERS: Final = {each: RosterBroker(host=each) for each in (US, EAST)}
ORDERS: Final = OrderParts(federation="bank", keys=OrderKeys(KEY), brokers=BROKERS, wall_at=lambda now: 1e6 + now)
LOAD: Final = Load(
    input_ratio=0.5,
    delay_s=0.1,
    output_ratio=0.2,
    input_rate=5,
    output_bytes_s=9,
    output_bytes_s_max=10,
    subscriptions=3,
)


class Asking:
    """An agent that asks for what it is told to, with its next event, and sees its gateway."""

    name = "pie"

    def __init__(self) -> None:
        self.happened: list[AgentEvent] = []
        self.orders: list[AgentEffect] = []
        self.view: AgentView | None = None
        self.answer: Callable[[AgentEvent], Sequence[AgentEffect]] = lambda event: ()

    def see(self, view: AgentView) -> None:
        """Keep what it sees."""
        self.view = view

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Order what it was told to, and answer."""
        self.happened.append(event)
        orders, self.orders = self.orders, []
        return [*orders, *self.answer(event)]


class Office(Gate):
    """A node with an agent."""

    def __init__(
        self,
        *neighbours: GatewayId,
        orders: OrderParts | None = ORDERS,
        standing: Sequence[Standing] = (),
        federate: Sequence[str] = (),
    ) -> None:
        self.agent = Asking()
        parts = parts_of(*neighbours, standing=standing, agents=[self.agent])
        super().__init__(replace(parts, orders=orders, federate=federate))
        if neighbours:
            self.up(*neighbours)

    def order(self, *orders: AgentEffect) -> list[Effect]:
        """Let the agent order something; returns what is done."""
        self.agent.orders = list(orders)
        return self.handle(LoadMeasured(load=LOAD))

    def answers(self) -> list[AgentEvent]:
        """Return what the agent was told, once."""
        happened, self.agent.happened = self.agent.happened, []
        return [event for event in happened if not isinstance(event, AgentWoke | LoadSampled)]

    def wait(self, seconds: float = 0.0) -> list[Effect]:
        """Let time pass, and wake."""
        self.now += seconds
        return self.handle(Woke())

    def settle(self) -> list[AgentEvent]:
        """Wake as often as is asked for at once; return what the agent was told."""
        while self.now in wakings(self.wait()):
            pass
        return self.answers()

    def travels(self, client: ClientId, **fields: object) -> None:
        """Let a client write the record of one that can be moved."""
        record = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame", incarnation="first")
        data = encode_record(msgspec.structs.replace(record, **fields))
        self.handle(RecordReceived(client=client, data=data))

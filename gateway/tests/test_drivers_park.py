"""The park's session, on a connection that is played by hand: what counts as kept, and when it is put in again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from mqloom.core.events import Parked
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, Refused, Then
from mqloom.gateway.drivers.park import ParkDriver
from mqloom.gateway.interfaces import BrokerAddress

TOPIC = "mqloom/v1/US/park/THEM"


class FakeConnection:
    """A connection that rises when it is told to."""

    def __init__(self, plan: ConnectionPlan, _: object) -> None:
        self.plan = plan
        self.is_closed = False
        self.acknowledged: list[tuple[int, int]] = []
        Bench.connections.append(self)

    def open(self) -> None:
        pass

    def acknowledge(self, tokens: Sequence[tuple[int, int]]) -> None:
        self.acknowledged += tokens

    async def close(self) -> None:
        self.is_closed = True


def make(plan: ConnectionPlan, log: object) -> Connection:
    return cast(Connection, FakeConnection(plan, log))


class Bench:
    """A park, what was published for it, and what counted as kept."""

    connections: list[FakeConnection]

    def __init__(self) -> None:
        self.published: list[tuple[str, Then]] = []
        self.refusals: list[Refused] = []
        self.refused: list[str] = []
        self.kept: list[str] = []
        self.came: list[bytes] = []
        log = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "US"})
        where = BrokerAddress("none", 1)
        self.park = ParkDriver(where, GatewayId("US"), GatewayId("THEM"), self._parked, log, make)

    def _parked(self, _: GatewayId, parked: list[Parked]) -> None:
        self.came += [each.data for each in parked]

    def put(self, name: str) -> None:
        def publish(then: Then, refused: Refused) -> None:
            self.published.append((name, then))
            self.refusals.append(refused)

        self.park.put(publish, lambda: self.kept.append(name), self.refused.append)

    def acknowledge(self) -> list[str]:
        """Let the broker acknowledge everything; return what that was."""
        published, self.published = self.published, []
        for _, then in published:
            then()
        return [name for name, _ in published]

    async def create(self) -> None:
        self.park.create()
        await settle()
        self.connections[-1].plan.on_up()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        bench = Bench()
        try:
            await scenario(bench)
        finally:
            await bench.park.stop()

    Bench.connections = []
    asyncio.run(whole())


def test_nothing_is_put_in_before_the_session_exists() -> None:
    async def scenario(bench: Bench) -> None:
        bench.put("p1")
        assert bench.published == []
        await bench.create()
        bench.put("p2")
        assert bench.acknowledge() == ["p1", "p2"]
        assert bench.kept == ["p1", "p2"]
        assert bench.connections[-1].is_closed  # nothing is to come out

    run(scenario)


def test_what_a_broker_acknowledges_after_a_break_is_put_in_again_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create()
        bench.put("p1")
        bench.park.doubt()
        bench.put("p2")
        assert bench.acknowledge() == ["p1"]  # sent again as soon as there was a connection: there is no session
        assert bench.kept == []
        await bench.create()
        assert bench.acknowledge() == ["p1", "p2"]
        assert bench.kept == ["p1", "p2"]

    run(scenario)


def test_what_a_broker_refuses_is_told_once_and_not_put_in_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create()
        bench.put("p1")
        for _ in range(2):
            bench.refusals[0]("quota exceeded")
        assert bench.refused == ["quota exceeded"]
        bench.park.doubt()
        await bench.create()
        assert bench.acknowledge() == ["p1"]  # the first time; whoever was told sees to the next
        assert bench.kept == []

    run(scenario)


def test_a_connection_of_before_proves_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create()
        bench.park.open()
        await settle()
        before = bench.connections[-1]
        bench.park.doubt()
        bench.put("p1")
        before.plan.on_up()
        bench.park.create()
        before.plan.on_up()
        assert bench.published == []
        await settle()
        assert before.is_closed
        bench.connections[-1].plan.on_up()
        assert bench.acknowledge() == ["p1"]
        assert not bench.connections[-1].is_closed  # it is open

    run(scenario)


def test_what_came_unwanted_comes_again_on_another_connection() -> None:
    async def scenario(bench: Bench) -> None:
        bench.park.create()
        await settle()
        first = bench.connections[-1]
        first.plan.on_messages([Received(TOPIC, b"1", 1, False, (1, 1))])
        bench.park.open()
        await settle()
        assert first.is_closed
        assert first.acknowledged == []
        bench.connections[-1].plan.on_messages([Received(TOPIC, b"1", 1, False, (1, 1))])
        assert bench.came == [b"1"]
        bench.park.acknowledge((1, 99))
        assert bench.connections[-1].acknowledged == [(1, 1)]

    run(scenario)

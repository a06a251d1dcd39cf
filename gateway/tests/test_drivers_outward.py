"""What a gateway's own broker acknowledges goes on gathered, and at once where somebody waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mqloom.core.effects import PublishLocally
from mqloom.core.events import Event, LocallyPublished
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PUBLISHED_AT_ONCE, PUBLISHED_EVERY_S
from mqloom.gateway.drivers.mqtt import Then
from mqloom.gateway.drivers.outward import Outward
from mqloom.gateway.meters import Meter

MESSAGES = 300


class Broker:
    """Acknowledges what a test says; as the intake it is what the broker waits for."""

    is_crowded = False
    owes = False

    def __init__(self) -> None:
        self.thens: list[Then] = []

    @property
    def connection(self) -> "Broker":
        return self

    def publish(self, *_: object, then: Then, **__: object) -> bool:
        self.thens.append(then)
        return True

    def acknowledge(self) -> None:
        self.thens.pop(0)()


def run(scenario: Callable[[Outward, Any, list[tuple[int, ...]]], Awaitable[None]]) -> list[tuple[int, ...]]:
    """Run something with the way out of a gateway; return what the node was told, event by event."""

    async def all_of_it() -> list[tuple[int, ...]]:
        told: list[tuple[int, ...]] = []

        def handle(event: Event) -> None:
            assert isinstance(event, LocallyPublished)
            told.append(event.numbers)

        outward = Outward(GatewayId("west"), handle, lambda: None, lambda reason: None, Meter(0.0), 0.0)
        broker: Any = Broker()
        outward.own = outward.intake = broker
        await scenario(outward, broker, told)
        return told

    return asyncio.run(all_of_it())


def publish(outward: Outward, *numbers: int) -> None:
    for number in numbers:
        outward.publish(PublishLocally(topic="mqloom/v1/west/out/c", payload=b"", qos=1, retain=False, number=number))


def test_acknowledgements_that_follow_fast_go_together_and_none_is_left_behind() -> None:
    took_s = 0.0

    async def scenario(outward: Outward, broker: Any, told: list[tuple[int, ...]]) -> None:
        nonlocal took_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        publish(outward, *range(1, MESSAGES + 1))
        while broker.thens:
            broker.acknowledge()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.sleep(4 * PUBLISHED_EVERY_S)
        took_s = loop.time() - began

    told = run(scenario)
    assert [number for event in told for number in event] == list(range(1, MESSAGES + 1))
    assert len(told) <= PUBLISHED_AT_ONCE + took_s / PUBLISHED_EVERY_S + 1
    assert max(map(len, told)) > 1


def test_who_waits_with_nothing_under_way_any_more_is_told_at_once() -> None:
    """A broker that sends ten, and no more before they are acknowledged, is not held up by each gathering."""

    async def scenario(outward: Outward, broker: Any, told: list[tuple[int, ...]]) -> None:
        broker.owes = True
        for begin in range(1, MESSAGES + 1, 10):
            publish(outward, *range(begin, begin + 10))
            while broker.thens:
                broker.acknowledge()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert told[-1][-1] == begin + 9

    assert [number for event in run(scenario) for number in event] == list(range(1, MESSAGES + 1))


def test_what_is_gathered_can_be_had_before_its_time_and_is_told_once() -> None:
    async def scenario(outward: Outward, broker: Any, told: list[tuple[int, ...]]) -> None:
        for number in range(1, 3 * PUBLISHED_AT_ONCE + 1):
            publish(outward, number, number + 1_000)
            broker.acknowledge()
            await asyncio.sleep(0)
        outward.tell_published()
        assert sum(map(len, told)) == 3 * PUBLISHED_AT_ONCE
        outward.tell_published()
        await asyncio.sleep(4 * PUBLISHED_EVERY_S)

    told = run(scenario)
    assert sum(map(len, told)) == 3 * PUBLISHED_AT_ONCE
    assert all(told)

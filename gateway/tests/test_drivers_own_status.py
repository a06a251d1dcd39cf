"""A gateway's own status: when it is ours, whose it is else, and what is done then."""

import asyncio
from collections.abc import Callable

import pytest

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.records import Status, encode_status
from mqloom.gateway.drivers.mqtt import Received
from mqloom.gateway.drivers.own_status import OwnStatus
from mqloom.gateway.interfaces import BrokerAddress

WEST = GatewayId("west")
TOPIC = layout.status(WEST)


class Story:
    """A status, and what it had others do."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.refused: list[str] = []
        self.failed: list[Exception] = []
        self.status = OwnStatus(
            WEST,
            7,
            None,
            BrokerAddress("here", 1883),
            lambda topic, data: self.written.append(data),
            lambda reason, text: self.refused.append(text),
            self.failed.append,
        )

    def came(self, payload: bytes, *, retain: bool = False) -> bool:
        return self.status.came(Received(TOPIC, payload, 1, retain))


def other(epoch: int, *, alive: bool = True) -> bytes:
    return encode_status(Status(alive=alive, gateway=WEST, version="0", epoch=epoch))


def run(scenario: Callable[[Story], None]) -> None:
    async def story() -> None:
        scenario(Story())

    asyncio.run(story())


def test_what_we_said_is_known_when_it_comes_back() -> None:
    def scenario(story: Story) -> None:
        story.status.say()
        assert story.came(story.written[0])
        assert story.came(story.written[0], retain=True)
        assert (story.refused, story.failed) == ([], [])

    run(scenario)


@pytest.mark.parametrize(("payload", "count"), [(b"junk", 1), (other(8), 1), (other(6, alive=False), 0)])
def test_what_somebody_else_wrote_is_corrected_and_counted_unless_it_is_an_earlier_last_will(
    payload: bytes, count: int
) -> None:
    async def story() -> None:
        one = Story()
        assert not one.came(payload)
        assert not one.came(payload)  # meanwhile it is counted no more
        await asyncio.sleep(0)
        assert len(one.refused) == count
        while not one.written:
            await asyncio.sleep(0.001)
        assert one.written == [one.status.encoded(alive=True)]

    asyncio.run(asyncio.wait_for(story(), 10))


def test_a_status_that_rests_corrects_nothing() -> None:
    async def story() -> None:
        one = Story()
        one.came(b"junk")
        one.status.rest()
        await asyncio.sleep(0.01)
        assert one.written == []

    asyncio.run(story())


@pytest.mark.parametrize(("epoch", "is_over"), [(6, False), (7, False), (8, True)])
def test_an_earlier_run_with_a_larger_epoch_is_the_end(epoch: int, *, is_over: bool) -> None:
    def scenario(story: Story) -> None:
        assert not story.came(other(epoch), retain=True)
        assert [("the clock has gone back" in str(error)) for error in story.failed] == [True] * is_over

    run(scenario)

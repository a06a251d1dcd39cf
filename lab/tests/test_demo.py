"""The demonstration on real embedded brokers, and that its verdict can be bad."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from mqloom.core.command import main
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import Event
from mqloom.gateway.node import Node
from mqloom.lab.demo import LINKS, WEAVE_S, Demo, running_demo
from mqloom.lab.demo_parts import wait_for
from mqloom.lab.demo_view import summary, view


class SilentNode:
    """A node that forgets to deliver."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects = self._node.handle(event, now)
        return [each for each in effects if not (isinstance(each, PublishLocally) and "/out/" in each.topic)]

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)


async def short_run(count: int, tamper: Callable[[Demo], None] = lambda demo: None) -> dict[str, object]:
    async with running_demo(1, lambda text: None) as demo:
        tamper(demo)
        for _ in range(count):
            demo.publish_one(asyncio.get_running_loop().time())
            await asyncio.sleep(0.002)
        view(demo, 1.0)
        with contextlib.suppress(TimeoutError):
            await wait_for(demo.is_settled, "everything has arrived", 3)
        return demo.verdict()


def test_everything_asked_for_arrives_once_over_half_the_links_at_most() -> None:
    verdict = asyncio.run(short_run(200))
    assert verdict["published"] == 200
    assert verdict["expected"] == verdict["delivered"] != 0
    assert (verdict["lost"], verdict["duplicated"], verdict["unasked"]) == (0, 0, 0)
    assert verdict["flooded"] == 200 * len(LINKS)
    assert isinstance(verdict["forwarded"], int)
    assert 0 < verdict["forwarded"] <= 400
    assert "All is well" in summary(verdict)


def test_into_a_pipe_the_command_writes_whole_lines_and_the_table_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("MQLoom: five brokers" in line for line in lines) == 1
    assert lines[lines.index("ending") - 1].endswith(" quotes published; 0 s left")
    assert lines[-1] == "All is well."


def test_a_gateway_that_drops_deliveries_is_found_out() -> None:
    def tamper(demo: Demo) -> None:
        for driver in demo.gateways.values():
            driver.node = SilentNode(driver.node)  # type: ignore[assignment]

    verdict = asyncio.run(short_run(60, tamper))
    assert verdict["lost"] == verdict["expected"] != 0
    assert "SOMETHING IS WRONG" in summary(verdict)


def test_repeated_and_unasked_quotes_are_found_out() -> None:
    async def run() -> dict[str, object]:
        async with running_demo(1, lambda text: None) as demo:
            demo.publish_one(0.0)
            for subscriber in demo.subscribers:
                subscriber.received[0] += 2
                subscriber.received_at.setdefault(0, 0.0)  # as if those who asked for it had it already
            return demo.verdict()

    verdict = asyncio.run(run())
    assert verdict["duplicated"] != 0
    assert verdict["unasked"] != 0


@pytest.mark.full
def test_soft_links_spare_pure_forwards_and_lose_nothing() -> None:
    async def run() -> dict[str, object]:
        loop = asyncio.get_running_loop()
        async with running_demo(1, lambda text: None, "S2", part=100) as demo:
            assert "compared after 100 quotes" in summary(demo.verdict())
            end = loop.time() + 4 * WEAVE_S
            while loop.time() < end or len(demo.quotes) % 100:
                demo.publish_one(loop.time())
                await asyncio.sleep(0.02)
            view(demo, None)
            with contextlib.suppress(TimeoutError):
                await wait_for(demo.is_settled, "everything has arrived", 3)
            return demo.verdict()

    verdict = asyncio.run(run())
    assert verdict["expected"] == verdict["delivered"] != 0
    assert (verdict["lost"], verdict["duplicated"], verdict["unasked"]) == (0, 0, 0)
    assert isinstance(verdict["relayed_first"], int)
    assert isinstance(verdict["relayed_last"], int)
    assert verdict["relayed_last"] < verdict["relayed_first"] / 2
    assert verdict["softly"] != 0
    assert f"{verdict['relayed_last']} in the last 100" in summary(verdict)


def test_waiting_for_what_never_comes_says_what_it_was() -> None:
    with pytest.raises(TimeoutError, match="the moon is blue"):
        asyncio.run(wait_for(lambda: False, "the moon is blue", 0.05))


def test_a_broker_of_the_demonstration_is_drained_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async def drained() -> dict[str, object]:
        told: list[str] = []
        async with running_demo(1, told.append) as demo:
            (command,) = (text.partition(": mqloom ")[2].split() for text in told if "mqloom drain" in text)
            draining = asyncio.create_task(asyncio.to_thread(main, command))
            while not draining.done():
                demo.publish_one(asyncio.get_running_loop().time())
                await asyncio.sleep(0.02)
            assert draining.result() == 0
            with contextlib.suppress(TimeoutError):
                await wait_for(demo.is_settled, "everything has arrived", 5)
            assert sum(each.gateway == "HUB" for each in demo.subscribers) == 4
            assert all(each.at != "HUB" for each in demo.subscribers)
            return demo.verdict()

    verdict = asyncio.run(drained())
    assert "HUB has no clients of the federation any more: 4 clients moved" in capsys.readouterr().out
    assert (verdict["lost"], verdict["duplicated"], verdict["unasked"]) == (0, 0, 0)

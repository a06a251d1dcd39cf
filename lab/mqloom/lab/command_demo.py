"""Show a federation of five embedded brokers at work."""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live

from mqloom.core.command_numbers import positive_number
from mqloom.lab.demo import SETTLE_S, Demo, running_demo
from mqloom.lab.demo_parts import wait_for
from mqloom.lab.demo_view import summary, view

REFRESH_S = 0.25
PART_S = 4.0
"""How long the parts are whose pure forwards are compared: the first is over before soft links are opened."""
RATE_MAX = 200
"""Five embedded brokers in one process carry so many quotes a second; more would only show how they fall behind."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument(
        "--seconds", type=positive_number(86_400), metavar="S", help="end by itself after so many seconds of publishing"
    )
    parser.add_argument(
        "--rate",
        type=positive_number(RATE_MAX),
        default=40.0,
        metavar="R",
        help="quotes a second, all publishers together (40)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the same seed: the same quotes, subscriptions (1)"
    )
    parser.add_argument(
        "--overlay",
        choices=("S0", "S1", "S2", "SH"),
        default="S0",
        help="the strategy of soft links: with another than S0 soft links are woven while you look (S0)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration; 1 if anything was lost, repeated or not asked for."""
    logging.basicConfig(level=logging.ERROR)
    verdict = asyncio.run(_run(arguments))
    if verdict is None:
        return 0
    print(json.dumps(verdict) if arguments.json else summary(verdict))  # noqa: T201 - a command's answer
    return 1 if verdict["lost"] or verdict["duplicated"] or verdict["unasked"] else 0


def _part(arguments: argparse.Namespace) -> int:
    """Return after how many quotes pure forwards are counted; 0 where there are no soft links to compare with."""
    return 0 if arguments.overlay == "S0" else max(1, round(arguments.rate * PART_S))


async def _run(arguments: argparse.Namespace) -> dict[str, object] | None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    console = Console(quiet=arguments.json)

    def tell(text: str) -> None:
        console.print(text, style="dim", soft_wrap=True)  # what is to be copied stays in one line

    async with running_demo(arguments.seed, tell, arguments.overlay, _part(arguments)) as demo:
        if not stop.is_set():
            with _screen(console, demo, arguments) as refresh:
                await _publish(demo, arguments, stop, refresh)
                with contextlib.suppress(TimeoutError):
                    await wait_for(demo.is_settled, "everything has arrived", SETTLE_S)
                refresh(0.0)
        verdict = demo.verdict() if demo.quotes else None
        if not arguments.json:
            tell("ending")
        return verdict


async def _publish(
    demo: Demo, arguments: argparse.Namespace, stop: asyncio.Event, refresh: Callable[[float | None], None]
) -> None:
    """Publish evenly at the rate until the time is over, or somebody has seen enough."""
    loop = asyncio.get_running_loop()
    start = next_look = loop.time()
    count = 0
    while not stop.is_set():
        now = loop.time()
        if arguments.seconds is not None and now - start >= arguments.seconds:
            return
        while count < (now - start) * arguments.rate:
            demo.publish_one(now)
            count += 1
        if now >= next_look:
            refresh(None if arguments.seconds is None else start + arguments.seconds - now)
            next_look = now + REFRESH_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(0.02, 1 / arguments.rate))


@contextlib.contextmanager
def _screen(console: Console, demo: Demo, arguments: argparse.Namespace) -> Iterator[Callable[[float | None], None]]:
    """Give a function that shows how things stand: nothing where nobody looks, into a pipe or file only the end."""
    if arguments.json:
        yield lambda seconds_left: None
        return
    if not console.is_terminal:
        yield lambda seconds_left: None
        console.print(view(demo, 0.0))
        return
    with Live(view(demo, arguments.seconds), console=console, auto_refresh=False) as live:
        yield lambda seconds_left: live.update(view(demo, seconds_left), refresh=True)

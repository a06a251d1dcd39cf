"""Show a federation of five embedded brokers at work."""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

from mqloom.core.command_numbers import positive_number
from mqloom.lab import demo, demo_overload, demo_overload_view, demo_view
from mqloom.lab.demo_trading import Trading, is_good, settled

Shown = TypeVar("Shown", bound=Trading)

REFRESH_S = 0.25
PART_S = 4.0
"""How long the parts are whose pure forwards are compared: the first is over before soft links are opened."""
RATE_MAX = 200
"""Five embedded brokers in one process carry so many quotes a second; more would only show how they fall behind."""


@dataclass(frozen=True, slots=True)
class Show(Generic[Shown]):
    """One of the demonstrations."""

    running: Callable[[Callable[[str], None]], AbstractAsyncContextManager[Shown]]
    view: Callable[[Shown, float | None], RenderableType]
    summary: Callable[[dict[str, object]], str]
    rate: float


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument(
        "--seconds", type=positive_number(86_400), metavar="S", help="end by itself after so many seconds of publishing"
    )
    parser.add_argument(
        "--rate",
        type=positive_number(RATE_MAX),
        metavar="R",
        help=f"quotes a second, all publishers together ({demo.RATE:g}; with --overload {demo_overload.RATE:g})",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the same seed: the same quotes, subscriptions (1)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--overlay",
        choices=("S0", "S1", "S2", "SH"),
        default="S0",
        help="the strategy of soft links: with another than S0 soft links are woven while you look (S0)",
    )
    kind.add_argument(
        "--overload",
        action="store_true",
        help="all subscribers join the weakest of four brokers, and load agents spread the load while you look",
    )
    parser.add_argument("--spool", type=Path, metavar="DIR", help="collect the gateways' telemetry into this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Run a demonstration; 1 if anything was lost, repeated or not asked for."""
    logging.basicConfig(level=logging.ERROR)
    return _show(_overload(arguments), arguments) if arguments.overload else _show(_links(arguments), arguments)


def _links(arguments: argparse.Namespace) -> Show[demo.Demo]:
    rate = arguments.rate or demo.RATE
    # After how many quotes pure forwards are counted; 0 where there are no soft links to compare with.
    part = 0 if arguments.overlay == "S0" else max(1, round(rate * PART_S))
    return Show(
        running=lambda tell: demo.running_demo(arguments.seed, tell, arguments.overlay, part, arguments.spool),
        view=demo_view.view,
        summary=demo_view.summary,
        rate=rate,
    )


def _overload(arguments: argparse.Namespace) -> Show[demo_overload.Overload]:
    rate = arguments.rate or demo_overload.RATE
    return Show(
        running=lambda tell: demo_overload.running_overload(arguments.seed, rate, tell, arguments.spool),
        view=demo_overload_view.view,
        summary=demo_overload_view.summary,
        rate=rate,
    )


def _show(show: Show[Shown], arguments: argparse.Namespace) -> int:
    verdict = asyncio.run(_run(show, arguments))
    if verdict is None:
        return 0
    print(json.dumps(verdict) if arguments.json else show.summary(verdict))  # noqa: T201 - a command's answer
    return 0 if is_good(verdict) else 1


async def _run(show: Show[Shown], arguments: argparse.Namespace) -> dict[str, object] | None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    console = Console(quiet=arguments.json)

    def tell(text: str) -> None:
        console.print(text, style="dim", soft_wrap=True)  # what is to be copied stays in one line

    async with show.running(tell) as shown:
        if not stop.is_set():
            with _screen(console, show, shown, arguments) as refresh:
                await _publish(shown, show.rate, arguments.seconds, stop, refresh)
                await settled(shown)
                refresh(0.0)
        verdict = shown.verdict() if shown.quotes else None
        if not arguments.json:
            tell("ending")
        return verdict


async def _publish(
    shown: Trading, rate: float, seconds: float | None, stop: asyncio.Event, refresh: Callable[[float | None], None]
) -> None:
    """Publish evenly at the rate until the time is over, or somebody has seen enough."""
    loop = asyncio.get_running_loop()
    start = next_look = loop.time()
    count = 0
    while not stop.is_set():
        now = loop.time()
        if seconds is not None and now - start >= seconds:
            return
        while count < (now - start) * rate:
            shown.publish_one(now)
            count += 1
        if now >= next_look:
            shown.look(now)
            refresh(None if seconds is None else start + seconds - now)
            next_look = now + REFRESH_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(0.02, 1 / rate))


@contextlib.contextmanager
def _screen(
    console: Console, show: Show[Shown], shown: Shown, arguments: argparse.Namespace
) -> Iterator[Callable[[float | None], None]]:
    """Give a function that shows how things stand: nothing where nobody looks, into a pipe or file only the end."""
    if arguments.json:
        yield lambda seconds_left: None
        return
    if not console.is_terminal:
        yield lambda seconds_left: None
        console.print(show.view(shown, 0.0))
        return
    with Live(show.view(shown, arguments.seconds), console=console, auto_refresh=False) as live:
        yield lambda seconds_left: live.update(show.view(shown, seconds_left), refresh=True)

"""Subscribers that can be moved, in a process of their own: many of the production core in one event loop."""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from mqloom.core.publication import Publication
from mqloom.core.records import Wish
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.bench_moves import Travelled
from mqloom.lab.bench_processes import BenchError
from mqloom.lab.bench_quotes import DATA, FIRST_NUMBER, PREFIX, Came
from mqloom.lab.demo_travellers import DemoTraveller

ESTABLISH_S_MAX: Final = 120.0
"""By then all subscribers of a process are served, or there is no measurement."""
_NUMBER: Final = slice(len(PREFIX), len(PREFIX) + len(str(FIRST_NUMBER)))


class Passenger(NamedTuple):
    """A subscriber: its name, and what it wants."""

    name: str
    where: str


class State(NamedTuple):
    """How far the subscribers of a process are."""

    settled: int
    """Served at one broker, and connected to no other."""
    deliveries: int
    moved: int
    stayed: int
    overhead_bytes: int
    problem: str
    """Why one of them stayed where it was."""


class _Crowd:
    def __init__(self, port: int, keys: Path, passengers: Sequence[Passenger]) -> None:
        found = order_keys_in(keys)
        assert found is not None
        address = BrokerAddress("127.0.0.1", port)
        self._came = [Came(array("q"), array("d")) for _ in passengers]
        self._travellers = [
            DemoTraveller(each.name, address, {"all": Wish(topics=DATA, where=each.where)}, found.public, _note(came))
            for each, came in zip(passengers, self._came, strict=True)
        ]

    async def establish(self) -> None:
        """Return when everybody is served; raises BenchError."""
        deadline = time.monotonic() + ESTABLISH_S_MAX
        while (missing := sum(not each.is_served for each in self._travellers)) > 0:
            if time.monotonic() > deadline:
                raise BenchError(f"{missing} subscribers are not served after {ESTABLISH_S_MAX:g} s")
            await asyncio.sleep(0.05)

    def answer(self, question: str) -> State | list[Travelled]:
        if question == "report":
            each = zip(self._travellers, self._came, strict=True)
            return [Travelled(came, list(traveller.moves)) for traveller, came in each]
        problems = [problem for traveller in self._travellers for problem in traveller.stayed]
        return State(
            settled=sum(traveller.is_served for traveller in self._travellers),
            deliveries=sum(len(came.numbers) for came in self._came),
            moved=sum(len(traveller.moved) for traveller in self._travellers),
            stayed=len(problems),
            overhead_bytes=sum(traveller.overhead_bytes for traveller in self._travellers),
            problem=problems[0] if problems else "",
        )


def _note(came: Came) -> Callable[[Publication], None]:
    def note(publication: Publication) -> None:
        came.numbers.append(int(publication.payload[_NUMBER]))
        came.times.append(time.monotonic())

    return note


def travel_for(control: Connection, port: int, keys: Path, passengers: Sequence[Passenger]) -> None:
    """Be the process: subscribe, say so, and answer questions until the other end of the pipe is closed."""
    asyncio.run(_travel(control, port, keys, passengers))


async def _travel(control: Connection, port: int, keys: Path, passengers: Sequence[Passenger]) -> None:
    crowd = _Crowd(port, keys, passengers)
    await crowd.establish()
    control.send("ready")
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(control.fileno(), partial(_answer, control, crowd, is_over))
    await is_over.wait()
    loop.remove_reader(control.fileno())


def _answer(control: Connection, crowd: _Crowd, is_over: asyncio.Event) -> None:
    try:
        control.send(crowd.answer(control.recv()))
    except (EOFError, OSError):
        is_over.set()

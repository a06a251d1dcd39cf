"""What its load meters cost a gateway: its processor time with and without them, in turns, beside a real Mosquitto.

A publisher in a process of its own publishes so many quotes; the gateway takes them in, matches them, gives them to its
clients and acknowledges them. What that takes of the gateway's process is compared between a turn with meters and one
without, many times, the first of the two drawn by lot: one comparison is worth little on a machine that does other
things, of many the median is worth something, and how far they are spread says how much.

That shows what is large. What meters cost is a few microseconds of an event, and on a machine that does other things it
does not show. So events that carry nothing are handled with and without, too, in turns of a millisecond; what the notes
of one take is multiplied by how many there are for a publication. Bytes that are added up for each message, and what is
asked for when a window ends, are timed by themselves.
"""

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import Event, LocallyPublished
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.drivers.mqtt import ConnectionPlan
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.meters import Meter
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.lab.bench_processes import BenchError, Program, Worker, find_mosquitto, wait_for_port
from mqloom.lab.ports import free_ports

GATEWAY: Final = GatewayId("A")
PAYLOAD: Final = json.dumps({"symbol": "YHOO", "price": 31.5, "volume": 400_000, "note": "x" * 140}).encode()
TURN_S_MAX: Final = 60.0
START_S_MAX: Final = 20.0
WARM_UP: Final = 2
"""Comparisons that do not count: what is loaded and built at first is no meter's doing."""
LOOK_S: Final = 0.005
LOG: Final = logging.LoggerAdapter(logging.getLogger(__name__), {"gateway": "bench"})
NOTE_TURNS: Final = 1_000
NOTES: Final = 50
TIMED: Final = 20_000
"""How often what is timed by itself is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    comparisons: int = 100
    publications: int = 2_000
    """Of each turn."""
    clients: int = 10
    """Who get all of them."""
    window_s: float = 10.0
    """Of the meters, as they are without a word in the configuration."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What meters cost, in parts of a gateway's processor time."""

    comparisons: int
    publication_us: float
    """What the gateway takes for one publication, without them."""
    compared: float
    """By what part that is more with them: the median of all comparisons."""
    compared_error: float
    """The standard error of that median, by the spread of the middle half of comparisons."""
    events: float
    """For each publication: one may be of many."""
    note_us: float
    """What noting its time takes for one event."""
    noted: float
    """What that is of a publication's time."""
    messages: float
    """To clients, for each publication: a message may carry several."""
    bytes_note: float
    """What it takes to add up bytes, for each of these."""
    window: float
    """What it takes to end a window."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.noted + self.bytes_note + self.window


class SwitchedDriver(GatewayDriver):
    """A gateway whose meters can be switched off."""

    has_meters = True
    messages = 0
    events = 0

    def _carry_out(self, effect: Effect) -> None:
        self.messages += type(effect) is PublishLocally
        super()._carry_out(effect)

    def _handle(self, event: Event | Reconfigured) -> None:
        # Both ways are as long: what is compared is what they do.
        self.events += 1
        handle = GatewayDriver._handle if self.has_meters else SwitchedDriver._handle_unmetered
        handle(self, event)

    def _handle_unmetered(self, event: Event | Reconfigured) -> None:
        """Do what `GatewayDriver._handle` does, without a note."""
        if self._ended.done():
            return
        try:
            for effect in self.node.handle(event, self._loop.time()):
                self._carry_out(effect)
            if self._intake is not None and self._is_crowded():
                self._intake.connection.pause()
        except Exception as error:
            self._fail(error)


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Cost:
    """Measure; raises BenchError."""
    port = free_ports(1)[0]
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nlog_dest none\n"
    )
    (folder / "federation.toml").write_text(
        f'[federation]\nname = "bench"\ndata = ["stocks/#"]\nload_window_s = {plan.window_s}\n'
        f'[[brokers]]\nid = "{GATEWAY}"\nport = {port}\nadapter = "mosquitto"\n'
    )
    broker = Program("mosquitto", [find_mosquitto(), "-c", str(folder / "mosquitto.conf")], folder)
    try:
        wait_for_port(broker, port)
        publisher = Worker("publisher", publish_for, port)
        try:
            publisher.answer()
            return asyncio.run(_measure(plan, folder / "federation.toml", port, publisher, tell))
        finally:
            publisher.end()
    finally:
        broker.end()


async def _measure(plan: Plan, path: Path, port: int, publisher: Worker, tell: Callable[[str], None]) -> Cost:
    driver = build_driver(load_federation(path), GATEWAY, kind=SwitchedDriver)
    assert isinstance(driver, SwitchedDriver)
    running = asyncio.create_task(driver.run())
    try:
        await wait_until_ready(driver, START_S_MAX)
        await _subscribe(port, driver, plan.clients)
        return await _compare(plan, driver, publisher, tell)
    finally:
        driver.stop()
        await running


async def _subscribe(port: int, driver: GatewayDriver, clients: int) -> None:
    """Write records of clients that are not there: what is for them ends at the broker."""
    up = asyncio.Event()
    connection = make_connection(_plan("clients", port, up), LOG)
    connection.open()
    await asyncio.wait_for(up.wait(), START_S_MAX)
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}, "format": "frame", "qos": 1}
    for number in range(clients):
        topic = layout.record(GATEWAY, ClientId(f"client-{number}"))
        connection.publish(topic, json.dumps(record).encode(), 1, retain=True)
    await _until(lambda: driver.node.subscriptions == clients, "subscriptions are there")
    await connection.close()


async def _compare(plan: Plan, driver: SwitchedDriver, publisher: Worker, tell: Callable[[str], None]) -> Cost:
    randomness = random.Random(plan.seed)  # noqa: S311 - an order, no secret
    more: list[float] = []
    without_s: list[float] = []
    messages, events = driver.messages, driver.events
    for number in range(WARM_UP + plan.comparisons):
        took_s = {}
        for has_meters in randomness.sample((True, False), 2):
            driver.has_meters = has_meters
            took_s[has_meters] = await _turn(driver, publisher, plan)
        if number >= WARM_UP:
            more.append(took_s[True] / took_s[False] - 1)
            without_s.append(took_s[False])
            tell(f"{number + 1 - WARM_UP} of {plan.comparisons} comparisons: {median(more):+.2%}")
    published = 2 * (WARM_UP + plan.comparisons) * plan.publications
    messages_each, events_each = (driver.messages - messages) / published, (driver.events - events) / published
    publication_s = median(without_s) / plan.publications
    note_s = _note_s(driver)
    rate = 1 / publication_s  # of a gateway that does nothing else
    meter, topic, payload = Meter(0.0), layout.out(GATEWAY, ClientId("client-0")), PAYLOAD
    return Cost(
        comparisons=plan.comparisons,
        publication_us=publication_s * 1e6,
        compared=median(more),
        compared_error=_error_of_median(more),
        events=events_each,
        note_us=note_s * 1e6,
        noted=note_s * events_each * rate,
        messages=messages_each,
        bytes_note=_timed_s(lambda: _note_bytes(meter, topic, payload)) * messages_each * rate,
        window=_timed_s(driver.metering.end_window, TIMED // 100) / plan.window_s,
    )


def _note_s(driver: SwitchedDriver) -> float:
    """Return what the notes of one event take: the median of many turns of about a millisecond with and without."""
    nothing = LocallyPublished(numbers=())
    found = []
    for number in range(NOTE_TURNS):
        took_s = {}
        for has_meters in (True, False) if number % 2 else (False, True):
            driver.has_meters = has_meters
            began_s = time.thread_time()
            for _ in range(NOTES):
                driver._handle(nothing)
            took_s[has_meters] = time.thread_time() - began_s
        found.append((took_s[True] - took_s[False]) / NOTES)
    return median(found)


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of a median, if all but the outliers are spread normally."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / math.sqrt(len(values))


async def _turn(driver: GatewayDriver, publisher: Worker, plan: Plan) -> float:
    """Return what processor time the gateway takes for the publications of one turn."""
    counters = driver.node.counters
    deliveries = counters.total("deliveries") + plan.publications * plan.clients
    began_s = time.process_time()
    publisher.ask(plan.publications)
    await _until(
        lambda: counters.total("deliveries") >= deliveries and not driver.node.look().holdings.duties,
        "everything is delivered and acknowledged",
    )
    took_s = time.process_time() - began_s
    publisher.answer()
    return took_s


async def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TURN_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"after {TURN_S_MAX:g} s still not so: {what}")
        await asyncio.sleep(LOOK_S)


def _note_bytes(meter: Meter, topic: str, payload: bytes) -> None:
    meter.queued_bytes += len(topic) + len(payload)


def _timed_s(do: Callable[[], object], times: int = TIMED) -> float:
    """Return the processor seconds of one call; what it takes to call is in it."""
    began_s = time.process_time()
    for _ in range(times):
        do()
    return (time.process_time() - began_s) / times


def publish_for(pipe: Pipe, port: int) -> None:
    """Be the publisher: publish as many as one is asked for, say so when all are acknowledged, until the pipe ends."""
    asyncio.run(_publish_for(pipe, port))


async def _publish_for(pipe: Pipe, port: int) -> None:
    up = asyncio.Event()
    connection = make_connection(_plan("publisher", port, up), LOG)
    connection.open()
    await asyncio.wait_for(up.wait(), START_S_MAX)
    pipe.send("ready")
    while True:
        try:
            count: int = await asyncio.to_thread(pipe.recv)
        except (EOFError, OSError):
            return
        acknowledged = asyncio.Semaphore(0)
        for _ in range(count):
            connection.publish("stocks/YHOO", PAYLOAD, 1, then=acknowledged.release)
        for _ in range(count):
            await acknowledged.acquire()
        pipe.send(count)


def _plan(name: str, port: int, up: asyncio.Event) -> ConnectionPlan:
    return ConnectionPlan(
        address=BrokerAddress("127.0.0.1", port),
        client_id=f"mqloom-bench-{name}",
        clean_session=True,
        subscriptions=[],
        on_messages=lambda messages: None,
        on_up=up.set,
        on_down=lambda problem: None,
    )

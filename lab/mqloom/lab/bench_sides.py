"""The two sides of the federation's measurement, each with brokers, a publisher and subscribers of its own.

Brokers stand in a chain. The publisher is at the first, all subscribers are at the last. On one side brokers are joined
by Mosquitto's bridges, and subscribers get everything; on the other a gateway stands beside each, and they get what
they asked for. Everything else is the same: the brokers' settings, the publisher, the processes of the subscribers.
"""

import contextlib
import itertools
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.lab.bench_brokers import MOSQUITTO, chain, start_alternating, start_gateway, start_mosquitto
from mqloom.lab.bench_link_bytes import link_bytes
from mqloom.lab.bench_processes import START_S_MAX, BenchError, Program, Worker
from mqloom.lab.bench_publisher import Done, Order, publish_for
from mqloom.lab.bench_quotes import DATA, FIRST_NUMBER, Account, Came, Quotes, Sent, account
from mqloom.lab.bench_subscribers import Report, Wish, subscribe_for
from mqloom.lab.ports import free_ports

System = Literal["bridge", "mqloom"]
SYSTEMS: Final[tuple[System, System]] = ("bridge", "mqloom")
NAMES: Final = ("west", "middle", "east")

LAG_SHARE_MAX: Final = 0.1
"""A rate is held if the last publication comes at most this part of the run's time after it was sent."""
LAG_S_MIN: Final = 0.2
"""So much is always granted, and so is so much more time to the publisher."""
QUIET_S: Final = 0.5
"""When nothing has come for so long, nothing more comes of a run."""
QUIET_S_MAX: Final = 20.0
"""A side that is not quiet by then is started anew."""

BRIDGE: Final = """
connection to-{name}
address 127.0.0.1:{port}
topic {topics} out {qos}
bridge_protocol_version mqttv311
notifications false
restart_timeout 1
"""
FEDERATION: Final = """\
[federation]
name = "bench"
data = ["{topics}"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a side consists of."""

    system: System
    brokers: int
    subscribers: int
    qos: int
    seed: int = 1
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    is_filtered: bool = True
    """Else one bare reader gets everything."""
    collector: str = ""
    """Where gateways send their telemetry, which they then turn off and on; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class Run:
    """What became of publishing at one rate for some seconds."""

    rate: float
    account: Account
    took_s: float
    planned_s: float
    cpu_s: float
    """Of all subscribers' processes."""
    link_bytes: int | None
    """Over all links, both ways; None where the system does not tell."""

    @property
    def is_held(self) -> bool:
        """Whether all was sent in time, and all that was wanted has come in time."""
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """Why the rate was not held; nothing if it was."""
        lag_s, account = lag_s_max(self.planned_s), self.account
        found = []
        if self.took_s > self.planned_s + lag_s:
            found.append(f"publishing took {self.took_s:.1f} s instead of {self.planned_s:.1f}")
        if account.late_s > lag_s:
            found.append(f"the last came {account.late_s:.1f} s late")
        if account.lost:
            found.append(f"{account.lost} of {account.wanted} had not come by then")
        if account.wrong:
            found.append(f"{account.wrong} came that nobody wanted")
        return found


class Side:
    """Brokers, what joins them, a publisher and subscribers; all processes."""

    def __init__(self, shape: Shape, quotes: Quotes, folder: Path, stack: contextlib.ExitStack) -> None:
        self.shape = shape
        self._quotes = quotes
        self._folder = folder
        self._stack = stack
        self._next = itertools.count(1)
        self._first = FIRST_NUMBER
        self._ports = free_ports(shape.brokers)
        self.configuration = folder / "federation.toml"
        self.names = (*NAMES[: shape.brokers - 1], NAMES[-1]) if shape.brokers > 1 else NAMES[:1]
        self.brokers = [self._broker(place) for place in range(shape.brokers)]
        self.gateways = self._gateways() if shape.system == "mqloom" else []
        self._crowd = self._subscribe()
        publisher = Worker("publisher", publish_for, self._ports[0], shape.seed)
        self._publisher = self._end_later(publisher)
        if shape.system == "bridge":
            self._wait_for_bridges()

    # ---- starting ------------------------------------------------------------------------------------------------

    def _end_later(self, worker: Worker) -> Worker:
        self._stack.callback(worker.end)
        return worker

    def _broker(self, place: int) -> Program:
        shape, port, name = self.shape, self._ports[place], self.names[place]
        text = MOSQUITTO.format(port=port)
        if shape.system == "bridge" and place + 1 < shape.brokers:
            text += BRIDGE.format(name=self.names[place + 1], port=self._ports[place + 1], topics=DATA, qos=shape.qos)
        return start_mosquitto(name, text, port, self._folder, self._stack)

    def _gateways(self) -> list[Program]:
        self.configuration.write_text(self._federation())
        start = start_alternating if self.shape.collector else start_gateway
        return [start(name, self.configuration, self._stack) for name in self.names]

    def _federation(self) -> str:
        text = FEDERATION.format(topics=DATA) + chain(self.places)
        if self.shape.collector:
            text += f'\n[telemetry]\nendpoint = "{self.shape.collector}"\n'
        return text

    def _subscribe(self) -> list[Worker]:
        shape = self.shape
        wishes = [self._wish(number) for number in range(shape.subscribers)]
        count = min(shape.processes, shape.subscribers)
        workers = [
            self._end_later(Worker("subscribers", subscribe_for, self._ports[-1], part, is_bare=not shape.is_filtered))
            for part in (wishes[start::count] for start in range(count))
        ]
        for worker in workers:
            worker.answer(START_S_MAX)
        if shape.system == "mqloom":
            self._establish({_client(number): self._record(number) for number in range(shape.subscribers)})
        return workers

    def _wish(self, number: int) -> Wish:
        if self.shape.system == "bridge":
            return Wish(DATA, self.shape.qos, self._quotes.interests[number] if self.shape.is_filtered else None)
        out = layout.out(GatewayId(self.names[-1]), ClientId(_client(number)))
        return Wish(f"{out}/#", self.shape.qos, None)

    def _record(self, number: int) -> bytes:
        where = {"where": self._quotes.interests[number].where} if self.shape.is_filtered else {}
        subscriptions = {"wanted": {"topics": DATA, **where}}
        return json.dumps({"subscriptions": subscriptions, "format": "plain", "qos": self.shape.qos}).encode()

    def _establish(self, records: Mapping[str, bytes]) -> None:
        """Write the records, and return when all are established everywhere; raises BenchError."""
        gateway = GatewayId(self.names[-1])
        answers = layout.control(gateway, ClientId("any")).rpartition("/")[0] + "/+"
        missing, news = set(records), threading.Condition()

        def on_message(_: object, __: object, message: paho.MQTTMessage) -> None:
            answer = json.loads(message.payload)
            with news:
                if answer.get("answer") == "established" and not answer.get("partly"):
                    missing.discard(message.topic.rpartition("/")[2])
                news.notify_all()

        def write(client: paho.Client, *_: object) -> None:
            for name, data in records.items():
                client.publish(layout.record(gateway, ClientId(name)), data, 1, retain=True)

        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        client.on_message = on_message
        client.on_connect = lambda client, *_: client.subscribe(answers, 1)
        client.on_subscribe = write
        client.connect("127.0.0.1", self._ports[-1])
        client.loop_start()
        try:
            with news:
                is_done = news.wait_for(lambda: not missing, START_S_MAX)
        finally:
            client.disconnect()
            client.loop_stop()
        for program in self.gateways:
            program.check()
        if not is_done:
            log = self.gateways[-1].log.read_text("utf-8", "replace")[-1_000:]
            raise BenchError(f"{len(missing)} subscriptions are not established after {START_S_MAX:g} s: {log}")

    def _wait_for_bridges(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not self._counts()[0]:
            if time.monotonic() > deadline:
                raise BenchError(f"nothing has come over the bridges after {START_S_MAX:g} s")
            self._publish(1, 10.0)
            time.sleep(0.1)
        self.wait_until_quiet()

    # ---- running -------------------------------------------------------------------------------------------------

    def run(self, rate: float, seconds: float, patience_s: float = 0.0) -> Run:
        """Publish evenly, and see what comes, and when; what comes too late to count may be waited for."""
        count = max(1, round(rate * seconds))
        for worker in self._crowd:
            worker.ask(("begin", self._first))
        for worker in self._crowd:
            worker.answer()
        bytes_before = self._link_bytes()
        sent = self._publish(count, rate)
        result, cpu_s = self._await(sent, patience_s)
        bytes_after = self._link_bytes()
        crossed = None if bytes_before is None or bytes_after is None else bytes_after - bytes_before
        for program in (*self.brokers, *self.gateways):
            program.check()
        return Run(rate, result, sent.took_s, count / rate, cpu_s, crossed)

    def _publish(self, count: int, rate: float) -> Sent:
        """Publish the next numbers; if not all could be sent, or were acknowledged, it took for ever."""
        order = Order(self._first, count, rate, self.shape.qos)
        self._publisher.ask(order)
        done: Done = self._publisher.answer(count / rate + START_S_MAX)
        self._first += count
        is_whole = len(done.times) == count and (not order.qos or done.acknowledged == count)
        return Sent(order.first, done.times, done.took_s if is_whole else math.inf)

    def _await(self, sent: Sent, patience_s: float) -> tuple[Account, float]:
        """Return the account when everything has come, or is waited for no longer."""
        expected = sum(len(self._quotes.numbers(each, sent.first, len(sent.times))) for each in self._quotes.wanted)
        deadline = sent.last_at + max(lag_s_max(sent.took_s), patience_s)
        while True:
            is_over = time.monotonic() > deadline
            if is_over or self._counts()[1] >= expected:
                result, cpu_s = self._account(sent)
                if is_over or not result.lost:
                    return result, cpu_s
            time.sleep(0.02)

    def _account(self, sent: Sent) -> tuple[Account, float]:
        reports = self._reports()
        parts = [iter(report.came) for report in reports]  # subscribers were dealt out to processes in turns
        came: list[Came] = [next(parts[number % len(parts)]) for number in range(self.shape.subscribers)]
        return account(self._quotes, sent, came), sum(report.cpu_s for report in reports)

    def _reports(self) -> list[Report]:
        for worker in self._crowd:
            worker.ask(("report", 0))
        return [worker.answer() for worker in self._crowd]

    def _counts(self) -> tuple[int, int]:
        """Return how many messages ever came, and how many that are wanted in this run."""
        for worker in self._crowd:
            worker.ask(("count", 0))
        counts: list[tuple[int, int]] = [worker.answer() for worker in self._crowd]
        return sum(each for each, _ in counts), sum(each for _, each in counts)

    def wait_until_quiet(self) -> bool:
        """Return when nothing comes any more; False if it takes too long."""
        deadline = time.monotonic() + QUIET_S_MAX
        count, since = self._counts()[0], time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(0.1)
            now = self._counts()[0]
            if now != count:
                count, since = now, time.monotonic()
            elif time.monotonic() - since >= QUIET_S:
                return True
        return False

    @property
    def places(self) -> dict[str, int]:
        """The port of each broker, by its name."""
        return dict(zip(self.names, self._ports, strict=True))

    def _link_bytes(self) -> int | None:
        """Return what has crossed between brokers so far: on connections of each one's side to its neighbours'."""
        owners = self.gateways if self.shape.system == "mqloom" else self.brokers
        total = 0
        for place, owner in enumerate(owners):
            ports = {self._ports[other] for other in (place - 1, place + 1) if 0 <= other < len(self._ports)}
            crossed = link_bytes(owner.process_id, ports)
            if crossed is None:
                return None
            total += crossed
        return total


@contextlib.contextmanager
def side_of(shape: Shape, quotes: Quotes, folder: Path) -> Iterator[Side]:
    """Start a side, and end all its processes at the end, whatever happens."""
    place = folder / f"{shape.system}-{time.monotonic_ns()}"
    place.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        yield Side(shape, quotes, place, stack)


def lag_s_max(run_s: float) -> float:
    """Return how late the last of a run's publications may come."""
    return max(LAG_S_MIN, LAG_SHARE_MAX * min(run_s, 60.0))


def _client(number: int) -> str:
    return f"subscriber-{number}"

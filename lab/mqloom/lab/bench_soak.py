"""Minutes at four fifths of the rate that gateways hold: whether their memory grows, or more and more waits.

What waits is told by the gateways' own reports, every few seconds: publications for each link, those that somebody
further on has not taken care of, and messages that the broker has not acknowledged. What waits elsewhere shows in when
the last publication of each part comes: every part ends only then.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.reports import Report, decode_report
from mqloom.lab.bench_federation import Case, Plan, Tell, begin, quotes_of
from mqloom.lab.bench_processes import BenchError
from mqloom.lab.bench_quotes import Account, slope
from mqloom.lab.bench_sides import Run, Side

SHARE: Final = 0.8
SAMPLE_S: Final = 1.0
PART_S: Final = 20.0
"""The time is filled with runs of so many seconds, one right after the other."""
PATIENCE_S: Final = 30.0
"""What has not come so long after its part is lost."""
WARM_SHARE: Final = 0.2
"""This first part of the time does not count: memory fills up to what is used."""


@dataclass(slots=True)
class Samples:
    """What was seen, second by second: memory of each gateway, and how many publications wait in each place."""

    rss_bytes: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    waiting: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add_memory(self, at: float, rss_bytes: Mapping[str, int | None]) -> None:
        """Take in one look at the processes."""
        for name, size in rss_bytes.items():
            if size is not None:
                self.rss_bytes.setdefault(name, []).append((at, size))

    def add_report(self, at: float, report: Report) -> None:
        """Take in what a gateway says of itself."""
        for name, count in waiting(report).items():
            self.waiting.setdefault(name, []).append((at, count))


@dataclass(frozen=True, slots=True)
class Soak:
    """What came out."""

    minutes: float
    rate: float
    lost: int
    wanted: int
    late_s_max: float
    """How late the last publication of a part came, at most."""
    rss_mb: dict[str, float]
    """Of each gateway at the end."""
    rss_mb_by_minute: dict[str, list[float]]
    """The median of each minute, the first included: whether a line through all of them means anything."""
    rss_mb_per_minute: dict[str, float]
    waiting_max: dict[str, float]
    waiting_per_minute: dict[str, float]
    """By how much what waits grows; nothing, if it is about 0."""
    waiting_by_minute: dict[str, list[float]]
    """The median of each minute."""


def soak(case: Case, plan: Plan, minutes: float, folder: Path, tell: Tell) -> Soak:
    """Look for the rate that gateways hold, then run at four fifths of it for so long."""
    quotes = quotes_of(case, plan.seed)
    with contextlib.ExitStack() as stack:
        turn = begin(case.shape("mqloom", plan.seed), quotes, folder, plan, stack)
        while (step := turn.search.step) is not None:
            tell(f"soak: looking for the rate, {step.rate:,.0f}/s")
            turn.look(step, plan)
        if not turn.search.held:
            raise BenchError("gateways hold not even the lowest rate here: there is nothing to soak")
        return _soak(turn.side, turn.search.held * SHARE, minutes, tell)


def _soak(side: Side, rate: float, minutes: float, tell: Tell) -> Soak:
    samples, is_over = Samples(), threading.Event()
    begun = time.monotonic()

    def look() -> None:
        while not is_over.wait(SAMPLE_S):
            samples.add_memory(
                time.monotonic() - begun, {program.name: program.rss_bytes() for program in side.gateways}
            )

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    runs: list[Run] = []
    try:
        with _reports(side.places, lambda report: samples.add_report(time.monotonic() - begun, report)):
            while (left_s := begun + minutes * 60 - time.monotonic()) > 0:
                runs.append(side.run(rate, min(PART_S, max(left_s, 1.0)), PATIENCE_S))
                lost = sum(run.account.lost for run in runs)
                tell(f"soak: {rate:,.0f}/s, {left_s / 60:.1f} minutes left, {lost} lost")
    finally:
        is_over.set()
        thread.join()
    return judged(samples, minutes, rate, [run.account for run in runs])


def judged(samples: Samples, minutes: float, rate: float, accounts: Sequence[Account]) -> Soak:
    """Draw lines through the samples, but for those of the beginning."""
    return Soak(
        minutes=minutes,
        rate=rate,
        lost=sum(each.lost for each in accounts),
        wanted=sum(each.wanted for each in accounts),
        late_s_max=max((each.late_s for each in accounts), default=0.0),
        rss_mb={name: _warm(points)[-1][1] / 1e6 for name, points in samples.rss_bytes.items()},
        rss_mb_by_minute={name: [y / 1e6 for y in _by_minute(points)] for name, points in samples.rss_bytes.items()},
        rss_mb_per_minute={name: 60e-6 * slope(_warm(points)) for name, points in samples.rss_bytes.items()},
        waiting_max={name: max(y for _, y in points) for name, points in samples.waiting.items()},
        waiting_per_minute={name: 60 * slope(_warm(points)) for name, points in samples.waiting.items()},
        waiting_by_minute={name: _by_minute(points) for name, points in samples.waiting.items()},
    )


def _by_minute(points: Sequence[tuple[float, float]]) -> list[float]:
    minutes: dict[int, list[float]] = {}
    for at, value in points:
        minutes.setdefault(int(at // 60), []).append(value)
    return [median(minutes[minute]) for minute in sorted(minutes)]


def _warm(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    return points[int(len(points) * WARM_SHARE) :]


def waiting(report: Report) -> dict[str, int]:
    """Return how many publications wait where, by a gateway's report."""
    links = {f"link {report.gateway} to {link.gateway}": link.waiting + link.parked for link in report.links}
    return {**links, f"held by {report.gateway}": report.held, f"for {report.gateway}'s broker": report.deliveries}


@contextlib.contextmanager
def _reports(places: Mapping[str, int], take: Callable[[Report], None]) -> Iterator[None]:
    """Have `take` hear every report of every gateway, from its broker's port, one at a time."""
    one_at_a_time = threading.Lock()

    def on_message(_: object, __: object, message: paho.MQTTMessage) -> None:
        with one_at_a_time:
            take(decode_report(bytes(message.payload)))

    with contextlib.ExitStack() as stack:
        for name, port in places.items():
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.on_message = on_message
            topic = layout.report(GatewayId(name))
            client.on_connect = lambda client, *_, topic=topic: client.subscribe(topic)
            client.connect("127.0.0.1", port)
            client.loop_start()
            stack.callback(client.loop_stop)
            stack.callback(client.disconnect)
        yield

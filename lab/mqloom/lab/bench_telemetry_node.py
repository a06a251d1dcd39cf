"""What telemetry costs a node alone: the same publications with it and without, in turns of milliseconds.

Whole gateways are measured in `bench_telemetry_cost`, by minutes, and what else a machine does in those minutes is in
the figures. Here turns are so short that it is in both alike. What a gateway spends on MQTT is not counted: so the
share is larger here than it is of a whole gateway. The end of a window, with its records, is measured by itself.
"""

import json
import random
import statistics
import time
from dataclasses import dataclass
from typing import Final

from mqloom.core.effects import SendFrame
from mqloom.core.events import PublishesReceived
from mqloom.core.ids import ClientId
from mqloom.core.messages import Announce
from mqloom.core.publication import Incoming
from mqloom.core.telemetry_outbox import TelemetryOutbox
from mqloom.core.wire import decode
from mqloom.gateway.recorder import Recorder
from mqloom.lab.bench_quotes import DATA, Quotes
from mqloom.lab.gate import US, A, Gate, key, parts_of
from mqloom.plugins.content_matcher import ContentMatcher

BATCH: Final = 16
"""Publications of one event, about as many as come at once under load."""
TURN_BATCHES: Final = 16
WINDOW_S: Final = 10.0
WINDOW_PUBLICATIONS: Final = 50_000
"""In a window of a gateway that has 5,000 a second."""
WINDOWS: Final = 20
RESAMPLES: Final = 2_000


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What it costs a node."""

    turns: int
    us_on: float
    """Processor time of a publication, in microseconds: the median of all turns."""
    us_off: float
    cost_share: float
    """By what part a turn with telemetry takes longer than the one beside it without: the median."""
    cost_low: float
    cost_high: float
    """So low and so high that share may be by chance, with a confidence of 95%."""
    window_ms: float
    """What the end of a window takes, in milliseconds."""
    window_share: float
    """That, of the time of a window: of a processor, whatever the load."""


def measure_node(turns: int, subscribers: int, seed: int = 1) -> NodeCost:
    """Measure a node with so many subscribers, and as many at its neighbour."""
    bench = _Node(subscribers, seed)
    for _ in range(2 * WINDOW_PUBLICATIONS // (BATCH * TURN_BATCHES)):  # by then as many are sampled as under load
        bench.switch(is_on=True)
        bench.turn()
    on: list[float] = []
    off: list[float] = []
    for number in range(turns):
        for is_on in (True, False) if number % 2 else (False, True):
            bench.switch(is_on=is_on)
            (on if is_on else off).append(bench.turn())
    shares = [one / other - 1 for one, other in zip(on, off, strict=True)]
    low, high = bounds(shares, random.Random(seed))  # noqa: S311 - statistics, no secret
    bench.switch(is_on=True)
    window_s = statistics.median(bench.window() for _ in range(WINDOWS))
    count = BATCH * TURN_BATCHES
    return NodeCost(
        turns=turns,
        us_on=statistics.median(on) / count * 1e6,
        us_off=statistics.median(off) / count * 1e6,
        cost_share=statistics.median(shares),
        cost_low=low,
        cost_high=high,
        window_ms=window_s * 1e3,
        window_share=window_s / WINDOW_S,
    )


class _Node:
    """A node between its broker and one neighbour, whose acknowledgements are not counted."""

    def __init__(self, subscribers: int, seed: int) -> None:
        quotes = Quotes(seed, 2 * subscribers)
        self._gate = Gate(parts_of(A, matcher=ContentMatcher())).up(A)
        wheres = [each.where for each in quotes.interests]
        for number, where in enumerate(wheres[:subscribers]):
            self._gate.record(ClientId(f"subscriber-{number}"), {"wanted": (DATA, where)}, "plain")
        self._gate.hear(A, *(Announce(key(A, n), DATA, where) for n, where in enumerate(wheres[subscribers:])))
        publications = [
            Incoming(topic=f"stocks/{quote['symbol']}", payload=json.dumps(quote).encode()) for quote in quotes.quotes
        ]
        self._events = [
            PublishesReceived(publications=tuple(publications[at : at + BATCH]))
            for at in range(0, len(publications) - BATCH, BATCH)
        ]
        self._next = 0
        self._counted = 0
        self._gate.node.tally.window(0, 0.0)
        self._recorder = Recorder()
        self._outbox = TelemetryOutbox(US, 1, lambda: 0.0)

    def switch(self, *, is_on: bool) -> None:
        """Turn it on or off; the window goes on, until it has as many publications as one has under load."""
        tally = self._gate.node.tally
        tally.is_on = is_on
        if is_on:
            self._counted += BATCH * TURN_BATCHES
            if self._counted >= WINDOW_PUBLICATIONS:
                self._counted = 0
                tally.window(1_000, WINDOW_S)

    def turn(self) -> float:
        """Return the processor time of one turn, in seconds."""
        node, events = self._gate.node, self._events
        self._gate.now += 0.05
        chosen = [events[(self._next + at) % len(events)] for at in range(TURN_BATCHES)]
        self._next += TURN_BATCHES
        effects = []
        begun = time.process_time_ns()
        for event in chosen:
            effects += node.handle(event, self._gate.now)
        took_s = (time.process_time_ns() - begun) / 1e9
        for effect in effects:
            if isinstance(effect, SendFrame) and not effect.urgent:
                self._gate.note(effect.neighbour, decode(effect.frame))
        if A in self._gate.frames:
            self._gate.ack(A)
        return took_s

    def window(self) -> float:
        """Return the processor time of the end of a window: all records, encoded and in the outbox."""
        self.turn()
        begun = time.process_time_ns()
        tallied = self._gate.node.tally.window(1_000, WINDOW_S)
        records = self._recorder.traffic(tallied, WINDOW_S, 1.0)
        records += self._recorder.refusals(self._gate.node.counters.snapshot(), 1.0)
        for record in records:
            self._outbox.offer(record, 0.0)
        self._outbox.due(0.0, all_of_it=True)
        took_s = (time.process_time_ns() - begun) / 1e9
        self._outbox = TelemetryOutbox(US, 1, lambda: 0.0)
        return took_s


def bounds(values: list[float], randomness: random.Random) -> tuple[float, float]:
    """Return between what the median of such values lies, by drawing from them again and again."""
    medians = sorted(statistics.median(randomness.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[round(0.025 * RESAMPLES)], medians[round(0.975 * RESAMPLES) - 1]

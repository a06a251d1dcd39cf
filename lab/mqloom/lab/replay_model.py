"""A recording as a setup and workload of paper 000's model, so that a real day can be balanced again.

Brokers with one neighbour are edges, the others heads, as for load agents. What each can send is as it was told; how
long a publication takes it is fitted to what it took (a line over the subscriptions of all, a speed for each); the
bytes of a delivery are what was sent for each. Publications enter at the first head. A recording of many publications
is thinned: each stands for several, is as much larger and takes as much longer, so that loads are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.subscription import Subscription
from mqloom.lab.padres_setups import MEMORY_EACH, BrokerSetup, DelayLaw, Setup
from mqloom.lab.padres_workload import Publishing, Stay
from mqloom.lab.replay_groups import KIND, GroupKey, Kind, intake_of, kinds_of
from mqloom.lab.replay_recording import Recorded, Recording, ReplayError, deliveries
from mqloom.lab.replay_stays import stays_of
from mqloom.lab.stocks import Quote

STEPS_MAX: Final = 2_000
"""Steps of time into which a recording is divided."""
PUBLICATIONS_MAX: Final = 500_000
"""More are thinned."""
EDGES_MAX: Final = 32
"""More than the model has."""
DELAY_S_MIN: Final = 1e-7
TOLD_LEAST: Final = 0.8
"""The share of the deliveries that groups make up from which on it is not worth a word that some are missing."""


class RecordedWorkload:
    """What the model asks of a workload (`padres_workload.Workload`), as it was recorded."""

    def __init__(self, setup: Setup, kinds: Sequence[Kind], stays: Sequence[tuple[int, Stay]], rest: "_Rest") -> None:
        self.setup = setup
        self.stays = [stay for _, stay in stays]
        self.subscriptions: list[Subscription] = [kinds[number].subscription for number, _ in stays]
        self.quotes: list[Quote] = [{KIND: number} for number in range(len(kinds) + 1)]
        """The last is what nobody wants."""
        ranges = [(kinds[number].number, kinds[number].last) for number, _ in stays]
        self._first, self._last = (np.array(each, dtype=np.int64) for each in zip(*ranges, strict=True))
        self.publishing = _publishing([*(kind.own for kind in kinds), rest.unwanted], rest.step_s, rest.thinned)

    def matching(self, quote: int) -> NDArray[np.int64]:
        """Return the numbers of the subscribers that want a kind of publication."""
        return np.flatnonzero((self._first <= quote) & (quote <= self._last))


@dataclass(frozen=True, slots=True)
class _Rest:
    """What else is known of the publications."""

    unwanted: NDArray[np.float64]
    step_s: float
    thinned: float


@dataclass(frozen=True, slots=True)
class Replay:
    """What is to be played, and what a reader has to know of it."""

    setup: Setup
    workload: RecordedWorkload
    notes: tuple[str, ...]


class _Steps:
    """Time from the first window to the last, in steps."""

    def __init__(self, recording: Recording) -> None:
        loads = [load for recorded in recording.gateways.values() for load in recorded.loads]
        self.start = min(load.at - load.window_s for load in loads)
        self.length_s = max(load.at for load in loads) - self.start
        windows = sorted(
            record.window_s
            for each in recording.gateways.values()
            for found in each.groups.values()
            for record in found
        )
        window_s = windows[len(windows) // 2] if windows else 10.0
        self.step_s = max(window_s, self.length_s / STEPS_MAX)
        self.count = max(1, int(np.ceil(self.length_s / self.step_s)))

    def of(self, at: float, window_s: float) -> int:
        """Return the step in which the middle of a window lies."""
        return min(self.count - 1, max(0, int((at - window_s / 2 - self.start) / self.step_s)))


def replay_of(recording: Recording) -> Replay:
    """Return what a recording is in the model; raises ReplayError if there is nothing to balance."""
    notes = [*recording.problems, *recording.notes]
    clusters = clusters_of(recording)
    edges = [edge for each in clusters.values() for edge in each]
    if not edges or len(edges) > EDGES_MAX:
        raise ReplayError(f"{len(edges)} brokers with one neighbour: the model has 1 to {EDGES_MAX}")
    steps = _Steps(recording)
    if steps.length_s < 2 * recording.window_s:
        raise ReplayError(
            f"{steps.length_s:.0f} s are recorded: less than two windows of the meters; collect for longer"
        )
    rates, counts = _series(recording, edges, steps)
    if not rates:
        raise ReplayError("no subscribers are told of at any edge: is `groups_max` of [telemetry] 0?")
    left_out = sum(sum(_subscribers(recording.gateways[head])[-1:]) for head in clusters)
    if left_out:
        notes.append(f"{left_out:,} subscriptions at heads are left out: load agents do not move them")
    kinds = kinds_of(rates)
    unwanted = _unwanted(recording, clusters, kinds, steps, notes)
    stays = [(kind.number, stay) for kind in kinds for stay in stays_of(counts[kind.group], steps.step_s)]
    if not stays:
        raise ReplayError("nobody was subscribed for long enough to be told of")
    stays.sort(key=lambda each: (each[1].joins_at, each[0]))
    total = float(sum(kind.own.sum() for kind in kinds) + unwanted.sum()) * steps.step_s
    thinned = max(1.0, total / PUBLICATIONS_MAX)
    if thinned > 1:
        notes.append(f"each publication stands for {thinned:.1f}")
    told, counted = _deliveries([recording.gateways[edge] for edge in edges])
    if told < TOLD_LEAST * counted:
        share = f"{told / counted:.0%} of the deliveries that were counted"
        notes.append(f"the groups that were told of make up {share}: `groups_max` of [telemetry] would tell of more")
    setup = _setup(recording, clusters, len(stays), steps, thinned)
    workload = RecordedWorkload(setup, kinds, stays, _Rest(unwanted, steps.step_s, thinned))
    return Replay(setup, workload, tuple(notes))


def clusters_of(recording: Recording) -> dict[GatewayId, tuple[GatewayId, ...]]:
    """Return heads, in the order of a walk from the one where most comes in, each with its edges."""
    near = {
        name: [peer for peer in each.peers if peer in recording.gateways] for name, each in recording.gateways.items()
    }
    heads = [name for name, peers in near.items() if len(peers) > 1]
    if not heads:  # two brokers, or one
        heads = [max(near, key=lambda name: fmean(load.input_rate for load in recording.gateways[name].loads))]
    first = max(heads, key=lambda name: fmean(load.input_rate for load in recording.gateways[name].loads))
    walk, waiting = [first], [first]
    while waiting:
        for peer in near[waiting.pop(0)]:
            if peer in heads and peer not in walk:
                walk.append(peer)
                waiting.append(peer)
    return {head: tuple(peer for peer in near[head] if peer not in heads) for head in walk}


def _series(
    recording: Recording, edges: Sequence[GatewayId], steps: _Steps
) -> tuple[dict[GroupKey, NDArray[np.float64]], dict[GroupKey, dict[GatewayId, NDArray[np.int64]]]]:
    """Return how often each group matched, and how many subscribers it had at each edge, step by step."""
    rates: dict[GroupKey, NDArray[np.float64]] = {}
    counts: dict[GroupKey, dict[GatewayId, NDArray[np.int64]]] = {}
    seen_at = _seen_at([recording.gateways[edge] for edge in edges])
    for edge in edges:
        told: dict[GroupKey, int] = {}
        done = -1
        for at, records in sorted(recording.gateways[edge].groups.items()):
            if at > seen_at:
                break
            step = steps.of(at, records[0].window_s)
            _hold(counts, edge, told, steps.count, done + 1, step)
            if len(records) < recording.gateways[edge].groups_max:
                told = {}
            for record in records:
                group = (record.topics, record.where)
                told[group] = record.subscribers
                rate = rates.setdefault(group, np.zeros(steps.count))
                rate[step] = max(rate[step], record.publications / record.window_s)
            done = step - 1
        _hold(counts, edge, told, steps.count, done + 1, steps.count)
    for by_edge in counts.values():
        for edge in edges:
            by_edge.setdefault(edge, np.zeros(steps.count, dtype=np.int64))
    return {group: rates[group] for group in counts}, counts


def _seen_at(edges: Sequence[Recorded]) -> float:
    """Return when anybody was told of for the last time: that all leave at the end is no part of the load."""
    windows = ((at, records) for each in edges for at, records in each.groups.items())
    return max((at for at, records in windows if any(record.subscribers for record in records)), default=np.inf)


def _hold(
    counts: dict[GroupKey, dict[GatewayId, NDArray[np.int64]]],
    edge: GatewayId,
    told: dict[GroupKey, int],
    length: int,
    begin: int,
    end: int,
) -> None:
    """Let what was told last hold for some steps."""
    for group, subscribers in told.items():
        by_edge = counts.setdefault(group, {})
        by_edge.setdefault(edge, np.zeros(length, dtype=np.int64))[begin:end] = subscribers


def _subscribers(recorded: Recorded) -> list[int]:
    """Return how many subscribers there were, by window; windows with nobody, as after all have left, do not count."""
    numbers = (sum(record.subscribers for record in recorded.groups[at]) for at in sorted(recorded.groups))
    return [number for number in numbers if number]


def _deliveries(edges: Sequence[Recorded]) -> tuple[int, float]:
    """Return how many deliveries groups make up, and how many were counted; of older recordings that is none."""
    told = sum(deliveries(records) for each in edges for records in each.groups.values())
    return told, sum((load.deliveries_s or 0.0) * load.window_s for each in edges for load in each.loads)


def _unwanted(
    recording: Recording,
    clusters: dict[GatewayId, tuple[GatewayId, ...]],
    kinds: Sequence[Kind],
    steps: _Steps,
    notes: list[str],
) -> NDArray[np.float64]:
    """Return how many publications a second the first head had that no group wants."""
    head = np.zeros(steps.count)
    for load in recording.gateways[next(iter(clusters))].loads:
        step = steps.of(load.at, load.window_s)
        head[step] = max(head[step], load.input_rate)
    intake = intake_of(kinds)
    if intake.sum() > 1.05 * head.sum() > 0:
        text = (
            f"publications that match groups which overlap count more than once: {intake.sum() / head.sum():.1f} times"
        )
        notes.append(f"{text} as many come in as were recorded")
    return np.maximum(0.0, head - intake)


def _setup(
    recording: Recording,
    clusters: dict[GatewayId, tuple[GatewayId, ...]],
    subscribers: int,
    steps: _Steps,
    thinned: float,
) -> Setup:
    names = [*clusters, *(edge for each in clusters.values() for edge in each)]
    edges = [recording.gateways[edge] for each in clusters.values() for edge in each]
    sent = sum(load.output_bytes_s * load.window_s for each in edges for load in each.loads)
    copies, _ = _deliveries(edges)
    law = law_of([recording.gateways[name] for name in names])
    thin_law = DelayLaw(law.base_s * thinned, law.slope_s * thinned)
    return Setup(
        name="replay",
        brokers={name: _broker(recording.gateways[name], law, is_head=name in clusters) for name in names},
        clusters=clusters,
        publishers=1,
        subscribers=subscribers,
        zero_share=0.0,
        join_s=0.0,
        change_at=None,
        length_s=steps.length_s,
        message_bytes=max(1, round(sent / copies * thinned)) if copies and sent else round(200 * thinned),
        law=thin_law,
        join_at=names[-1],
    )


def _broker(recorded: Recorded, law: DelayLaw, *, is_head: bool) -> BrokerSetup:
    """Return a broker as strong as it was: its mean delay is that of as many subscriptions as there were in the mean.

    These are its own clients', for the model has no others at edges; at heads, and where nobody was, all it matches.
    """
    own = [] if is_head else _subscribers(recorded)
    here = max(1, round(fmean(own or [load.subscriptions for load in recorded.loads])))
    taken = [load.delay_s for load in recorded.loads if load.delay_s > 0]
    speed = law.at(here, 1.0) / fmean(taken) if taken else 1.0
    memory = max(fmean(load.memory_ratio for load in recorded.loads), 0.01)
    return BrokerSetup(speed, here * MEMORY_EACH / memory, recorded.loads[-1].output_bytes_s_max)


def law_of(recorded: Sequence[Recorded]) -> DelayLaw:
    """Return a line through what publications took: the slope of all brokers, the mean of what is left."""
    up = down = 0.0
    bases = []
    for each in recorded:
        records = [record for record in each.services if record.service_s > 0]
        if not records:
            continue
        weights = np.array([record.publications for record in records], dtype=np.float64)
        numbers = np.array([record.subscriptions for record in records], dtype=np.float64)
        times = np.array([record.service_s for record in records])
        number, time = np.average(numbers, weights=weights), np.average(times, weights=weights)
        up += float(np.sum(weights * (numbers - number) * (times - time)))
        down += float(np.sum(weights * (numbers - number) ** 2))
        bases.append((number, time))
    slope = max(0.0, up / down) if down else 0.0
    left = [float(time - slope * number) for number, time in bases]
    return DelayLaw(max(DELAY_S_MIN, fmean(left)) if left else DELAY_S_MIN, slope)


def _publishing(rates: Sequence[NDArray[np.float64]], step_s: float, thinned: float) -> Publishing:
    """Return publications of each kind as often as its rate says, evenly."""
    times, quotes = [], []
    edges = np.arange(len(rates[0]) + 1) * step_s
    for number, rate in enumerate(rates):
        sums = np.concatenate([[0.0], np.cumsum(rate * step_s / thinned)])
        phase = (number * 0.618_033_988_749_894_9) % 1.0  # kinds with the same rate do not all come at once
        wanted = np.arange(int(np.floor(sums[-1] + phase))) + 1.0 - phase
        times.append(np.interp(wanted, sums, edges))
        quotes.append(np.full(len(wanted), number, dtype=np.int64))
    every_time, every_quote = np.concatenate(times), np.concatenate(quotes)
    order = np.argsort(every_time, kind="stable")
    return Publishing(every_time[order], every_quote[order])

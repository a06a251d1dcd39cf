"""Measures our engine and its peers in one run, and checks that all of them find the same.

All take turns, a short lap each, many times round, and the best lap of each counts: whatever else the machine does
hits all of them, and the best lap the least. Clocks count processor time, so that a core that is shared does not look
like a slow one. As in `timeit`, the garbage collector rests during laps.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqloom.lab.bench_checks import Disagreement, Truth
from mqloom.lab.bench_costs import Costs, Memory, build_engine, fill, measure_costs, measure_memory
from mqloom.lab.peers import (
    OUR_MODES,
    OURS,
    ContentEngine,
    Lap,
    Peer,
    PeerMissingError,
    PureOneByOne,
    our_peers,
    text_id,
)
from mqloom.lab.peers_python import BruteForce, NumpyScan
from mqloom.lab.peers_trees import BoostPeer, RTreeBatched, RTreePeer, compile_boost
from mqloom.lab.workloads import Workload, build_workload

PEERS: Final = ("numpy scan", "brute force", "rtree", "boost r-tree")
"""Those that can be left out."""

BRUTE_FORCE_MAX: Final = 100_000
"""With more subscriptions brute force is not measured; it still checks the answers, on so many of them."""

EVENTS: Final = 10_240

RTREE_MAX: Final = 200_000
"""PyPI's rtree takes a minute to load more."""

Tell = Callable[[str], None]
"""Told what begins now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure; the limits keep a run within a minute or two up to 100,000 subscriptions."""

    workload: str
    subscriptions: int
    events: int = EVENTS
    seed: int = 1
    rounds: int = 15
    lap_s: float = 0.06
    warm_up_s_max: float = 3.0
    laps_s_max: float = 60.0
    """No new round begins after so many seconds of laps, by the clock on the wall."""
    without: frozenset[str] = frozenset()

    @property
    def steps(self) -> int:
        """About how many times `Tell` is called."""
        others = {"box": 6, "mixed": 4}.get(self.workload, 3)
        peers = len(OUR_MODES) + others - len(self.without)
        return 9 + (self.rounds + 1) * peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The best laps of one engine in one mode."""

    engine: str
    mode: str
    events_per_s: float
    matches_per_event: float
    """Destinations, in the modes that give destinations."""
    ratio_to_best_other: float | None
    """To the fastest that is not ours and has ids of the same type; None if none was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out."""

    plan: Plan
    rows: list[Row]
    costs: Costs
    memory: Memory
    stats: Mapping[str, object]
    disagreements: list[Disagreement]
    checked_events: int
    rounds: int
    missing: dict[str, str]
    """Peers that did not take part, and why."""


@dataclass(slots=True)
class _Field:
    """Those who take part."""

    peers: list[Peer] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def measure(
    plan: Plan, make_engine: Callable[[], ContentEngine], folder: Path, tell: Tell = lambda text: None
) -> Result:
    """Run the measurement; a program that has to be compiled goes into the folder, and is taken from there."""
    tell("workload")
    workload = build_workload(plan.workload, plan.subscriptions, plan.events, plan.seed)
    tell("our engine")
    # First of all, while nobody else has had the filters work anything out that they keep.
    engine, build = build_engine(make_engine, workload)
    tell("our engine, text ids")
    texts = make_engine()
    fill(texts, workload, text_id)
    with ExitStack() as stack:
        taking_part = _others(plan, workload, stack, folder, tell)
        peers = our_peers(engine, texts, workload.events) + taking_part.peers
        tell("check")
        truth = Truth(workload, random.Random(plan.seed), BRUTE_FORCE_MAX)  # noqa: S311 - a sample, not a secret
        wrong = truth.compare(peers)
        if plan.workload == "mixed":
            peers.append(_pure(plan, make_engine))
        laps = _race(plan, peers, tell)
        tell("inserts and deletes")
        costs = measure_costs(engine, workload, build, random.Random(plan.seed))  # noqa: S311 - as above
        tell("check")
        wrong = wrong or truth.compare(our_peers(engine, None, workload.events), "after inserts and deletes")
        stats = engine.stats()
    tell("memory")
    memory = measure_memory(make_engine, workload, build, stats)
    return Result(
        plan=plan,
        rows=_rows(peers, laps),
        costs=costs,
        memory=memory,
        stats=stats,
        disagreements=wrong,
        checked_events=len(truth.numbers),
        rounds=len(laps[0]),
        missing=taking_part.missing,
    )


def _pure(plan: Plan, make_engine: Callable[[], ContentEngine]) -> Peer:
    """Return our engine with as many filters of which none is unusual, for comparison in the same run."""
    workload = build_workload("stock", plan.subscriptions, plan.events, plan.seed)
    engine = make_engine()
    fill(engine, workload)
    return PureOneByOne(engine, workload.events)


def _others(plan: Plan, workload: Workload, stack: ExitStack, folder: Path, tell: Tell) -> _Field:
    """Build all others that can take part."""
    found = _Field()
    for name, build in _builders(plan, workload, folder):
        tell(name)
        if name in plan.without:
            found.missing[name] = "left out, as asked"
            continue
        try:
            for peer in build():
                stack.callback(peer.close)
                found.peers.append(peer)
        except PeerMissingError as error:
            found.missing[name] = str(error)
    return found


def _builders(plan: Plan, workload: Workload, folder: Path) -> Iterator[tuple[str, Callable[[], Iterator[Peer]]]]:
    filters, events = workload.filters, workload.events

    def scan() -> Iterator[Peer]:
        made = NumpyScan(filters, events)
        yield made
        yield made.with_texts()

    def brute_force() -> Iterator[Peer]:
        _at_most(BRUTE_FORCE_MAX, plan)
        yield BruteForce(filters, events)

    def rtree() -> Iterator[Peer]:
        _at_most(RTREE_MAX, plan)
        tree = RTreePeer(filters, events)
        yield tree
        yield RTreeBatched(tree, events)

    def boost() -> Iterator[Peer]:
        yield BoostPeer(compile_boost(folder), filters, events)

    yield "numpy scan", scan
    yield "brute force", brute_force
    if plan.workload == "box":
        yield "rtree", rtree
        yield "boost r-tree", boost


def _at_most(limit: int, plan: Plan) -> None:
    if plan.subscriptions > limit:
        raise PeerMissingError(f"not measured over {limit:,} subscriptions")


def _race(plan: Plan, peers: Sequence[Peer], tell: Tell) -> list[list[Lap]]:
    """Let all take turns, after a round to warm up that does not count. Return the laps of each."""
    laps: list[list[Lap]] = [[] for _ in peers]
    begun = time.perf_counter()
    with _no_collections():
        for peer in peers:
            tell(f"warming up: {peer.engine}, {peer.mode}")
            _warm_up(plan, peer)
        for turn in range(1, plan.rounds + 1):
            if turn > 1 and time.perf_counter() - begun > plan.laps_s_max:
                break
            for peer, done in zip(peers, laps, strict=True):
                tell(f"round {turn} of {plan.rounds}: {peer.engine}, {peer.mode}")
                done.append(peer.lap(plan.lap_s))
    return laps


def _warm_up(plan: Plan, peer: Peer) -> None:
    """Let a peer see every event once, if it is fast enough: some make parts of their index when first asked there."""
    events, seconds = 0, 0.0
    while events < plan.events and seconds < plan.warm_up_s_max:
        lap = peer.lap(plan.lap_s)
        events += lap.events
        seconds += lap.seconds


@contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _rows(peers: Sequence[Peer], laps: Sequence[Sequence[Lap]]) -> list[Row]:
    rates = [max(lap.events / lap.seconds for lap in done) for done in laps]
    best: dict[bool, float] = {}
    for peer, rate in zip(peers, rates, strict=True):
        if peer.engine != OURS:
            best[peer.gives_texts] = max(rate, best.get(peer.gives_texts, 0.0))
    return [
        Row(
            engine=peer.engine,
            mode=peer.mode,
            events_per_s=rate,
            matches_per_event=sum(lap.matches for lap in done) / sum(lap.events for lap in done),
            ratio_to_best_other=rate / best[peer.gives_texts] if peer.gives_texts in best else None,
        )
        for peer, rate, done in zip(peers, rates, laps, strict=True)
    ]

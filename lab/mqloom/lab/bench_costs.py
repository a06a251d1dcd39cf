"""What an engine costs beside matching: processor time to build, insert and delete, and memory."""

import contextlib
import gc
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqloom.lab.peers import BATCH, DESTINATIONS, ContentEngine, Id
from mqloom.lab.workloads import Workload

ROUNDS: Final = 3
"""Inserts and deletes are measured so many times, each with another sample; the best counts."""

TRACED_BUILD_S_MAX: Final = 4.0
"""An engine that took longer to build is not built again under tracemalloc, which makes it several times slower."""

AFTER_INSERTS: Final = 200


@dataclass(frozen=True, slots=True)
class Build:
    """How the engine was built."""

    build_s: float
    settle_s: float
    """The first batch after that: what was put off until somebody asks."""
    rss_bytes: int | None
    """By how much the process grew; None where the system does not say."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Times; microseconds are for one subscription, at full size."""

    build_s: float
    settle_s: float
    insert_us: float
    delete_us: float
    match_after_insert_us: float
    """The first match after an insert: what the insert put off."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes for one subscription, by three ways of asking."""

    traced: float | None
    """Python's own allocations (tracemalloc) for an engine whose filters are there already; None if too slow."""
    rss: float | None
    reported: float | None
    """By the engine's `stats()`."""

    @property
    def best(self) -> float | None:
        """The most exact of those there are."""
        return next((each for each in (self.traced, self.rss, self.reported) if each is not None), None)


def build_engine(make_engine: Callable[[], ContentEngine], workload: Workload) -> tuple[ContentEngine, Build]:
    """Build our engine with all subscriptions, and let it answer a batch."""
    gc.collect()
    before = _rss_bytes()
    engine = make_engine()
    build_s = _timed(lambda: fill(engine, workload))
    settle_s = _timed(lambda: _settle(engine, workload))
    after = _rss_bytes()
    return engine, Build(build_s, settle_s, None if before is None or after is None else after - before)


def measure_costs(engine: ContentEngine, workload: Workload, build: Build, randomness: random.Random) -> Costs:
    """Delete some subscriptions, insert others, and leave the engine with what it had."""
    count, spare = len(workload.filters), workload.spare
    size = min(count, len(spare) // ROUNDS)
    inserts, deletes, after = [], [], []
    for turn in range(ROUNDS):
        new = {count + number: spare[number] for number in range(turn * size, (turn + 1) * size)}
        old = randomness.sample(range(count), size)
        deletes.append(_timed(lambda old=old: _remove(engine, old)) / size)  # type: ignore[misc]
        inserts.append(_timed(lambda new=new: _add(engine, new)) / size)  # type: ignore[misc]
        _remove(engine, new)
        _add(engine, {id_: workload.filters[id_] for id_ in old})
        after.append(_match_after_insert(engine, workload, randomness))
    return Costs(
        build_s=build.build_s,
        settle_s=build.settle_s,
        insert_us=min(inserts) * 1e6,
        delete_us=min(deletes) * 1e6,
        match_after_insert_us=min(after) * 1e6,
    )


def measure_memory(
    make_engine: Callable[[], ContentEngine], workload: Workload, build: Build, stats: Mapping[str, object]
) -> Memory:
    """Build a second engine, if that does not take too long, and see what it allocates."""
    count = len(workload.filters)
    reported = stats.get("bytes")
    return Memory(
        traced=_traced_bytes(make_engine, workload) / count if build.build_s <= TRACED_BUILD_S_MAX else None,
        rss=None if build.rss_bytes is None else build.rss_bytes / count,
        reported=float(reported) / count if isinstance(reported, int | float) else None,
    )


def _match_after_insert(engine: ContentEngine, workload: Workload, randomness: random.Random) -> float:
    """Return the mean seconds of a match, each right after an insert."""
    total = 0.0
    size = min(AFTER_INSERTS, len(workload.filters))
    for id_ in randomness.sample(range(len(workload.filters)), size):
        engine.remove(id_)
        engine.add(id_, workload.filters[id_], id_ % DESTINATIONS)
        event = randomness.choice(workload.events)
        total += _timed(lambda event=event: engine.match(event))  # type: ignore[misc]
    return total / size


def _traced_bytes(make_engine: Callable[[], ContentEngine], workload: Workload) -> int:
    gc.collect()
    tracemalloc.start(1)
    try:
        engine = make_engine()
        fill(engine, workload)
        _settle(engine, workload)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def fill(engine: ContentEngine, workload: Workload, id_of: Callable[[int], Id] = int) -> None:
    """Add all subscriptions of a workload."""
    for number, each in enumerate(workload.filters):
        engine.add(id_of(number), each, number % DESTINATIONS)


def _settle(engine: ContentEngine, workload: Workload) -> None:
    engine.match_batch(workload.events[:BATCH])
    engine.destinations_batch(workload.events[:BATCH])


def _add(engine: ContentEngine, filters: Mapping[int, object]) -> None:
    for id_, each in filters.items():
        engine.add(id_, each, id_ % DESTINATIONS)  # type: ignore[arg-type]


def _remove(engine: ContentEngine, ids: Iterable[int]) -> None:
    for id_ in ids:
        engine.remove(id_)


def _timed(do: Callable[[], object]) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


def _rss_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None

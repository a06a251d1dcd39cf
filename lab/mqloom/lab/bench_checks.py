"""Whether all engines of a measurement find the same, by trying every filter on some of the events."""

import random
import time
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from mqloom.lab.peers import DESTINATIONS, Peer
from mqloom.lab.workloads import Workload

EVENTS_MAX: Final = 64
SECONDS_MAX: Final = 5.0
"""Brute force on more of the events stops here; one is always tried."""

SHOWN_MAX: Final = 5
"""Of each disagreement so many ids are shown."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer that is not what trying every filter gives."""

    engine: str
    mode: str
    event: int
    missing: list[int]
    extra: list[int]
    repeated: bool
    when: str

    def __str__(self) -> str:
        parts = [f"{name} {_some(ids)}" for name, ids in (("missing", self.missing), ("extra", self.extra)) if ids]
        parts += ["some more than once"] if self.repeated else []
        when = f" {self.when}" if self.when else ""
        return f"{self.engine}, {self.mode}, event {self.event}{when}: {'; '.join(parts)}"


class Truth:
    """What matches a sample of the events; with many subscriptions, which of a sample of them do."""

    def __init__(self, workload: Workload, randomness: random.Random, subscriptions_max: int) -> None:
        count = len(workload.filters)
        self._is_whole = count <= subscriptions_max
        ids = range(count) if self._is_whole else sorted(randomness.sample(range(count), subscriptions_max))
        self._asked = frozenset(ids)
        tests = [(id_, workload.filters[id_].matches) for id_ in ids]
        self.numbers: list[int] = []
        self._ids: list[set[int]] = []
        begun = time.process_time()
        events = len(workload.events)
        for number in randomness.sample(range(events), min(EVENTS_MAX, events)):
            if self.numbers and time.process_time() - begun > SECONDS_MAX:
                break
            event = workload.events[number]
            self.numbers.append(number)
            self._ids.append({id_ for id_, test in tests if test(event)})

    def compare(self, peers: Sequence[Peer], when: str = "") -> list[Disagreement]:
        """Return what of the peers' answers is wrong."""
        return [each for peer in peers for each in self._compare(peer, when)]

    def _compare(self, peer: Peer, when: str) -> list[Disagreement]:
        found = []
        for number, right, answer in zip(self.numbers, self._ids, peer.answers(self.numbers), strict=True):
            given = plain_ids(answer)
            if peer.gives_destinations:
                expected = {id_ % DESTINATIONS for id_ in right}
                extra = set(given) - expected if self._is_whole else set()
            else:
                expected = right
                extra = (set(given) & self._asked if not self._is_whole else set(given)) - right
            missing = expected - set(given)
            repeated = len(given) != len(set(given))
            if missing or extra or repeated:
                wrong = Disagreement(peer.engine, peer.mode, number, sorted(missing), sorted(extra), repeated, when)
                found.append(wrong)
        return found


def plain_ids(answer: Collection[Hashable]) -> list[int]:
    """Return the ids of an answer as integers of Python's own, whatever numpy calls them, or `text_id` has made."""
    return [int(each.rpartition("-")[2]) if isinstance(each, str) else int(cast(int, each)) for each in answer]


def _some(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:SHOWN_MAX]))
    return f"{shown} and {len(ids) - SHOWN_MAX:,} more" if len(ids) > SHOWN_MAX else shown

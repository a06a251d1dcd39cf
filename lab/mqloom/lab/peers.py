"""What is measured side by side: our engine in its modes, and the form in which every other matcher is asked.

A peer answers two things: how many events it gets through in a lap, and which ids match given events. Subscriptions
have the ids 0, 1, 2, ... in the order of the workload, or the texts that `text_id` makes of these.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from mqloom.core.filter import Filter
from mqloom.lab.workloads import Event

OURS: Final = "mqloom"
BATCH: Final = 1_024
DESTINATIONS: Final = 16


Id = int | str


def text_id(number: int) -> str:
    """Return the id of a subscription as a text."""
    return f"subscription-{number}"


class ContentEngine(Protocol):
    """What is asked of our engine, `mqloom.plugins.content.Engine`."""

    def add(self, id: Id, filter: Filter, destination: int | None = None) -> None:  # noqa: A002 - the engine's words
        """Take a subscription in."""
        ...

    def remove(self, id: Id) -> None:  # noqa: A002 - as above
        """Forget a subscription."""
        ...

    def match(self, attributes: Event) -> Collection[Hashable]:
        """Return the ids of the subscriptions that match."""
        ...

    def match_batch(self, batch: list[Event]) -> Sequence[Collection[Hashable]]:
        """Return the same for several events at once."""
        ...

    def destinations(self, attributes: Event) -> Collection[Hashable]:
        """Return the destinations of the subscriptions that match."""
        ...

    def destinations_batch(self, batch: list[Event]) -> Sequence[Collection[Hashable]]:
        """Return the same for several events at once."""
        ...

    def stats(self) -> Mapping[str, object]:
        """Return figures, `bytes` among them."""
        ...


class PeerMissingError(Exception):
    """A peer cannot take part on this machine; says why."""


@dataclass(frozen=True, slots=True)
class Lap:
    """What was done in one go. Seconds are of processor time: while others have the core, no time passes."""

    events: int
    seconds: float
    matches: int


class Peer(ABC):
    """A matcher that holds all subscriptions of a workload."""

    engine: ClassVar[str]
    mode: ClassVar[str] = "one by one"
    gives_destinations: ClassVar[bool] = False
    """Whether the answers are destinations instead of ids."""
    gives_texts: ClassVar[bool] = False
    """Whether ids are texts instead of integers: objects instead of numbers side by side."""

    @abstractmethod
    def lap(self, seconds: float) -> Lap:
        """Match events for about so long, at least one; goes on where the lap before ended."""

    @abstractmethod
    def answers(self, numbers: Sequence[int]) -> Sequence[Collection[Hashable]]:
        """Return what matches each of these events of the workload, by number."""

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what it holds outside this process."""


class InProcess(Peer):
    """A matcher in Python; it looks at its clock once for each chunk of events."""

    chunk: ClassVar[int]

    def __init__(self, events: Sequence[Event]) -> None:
        assert events
        self._events = events
        self._chunks = [list(events[start : start + self.chunk]) for start in range(0, len(events), self.chunk)]
        self._next = 0

    @abstractmethod
    def match(self, events: list[Event]) -> Iterable[Collection[Hashable]]:
        """Return, or yield, what matches each of the events."""

    def count(self, events: list[Event]) -> int:
        """Match, and say how much was found: what is timed."""
        return sum(map(len, self.match(events)))

    def lap(self, seconds: float) -> Lap:
        """See `Peer`."""
        events = matches = 0
        begun = time.process_time()
        while True:
            chunk = self._chunks[self._next]
            matches += self.count(chunk)
            events += len(chunk)
            self._next = (self._next + 1) % len(self._chunks)
            if (taken := time.process_time() - begun) >= seconds:
                return Lap(events, taken, matches)

    def answers(self, numbers: Sequence[int]) -> Sequence[Collection[Hashable]]:
        """See `Peer`."""
        return list(self.match([self._events[number] for number in numbers]))


class _Ours(InProcess):
    engine = OURS

    def __init__(self, engine: ContentEngine, events: Sequence[Event]) -> None:
        super().__init__(events)
        self._engine = engine


class OneByOne(_Ours):
    """Our engine, one event at a time."""

    chunk = 32

    def match(self, events: list[Event]) -> Iterable[Collection[Hashable]]:
        """See `InProcess`."""
        return map(self._engine.match, events)


class PureOneByOne(OneByOne):
    """An engine with the workload that a mixed one is compared with, one event at a time."""

    mode = "one by one, stock alone"


class Batched(_Ours):
    """Our engine, a batch of events at a time."""

    mode = "batched"
    chunk = BATCH

    def match(self, events: list[Event]) -> Iterable[Collection[Hashable]]:
        """See `InProcess`."""
        return self._engine.match_batch(events)


class DestinationsOnly(_Ours):
    """Our engine, asked only where an event has to go."""

    mode = "destinations"
    gives_destinations = True
    chunk = 32

    def match(self, events: list[Event]) -> Iterable[Collection[Hashable]]:
        """See `InProcess`."""
        return map(self._engine.destinations, events)


class DestinationsBatched(_Ours):
    """The same, a batch of events at a time."""

    mode = "destinations batched"
    gives_destinations = True
    chunk = BATCH

    def match(self, events: list[Event]) -> Iterable[Collection[Hashable]]:
        """See `InProcess`."""
        return self._engine.destinations_batch(events)


class OneByOneTexts(OneByOne):
    """An engine whose ids are texts, one event at a time."""

    mode = "one by one, text ids"
    gives_texts = True


_INTEGER_MODES: Final = (OneByOne, Batched, DestinationsOnly, DestinationsBatched)
OUR_MODES: Final = (*_INTEGER_MODES, OneByOneTexts)


def our_peers(engine: ContentEngine, texts: ContentEngine | None, events: Sequence[Event]) -> list[Peer]:
    """Return the engine in each of its modes; `texts` is a second one, whose ids are texts."""
    ours: list[Peer] = [kind(engine, events) for kind in _INTEGER_MODES]
    return ours if texts is None else [*ours, OneByOneTexts(texts, events)]

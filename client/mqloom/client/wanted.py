"""What an application has subscribed to in the federation, and which of its calls still wait for an answer.

A call of paho's `subscribe` has one packet id and can name several topics; its `on_subscribe` comes once, when there is
an answer for each of them, with a code for each in their order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.client.limits import GONE_MAX
from mqloom.core.records import Wish

ADOPTED_QOS: Final = 1
"""At which QoS the program gets what an earlier life has asked for: its record does not say; as it was published."""

REFUSED: Final = 128
"""The code of a subscription that failed, in every version of MQTT; below it is the QoS that is granted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One subscription: its filters, and the QoS at which publications are given to the application."""

    wish: Wish
    qos: int
    is_adopted: bool = False
    """Whether an earlier life of the program has asked for it, and this one has not."""


@dataclass(slots=True)
class _Call:
    names: tuple[str, ...]
    codes: dict[str, int] = field(default_factory=dict)


class Calls:
    """Calls of one kind that wait for answers, by their packet ids."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, mid: int, names: Iterable[str]) -> None:
        """A call was made."""
        self._calls[mid] = _Call(tuple(names))

    def waiting_for(self, name: str) -> tuple[int, ...]:
        """Return the calls that wait for an answer for this name."""
        return tuple(mid for mid, call in list(self._calls.items()) if name in call.names)

    def answer(self, name: str, code: int, calls: Collection[int] | None = None) -> list[tuple[int, list[int]]]:
        """There is an answer for a name; return the calls that have all of theirs now, each with its codes.

        With `calls` it is for these alone, not for later ones.
        """
        complete = []
        for mid, call in list(self._calls.items()):
            if name in call.names and (calls is None or mid in calls):
                call.codes.setdefault(name, code)
            if len(call.codes) == len(set(call.names)):
                complete.append((mid, [call.codes[each] for each in call.names]))
        for mid, _ in complete:
            del self._calls[mid]
        return complete


class Table:
    """All that is wanted, by name."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing is wanted any more, and nobody waits."""
        self._wanted: dict[str, Wanted] = {}
        self._ending: set[str] = set()  # of those that are wanted: not any more, but nobody has heard that yet
        self._given_up: dict[str, None] = {}  # topics, the newest GONE_MAX
        self.subscribing = Calls()
        self.unsubscribing = Calls()

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._wanted))

    def add(self, name: str, wanted: Wanted) -> None:
        """Take one in, instead of another of that name."""
        self._wanted[name] = wanted
        self._ending.discard(name)
        self._given_up.pop(wanted.wish.topics, None)

    def give_up(self, topics: str) -> None:
        """Nothing is wanted of these topics, whatever an earlier life has asked for, and was not read yet."""
        self._given_up[topics] = None
        if len(self._given_up) > GONE_MAX:
            del self._given_up[next(iter(self._given_up))]

    def adopt(self, name: str, wish: Wish) -> bool:
        """An earlier life has asked for this; return whether this one wants it, too."""
        if wish.topics in self._given_up:
            return False
        self._wanted.setdefault(name, Wanted(wish, ADOPTED_QOS, is_adopted=True))
        return True

    def outdated_by(self, name: str, wanted: Wanted) -> list[str]:
        """Return the names of what an earlier life has asked for of the same topics: now the program says what."""
        found = [(each, other) for each, other in list(self._wanted.items()) if each != name and other.is_adopted]
        return [each for each, other in found if other.wish.topics == wanted.wish.topics]

    def get(self, name: str) -> Wanted | None:
        """Return one, if it is there."""
        return self._wanted.get(name)

    def end(self, name: str) -> None:
        """One is not wanted any more, and counts until it has ended."""
        self._ending.add(name)

    def drop(self, name: str) -> None:
        """One has ended; if it is wanted again meanwhile, it stays."""
        if name in self._ending:
            self._ending.discard(name)
            self._wanted.pop(name, None)

    def names_of(self, topics: str, where: str | None) -> list[str]:
        """Return the names of the subscriptions to these topics; with a filter on the content, of that one only."""
        found = [(name, each.wish) for name, each in list(self._wanted.items()) if each.wish.topics == topics]
        return [name for name, wish in found if where is None or wish.where == where]

    def qos_for(self, names: Sequence[str], published: int) -> int:
        """Return at which QoS a publication is given out: that of the call, but never above what it was published at.

        One that comes for a subscription of an earlier life of the program keeps its own.
        """
        asked = [self._wanted[name].qos for name in names if name in self._wanted]
        return min(published, max(asked)) if asked else published

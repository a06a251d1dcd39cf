"""Duplicate removal: which publications have come before, in memory bounded by origins x window.

A publication carries its origin's low-water mark: everything below it is done with. So of each origin's epoch we keep
a floor and the sequences above it, and whatever comes from below the floor is a duplicate.
Done with is what its origin need not keep any more; it may still be parked on the way. That does no harm as long as
what carries the mark comes behind it. Publications of QoS 1 do, but those of QoS 0 overtake: their mark does not count.

After a restart of its gateway the origin's broker sends again what was not acknowledged; it gets a new id in the new
epoch, and is marked as a repeat. Such a one is a duplicate if we had, in an earlier epoch, one of the same packet id,
topic and payload. The packet id is there because topic and payload are not
enough: of two equal publications we may have had the first, which was acknowledged, and never the second, which is the
one that is repeated.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from mqloom.core.ids import GatewayId, PublicationId
from mqloom.core.limits import SEEN_ORIGINS_MAX, SEEN_WINDOW
from mqloom.core.publication import Publication

HELD_TIMES: Final = 16
"""While marks do not count the window is so many times as wide: nothing but it forgets then."""

EPOCHS_MAX: Final = 8
"""Epochs remembered of one origin; past that the oldest is forgotten."""

TRIM_MIN: Final = 16
"""Sequences of an origin at which those below its floor are forgotten; later whenever their number has doubled."""

REPEATS_KEPT: Final = 512
"""So many of the newest repeats are remembered whatever the mark says: what they repeat may come later, another way."""

Print = int
"""What a publication and its repeat have in common. Where it does not leave the process Python's own hash will do."""


def print_of(packet: int, topic: str, payload: bytes) -> Print:
    """Return what a publication and its repeat have in common."""
    return hash((packet, topic, payload))


def lasting_print_of(packet: int, topic: str, payload: bytes) -> Print:
    """Return the same for one that a later process must know."""
    digest = hashlib.blake2b(b"%d %s\0" % (packet, topic.encode()), digest_size=8)
    digest.update(payload)
    return int.from_bytes(digest.digest(), "big")


class SeenEpoch(Struct, frozen=True, array_like=True):
    """What is remembered of one epoch: all below the floor, and above it each sequence, with its print."""

    number: int
    floor: int
    above: dict[int, Print | None]
    repeats: dict[Print, int]


class SeenOrigin(Struct, frozen=True, array_like=True):
    """What is remembered of one origin."""

    name: GatewayId
    epochs: tuple[SeenEpoch, ...]


class Seen:
    """The publications that have come to one gateway, or to one client.

    A memory that is written down (`dump`) and read by a later process needs the `printing` of `lasting_print_of`.
    """

    def __init__(
        self,
        *,
        window: int = SEEN_WINDOW,
        origins_max: int = SEEN_ORIGINS_MAX,
        printing: Callable[[int, str, bytes], Print] = print_of,
    ) -> None:
        self._printing = printing
        self._window = window
        self._origins_max = origins_max
        self._origins: dict[GatewayId, _Origin] = {}
        self._latest: tuple[GatewayId, _Origin] | None = None  # the last of them, mostly asked for again
        self.holds_floors = False
        """Whether low-water marks do not count: what one of several ways says is done may still come by another."""

    def first_time(self, origin: GatewayId, epoch: int, sequence: int, low_water: int) -> bool:
        """Whether what has this identity is new; remembers it."""
        return self._of(origin).epoch(epoch).first_time(sequence, low_water, self._window, None)

    def earlier(self, publication: Publication) -> PublicationId | None:
        """Return the identity under which a publication has come before, None if it is new; remembers it."""
        origin = self._of(publication.origin)
        print_ = None
        if publication.packet:
            print_ = self._printing(publication.packet, publication.topic, publication.payload)
        epoch = origin.epoch(publication.epoch)
        low_water = publication.low_water if publication.qos and not self.holds_floors else 0
        window = self._window * HELD_TIMES if self.holds_floors else self._window
        if not epoch.first_time(publication.sequence, low_water, window, print_):
            return publication.id
        if print_ is None or (len(origin.epochs) == 1 and not publication.repeat):
            return None
        known = origin.twin(publication, print_)
        return None if known is None else PublicationId(publication.origin, *known)

    def forget_below(self, origin: GatewayId, epoch: int, low_water: int) -> None:
        """An origin has told its low-water mark; of one that is not known there is nothing to forget."""
        known = self._origins.get(origin)
        if known is not None and epoch in known.epochs:
            known.epochs[epoch].forget_below(low_water)

    def floor(self, origin: GatewayId, epoch: int) -> int:
        """Return below which sequence whatever comes from an origin is a duplicate."""
        known = self._origins.get(origin)
        return known.epochs[epoch].floor if known is not None and epoch in known.epochs else 0

    def note(self, name: GatewayId, epoch: int, sequence: int, print_: Print | None, *, low_water: int | None) -> None:
        """Remember one that was new elsewhere; with no mark at all, marks do not count now."""
        known = self._of(name).epoch(epoch)
        window = self._window * HELD_TIMES if low_water is None else self._window
        known.first_time(sequence, low_water or 0, window, print_)

    def note_repeat(self, name: GatewayId, epoch: int, sequence: int, print_: Print) -> None:
        """Remember that it is a repeat, of which nothing was known: what it repeats may still come."""
        self._of(name).epoch(epoch).repeats[print_] = sequence

    def dump(self, sequences_max: int) -> list[SeenOrigin]:
        """Return what is remembered; past so many sequences, not of origins that are unheard of for longest."""
        kept: list[SeenOrigin] = []
        room = sequences_max
        for name, origin in reversed(self._origins.items()):
            epochs = [(number, epoch) for number, epoch in origin.epochs.items()]
            room -= sum(len(epoch.above) for _, epoch in epochs)
            if room < 0:
                break
            dumped = (SeenEpoch(number, each.floor, dict(each.above), dict(each.repeats)) for number, each in epochs)
            kept.append(SeenOrigin(name, tuple(dumped)))
        return kept[::-1]

    def load(self, origins: Sequence[SeenOrigin]) -> None:
        """Remember what an earlier life has dumped."""
        for each in origins:
            origin = self._of(each.name)
            for dumped in each.epochs:
                epoch = origin.epoch(dumped.number)
                epoch.floor = dumped.floor
                epoch.above.update(dumped.above)
                epoch.repeats.update(dumped.repeats)
                epoch.trim_at = max(TRIM_MIN, 2 * len(epoch.above))

    def _of(self, name: GatewayId) -> "_Origin":
        if self._latest is not None and self._latest[0] == name:
            return self._latest[1]
        origin = self._origins.pop(name, None)
        if origin is None:
            origin = _Origin()
            if len(self._origins) >= self._origins_max:
                del self._origins[next(iter(self._origins))]
        self._origins[name] = origin  # at the end: the first is the one unheard of for longest
        self._latest = name, origin
        return origin

    def __len__(self) -> int:
        """How many sequences are remembered, over all origins."""
        return sum(len(epoch.above) for origin in self._origins.values() for epoch in origin.epochs.values())


class _Origin:
    """All epochs of one origin; and what of the earlier ones may be repeated in the newest that repeats."""

    __slots__ = ("_repeatable", "_repeating", "epochs")

    def __init__(self) -> None:
        self.epochs: dict[int, _Epoch] = {}
        self._repeating: int | None = None
        self._repeatable: dict[Print, tuple[int, int]] = {}

    def epoch(self, number: int) -> "_Epoch":
        found = self.epochs.get(number)
        if found is None:
            found = self.epochs[number] = _Epoch()
            if len(self.epochs) > EPOCHS_MAX:
                del self.epochs[min(self.epochs)]
        return found

    def twin(self, publication: Publication, print_: Print) -> tuple[int, int] | None:
        """Return the epoch and sequence under which the same publication has come in another epoch, if it has."""
        if not publication.repeat:
            found = self._overtaken_by(publication.epoch, print_)
            if found is None and self._repeating is not None and publication.epoch < self._repeating:
                self._repeatable[print_] = publication.epoch, publication.sequence  # its repeat may still come
            return found
        if self._repeating != publication.epoch:
            self._repeating, self._repeatable = publication.epoch, dict(self._prints_before(publication.epoch))
        found = self._repeatable.pop(print_, None)
        if found is None:  # not the original, so that this may still come
            found = self._overtaken_by(publication.epoch, print_)
            self.epoch(publication.epoch).repeats[print_] = publication.sequence
        return found

    def _overtaken_by(self, number: int, print_: Print) -> tuple[int, int] | None:
        """Return the repeat in a later epoch that came before what it repeats; it is asked for once."""
        for later, epoch in self.epochs.items():
            if later > number and print_ in epoch.repeats:
                return later, epoch.repeats.pop(print_)
        return None

    def _prints_before(self, number: int) -> Iterator[tuple[Print, tuple[int, int]]]:
        """Yield what could be repeated in an epoch; of two with the same packet id the later is meant."""
        for earlier in sorted(known for known in self.epochs if known < number):
            epoch = self.epochs[earlier]
            for sequence, print_ in epoch.above.items():
                if sequence >= epoch.floor and print_ is not None:
                    yield print_, (earlier, sequence)


class _Epoch:
    """One epoch of one origin: the sequences above the floor, each with its print if it can be repeated."""

    __slots__ = ("above", "floor", "repeats", "trim_at")

    def __init__(self) -> None:
        self.floor = 0
        self.above: dict[int, Print | None] = {}
        self.repeats: dict[Print, int] = {}
        self.trim_at = TRIM_MIN

    def first_time(self, sequence: int, low_water: int, window: int, print_: Print | None) -> bool:
        if sequence < self.floor or sequence in self.above:
            return False
        self.above[sequence] = print_
        # The window holds also against an origin whose mark stands still.
        self.floor = max(self.floor, min(low_water, sequence), sequence - window)
        if len(self.above) >= self.trim_at:
            self._trim()
        return True

    def forget_below(self, low_water: int) -> None:
        if low_water > self.floor:
            self.floor = low_water
            self._trim()

    def _trim(self) -> None:
        self.above = {known: print_ for known, print_ in self.above.items() if known >= self.floor}
        if len(self.repeats) > REPEATS_KEPT:
            newest = max(self.repeats.values()) - REPEATS_KEPT
            kept = min(self.floor, newest + 1)
            self.repeats = {print_: known for print_, known in self.repeats.items() if known >= kept}
        self.trim_at = max(TRIM_MIN, 2 * len(self.above))

"""Unsubscribing without losing what is under way: a wave through the federation that comes back behind it.

Theory of operation. Publications that entered anywhere before somebody unsubscribed may still be on their way. So the
gateway of the unsubscriber first sends Flush to its neighbours, who pass it on; the last ones answer Flushed, and a
gateway answers when all it asked have. Links are in order, hence everything that entered before the wave came by
arrives before the answer. Then the subscription is removed.
What we sent over soft links is not in order with the answer. So when all whom we asked have answered, our own answer
waits until what we have sent over soft links so far is taken care of, which it is when it has arrived; or has been
given back, and then goes before the answer, or over another soft link, for which the answer waits as well.

While a primary link is moved, what we send goes to one of two neighbours on the same side, and each of them asks. The
one that is to be our neighbour is answered by itself, and in full: what we had then goes before that. The one that has
been is answered at once. The link changes only while no wave is here, nor has come by while publications were held: a
leaf answers at once, and its answer must go the way of what it held, behind that. A wave that comes while it is being
kept that the link has changed (`hold`) waits until it has.

One wave is under way per gateway; unsubscriptions that come meanwhile share the next one. A neighbour that is lost is
not waited for, and after FLUSH_DEADLINE_S nobody is; but then the answer is not complete. For a subscriber that has
only moved away that is not enough: what waits behind a broken link may be for it alone. So it has *patience*: until
that is over there is another wave after each that was not complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.limits import FLUSH_AGAIN_S, FLUSH_DEADLINE_S
from mqloom.core.messages import Flush, Flushed
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.soft_links import SoftLinks

RELAYS_MAX: Final = 4_096
"""Waves of other gateways in our hands; past that the oldest is let go, and its gateway's deadline ends it."""


_Name = tuple[GatewayId, GatewayId | None]
"""Whose wave it is; and who asked, if that is a neighbour to be: it is answered for itself."""


@dataclass(slots=True)
class _Wave:
    """Somebody's Flush: who asked us (None: ourselves), who has not answered us, and how far soft links must come."""

    asked_by: GatewayId | None
    number: int
    epoch: int
    waiting: set[GatewayId]
    complete: bool
    """Whether nobody was, or is, out of reach."""
    marks: dict[GatewayId, int] | None = None
    """None as long as somebody has not answered: what comes from there before the answer counts too."""


class Flushes:
    """The waves of one gateway: its own, and those it passes on."""

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        overlay: GuardedOverlay,
        soft_links: SoftLinks,
        outbox: Outbox,
        journal: Journal,
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._overlay = overlay
        self._soft_links = soft_links
        self._outbox = outbox
        self._journal = journal
        self._reachable: set[GatewayId] = set()
        self._number = 0
        self._own: _Wave | None = None
        self._deadline: float | None = None
        self._closing: list[SubscriptionKey] = []  # behind the wave under way
        self._next: list[SubscriptionKey] = []  # behind the one after
        self._done: list[SubscriptionKey] = []
        self._patience: dict[SubscriptionKey, float] = {}
        self._again: list[SubscriptionKey] = []  # behind the wave that begins at `_again_at`
        self._again_at: float | None = None
        self._relayed: dict[_Name, _Wave] = {}
        self._held: list[tuple[GatewayId, Flush]] | None = None
        self.came = 0
        """How many waves have begun here, or come by."""

    def close(self, keys: Sequence[SubscriptionKey], now: float, patient_until: float | None = None) -> None:
        """Let subscriptions end behind a wave, with patience behind a complete one; `finished` then names them."""
        if keys:
            if patient_until is not None:
                self._patience.update(dict.fromkeys(keys, patient_until))
            self._next.extend(keys)
            self._begin(now)

    def passed(self, sender: GatewayId, flush: Flush) -> None:
        """A neighbour asks: pass it on, answer at once where there is nobody further.

        In a network with a cycle a wave comes by twice, or back to where it began: then it must not go on for ever.
        """
        if self._held is not None:
            self._held = [*self._held, (sender, flush)][-RELAYS_MAX:]
            return
        self.came += 1
        if self._is_here_already(sender, flush):
            self._outbox.post(sender, [Flushed(flush.gateway, flush.epoch, flush.number)])
            return
        wave = self._wave(sender, flush.number, flush.epoch)
        name = (flush.gateway, sender if sender == self._overlay.joining else None)
        self._relayed.pop(name, None)
        if self._is_done(wave):
            self._outbox.post(sender, [Flushed(flush.gateway, flush.epoch, flush.number, wave.complete)])
            return
        if len(self._relayed) >= RELAYS_MAX:
            del self._relayed[next(iter(self._relayed))]
        self._relayed[name] = wave
        for target in self._overlay.spread(sender):
            if target in wave.waiting:
                self._outbox.post(target, [flush])

    def answered(self, sender: GatewayId, flushed: Flushed, now: float) -> None:
        """A neighbour answers; an answer to a wave that is over changes nothing."""
        waves = [self._own] if flushed.gateway == self._gateway else self._waves_of(flushed.gateway)
        for wave in waves:
            if wave is not None and (wave.epoch, wave.number) == (flushed.epoch, flushed.number):
                wave.waiting.discard(sender)
                wave.complete = wave.complete and flushed.complete
        self._settle(now)

    def hold(self) -> None:
        """Begin no wave, and let those of others wait, until `release`; none must be under way."""
        assert self.is_calm
        self._held = []

    def release(self, now: float) -> None:
        """Let the waves go on that have waited."""
        held, self._held = self._held or [], None
        for sender, flush in held:
            self.passed(sender, flush)
        self._begin(now)

    def advance(self, now: float) -> None:
        """Soft links may have come further."""
        if any(wave.marks is not None for wave in self._relayed.values()):
            self._settle(now)

    def follow(self) -> None:
        """What soft links gave back went over others: the answers that wait for soft links wait for these too."""
        marks = self._soft_links.marks()
        for wave in self._relayed.values():
            if wave.marks is not None:
                wave.marks |= marks

    def reach(self, neighbour: GatewayId) -> None:
        """A neighbour can be asked from now on."""
        self._reachable.add(neighbour)

    def lose(self, neighbour: GatewayId, now: float) -> None:
        """A neighbour is out of reach: it is not waited for, and its own questions are moot."""
        self._reachable.discard(neighbour)
        self._relayed = {name: wave for name, wave in self._relayed.items() if wave.asked_by != neighbour}
        for wave in (self._own, *self._relayed.values()):
            if wave is not None and neighbour in wave.waiting:
                wave.waiting.discard(neighbour)
                wave.complete = False
        self._settle(now)

    def wake(self, now: float) -> None:
        """Carry out what waited too long, and begin what is to be tried again."""
        if self._again_at is not None and now >= self._again_at:
            self._again_at = None
            again, self._again = self._again, []
            self._next.extend(again)
            self._begin(now)
        if self._own is not None and self._deadline is not None and now >= self._deadline:
            missing = ", ".join(sorted(self._own.waiting))
            text = f"no answer from {missing} in {FLUSH_DEADLINE_S:g} s: unsubscribed anyway"
            self._journal.refuse("flushes_expired", "deadline", text)
            self._own.waiting.clear()
            self._own.complete = False
            self._settle(now)

    def finished(self) -> list[SubscriptionKey]:
        """Return the subscriptions that may be removed since the last call."""
        done, self._done = self._done, []
        return done

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        deadlines = [at for at in (self._deadline, self._again_at) if at is not None]
        return min(deadlines, default=None)

    @property
    def is_calm(self) -> bool:
        """Whether no wave is under way here."""
        return self._own is None and not self._relayed

    def check(self) -> None:
        """State the invariants: no wave without somebody to wait for, nothing waiting without a wave."""
        assert self._own is None or self._own.waiting
        assert not any(self._is_done(wave) for wave in self._relayed.values())
        assert self._own is not None or not (self._closing or (self._next and self._held is None))
        assert (self._own is None) == (self._deadline is None)
        assert bool(self._again) == (self._again_at is not None)
        assert self._patience.keys() <= {*self._closing, *self._next, *self._again}

    def _begin(self, now: float) -> None:
        if self._own is not None or not self._next or self._held is not None:
            return
        self.came += 1
        self._number += 1
        self._closing, self._next = self._next, []
        self._own = self._wave(None, self._number, self._epoch)
        self._deadline = now + FLUSH_DEADLINE_S
        for target in self._overlay.spread(None):
            if target in self._own.waiting:
                self._outbox.post(target, [Flush(self._gateway, self._epoch, self._number)])
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Answer or finish every wave that waits for nobody."""
        for name in [name for name, wave in self._relayed.items() if self._is_done(wave)]:
            wave = self._relayed.pop(name)
            assert wave.asked_by is not None
            self._outbox.post(wave.asked_by, [Flushed(name[0], wave.epoch, wave.number, wave.complete)])
        if self._own is not None and not self._own.waiting:
            self._conclude(self._own, now)
            self._own = None
            self._deadline = None
            self._begin(now)

    def _conclude(self, wave: _Wave, now: float) -> None:
        """Our wave has come back: what waited for it is done, or has patience."""
        closing, self._closing = self._closing, []
        for key in closing:
            patient_until = self._patience.get(key)
            if wave.complete or patient_until is None or now >= patient_until:
                if patient_until is not None:
                    del self._patience[key]
                    if not wave.complete:
                        self._journal.refuse(
                            "flushes_expired", "patience", "a client has left while some were out of reach"
                        )
                self._done.append(key)
            else:
                self._again.append(key)
        if self._again and self._again_at is None:
            self._again_at = now + FLUSH_AGAIN_S

    def _is_done(self, wave: _Wave) -> bool:
        if wave.waiting:
            return False
        if wave.marks is None:
            wave.marks = self._soft_links.marks()
        return self._soft_links.have_passed(wave.marks)

    def _is_here_already(self, sender: GatewayId, flush: Flush) -> bool:
        if flush.gateway == self._gateway:
            return True
        if sender == self._overlay.joining:
            return False
        if sender in self._overlay.stand_in:  # nothing of ours goes there any more
            return True
        wave = self._relayed.get((flush.gateway, None))
        return wave is not None and wave.asked_by != sender and (wave.epoch, wave.number) == (flush.epoch, flush.number)

    def _waves_of(self, gateway: GatewayId) -> list[_Wave]:
        return [wave for (origin, _), wave in self._relayed.items() if origin == gateway]

    def _wave(self, asked_by: GatewayId | None, number: int, epoch: int) -> _Wave:
        everybody = self._overlay.spread(asked_by)
        targets = {target for target in everybody if target in self._reachable}
        return _Wave(asked_by, number, epoch, targets, complete=len(targets) == len(set(everybody)))

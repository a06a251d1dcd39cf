"""What we republish on our own broker must not come in again: which publications are echoes of our own.

Theory of operation. Where a subscription can say no-local (MQTT 5) the broker does not hand back what we publish by the
same connection, and there is nothing to do here. Elsewhere it does, and an echo cannot be told from what a client
publishes but by topic and payload. So each republication is expected back once:

    it comes                     then
    expected                     it is the echo: dropped
    expected, from a client      dropped, and the echo is taken in in its place: they are equal
    again, and known             the broker did not get our acknowledgement: dropped (see `echo_repeats`)
    not expected                 somebody published it: taken in

    an expectation ends when     because
    it is met
    QoS 0, after ECHO_S          it was lost with the connection, or the broker was full
    QoS 1, after ECHO_KEPT_S     the broker has lost it
    the session was not kept     the broker has lost it, unless it has not acknowledged it yet: then it is sent again
    ECHOES_MAX are open          the oldest gives way

A connection that breaks while the broker has not acknowledged a republication of QoS 1: the client sends it again, and
the broker may have it twice, so two may come. The second is expected, too, until ECHO_S behind the acknowledgement; and
one more for each further break, up to DOUBTS_MAX. QoS is not compared: some brokers hand over everything with the QoS
of the subscription.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from mqloom.core.effects import PublishLocally
from mqloom.core.limits import ECHO_KEPT_S, ECHO_S, ECHOES_MAX
from mqloom.core.publication import Incoming
from mqloom.core.seen import Print, print_of
from mqloom.core.traits import Traits
from mqloom.gateway.echo_repeats import ByContent, ByPacketId, EchoRepeats
from mqloom.gateway.journal import Journal

DOUBTS_MAX: Final = 4
"""Further copies of one republication that are expected at most."""

OVER_MAX: Final = 1_024
"""A queue longer than this and twice what is open is made anew of those that are open: one that stays open at its head
does not keep all behind it that are over."""


class _Expected:
    """One echo that should come, or that may. `number` is that of a publish that the broker has not acknowledged."""

    __slots__ = ("is_open", "is_sure", "number", "print", "until")

    def __init__(self, print_: Print, number: int, until: float, *, is_sure: bool = True) -> None:
        self.print = print_
        self.number = number
        self.until = until
        self.is_open = True
        self.is_sure = is_sure


class Echoes:
    """What one gateway has republished, and not got back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._come = True
        self._open: dict[Print, deque[_Expected]] = {}
        self._count = 0
        self._short: deque[_Expected] = deque()  # in the order of `until`, those that are over among them
        self._long: deque[_Expected] = deque()
        self._unacknowledged: dict[int, _Expected] = {}
        self._doubted: dict[int, list[_Expected]] = {}  # the further copies, while it is not acknowledged
        self._repeats: EchoRepeats = ByPacketId()

    def know(self, traits: Traits) -> None:
        """Before anything comes: how our broker behaves."""
        if not traits.keeps_packet_ids:
            self._repeats = ByContent()

    def opened(self, now: float, *, echoes: bool, resumed: bool) -> None:
        """The intake's connection stands."""
        self._come = echoes
        if not resumed:
            self._repeats.clear()
        for each in [each for same in self._open.values() for each in same]:
            if not echoes or (not resumed and not each.number):
                self._close(each, "session lost")
        self.refresh(now)

    def lost(self) -> None:
        """The intake's connection broke: what was not acknowledged is sent again, and may then come twice."""
        self._repeats.lost()
        for number, each in self._unacknowledged.items():
            doubts = self._doubted.setdefault(number, [])
            if len(doubts) < DOUBTS_MAX and self._count < ECHOES_MAX:
                doubt = _Expected(each.print, number, each.until, is_sure=False)
                self._open_one(doubt)
                doubts.append(doubt)

    def expect(self, effects: Iterable[object], now: float) -> None:
        """These are carried out now."""
        for each in effects:
            if isinstance(each, PublishLocally) and each.republished and self._come:
                if each.number:
                    expected = self._add(each, ECHO_KEPT_S, now, self._long)
                    self._unacknowledged[each.number] = expected
                else:
                    self._add(each, ECHO_S, now, self._short)

    def acknowledged(self, numbers: Iterable[int], now: float) -> None:
        """The broker has these."""
        if not self._unacknowledged:
            return
        for number in numbers:
            known = self._unacknowledged.pop(number, None)
            if known is not None:
                known.number = 0
            for doubt in self._doubted.pop(number, ()):
                doubt.number, doubt.until = 0, now + ECHO_S
                self._short.append(doubt)
        self._tidy()

    def take(self, incoming: Incoming) -> bool:
        """Whether this is an echo of ours, which is over with that."""
        if not self._open and not len(self._repeats):
            return False
        print_ = print_of(0, incoming.topic, incoming.payload)
        if incoming.again and self._repeats.knows(incoming, print_):
            self._journal.counters.add("echoes")
            return True
        if incoming.packet:
            self._repeats.came(incoming)
        expected = self._open.get(print_)
        if expected is None:
            return False
        self._close(min(expected, key=lambda each: not each.is_sure), "")
        self._journal.counters.add("echoes")
        if incoming.packet:
            self._repeats.note(incoming, print_)
        return True

    def expire(self, now: float) -> None:
        """Expect no longer what should have come by now."""
        self._repeats.expire(now)
        for queue in (self._short, self._long):
            while queue and (not queue[0].is_open or queue[0].until <= now):
                each = queue.popleft()
                if each.is_open:
                    self._close(each, "late")

    def refresh(self, now: float) -> None:
        """Nothing could come until now: whatever is expected has its whole time again."""
        for queue, length_s in ((self._short, ECHO_S), (self._long, ECHO_KEPT_S)):
            for each in queue:
                each.until = now + length_s

    def __len__(self) -> int:
        """How many echoes are expected."""
        return self._count

    def check(self) -> None:
        """State the invariants."""
        assert self._count == sum(map(len, self._open.values())) <= ECHOES_MAX
        assert all(each.is_open for queue in self._open.values() for each in queue)
        assert all(self._open.values())
        assert all(len(queue) <= 2 * self._count + OVER_MAX for queue in (self._short, self._long))

    def _add(self, effect: PublishLocally, length_s: float, now: float, queue: deque[_Expected]) -> _Expected:
        expected = _Expected(print_of(0, effect.topic, effect.payload), effect.number, now + length_s)
        self._put(expected, queue)
        return expected

    def _put(self, expected: _Expected, queue: deque[_Expected]) -> None:
        if self._count >= ECHOES_MAX:
            self._forget_oldest()
        queue.append(expected)
        self._open_one(expected)

    def _open_one(self, expected: _Expected) -> None:
        self._open.setdefault(expected.print, deque()).append(expected)
        self._count += 1

    def _forget_oldest(self) -> None:
        for queue in (self._short, self._long):  # those of QoS 0 first: they may never come
            while queue:
                each = queue.popleft()
                if each.is_open:
                    self._close(each, "too many")
                    return

    def _close(self, expected: _Expected, missed: str) -> None:
        """An expectation is over: met, or missed for a reason."""
        expected.is_open = False
        same = self._open[expected.print]
        same.remove(expected)
        if not same:
            del self._open[expected.print]
        self._count -= 1
        self._tidy()
        if missed and expected.is_sure:
            self._journal.counters.add("echoes_missed", missed)

    def _tidy(self) -> None:
        """Remove what is over from a queue that is mostly that; in place, for our callers are at work on it."""
        for queue in (self._short, self._long):
            if len(queue) > 2 * self._count + OVER_MAX:
                still_open = [each for each in queue if each.is_open]
                queue.clear()
                queue.extend(still_open)

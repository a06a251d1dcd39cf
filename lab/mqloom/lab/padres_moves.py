"""Moves of subscribers in the model of paper 000, by the protocol of section 3.4.2.

An order reaches the client, it connects to the accepting broker and subscribes there, too. When all have, or time is
up, the accepting broker says DONE, which ends the session. A mark then follows whatever is still on its way to the old
broker; when all of that has been matched and sent, the client unsubscribes there. Who has not connected by then stays.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.padres_net import PadresNet

CONNECT_S: Final = (0.05, 0.5)
"""How long a client takes to connect to another broker: anything between these."""

Drained = Callable[[], None]
"""Told when those who have moved have left their old broker."""

Ended = Callable[[Sequence[int], Mapping[int, str]], None]
"""Told who has moved, and why others have not."""


@dataclass(slots=True)
class _Order:
    source: GatewayId
    target: GatewayId
    waiting: dict[int, None]
    ended: Ended
    drained: Drained
    moved: list[int] = field(default_factory=list)
    stayed: dict[int, str] = field(default_factory=dict)
    is_over: bool = False


class Moves:
    """Moves subscribers from broker to broker."""

    def __init__(self, net: PadresNet, randomness: random.Random) -> None:
        self.moving: set[int] = set()
        """Who has two brokers, or is about to."""
        self.marks = 0
        """How many old brokers are waited for."""
        self._net, self._clock = net, net.clock
        self._randomness = randomness

    def order(
        self,
        source: GatewayId,
        target: GatewayId,
        who: Sequence[int],
        timeout_s: float,
        ended: Ended,
        drained: Drained = lambda: None,
    ) -> None:
        """Move subscribers; `ended` is called once, when the session is over, and `drained` when all of it is."""
        order = _Order(source, target, {}, ended, drained)
        for subscriber in who:
            if subscriber in self.moving or subscriber not in self._net.at[source]:
                order.stayed[subscriber] = "it is not here, or on its way already"
            else:
                order.waiting[subscriber] = None
        for subscriber in order.waiting:
            self.moving.add(subscriber)
            self._net.ledger.begins_move(subscriber)
            self._net.messages["coordination"] += 1
            after_s = self._net.setup.link_s + self._randomness.uniform(*CONNECT_S)
            self._clock.at(self._clock.now + after_s, lambda subscriber=subscriber: self._connects(order, subscriber))  # type: ignore[misc]
        if not order.waiting:
            self._done(order)
        else:
            self._clock.at(self._clock.now + timeout_s, lambda: self._done(order))

    def _connects(self, order: _Order, subscriber: int) -> None:
        if order.is_over:
            return
        if not self._net.is_present(subscriber):
            self._settled(order, subscriber, "it has left")
            return
        self._net.subscribe(subscriber, order.target)
        after_s = self._net.setup.link_s * self._net.hops(order.target)
        self._clock.at(self._clock.now + after_s, lambda: self._established(order, subscriber))

    def _established(self, order: _Order, subscriber: int) -> None:
        if order.is_over:
            return
        self._net.establish(subscriber, order.target)
        self._settled(order, subscriber, "" if self._net.is_present(subscriber) else "it has left")

    def _settled(self, order: _Order, subscriber: int, problem: str) -> None:
        del order.waiting[subscriber]
        if problem:
            order.stayed[subscriber] = problem
            self._ends(subscriber)
        else:
            order.moved.append(subscriber)
        if not order.waiting:
            self._net.messages["coordination"] += 1  # DONE
            self._clock.at(self._clock.now + self._net.setup.link_s, lambda: self._done(order))

    def _done(self, order: _Order) -> None:
        if order.is_over:
            return
        order.is_over = True
        for subscriber in order.waiting:
            self._net.unsubscribe(subscriber, order.target)
            order.stayed[subscriber] = "it did not connect in time"
            self._ends(subscriber)
        if order.moved:
            self._net.advance()
            self.marks += 1
            self._net.mark(order.source, lambda at: self._clock.at(at, lambda: self._drained(order)))
        order.ended(order.moved, order.stayed)

    def _drained(self, order: _Order) -> None:
        self.marks -= 1
        for subscriber in order.moved:
            self._net.unsubscribe(subscriber, order.source)
            self._ends(subscriber)
        order.drained()

    def _ends(self, subscriber: int) -> None:
        self.moving.discard(subscriber)
        self._net.ledger.ends_move(subscriber, self._clock.now)

"""What is published on our own broker, and who waits for its acknowledgement.

At most LOCAL_WINDOW messages are on their way to the broker at a time; more wait here, in order. What waits belongs to
open duties, and these are bounded by the windows of their sources.

A broker of MQTT 5 may acknowledge a message, and say that it does not take it: an access list that an operator is just
mending, a quota. It is published again every REFUSED_AFTER_S, behind what has gone out meanwhile. After
REFUSED_TRIES_MAX times in all it is put on the gateway's dead topic instead, and if the broker does not take that
either, it is lost, and counted: one client's topic must not hold up all others. What is vital, for it is custody itself
(parks, our place), is tried for ever; meanwhile its duties stay open, and those who wait for us send no more.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import GatewayId
from mqloom.core.limits import LOCAL_WINDOW, REFUSED_AFTER_S, REFUSED_TRIES_MAX
from mqloom.core.publication import Publication
from mqloom.gateway.custody import Custody, Duty
from mqloom.gateway.journal import Journal


class Delivery(NamedTuple):
    """Something to be published, and for whom."""

    effect: PublishLocally
    duties: Sequence[Duty]
    is_vital: bool = False
    is_dead: bool = False
    refusals: int = 0


class Deliveries:
    """The numbered publishes of one gateway."""

    def __init__(self, gateway: GatewayId, custody: Custody, journal: Journal) -> None:
        self._gateway = gateway
        self._custody = custody
        self._journal = journal
        self._number = 0
        self._waiting: deque[Delivery] = deque()
        self._under_way: dict[int, Delivery] = {}
        self._later: deque[tuple[float, Delivery]] = deque()  # refused; in the order of their times

    def publish(self, effect: PublishLocally, duties: Sequence[Duty], *, is_vital: bool = False) -> None:
        """Have something published; each duty has one claim more until the broker has it."""
        for duty in duties:
            duty.claims += 1
        self._waiting.append(Delivery(effect, duties, is_vital))

    def set_aside(self, publication: Publication, duty: Duty | None) -> None:
        """A plugin failed twice on a publication of QoS 1: it must not block the rest."""
        effect = dead_letter(self._gateway, publication)
        for each in (duty,) if duty is not None else ():
            each.claims += 1
        self._waiting.append(Delivery(effect, [] if duty is None else [duty], is_dead=True))

    def met(self, duty: Duty) -> None:
        """A claim has passed on to something published here."""
        self._custody.meet(duty)

    def published(self, numbers: Iterable[int]) -> None:
        """The broker has acknowledged these; what is not known any more is passed over."""
        for number in numbers:
            delivery = self._under_way.pop(number, None)
            for duty in delivery.duties if delivery is not None else ():
                self._custody.meet(duty)

    def refused(self, number: int, reason: str, now: float) -> None:
        """The broker does not take one."""
        delivery = self._under_way.pop(number, None)
        if delivery is None:
            return
        delivery = delivery._replace(refusals=delivery.refusals + 1)
        if delivery.is_vital or delivery.refusals < REFUSED_TRIES_MAX:
            self._later.append((now + REFUSED_AFTER_S, delivery))
            return
        topic = delivery.effect.topic
        text = f"the broker does not take what is for {topic}: {reason}"
        if delivery.is_dead:
            self._journal.refuse("publications_dropped", "refused", f"{text}; it is lost")
            self._meet(delivery)
            return
        dead = layout.dead(self._gateway, topic)
        self._journal.refuse("publications_dead", "refused", f"{text}; it is on {dead}")
        effect = PublishLocally(topic=dead, payload=delivery.effect.payload, qos=1)
        self._waiting.append(Delivery(effect, delivery.duties, is_dead=True))

    def forget(self, topic: str) -> None:
        """Nobody needs what is published there any more, and it may never be acknowledged."""
        self.published([number for number, each in self._under_way.items() if each.effect.topic == topic])
        gone = [each for each in self._waiting if each.effect.topic == topic]
        gone += [each for _, each in self._later if each.effect.topic == topic]
        self._waiting = deque(each for each in self._waiting if each.effect.topic != topic)
        self._later = deque((at, each) for at, each in self._later if each.effect.topic != topic)
        for delivery in gone:
            self._meet(delivery)

    def wake(self, now: float) -> None:
        """Publish again what was refused, if its time has come."""
        while self._later and self._later[0][0] <= now:
            self._waiting.append(self._later.popleft()[1])

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return self._later[0][0] if self._later else None

    def drain(self) -> list[PublishLocally]:
        """Return what is to be published now."""
        effects = []
        while self._waiting and len(self._under_way) < LOCAL_WINDOW:
            delivery = self._waiting.popleft()
            self._number += 1
            self._under_way[self._number] = delivery
            effects.append(msgspec.structs.replace(delivery.effect, number=self._number))
        return effects

    def _meet(self, delivery: Delivery) -> None:
        for duty in delivery.duties:
            self._custody.meet(duty)

    def __len__(self) -> int:
        return len(self._under_way) + len(self._waiting) + len(self._later)


def dead_letter(gateway: GatewayId, publication: Publication) -> PublishLocally:
    """Return a publication as it is put on the gateway's dead topic."""
    topic = layout.dead(gateway, publication.topic)
    return PublishLocally(topic=topic, payload=publication.payload, qos=publication.qos)

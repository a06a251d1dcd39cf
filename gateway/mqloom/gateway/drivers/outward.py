"""What a gateway publishes on its own broker: by which connection, behind what, and how fast.

With `output_bytes_s_max` what is for clients, their answers included, goes out no faster than that, in its order. The
gateway takes nothing in while more than a second's worth waits; what may be lost (QoS 0) is then dropped, and counted.
Parks, acknowledgements and what the gateway keeps for itself do not wait.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.events import Event, LocallyPublished, LocallyRefused
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PUBLISHED_AT_ONCE, PUBLISHED_EVERY_S
from mqloom.gateway.cadence import Cadence
from mqloom.gateway.drivers.intake import IntakeDriver
from mqloom.gateway.drivers.mqtt import Connection, Refused, Then
from mqloom.gateway.drivers.park import ParkDriver
from mqloom.gateway.drivers.sorting import is_kept
from mqloom.gateway.meters import Meter
from mqloom.gateway.pacing import Pacer


class Outward:
    """The way out to one gateway's own broker."""

    def __init__(
        self,
        gateway: GatewayId,
        handle: Callable[[Event], None],
        on_room: Callable[[], None],
        on_drop: Callable[[str], None],
        meter: Meter,
        output_bytes_s_max: float,
    ) -> None:
        self._gateway = gateway
        self._handle = handle
        self._on_room = on_room
        self._on_drop = on_drop
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._pacer = Pacer(output_bytes_s_max) if output_bytes_s_max else None
        self._timer: asyncio.TimerHandle | None = None
        self._was_crowded = False
        self._for_clients = layout.for_clients(gateway)
        self._published: list[int] = []
        self._telling: asyncio.TimerHandle | None = None
        self._cadence = Cadence(PUBLISHED_EVERY_S, PUBLISHED_AT_ONCE)
        self._under_way = 0
        self.parks: dict[str, ParkDriver] = {}
        """By topic."""
        self.kept: dict[str, bytes] = {}
        """What is retained on our broker, by topic: it may lose its store."""
        self.own: Connection | None = None
        self.intake: IntakeDriver | None = None

    @property
    def waiting_bytes(self) -> int:
        """What waits for its turn on the line."""
        return 0 if self._pacer is None else self._pacer.waiting_bytes

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for our broker, or for its acknowledgement, that nothing more should be taken in."""
        if (self._pacer is not None and self._pacer.is_crowded) or (self.own is not None and self.own.is_crowded):
            return True
        return self.intake is not None and self.intake.connection.is_crowded

    def publish(self, effect: PublishLocally) -> None:
        """Publish something, now or when it is its turn."""
        then = refused = None
        if effect.number:
            then, refused = partial(self._took_over, effect.number), partial(self._turned_down, effect.number)
            self._under_way += 1
        if not self._is_for_clients(effect):
            self._send(effect, then, refused)
            return
        size = len(effect.topic) + len(effect.payload)
        self._meter.queued_bytes += size
        if self._pacer is None:
            self._send(effect, then, refused)
        elif self._pacer.is_crowded and not effect.qos:
            self._on_drop("queue full")
        else:
            self._pacer.put(size, partial(self._send, effect, then, refused))
            self._was_crowded = self._was_crowded or self._pacer.is_crowded
            if self._timer is None:  # else it has its turn when that is over
                self._pace()

    def keep(self, topic: str, payload: bytes, then: Then | None = None) -> None:
        """Keep something on our broker, retained, and write it again whenever that may have lost its store."""
        assert self.own is not None
        self.kept[topic] = payload
        self.own.publish(topic, payload, 1, retain=True, then=then)

    def _is_for_clients(self, effect: PublishLocally) -> bool:
        if effect.topic.startswith(self._for_clients) or effect.republished:
            return True
        return not effect.topic.startswith(layout.RESERVED)

    def _pace(self) -> None:
        assert self._pacer is not None
        self._timer = None
        self._pacer.send(self._loop.time())
        if self._pacer.next_at is not None:
            self._timer = self._loop.call_at(self._pacer.next_at, self._pace_in_time)
        if self._was_crowded and self._pacer.has_room:
            self._was_crowded = False
            self._on_room()

    def _pace_in_time(self) -> None:
        """Send what has its turn now: time of publications as much as if it had not had to wait."""
        began = time.thread_time()
        self._pace()
        self._meter.busy_s += time.thread_time() - began

    def stop(self) -> None:
        """Send nothing that waits: of QoS 1 it comes again."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self, effect: PublishLocally, then: Then | None, refused: Refused | None) -> None:
        if effect.republished:
            assert self.intake is not None
            self.intake.republish(effect, then, refused)
            return
        if effect.retain and is_kept(self._gateway, effect.topic):
            self.kept[effect.topic] = effect.payload
        park = self.parks.get(effect.topic)
        if park is None or then is None or refused is None:
            self._publish_own(effect, then, refused)
        else:
            park.put(partial(self._publish_own, effect), then, refused)

    def _publish_own(self, effect: PublishLocally, then: Then | None, refused: Refused | None) -> None:
        assert self.own is not None
        self.own.publish(
            effect.topic,
            effect.payload,
            effect.qos,
            retain=effect.retain,
            content_type=effect.content_type,
            user_properties=effect.user_properties,
            then=then,
            refused=refused,
        )

    def _turned_down(self, number: int, reason: str) -> None:
        self._under_way -= 1
        self._handle(LocallyRefused(number=number, reason=reason))

    def _took_over(self, number: int) -> None:
        """Gather what the broker acknowledges in one go, or soon after each other, into one event.

        Not if all of it is acknowledged, and our broker itself waits for acknowledgements: it may send nothing before.
        """
        self._published.append(number)
        self._under_way -= 1
        if not self._under_way and self.intake is not None and self.intake.owes:
            self._tell_at(0.0)
        elif self._telling is None:
            self._tell_at(self._cadence.due_at)

    def _tell_at(self, at: float) -> None:
        if self._telling is not None:
            self._telling.cancel()
        self._telling = self._loop.call_at(at, self.tell_published)

    def tell_published(self) -> None:
        """Tell the node now what the broker has acknowledged."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._published:
            self._cadence.went(self._loop.time())
            numbers, self._published = tuple(self._published), []
            self._handle(LocallyPublished(numbers=numbers))

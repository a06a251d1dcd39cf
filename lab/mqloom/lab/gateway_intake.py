"""The connection by which a simulated gateway takes in publications: held back, numbered, acknowledged when told to.

Held at the start, and whenever the core says so: messages and passed fences then wait here in their order. When the
connection breaks, what was held and what was not acknowledged is forgotten, for the broker sends it again; so are the
fences under way, which would prove nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from mqloom.core import layout
from mqloom.core.events import FencePassed, IntakeLost, PublishesReceived
from mqloom.core.ids import GatewayId
from mqloom.core.limits import DRIVER_BATCH_MAX
from mqloom.core.publication import Incoming
from mqloom.lab.capacity import Station
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.packets import Publish

Handle = Callable[[PublishesReceived | FencePassed | IntakeLost], None]


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """What an intake takes in."""

    data: tuple[str, ...]
    station: Station | None = None
    on_taken_in: Callable[[bytes], None] = field(default=lambda payload: None)


class IntakeModel:
    """The intake of one life of a gateway."""

    def __init__(
        self, gateway: GatewayId, place: Place, settings: IntakeSettings, handle: Handle, receipts: Iterator[int]
    ) -> None:
        self._settings = settings
        self._handle = handle
        self._receipt = receipts
        self._fence = layout.fence(gateway)
        self._held: deque[Publish | int] = deque()
        self._is_held = True
        self._packets: dict[int, int] = {}  # by receipt, of the present connection
        self._life = 0  # counts connections: what a station still holds of an earlier one is nobody's
        manner = Manner(
            client_id=f"mqloom-{gateway}",
            clean=False,
            subscriptions=tuple((topics, 1) for topics in settings.data),
            on_lost=self._lost,
            on_messages=self._arrived,
            on_published=self._fenced,
        )
        self.endpoint = Endpoint(place, manner)

    @property
    def held(self) -> int:
        """How many messages wait here."""
        return len(self._held)

    @property
    def unacknowledged(self) -> int:
        """How many messages the core has and has not had acknowledged."""
        return len(self._packets)

    def hold(self) -> None:
        """Hand nothing over until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Hand over again, behind the event at hand."""
        self._is_held = False
        clock = self.endpoint.place.clock
        clock.at(clock.now, self._hand_over)

    def acknowledge(self, receipts: tuple[int, ...]) -> None:
        """Acknowledge messages; those of an earlier connection are passed over."""
        packets = (self._packets.pop(receipt, None) for receipt in receipts)
        self.endpoint.acknowledge(tuple(packet for packet in packets if packet is not None))

    def fence(self, number: int) -> None:
        """Publish a fence behind the acknowledgements."""
        self.endpoint.publish(Publish(self._fence, b"", 1), number)

    # ---- what comes ----------------------------------------------------------------------------------------------

    def _arrived(self, messages: list[Publish]) -> None:
        self._serve(list(messages), sum(len(message.payload) for message in messages))

    def _fenced(self, numbers: list[int]) -> None:
        self._serve(list(numbers), 0)

    def _serve(self, things: list[Publish] | list[int], size: int) -> None:
        if self._settings.station is None:
            self._take(self._life, things)
        else:
            self._settings.station.submit(len(things), size, partial(self._take, self._life, things))

    def _take(self, life: int, things: list[Publish] | list[int]) -> None:
        if life == self._life and self.endpoint.is_open:
            self._held.extend(things)
            self._hand_over()

    def _hand_over(self) -> None:
        """Hand over what waits, in order, publications that stand together in one event."""
        while self._held and not self._is_held and self.endpoint.is_open:
            first = self._held.popleft()
            if not isinstance(first, Publish):
                self._handle(FencePassed(number=first))
                continue
            batch = [self._incoming(first)]
            while self._held and len(batch) < DRIVER_BATCH_MAX and isinstance(self._held[0], Publish):
                message = self._held.popleft()
                assert isinstance(message, Publish)
                batch.append(self._incoming(message))
            self._handle(PublishesReceived(publications=tuple(batch)))

    def _incoming(self, message: Publish) -> Incoming:
        receipt = 0
        self._settings.on_taken_in(message.payload)
        if message.qos:
            receipt = next(self._receipt)
            self._packets[receipt] = message.packet
        return Incoming(
            topic=message.topic,
            payload=message.payload,
            qos=message.qos,
            replayed=message.retain,  # no flag of a live publication comes through, as on MQTT 3.1.1
            receipt=receipt,
            packet=message.packet,
            again=message.again,
        )

    def _lost(self) -> None:
        self._life += 1
        self._held.clear()
        self._packets.clear()
        self.endpoint.unacknowledged.clear()
        self.endpoint.waiting.clear()
        self._handle(IntakeLost())

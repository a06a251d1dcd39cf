"""A publisher in virtual time.

It sends again what has no PUBACK when it comes back. The broker may then have taken it already, and takes it twice:
MQTT's at least once. Each time that the broker takes it counts as a publication of its own (`entries`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mqloom.core.ids import GatewayId
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.packets import Publish


@dataclass(slots=True)
class Sent:
    """One publication: what it is, when its broker took it for the gateway and acknowledged it, and the gateway it."""

    number: int
    topic: str
    attributes: Mapping[str, object]
    gateway: GatewayId
    payload: bytes
    at: float = 0.0
    entries: list[float] = field(default_factory=list)
    acknowledged_at: float | None = None
    taken_in_at: float | None = None
    qos: int = 1


class PublisherModel:
    """A publisher at one broker."""

    def __init__(self, name: str, gateway: GatewayId, place: Place, tell: Callable[[str, str], None]) -> None:
        self.name = name
        self.gateway = gateway
        self._tell = tell
        self._place = place
        self._sent: dict[int, Sent] = {}
        self._by_payload: dict[bytes, Sent] = {}
        self._gateway_session = f"mqloom-{gateway}"
        manner = Manner(client_id=f"pub-{name}", clean=True, on_published=self._published, on_taken=self._taken)
        self.endpoint = Endpoint(place, manner)

    def publish(self, sent: Sent) -> None:
        """Publish; from then on until its PUBACK it is this publisher's duty."""
        sent.at = self._place.clock.now
        self._by_payload[sent.payload] = sent
        if sent.qos:
            self._sent[sent.number] = sent
        self._tell(self.name, f"publishes p{sent.number} on {sent.topic}")
        self.endpoint.publish(Publish(sent.topic, sent.payload, sent.qos), sent.number)

    def _taken(self, message: Publish, sessions: list[str]) -> None:
        if self._gateway_session in sessions:
            self._by_payload[message.payload].entries.append(self._place.clock.now)

    def _published(self, numbers: list[int]) -> None:
        for number in numbers:
            self._sent.pop(number).acknowledged_at = self._place.clock.now

    @property
    def pending(self) -> int:
        """How many have no PUBACK yet."""
        return len(self._sent)

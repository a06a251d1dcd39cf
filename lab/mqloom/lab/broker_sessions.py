"""What a simulated broker keeps for one client: subscriptions, the QoS 1 messages in flight, and those that wait.

As Mosquitto does it: at most `window` messages are in flight, the others wait, without bound
or up to a limit past which they are dropped. QoS 0 goes out at once, past a full window, and only to who is there.
When a client comes back, what was in flight is sent again, in order, with DUP and the same packet id; then the rest.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from mqloom.lab.network import Connection
from mqloom.lab.packets import Publish

PACKETS: Final = 65_535
"""MQTT's packet ids are 1 to this."""


@dataclass(slots=True)
class Session:
    """One client at one broker."""

    client_id: str
    clean: bool
    window: int
    queue_max: int
    connection: Connection | None = None
    will: Publish | None = None
    subscriptions: dict[str, int] = field(default_factory=dict)
    in_flight: dict[int, Publish] = field(default_factory=dict)
    queue: deque[Publish] = field(default_factory=deque)
    dropped: list[Publish] = field(default_factory=list)
    queued_max: int = 0
    _packet: int = 0

    def put(self, message: Publish) -> Publish | None:
        """Take over a message at the subscription's QoS; return what is to be sent now."""
        if not message.qos:
            return message if self.connection is not None else None
        if self.connection is not None and len(self.in_flight) < self.window:
            return self._launch(message)
        if self.queue_max and len(self.queue) >= self.queue_max:
            self.dropped.append(message)
            return None
        self.queue.append(message)
        self.queued_max = max(self.queued_max, len(self.queue))
        return None

    def acknowledge(self, packets: tuple[int, ...]) -> list[Publish]:
        """Forget what the client has acknowledged; return what is to be sent now."""
        for packet in packets:
            self.in_flight.pop(packet, None)
        return self.launch()

    def launch(self) -> list[Publish]:
        """Return what the window has room for."""
        launched = []
        while self.queue and len(self.in_flight) < self.window:
            launched.append(self._launch(self.queue.popleft()))
        return launched

    def resume(self) -> list[Publish]:
        """Return what a client that came back is sent: again what was in flight, then what waits."""
        again = [Publish(m.topic, m.payload, m.qos, m.retain, packet, True) for packet, m in self.in_flight.items()]
        return again + self.launch()

    def held(self) -> list[Publish]:
        """Return the messages that the broker keeps for this client."""
        return [*self.in_flight.values(), *self.queue]

    def _launch(self, message: Publish) -> Publish:
        packet = self._packet % PACKETS + 1
        while packet in self.in_flight:
            packet = packet % PACKETS + 1
        self._packet = packet
        launched = Publish(message.topic, message.payload, message.qos, message.retain, packet)
        self.in_flight[packet] = launched
        return launched


@dataclass(frozen=True, slots=True)
class Loss:
    """A message that a broker lost with its store, and for which session it had it, or would have had it."""

    broker: str
    client_id: str
    message: Publish
    was_held: bool = True
    """It was in the store; else it came later, for a session that was."""

"""The steps of a client's move, each told by one packet between the client and a broker (docs/migration.md)."""

from collections.abc import Callable
from typing import NamedTuple

from integration_tests.relays import Gate, Packet
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId

OLD, NEW = GatewayId("OLD"), GatewayId("NEW")


class Watch(NamedTuple):
    """Looks for the steps of one client; packets are as the gate lets them through."""

    client: ClientId
    gate: Gate

    def is_said(self, packet: Packet, at: GatewayId, key: str) -> bool:
        """Whether the gateway at a broker says something with this key to the client."""
        return not packet.is_from_client and packet.topic == layout.control(at, self.client) and key in packet.said

    def is_answer(self, packet: Packet, at: GatewayId, answer: str) -> bool:
        """Whether a gateway gives the client this answer."""
        return self.is_said(packet, at, "answer") and packet.said["answer"] == answer

    def is_written(self, packet: Packet, at: GatewayId, key: str) -> bool:
        """Whether a broker acknowledges a record with this key."""
        record = packet.answers
        if packet.kind != "puback" or packet.is_from_client or record is None:
            return False
        return record.topic == layout.record(at, self.client) and key in record.said

    def is_subscribed(self, packet: Packet, at: GatewayId) -> bool:
        """Whether a broker acknowledges that it will send what is for the client."""
        topic = layout.out(at, self.client)
        return packet.kind == "suback" and packet.answers is not None and packet.answers.topic == topic

    def is_read(self, packet: Packet, at: GatewayId) -> bool:
        """Whether the client's own probe comes, behind what was on the topic of its record."""
        return (
            not packet.is_from_client and packet.topic == layout.record(at, self.client) and "is_probe" in packet.said
        )

    def is_accepted(self, packet: Packet, at: GatewayId, *, clean: bool = False) -> bool:
        """Whether a broker accepts a connection."""
        if packet.kind != "connack" or packet.broker != at or packet.answers is None:
            return False
        return packet.answers.is_clean == clean

    def is_again(self, packet: Packet, at: GatewayId) -> bool:
        """Whether a broker accepts a second connection."""
        return self.is_accepted(packet, at) and self.has_passed(lambda each: self.is_accepted(each, at))

    def is_forgotten(self, packet: Packet, at: GatewayId) -> bool:
        """Whether a broker ends the session of the client."""
        return self.is_accepted(packet, at, clean=True)

    def is_served_after(self, packet: Packet, at: GatewayId, left: GatewayId) -> bool:
        """Whether something comes from one broker, when the other has ended its session."""
        is_out = not packet.is_from_client and packet.topic == layout.out(at, self.client)
        return is_out and self.has_passed(lambda each: self.is_forgotten(each, left))

    def has_passed(self, is_it: Callable[[Packet], bool]) -> bool:
        """Whether such a packet has gone through."""
        return any(map(is_it, self.gate.passed))


Step = Callable[[Watch, Packet], bool]

STEPS: dict[str, Step] = {
    "ordered": lambda watch, packet: watch.is_said(packet, OLD, "order"),
    "written where it goes": lambda watch, packet: watch.is_written(packet, OLD, "moving_to"),
    "connected there": lambda watch, packet: watch.is_accepted(packet, NEW),
    "listening there": lambda watch, packet: watch.is_subscribed(packet, NEW),
    "has read there": lambda watch, packet: watch.is_read(packet, NEW),
    "asked there": lambda watch, packet: watch.is_written(packet, NEW, "moved_from"),
    "established there": lambda watch, packet: watch.is_answer(packet, NEW, "established"),
    "leaving": lambda watch, packet: watch.is_written(packet, OLD, "leaving_to"),
    "ended": lambda watch, packet: watch.is_answer(packet, OLD, "ended") and "name" not in packet.said,
    "written where it is": lambda watch, packet: watch.is_written(packet, OLD, "moved_to"),
    "over to there": lambda watch, packet: watch.is_again(packet, NEW),
    "forgotten": lambda watch, packet: watch.is_forgotten(packet, OLD),
    "after the end": lambda watch, packet: watch.is_served_after(packet, NEW, OLD),
}
"""The steps in their order, and the packet that tells of each: it is the one that is held back."""

FROM_THE_RECORD_ON = list(STEPS)[list(STEPS).index("asked there") :]
"""Those at which the new broker has a record that says where the client comes from."""

"""A readable account of a run: who did what and when, with the publications by number."""

import re
from collections.abc import Callable
from typing import Final

from mqloom.core.errors import FrameError
from mqloom.core.wire import decode, decode_ack
from mqloom.lab.clock import Clock
from mqloom.lab.network import Channel, Connection
from mqloom.lab.packets import Packet, Puback, Publish

Tell = Callable[[str, str], None]

_NUMBER: Final = re.compile(rb'"id":(\d+)')

LINES_MAX: Final = 200_000
"""Lines that a trace keeps; the first ones are enough to see what went wrong first."""


def numbers_in(payload: bytes) -> list[int]:
    """Return the publications in a message, wherever they are in it: the lab writes their numbers into payloads."""
    return [int(number) for number in _NUMBER.findall(payload)]


class Trace:
    """Lines of one run, in the order of its events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[str] = []

    def tell(self, who: str, what: str) -> None:
        """Add a line."""
        if len(self.lines) < LINES_MAX:
            self.lines.append(f"{self._clock.now:10.4f}  {who:<12} {what}")

    def packets(self, who: str, packets: list[Packet]) -> None:
        """Add what came over a connection, as far as it is about publications, frames or acknowledgements."""
        for packet in packets:
            if isinstance(packet, Publish):
                self.tell(who, f"<- {_message(packet)}")
            elif isinstance(packet, Puback):
                self.tell(who, f"<- PUBACK {', '.join(map(str, packet.packets))}")
            else:
                self.tell(who, f"<- {packet}")

    def watch(self, connection: Connection, party: str, broker: str) -> None:
        """Note what crosses a connection."""
        for channel, who in ((connection.to_broker, f"{broker}<{party}"), (connection.to_party, f"{party}<{broker}")):
            self._watch(channel, who)

    def _watch(self, channel: Channel, who: str) -> None:
        deliver = channel.deliver

        def note(packets: list[Packet]) -> None:
            self.packets(who, packets)
            deliver(packets)

        channel.deliver = note


def _message(packet: Publish) -> str:
    flags = f"qos {packet.qos}" + (f" packet {packet.packet}" if packet.packet else "")
    flags += (" DUP" if packet.again else "") + (" retained" if packet.retain else "")
    return f"{packet.topic} ({flags}) {_content(packet)}"


def _content(packet: Publish) -> str:
    try:
        if packet.topic.endswith("/ack"):
            return str(decode_ack(packet.payload))
        if "/link/" in packet.topic or "/park/" in packet.topic:
            frame = decode(packet.payload)
            names = [type(m).__name__ for m in frame.messages]
            summary = f"conversation {tuple(frame.conversation)} frame {frame.sequence}: {', '.join(names)}"
            return f"{summary} {_numbers(packet.payload)}"
    except FrameError:
        pass
    numbers = _numbers(packet.payload)
    return numbers or packet.payload[:120].decode("ascii", "replace")


def _numbers(payload: bytes) -> str:
    return " ".join(f"p{number}" for number in numbers_in(payload))

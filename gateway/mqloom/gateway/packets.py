"""What of our own broker's publications came before in this life of ours: told by packet id, or else by content.

MQTT demands that what is sent again has the packet id that it had. Where a broker counts anew in each connection, equal
publications (same topic, same payload) cannot be told from each other. Then what is sent again stands for the oldest
equal one that the broker may not know to be done with; and as packet id for other gateways we count how many equal ones
there are at once: among publications that differ that is always 1, before a crash of ours and after it.
"""

from collections import deque
from typing import Protocol

from mqloom.core.publication import Incoming
from mqloom.core.seen import Print, print_of

PACKET_MAX = 65_535


class Packets(Protocol):
    """The publications of QoS 1 of this life, by what the broker shows of them."""

    def note(self, incoming: Incoming, sequence: int, low_water: int) -> int:
        """Remember one that is new, and return the packet id by which other gateways may know it again."""
        ...

    def find(self, incoming: Incoming, low_water: int) -> int | None:
        """Return the sequence of one that is sent again, if it was here; below the mark it is another one."""
        ...

    def lost(self) -> None:
        """The connection broke: what was not acknowledged comes again."""
        ...


class ByPacketId:
    """As MQTT has it; there are 65,535 at most."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Print, int]] = {}

    def note(self, incoming: Incoming, sequence: int, low_water: int) -> int:
        """Remember it by its packet id."""
        self._known[incoming.packet] = print_of(incoming.packet, incoming.topic, incoming.payload), sequence
        return incoming.packet

    def find(self, incoming: Incoming, low_water: int) -> int | None:
        """Return what came under this packet id, if it is equal."""
        print_, sequence = self._known.get(incoming.packet, (None, 0))
        if print_ != print_of(incoming.packet, incoming.topic, incoming.payload):
            return None
        return sequence if sequence >= low_water else None

    def lost(self) -> None:
        """Packet ids outlive a connection."""


class ByContent:
    """Where packet ids do not last; as many are remembered as are above the low-water mark."""

    def __init__(self) -> None:
        self._sequences: dict[Print, deque[int]] = {}
        self._again: dict[Print, int] = {}  # how many of the equal ones were sent again by this connection
        self._trim_at = 1_024

    def note(self, incoming: Incoming, sequence: int, low_water: int) -> int:
        """Remember it by its content."""
        if len(self._sequences) >= self._trim_at:
            self._trim(low_water)
        print_ = print_of(0, incoming.topic, incoming.payload)
        equal = self._sequences.setdefault(print_, deque())
        while equal and equal[0] < low_water:
            equal.popleft()
            self._again[print_] = max(0, self._again.get(print_, 0) - 1)
        equal.append(sequence)
        self._again[print_] = len(equal)  # it came by this connection: what is sent again by it is another
        return min(len(equal), PACKET_MAX)

    def find(self, incoming: Incoming, low_water: int) -> int | None:
        """Return the oldest equal one that was not sent again yet."""
        print_ = print_of(0, incoming.topic, incoming.payload)
        equal = self._sequences.get(print_, deque())
        for place in range(self._again.get(print_, 0), len(equal)):
            if equal[place] >= low_water:
                self._again[print_] = place + 1
                return equal[place]
        return None

    def lost(self) -> None:
        """All may be sent again."""
        self._again.clear()

    def _trim(self, low_water: int) -> None:
        self._sequences = {known: kept for known, kept in self._sequences.items() if kept[-1] >= low_water}
        self._again = {known: count for known, count in self._again.items() if known in self._sequences}
        self._trim_at = max(1_024, 2 * len(self._sequences))

"""Which messages of the broker are done with: an envelope is, when all in it has been given to the application.

An envelope holds several publications. The broker is told that it has arrived only when the application has taken each
one: when its callback has returned, or, if it acknowledges by itself, when it has. Should the connection be lost
before, or the callback raise, the broker sends the same envelope again. Then what the application has is not given to
it once more, what it has not is, and the acknowledgement goes out for the copy that came last.

The copy may come by another connection: in a later life of the client, or back at a broker that it had left. So an
envelope whose connection is gone is that of the first copy to come: one broker that keeps it is enough.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqloom.client.vocabulary import Deliver

PACKET_IDS: Final = 65_536
"""Packet ids of MQTT are below; numbers of publications, by which an application acknowledges them, are not."""

EARLIER: Final = -1
"""In place of a leg: of what has come to an earlier life."""


@dataclass(slots=True)
class Receipt:
    """One envelope: what of it is still to be given out, and how many of those given out are not acknowledged."""

    leg: int
    envelope: bytes
    packet: int
    left: deque[Deliver] = field(default_factory=deque)
    held: int = 0


class Stray(NamedTuple):
    """A message that is no envelope, and that the application has in hand: by which leg it has come, and as what."""

    leg: int
    packet: int
    qos: int


class Receipts:
    """The envelopes that are not done with, by the connection (leg) they came by; brokers' windows bound how many.

    Numbers begin behind `after`: no two lives of a client give the same.
    """

    def __init__(self, after: int = PACKET_IDS) -> None:
        self._open: dict[tuple[int, bytes], Receipt] = {}
        self._stranded: dict[bytes, Receipt] = {}  # of those, by envelope: their connection is gone
        self._holders: dict[int, tuple[Receipt, Deliver]] = {}
        self._strays: dict[int, Stray] = {}
        self._number = after

    def __len__(self) -> int:
        return len(self._open)

    def arrived(self, leg: int, envelope: bytes, packet: int, deliveries: Iterable[Deliver]) -> Receipt:
        """An envelope has come, or come again; these of it are new."""
        receipt = self._open.get((leg, envelope)) or self._stranded.get(envelope) or Receipt(leg, envelope, packet)
        self._forget(receipt)
        receipt.leg, receipt.packet = leg, packet
        self._open[leg, envelope] = receipt
        receipt.left.extend(deliveries)
        return receipt

    def _forget(self, receipt: Receipt) -> None:
        self._open.pop((receipt.leg, receipt.envelope), None)
        if self._stranded.get(receipt.envelope) is receipt:
            del self._stranded[receipt.envelope]

    def next_number(self) -> int:
        """Return a number for a publication of QoS 1."""
        self._number += 1
        return self._number

    def hold(self, receipt: Receipt, number: int, delivery: Deliver) -> None:
        """The application will acknowledge this one."""
        receipt.held += 1
        self._holders[number] = receipt, delivery

    def take_back(self, receipt: Receipt, number: int, delivery: Deliver) -> None:
        """The application did not take this one after all: it is given out again."""
        receipt.left.appendleft(delivery)
        if self._holders.pop(number, None) is not None:
            receipt.held -= 1

    def in_hand(self, number: int) -> tuple[Receipt, Deliver] | None:
        """Return what the application is to acknowledge by this number, with its envelope."""
        return self._holders.get(number)

    def release(self, number: int) -> Receipt | None:
        """The application has acknowledged one; return its envelope if that is done with now."""
        found = self._holders.pop(number, None)
        if found is None:
            return None
        found[0].held -= 1
        return self.settled(found[0])

    def is_all_but(self, receipt: Receipt) -> bool:
        """Whether of all that has come before, and in this envelope was given out, nothing is still to be taken."""
        return not receipt.held and all(each is receipt for each in self._open.values())

    def settled(self, receipt: Receipt) -> Receipt | None:
        """Return an envelope if it is done with, and forget it then; it is returned once."""
        key = receipt.leg, receipt.envelope
        if receipt.left or receipt.held or self._open.get(key) is not receipt:
            return None
        self._forget(receipt)
        return receipt

    def hold_stray(self, stray: Stray) -> int:
        """The application gets this; return by which number it is to be acknowledged."""
        number = self.next_number()
        self._strays[number] = stray
        return number

    def release_stray(self, number: int) -> Stray | None:
        """The application has acknowledged something; return it if it is a stray."""
        return self._strays.pop(number, None)

    def holds(self, leg: int) -> bool:
        """Whether the application has not taken all that came by a connection."""
        is_open = any(each.leg == leg for each in self._open.values())
        return is_open or any(each.leg == leg for each in self._strays.values())

    def forget(self) -> None:
        """Subscriptions are over: whatever the application has not taken is not for it any more."""
        self._open.clear()
        self._stranded.clear()
        self._holders.clear()
        self._strays.clear()

    def lost(self, leg: int) -> None:
        """A connection is gone: packet ids mean nothing any more, until the broker has sent the envelopes again."""
        for receipt in self._open.values():
            if receipt.leg == leg:
                receipt.packet = 0
                self._stranded[receipt.envelope] = receipt
        self._strays = {number: each for number, each in self._strays.items() if each.leg != leg}

    def for_next_life(self) -> "Receipts":
        """Return those of the next life, and have nothing any more: brokers send again what is not done with here."""
        later = Receipts(self._number)
        for receipt in self._open.values():
            receipt.leg, receipt.packet = EARLIER, 0
            later._open[EARLIER, receipt.envelope] = later._stranded[receipt.envelope] = receipt
        later._holders.update(self._holders)
        self.forget()
        return later

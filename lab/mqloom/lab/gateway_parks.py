"""The park of a simulated gateway for one neighbour: a session of its own on the gateway's own broker.

As in the driver (`gateway.drivers.park`), what is put in counts as kept only if the session was surely there.
"""

from collections.abc import Callable, Iterator
from functools import partial

from mqloom.core import layout
from mqloom.core.events import Parked, ParkedReceived
from mqloom.core.ids import GatewayId
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.packets import Publish

Put = Callable[[Publish, Callable[[], int]], None]
"""Publishes a message; when the broker has acknowledged it, the function returns its number if it is kept, else 0."""


class Park:
    """Connected once, so that the broker knows the session, and then only while the core wants it open."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbour: GatewayId,
        place: Place,
        handle: Callable[[ParkedReceived], None],
        receipts: Iterator[int],
        put: Put,
    ) -> None:
        self._neighbour = neighbour
        self._handle = handle
        self._receipt = receipts
        self._put = put
        self._wanted = False
        self._receipts: dict[int, int] = {}
        self._exists = False
        self._is_doubted = True
        self._doubts = 0
        self._puts: dict[int, Publish] = {}  # by number, in order: what is not surely kept
        manner = Manner(
            client_id=f"mqloom-{gateway}-park-{neighbour}",
            clean=False,
            subscriptions=((layout.park(gateway, neighbour), 1),),
            on_up=self._up,
            on_lost=self._lost,
            on_messages=self._received,
        )
        self.endpoint = Endpoint(place, manner)

    def doubt(self) -> None:
        """We cannot write to the broker any more, and it may be losing the session."""
        self._exists = False
        self._is_doubted = True
        self._doubts += 1

    def create(self) -> None:
        """We can write to the broker (again): let it know the session."""
        if self._exists:
            return
        self._is_doubted = False
        if self.endpoint.is_open:  # that may have been to the broker of before
            self._receipts.clear()
            self.endpoint.close()
        self.endpoint.open()

    def put(self, message: Publish, number: int) -> None:
        """Publish something for the park, as soon as the session is there."""
        self._puts[number] = message
        if self._exists:
            self._hand(number)

    def _hand(self, number: int) -> None:
        self._put(self._puts[number], partial(self._kept, number, self._doubts))

    def _kept(self, number: int, doubts: int) -> int:
        if doubts != self._doubts or number not in self._puts:
            return 0
        del self._puts[number]
        return number

    def open(self) -> None:
        """Receive what is parked."""
        if not self._wanted and self.endpoint.is_open:
            self.endpoint.close()  # what has come on this connection was not wanted, and must come again
        self._wanted = True
        self.endpoint.open()

    def close(self) -> None:
        """Leave it with the broker."""
        self._wanted = False
        self._receipts.clear()
        if self._exists:  # else when it does
            self.endpoint.close()

    def discard(self) -> list[int]:
        """Let the broker forget the session, with all that is in it; returns what need not be kept any more."""
        self.endpoint.close()
        numbers = list(self._puts)
        self._puts.clear()
        self._doubts += 1  # nobody waits for what is still on its way
        place, client_id = self.endpoint.place, self.endpoint.manner.client_id

        def forget(session_present: bool) -> None:
            endpoint.close()

        endpoint = self.endpoint = Endpoint(place, Manner(client_id=client_id, clean=True, on_up=forget))
        endpoint.open()
        return numbers

    def acknowledge(self, receipts: tuple[int, ...]) -> None:
        """Acknowledge what was received; receipts of an earlier opening are passed over."""
        packets = (self._receipts.pop(receipt, None) for receipt in receipts)
        self.endpoint.acknowledge(tuple(packet for packet in packets if packet is not None))

    def _up(self, session_present: bool) -> None:
        if self._is_doubted or self._exists:
            return
        self._exists = True
        for number in list(self._puts):
            self._hand(number)
        if not self._wanted:
            self.endpoint.close()

    def _lost(self) -> None:
        self._receipts.clear()

    def _received(self, messages: list[Publish]) -> None:
        if not self._wanted:
            return  # it stays unacknowledged, and comes again when the park is opened
        parked = []
        for message in messages:
            if message.qos:
                receipt = next(self._receipt)
                self._receipts[receipt] = message.packet
                parked.append(Parked(data=message.payload, receipt=receipt))
        if parked:
            self._handle(ParkedReceived(neighbour=self._neighbour, messages=tuple(parked)))

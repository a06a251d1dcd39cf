"""The park of a simulated gateway for one neighbour: a session of its own on the gateway's own broker."""

from collections.abc import Callable, Iterator

from mqloom.core import layout
from mqloom.core.events import Parked, ParkedReceived
from mqloom.core.ids import GatewayId
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.packets import Publish


class Park:
    """Connected once, so that the broker knows the session, and then only while the core wants it open."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbour: GatewayId,
        place: Place,
        handle: Callable[[ParkedReceived], None],
        receipts: Iterator[int],
        on_created: Callable[[], None],
    ) -> None:
        self._neighbour = neighbour
        self._handle = handle
        self._receipt = receipts
        self._on_created = on_created
        self._wanted = False
        self._receipts: dict[int, int] = {}
        self.is_created = False
        manner = Manner(
            client_id=f"mqloom-{gateway}-park-{neighbour}",
            clean=False,
            subscriptions=((layout.park(gateway, neighbour), 1),),
            on_up=self._up,
            on_lost=self._lost,
            on_messages=self._received,
        )
        self.endpoint = Endpoint(place, manner)

    def create(self) -> None:
        """Let the broker know the session (again)."""
        if not self.endpoint.is_open:
            self.is_created = False
            self.endpoint.open()

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
        if self.is_created:  # else when it is
            self.endpoint.close()

    def acknowledge(self, receipts: tuple[int, ...]) -> None:
        """Acknowledge what was received; receipts of an earlier opening are passed over."""
        packets = (self._receipts.pop(receipt, None) for receipt in receipts)
        self.endpoint.acknowledge(tuple(packet for packet in packets if packet is not None))

    def _up(self, session_present: bool) -> None:
        self.is_created = True
        if not self._wanted:
            self.endpoint.close()
        self._on_created()

    def _lost(self) -> None:
        """The broker may be about to lose its store: connect once more, even if only to leave again."""
        self._receipts.clear()
        self.is_created = False

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

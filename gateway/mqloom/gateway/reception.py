"""Whoever writes to our link topics: neighbours, guests, one that moves to us, one that has parted, and strangers.

Each frame goes to the conversation that it belongs to, and what it says is then obeyed by the node. An acknowledgement
of ours comes back the same way.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from mqloom.core.effects import SendAck
from mqloom.core.errors import FrameError
from mqloom.core.events import AcksReceived, FramesReceived
from mqloom.core.ids import GatewayId
from mqloom.core.messages import Hello, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode, decode_ack, encode_ack
from mqloom.gateway.custody import FromGuest, FromNeighbour
from mqloom.gateway.guests import Guests
from mqloom.gateway.links import Link, LinkChange
from mqloom.gateway.moves import Moves
from mqloom.gateway.neighbours import Neighbours
from mqloom.gateway.traffic import FromGateway


class Obey(Protocol):
    """Carries out messages in order."""

    def __call__(
        self, messages: Sequence[Message], sender: GatewayId, now: float, source: FromGateway | None = None
    ) -> None:
        """Obey what a gateway said; `source` is where its publications begin, None on the urgent stream."""
        ...


class Reception:
    """What comes to one gateway from others."""

    def __init__(
        self,
        neighbours: Neighbours,
        guests: Guests,
        moves: Moves,
        peers: Collection[GatewayId],
        obey: Obey,
        change: Callable[[GatewayId, Sequence[LinkChange], float], None],
    ) -> None:
        self._gateway = neighbours.gateway
        self._links = neighbours.links
        self._places = neighbours.places
        self._freezes = neighbours.freezes
        self._soft_links = neighbours.soft_links
        self._traffic = neighbours.traffic
        self._overlay = neighbours.overlay
        self._journal = neighbours.journal
        self._guests = guests
        self._moves = moves
        self._peers = peers
        self._obey = obey
        self._change = change
        self.answers: list[SendAck] = []
        """To those who believe themselves neighbours, and are not."""

    def receive(self, event: FramesReceived, now: float) -> None:
        """Take frames in their order; each that cannot be read is refused by itself."""
        if event.sender not in self._links and self._is_stranger(event.sender):
            reason = "stranger"
            text = f"{event.sender[:100]!r} wrote to our link topic, but is no neighbour of ours"
            for _ in event.frames:
                self._journal.refuse("frames_refused", reason, text)
            return
        for data in event.frames:
            try:
                frame = decode(data)
                if frame.sender != event.sender:
                    raise FrameError("sender", f"it names {frame.sender!r}")
            except FrameError as error:
                self._journal.refuse("frames_refused", error.reason, f"from {event.sender}: {error.problem}")
                continue
            if frame.sender not in self._links and _is_greeting(frame):
                self._moves.adopt(frame.sender, now)
            if frame.sender in self._links:
                self._receive_from_neighbour(frame, self._links[frame.sender], now, urgent=event.urgent)
            elif not self._moves.is_going_to(frame.sender):  # it may have been our neighbour before
                self._say_parted(frame, now)
                self._receive_from_guest(frame, now, urgent=event.urgent)

    def _receive_from_neighbour(self, frame: Frame, link: Link, now: float, *, urgent: bool) -> None:
        if urgent:
            self._obey(link.receive_urgent(frame), frame.sender, now)
            return
        place = link.places
        changes, messages = link.receive(frame, now)
        self._change(frame.sender, changes, now)
        self._obey(messages, frame.sender, now, FromNeighbour(frame.sender, frame.conversation, place))

    def _is_stranger(self, sender: GatewayId) -> bool:
        """Whether somebody can have nothing to say to us, whatever it is."""
        is_known = self._may_be_guest(sender) or self._places.has_parted(sender)
        return not is_known and self._freezes.may_join(sender) is None

    def _may_be_guest(self, sender: GatewayId) -> bool:
        """Whether somebody may have a soft link to us: not on the map, what comes from there might go back there."""
        return sender in self._peers and self._overlay.knows(sender)

    def _say_parted(self, frame: Frame, now: float) -> None:
        """Tell one who believes itself our neighbour that it is not, any more."""
        number = self._places.parted_from(frame.sender, now)
        if number:
            ack = encode_ack(Ack(self._gateway, frame.conversation, 0, 0, (), number))
            self.answers.append(SendAck(neighbour=frame.sender, ack=ack))

    def _receive_from_guest(self, frame: Frame, now: float, *, urgent: bool) -> None:
        if urgent or not self._may_be_guest(frame.sender):
            self._journal.refuse("frames_refused", "stranger", f"{frame.sender!r} is no neighbour of ours")
            return
        place = self._guests.places(frame.sender)
        messages = [message for message in self._guests.receive(frame, now) if isinstance(message, Publication)]
        self._obey(messages, frame.sender, now, FromGuest(frame.sender, frame.conversation, place))

    def receive_acks(self, event: AcksReceived, now: float) -> None:
        """Take acknowledgements of what we sent, over a primary link or a soft one."""
        for data in event.acks:
            try:
                ack = decode_ack(data)
                if ack.sender != event.neighbour:
                    raise FrameError("sender", f"it names {ack.sender!r}")
            except FrameError as error:
                text = f"an acknowledgement from {event.neighbour}: {error.problem}"
                self._journal.refuse("frames_refused", error.reason, text)
                continue
            link = self._links.get(event.neighbour)
            if ack.parted:
                self._moves.parted(event.neighbour, ack.parted)
            elif link is not None:
                self._traffic.taken_over(link.acknowledged(ack, now))
            else:
                self._traffic.taken_over(self._soft_links.acknowledged(event.neighbour, ack, now))


def _is_greeting(frame: Frame) -> bool:
    first = frame.messages[0] if frame.messages else None
    return isinstance(first, Hello) and first.asks

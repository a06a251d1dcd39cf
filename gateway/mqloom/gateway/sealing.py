"""The node's door when the federation has a key: what comes in is opened here or stays out, what goes out is sealed.

Everything behind the door is as without a key. What is refused here is counted, logged now and then, and nothing else
happens: no conversation notices. What an operator orders or asks without a seal is answered, so that it can be mended;
at the pace of all refusals, and by QoS 0: whoever sends thousands of them does not crowd our own broker with answers.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mqloom.core import layout
from mqloom.core.effects import Effect, Heard, PublishLocally, SendAck, SendFrame
from mqloom.core.errors import FrameError
from mqloom.core.events import AcksReceived, Asked, DrainRead, Event, FramesReceived, Ordered, ParkedReceived, PlaceRead
from mqloom.core.ids import GatewayId
from mqloom.core.records import MoveAnswer, RouteAnswer, Status, encode_move, encode_route, encode_status
from mqloom.core.seals import Channel, Keyring, check_text, open_kept, open_request, seal_kept, seal_text
from mqloom.gateway.journal import Journal
from mqloom.gateway.pace import Pace
from mqloom.gateway.sessions import Life, Requests, Sessions


class SealParts(NamedTuple):
    """The keys of a federation, and what this run of a gateway has drawn: NONCE_BYTES that nobody could foresee."""

    keyring: Keyring
    nonce: bytes


class Sealing:
    """The door of one gateway."""

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        parts: SealParts,
        known: Collection[GatewayId],
        journal: Journal,
        pace: Pace | None = None,
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._known = frozenset(known)
        self._journal = journal
        self._pace = pace
        self._sessions = Sessions(gateway, Life(epoch, parts.nonce), parts.keyring)
        self._requests = Requests()
        self._effects: list[Effect] = []

    def change_keys(self, keyring: Keyring | None, known: Collection[GatewayId] = ()) -> None:
        """Take other keys from now on, if there are any, and know these gateways, too; conversations go on."""
        self._known |= {*known}
        if keyring is not None:
            self._sessions.keyring = keyring

    # ---- inward --------------------------------------------------------------------------------------------------

    def opened(self, event: Event, now: float) -> Event | None:
        """Return what may come in; None if nothing may."""
        match event:
            case FramesReceived():
                channel = Channel.URGENT if event.urgent else Channel.FRAME
                frames = self._open_all(event.sender, channel, event.frames, now)
                return replace(event, frames=frames) if frames else None
            case AcksReceived():
                acks = self._open_all(event.neighbour, Channel.ACK, event.acks, now)
                return replace(event, acks=acks) if acks else None
            case ParkedReceived():
                topic = layout.park(self._gateway, event.neighbour)
                messages = tuple(
                    replace(each, data=self._open_kept("frames_refused", topic, each.data)) for each in event.messages
                )
                return replace(event, messages=messages)  # what was refused is empty: it is acknowledged
            case PlaceRead() if event.data:
                topic = layout.place(self._gateway)
                return replace(event, data=self._open_kept("places_refused", topic, event.data))
            case DrainRead() if event.data:
                topic = layout.drain(self._gateway)
                return replace(event, data=self._open_kept("migrations_refused", topic, event.data))
            case Ordered() | Asked():
                return self._open_request(event, now)
            case _:
                return event

    def met(self) -> Sequence[GatewayId]:
        """Return who has begun anew since the last call, and hears us now."""
        return self._sessions.met()

    def _open_all(
        self, sender: GatewayId, channel: Channel, packets: tuple[bytes, ...], now: float
    ) -> tuple[bytes, ...]:
        opened = []
        is_heard = False
        for data in packets:
            try:
                if sender not in self._known:
                    raise FrameError("stranger", "it is in no table [[brokers]] of ours")
                body = self._sessions.open(sender, channel, data, now)
            except FrameError as error:
                text = f"{channel.name.lower()} from {sender[:100]!r}: {error.problem}"
                self._journal.refuse("frames_refused", error.reason, text)
                continue
            if body is None:
                self._journal.counters.add("frames_challenged")
                continue
            is_heard = True
            if body:  # a challenge is empty
                opened.append(body)
        if is_heard and channel is not Channel.ACK:
            self._effects.append(Heard(neighbour=sender))
        self._effects += (SendAck(neighbour=each, ack=ack) for each, ack in self._sessions.challenges())
        return tuple(opened)

    def _open_kept(self, counter: str, topic: str, data: bytes) -> bytes:
        try:
            return open_kept(self._sessions.keyring, topic, data)
        except FrameError as error:
            self._journal.refuse(counter, error.reason, f"on {topic[:200]}: {error.problem}")
            return b""

    def _open_request(self, event: Ordered | Asked, now: float) -> Event | None:
        is_order = isinstance(event, Ordered)
        topic = (layout.order if is_order else layout.question)(self._gateway, event.client)
        try:
            request = open_request(self._sessions.keyring, topic, self._epoch, event.data)
            if not self._requests.take(request.number):
                raise FrameError("replayed", "it has come before, or is too old; has your clock gone back?")
        except FrameError as error:
            counter = "moves_refused" if is_order else "questions_refused"
            self._journal.refuse(counter, error.reason, f"on {topic[:200]}: {error.problem}")
            if self._pace is None or self._pace.answer(now):
                self._effects.append(self._refusal(event, error.problem))
            return None
        return replace(event, data=request.body)

    def _refusal(self, event: Ordered | Asked, problem: str) -> PublishLocally:
        problem = f"{problem} (this command must have the same key_file as the gateway)"
        answer = (
            encode_move(MoveAnswer(answer="stayed", problem=problem))
            if isinstance(event, Ordered)
            else encode_route(RouteAnswer(answer="refused", problem=problem))
        )
        return PublishLocally(topic=layout.control(self._gateway, event.client), payload=answer, qos=0)

    # ---- outward -------------------------------------------------------------------------------------------------

    def sealed(self, effects: Sequence[Effect]) -> Iterator[Effect]:
        """Return effects with what leaves the gateway sealed, and our own behind them."""
        kept, parks = (layout.place(self._gateway), layout.drain(self._gateway)), layout.parks(self._gateway)
        for effect in effects:
            match effect:
                case SendFrame():
                    channel = Channel.URGENT if effect.urgent else Channel.FRAME
                    yield replace(effect, frame=self._sessions.seal(effect.neighbour, channel, effect.frame))
                case SendAck():
                    yield replace(effect, ack=self._sessions.seal(effect.neighbour, Channel.ACK, effect.ack))
                case PublishLocally() if effect.payload and (effect.topic in kept or effect.topic.startswith(parks)):
                    key = self._sessions.keyring.sending
                    yield replace(effect, payload=seal_kept(key, effect.topic, effect.payload))
                case _:
                    yield effect
        own, self._effects = self._effects, []
        yield from own

    def signed(self, status: Status) -> Status:
        """Return our status with its seal."""
        topic = layout.status(self._gateway)
        return replace(status, seal=seal_text(self._sessions.keyring.sending, topic, encode_status(status)))

    def believes(self, status: Status) -> bool:
        """Whether a status is of the gateway that it names; if not, it is counted."""
        topic = layout.status(status.gateway)
        try:
            check_text(self._sessions.keyring, topic, encode_status(replace(status, seal="")), status.seal)
        except FrameError as error:
            self._journal.refuse("frames_refused", error.reason, f"on {topic[:200]}: {error.problem}")
            return False
        return True

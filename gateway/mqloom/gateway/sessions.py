"""Sealed conversation between gateways: who is alive now, and which frame is new.

Theory of operation. Each gateway draws a nonce at its start. What one says to another is sealed with a key made from
the federation's key and both nonces; so it counts for this life of the receiver only, and by the number in it once.
A gateway that does not know the other's nonce yet says so (NOBODY), and what it says is not obeyed: it may be a copy of
an old greeting. It is answered by a challenge, an acknowledgement with nothing in it but our nonce, sealed for the
nonce that it named. Whoever answers that is there now. So two gateways that meet need one exchange more than without.

    what comes, its seal being right               what is done
    names our nonce, known life of its sender      taken, if its number is new
    names our nonce, later life of its sender      taken: the sender has begun anew, `met`
    names our nonce, earlier life                  refused: replayed
    names another nonce, a life before that known  refused: replayed
    names another nonce, the life that is known    refused: replayed
    names another nonce, a life not known yet      challenge; refused: outdated, unless it is a first greeting

Lives of a gateway are ordered by their epochs. A challenge changes nothing, and each life is challenged no more often
than every CHALLENGE_EVERY_S, one before the latest that was heard of not at all: with recorded greetings nobody can
keep a gateway from being challenged. A wrong seal costs its reader one BLAKE2b, and nobody anything else.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from mqloom.core.errors import FrameError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CHALLENGE_EVERY_S, REPLAY_WINDOW, REQUESTS_MAX, SESSIONS_MAX
from mqloom.core.seals import NOBODY, Channel, Key, Keyring, Packet, link_key, open_packet, read_packet, seal_packet


class Life(NamedTuple):
    """One run of a gateway."""

    epoch: int
    nonce: bytes


class Window:
    """Which numbers of one channel have come."""

    def __init__(self) -> None:
        self._last = 0
        self._came = 0  # a bit for each number up to the last, which is bit 0

    def take(self, number: int) -> bool:
        """Whether a number is new; then it has come."""
        ahead = number - self._last
        if ahead > 0:
            shifted = self._came << ahead if ahead < REPLAY_WINDOW else 0
            self._came = (shifted | 1) & ((1 << REPLAY_WINDOW) - 1)
            self._last = number
            return True
        if -ahead >= REPLAY_WINDOW or self._came >> -ahead & 1:
            return False
        self._came |= 1 << -ahead
        return True


class Requests:
    """Which sealed orders and questions have come; their numbers are times of several clocks."""

    def __init__(self) -> None:
        self._numbers: list[int] = []  # in their order
        self._forgotten = 0

    def take(self, number: int) -> bool:
        """Whether a number is new; then it has come."""
        index = bisect_left(self._numbers, number)
        if number <= self._forgotten or self._numbers[index : index + 1] == [number]:
            return False
        self._numbers.insert(index, number)
        if len(self._numbers) > REQUESTS_MAX:
            self._forgotten = self._numbers.pop(0)
        return True


class Session:
    """What is known of one other gateway."""

    def __init__(self) -> None:
        self.life: Life | None = None
        """The one that has shown that it knows our nonce."""
        self.heard_of = -1
        """The largest epoch in which it has greeted us, shown or not."""
        self.challenge_at = 0.0
        self._windows: dict[Channel, Window] = {}
        self._keys: dict[tuple[bytes, Channel, bool], bytes] = {}

    def begin(self, life: Life) -> None:
        """It has begun anew."""
        self.life = life
        self._windows = {channel: Window() for channel in Channel}
        self._keys = {}

    def take(self, channel: Channel, number: int) -> bool:
        """Whether a number is new on a channel."""
        return self._windows[channel].take(number)

    def key(self, names: tuple[GatewayId, GatewayId], nonces: tuple[bytes, bytes], key: Key, channel: Channel) -> bytes:
        """Return the key from one to another of these; that of our life and its own is kept."""
        if self.life is None or self.life.nonce not in nonces:
            return link_key(key, channel, *names, nonces)
        place = (key.id, channel, self.life.nonce == nonces[0])
        known = self._keys.get(place)
        if known is None:
            known = self._keys[place] = link_key(key, channel, *names, nonces)
        return known


class Sessions:
    """All sealed conversations of one gateway."""

    def __init__(self, gateway: GatewayId, life: Life, keyring: Keyring) -> None:
        self._gateway = gateway
        self._life = life
        self.keyring = keyring
        self._number = 0
        self._sessions: dict[GatewayId, Session] = {}
        self._challenges: list[tuple[GatewayId, bytes]] = []
        self._met: list[GatewayId] = []

    def seal(self, receiver: GatewayId, channel: Channel, body: bytes) -> bytes:
        """Return what goes to another gateway."""
        session = self._sessions.get(receiver)
        nonce = session.life.nonce if session is not None and session.life is not None else NOBODY
        return self._seal(receiver, channel, nonce, body)

    def open(self, sender: GatewayId, channel: Channel, data: bytes, now: float) -> bytes | None:
        """Return what another gateway says; None if it has first to show that it is there. Raises FrameError."""
        packet = read_packet(data)
        key = self.keyring.find(packet.key_id)
        session = self._session(sender)
        if packet.receiver_nonce == self._life.nonce and session.life == (packet.epoch, packet.sender_nonce):
            link = session.key((sender, self._gateway), (packet.sender_nonce, packet.receiver_nonce), key, channel)
        else:
            link = link_key(key, channel, sender, self._gateway, (packet.sender_nonce, packet.receiver_nonce))
        body = open_packet(data, link)
        if packet.receiver_nonce == self._life.nonce:
            self._identify(sender, session, packet)
            if not session.take(channel, packet.number):
                raise FrameError("replayed", f"number {packet.number} has come before, or is too old")
            return body
        self._challenge(sender, session, packet, now)
        if packet.receiver_nonce != NOBODY:
            raise FrameError("outdated", "it is for an earlier run of ours")
        return None

    def challenges(self) -> list[tuple[GatewayId, bytes]]:
        """Return the challenges since the last call: acknowledgements, sealed."""
        challenges, self._challenges = self._challenges, []
        return challenges

    def met(self) -> Sequence[GatewayId]:
        """Return who has shown, since the last call, that it has begun anew, and knows our nonce."""
        met, self._met = self._met, []
        return met

    def _seal(self, receiver: GatewayId, channel: Channel, nonce: bytes, body: bytes) -> bytes:
        self._number += 1
        key = self.keyring.sending
        packet = Packet(key.id, self._life.epoch, self._life.nonce, nonce, self._number)
        session = self._sessions.get(receiver)
        names, nonces = (self._gateway, receiver), (self._life.nonce, nonce)
        link = link_key(key, channel, *names, nonces) if session is None else session.key(names, nonces, key, channel)
        return seal_packet(packet, link, body)

    def _session(self, sender: GatewayId) -> Session:
        session = self._sessions.get(sender)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                raise FrameError("stranger", f"{SESSIONS_MAX} gateways are known already")
            session = self._sessions[sender] = Session()
        return session

    def _identify(self, sender: GatewayId, session: Session, packet: Packet) -> None:
        """Whoever names our nonce is there now, or was in this life of ours."""
        life = Life(packet.epoch, packet.sender_nonce)
        if session.life == life:
            return
        if session.life is not None and life.epoch <= session.life.epoch:
            raise FrameError("replayed", "it is of an earlier run of its sender; has its clock gone back?")
        session.begin(life)
        session.heard_of = max(session.heard_of, life.epoch)
        self._met.append(sender)

    def _challenge(self, sender: GatewayId, session: Session, packet: Packet, now: float) -> None:
        """Let whoever made this, if it is there now, show it."""
        if session.life == (packet.epoch, packet.sender_nonce):
            text = "its sender said it before it knew our run: one or two are usual at a start, more are copies"
            raise FrameError("replayed", text)
        if packet.epoch < session.heard_of or (session.life is not None and packet.epoch <= session.life.epoch):
            raise FrameError("replayed", "it is of an earlier run of its sender; has its clock gone back?")
        if packet.epoch == session.heard_of and now < session.challenge_at:
            return
        session.heard_of = packet.epoch
        session.challenge_at = now + CHALLENGE_EVERY_S
        self._challenges.append((sender, self._seal(sender, Channel.ACK, packet.sender_nonce, b"")))

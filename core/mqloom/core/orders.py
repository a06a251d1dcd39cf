"""Orders to clients, and the roster of brokers: how both are written, signed and read, and which of them count.

An order tells one life of one client to move from the broker where it is to another; it comes by the client's own `ctl`
topic. The roster, retained on every broker, names the brokers to which a client may be moved, with the addresses that
clients use. Both are signed with the federation's order key (`signatures`), and both are JSON:

    {"order": {"kind": "move", "federation": ..., ...}, "key": "1f0c22ab", "signature": "..."}
    {"roster": {"federation": ..., "serial": 3, "brokers": {...}}, "key": "1f0c22ab", "signature": "..."}

A broker can send its clients elsewhere by itself, by a server reference of MQTT 5 (`references`): nobody signs that, so
that only places of the roster count.

What does not count raises OrderError, whose `reason` is the name under which it is counted:

    reason       of        what is wrong
    malformed    all       too large, no JSON, a field is missing, unknown, or out of its bounds; names no place
    key          both      signed with a key that we do not hold
    forged       both      the signature is not of that key, or not of these bytes
    federation   both      for another federation
    client       orders    for another client
    incarnation  orders    for an earlier start of this client
    elsewhere    orders    for one that is at another broker than we are
    early        orders    issued later than now, by more than clocks may differ
    expired      both      over, by more than clocks may differ
    lasting      orders    made to last longer than any may
    replayed     orders    of a session that we have obeyed already
    roster       orders    no roster has come yet that says where the target is
    target       orders    the target is not in the roster, or is where we are; of references: the latter
    tls          both      the target has no TLS, and this client has
    stranger     reference to a place that is not in the roster
    crowded      orders    of more sessions at once than are remembered; a reference too soon after another
    outdated     rosters   other brokers than in a later one that we have

Nothing here looks at a clock: `wall` is the time of day, in seconds since 1970, as the caller's clock has it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field

from mqloom.core.errors import OrderError
from mqloom.core.ids import ClientId, GatewayId, GatewayName, Number
from mqloom.core.limits import (
    CLOCK_SKEW_S,
    HOST_LENGTH_MAX,
    ID_LENGTH_MAX,
    ORDER_BYTES_MAX,
    ORDER_S_MAX,
    ROSTER_BROKERS_MAX,
    ROSTER_BYTES_MAX,
    SESSIONS_OBEYED_MAX,
)
from mqloom.core.signatures import KeyName, OrderKey, PublicKey, Signature, check_signature

ORDER_CONTEXT: Final = b"mqloom order v1\0"
ROSTER_CONTEXT: Final = b"mqloom roster v1\0"

ShortText = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
Wall = Annotated[float, Meta(ge=0, le=2**53)]


class MoveOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let this client, in this life of it, leave `source` for `to`. With a field that is not known it is not obeyed."""

    kind: Literal["move"] = "move"
    federation: ShortText
    client: Annotated[ClientId, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
    incarnation: ShortText
    session: ShortText
    source: GatewayName = field(name="from")
    to: GatewayName
    number: Number = 1
    """How many clients are moved in this session."""
    issued_at: Wall
    expires_at: Wall


class RosterBroker(Struct, frozen=True, kw_only=True):
    """Where clients find a broker. More fields may follow."""

    host: Annotated[str, Meta(min_length=1, max_length=HOST_LENGTH_MAX)]
    port: Annotated[int, Meta(ge=1, le=65_535)] = 1883
    tls: bool = False


class Roster(Struct, frozen=True, kw_only=True):
    """The brokers of a federation, by their gateways; of two rosters the one with the larger serial holds.

    `valid_until` is 0 if it holds until there is another. More fields may follow.
    """

    federation: ShortText
    serial: Number
    brokers: Annotated[dict[GatewayName, RosterBroker], Meta(max_length=ROSTER_BROKERS_MAX)]
    valid_until: Wall = 0.0

    def at(self, host: str, port: int) -> GatewayId | None:
        """Return whose broker is at this address, as a server reference of MQTT 5 names it; None: nobody's of ours."""
        for gateway, broker in self.brokers.items():
            if (broker.host.lower(), broker.port) == (host.lower(), port):
                return gateway
        return None


OrderAnswerKind = Literal["moving", "arrived", "moved", "stayed"]


class OrderAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a client has come with an order; the last is `moved` or `stayed`, with the problem."""

    session: ShortText
    answer: OrderAnswerKind
    problem: str = ""


class _SignedOrder(Struct, frozen=True, forbid_unknown_fields=True):
    order: Raw
    key: KeyName
    signature: Signature


class _SignedRoster(Struct, frozen=True, forbid_unknown_fields=True):
    roster: Raw
    key: KeyName
    signature: Signature


_signed_order_decoder = msgspec.json.Decoder(_SignedOrder)
_signed_roster_decoder = msgspec.json.Decoder(_SignedRoster)
_order_decoder = msgspec.json.Decoder(MoveOrder)
_roster_decoder = msgspec.json.Decoder(Roster)
_answer_decoder = msgspec.json.Decoder(OrderAnswer)
_DECODING_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# ---- writing and reading -----------------------------------------------------------------------------------------


def sign_order(order: MoveOrder, key: OrderKey) -> bytes:
    """Return an order as it is sent."""
    body = msgspec.json.encode(order)
    return msgspec.json.encode(_SignedOrder(Raw(body), key.public.name, key.sign(ORDER_CONTEXT, body)))


def sign_roster(roster: Roster, key: OrderKey) -> bytes:
    """Return a roster as it is kept on brokers."""
    body = msgspec.json.encode(roster)
    return msgspec.json.encode(_SignedRoster(Raw(body), key.public.name, key.sign(ROSTER_CONTEXT, body)))


def is_order(data: bytes) -> bool:
    """Whether this, of what comes by a `ctl` topic, claims to be an order: nothing of it is checked."""
    return data.lstrip().startswith(b'{"order"')


def read_order(data: bytes, keys: Sequence[PublicKey]) -> MoveOrder:
    """Return the order in `data` if one of the keys has signed it; raises OrderError."""
    _check_size("an order", data, ORDER_BYTES_MAX)
    try:
        signed = _signed_order_decoder.decode(data)
        check_signature(keys, signed.key, ORDER_CONTEXT, bytes(signed.order), signed.signature)
        return _order_decoder.decode(signed.order)
    except _DECODING_ERRORS as error:
        raise OrderError("malformed", f"an order that cannot be read: {error}") from None


def read_roster(data: bytes, keys: Sequence[PublicKey]) -> Roster:
    """Return the roster in `data` if one of the keys has signed it; raises OrderError."""
    _check_size("a roster", data, ROSTER_BYTES_MAX)
    try:
        signed = _signed_roster_decoder.decode(data)
        check_signature(keys, signed.key, ROSTER_CONTEXT, bytes(signed.roster), signed.signature)
        return _roster_decoder.decode(signed.roster)
    except _DECODING_ERRORS as error:
        raise OrderError("malformed", f"a roster that cannot be read: {error}") from None


def encode_order_answer(answer: OrderAnswer) -> bytes:
    """Return the JSON of a client's answer."""
    return msgspec.json.encode(answer)


def decode_order_answer(data: bytes) -> OrderAnswer:
    """Return a client's answer; raises OrderError."""
    _check_size("an answer to an order", data, ORDER_BYTES_MAX)
    try:
        return _answer_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise OrderError("malformed", f"an answer to an order that cannot be read: {error}") from None


def _check_size(what: str, data: bytes, bound: int) -> None:
    if len(data) > bound:
        raise OrderError("malformed", f"{what} of {len(data)} bytes, the bound is {bound}")


# ---- which of them count -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """Whom an order must be for: a client in one life, by the name of that life, and whose broker it is at."""

    federation: str
    client: ClientId
    incarnation: str
    at: GatewayId


def objection(
    order: MoveOrder, addressee: Addressee, roster: Roster | None, obeyed: Collection[str], wall: float
) -> OrderError | None:
    """Return why an order that was signed rightly does not count for an addressee; None if it does.

    `obeyed` are the sessions of which an order has counted before. The caller has checked the signature.
    """
    for reason, what, meant, ours in (
        ("federation", "federation", order.federation, addressee.federation),
        ("client", "client", order.client, addressee.client),
        ("incarnation", "life", order.incarnation, addressee.incarnation),
        ("elsewhere", "one at broker", order.source, addressee.at),
    ):
        if meant != ours:
            return OrderError(reason, f"an order for {what} {meant!r}, ours is {ours!r}")
    if order.expires_at - order.issued_at > ORDER_S_MAX:
        lasts_s = order.expires_at - order.issued_at
        return OrderError("lasting", f"an order that lasts for {lasts_s:.0f} s, the bound is {ORDER_S_MAX:.0f}")
    if wall < order.issued_at - CLOCK_SKEW_S:
        return OrderError("early", f"an order issued in {order.issued_at - wall:.0f} s: are the clocks right?")
    if wall > order.expires_at + CLOCK_SKEW_S:
        return OrderError("expired", f"an order over for {wall - order.expires_at:.0f} s: are the clocks right?")
    if order.session in obeyed:
        return OrderError("replayed", f"session {order.session!r} once more")
    if roster is None:
        return OrderError("roster", "no roster has come yet: the target's address is not known")
    if order.to not in roster.brokers or order.to == addressee.at:
        known = ", ".join(sorted(roster.brokers)[:10])
        return OrderError("target", f"an order to go to {order.to!r} from {addressee.at!r}; the roster has {known}")
    return None


class OrderDesk:
    """All that one life of a client remembers of orders and rosters, and the one place that says which of them count.

    An empty `federation` is that of the first roster that one of our keys has signed.
    """

    def __init__(self, *, client: ClientId, incarnation: str, keys: Sequence[PublicKey], federation: str = "") -> None:
        self._client = client
        self._incarnation = incarnation
        self._keys = tuple(keys)
        self._federation = federation
        self._obeyed: dict[str, float] = {}  # until when each would count
        self.roster: Roster | None = None
        """The newest that has come."""

    def take_order(self, data: bytes, at: GatewayId, wall: float) -> MoveOrder:
        """Return the order in `data`, which is to be obeyed; raises OrderError if it does not count.

        `at` is the gateway of the broker by which it came. What is returned once is not returned again.
        """
        order = read_order(data, self._keys)
        addressee = Addressee(federation=self._federation, client=self._client, incarnation=self._incarnation, at=at)
        refusal = objection(order, addressee, self.valid_roster(wall), self._obeyed, wall)
        if refusal is not None:
            raise refusal
        self._obeyed = {session: until for session, until in self._obeyed.items() if until >= wall}
        if len(self._obeyed) >= SESSIONS_OBEYED_MAX:
            raise OrderError("crowded", f"more than {SESSIONS_OBEYED_MAX} sessions at once")
        self._obeyed[order.session] = order.expires_at + CLOCK_SKEW_S
        return order

    def take_roster(self, data: bytes, wall: float) -> Roster:
        """Return the newest roster, be it the one in `data` or not; raises OrderError if that one does not count."""
        roster = read_roster(data, self._keys)
        if self._federation not in ("", roster.federation):
            text = f"a roster of federation {roster.federation!r}, ours is {self._federation!r}"
            raise OrderError("federation", text)
        if 0 < roster.valid_until < wall - CLOCK_SKEW_S:
            raise OrderError("expired", f"a roster over for {wall - roster.valid_until:.0f} s")
        newest = self.roster
        if newest is not None and roster.serial <= newest.serial:
            if roster.brokers != newest.brokers:
                text = f"a roster of serial {roster.serial}, we have one of {newest.serial} with other brokers"
                raise OrderError("outdated", text)
            return newest
        self._federation = roster.federation
        self.roster = roster
        return roster

    def valid_roster(self, wall: float) -> Roster | None:
        """Return the newest roster that has come, unless it is over."""
        roster = self.roster
        if roster is not None and 0 < roster.valid_until < wall - CLOCK_SKEW_S:
            return None
        return roster

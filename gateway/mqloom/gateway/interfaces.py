"""What plugins build: the narrow shapes in which a gateway uses a codec, a matcher, an overlay, an adapter.

A hook of `hookspecs.py` is asked once, at the start, and answers with one of the named kinds below; the configuration
chooses among them by name. What they build is then called directly, in batches, with no hook call in between. Agents
have `agent_interfaces.py`, and those who choose whom to move `offload_interfaces.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.core.subscription import Subscription
from mqloom.core.tls import TlsFiles

Attributes = Mapping[str, object]
Settings = Mapping[str, object]


class Content(NamedTuple):
    """What a matcher sees of a publication; `attributes` is None where the payload could not be decoded.

    Attributes that no subscription mentions may have been left out.
    """

    topic: str
    attributes: Attributes | None


@dataclass(frozen=True, slots=True)
class Codec:
    """Turns a publication into attributes. `decode` raises ValueError for a payload that is not in its format.

    `decode_only` is for a codec that is faster when it may leave something out. Given the names that standing filters
    can reach at the top of the attributes, it returns a `decode` that may leave out all others, and does the same in
    everything else. It is asked again whenever the names change.
    """

    name: str
    decode: Callable[[Publication], Attributes]
    decode_only: Callable[[Collection[str]], Callable[[Publication], Attributes]] | None = None


CodecChoice = tuple[str, *tuple[Codec, ...]]
"""A topic filter, and the codecs for what it matches; the attributes of an earlier one hide those of a later one."""


class Matcher(Protocol):
    """Tells which subscriptions want a publication: exactly those, every one of them."""

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Take a subscription in; the key is new."""
        ...

    def remove(self, key: SubscriptionKey) -> None:
        """Forget a subscription; the key is known."""
        ...

    def match(self, batch: Sequence[Content]) -> Sequence[Collection[SubscriptionKey]]:
        """Return the matching keys for each publication of the batch, in its order."""
        ...


@dataclass(frozen=True, slots=True)
class MatcherKind:
    """A matcher that the configuration can choose by name."""

    name: str
    build: Callable[[], Matcher]


class Overlay(Protocol):
    """Decides where announcements and publications go next. `source` is None for what began at this gateway."""

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Return the neighbours to which a subscription from `source` travels on."""
        ...

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Return the gateways to which a publication from `source` goes, if somebody behind each of `wanted` asked.

        Those wanted are neighbours, and in an overlay that weaves links anchors.
        """
        ...


class OverlayStarted(NamedTuple):
    """The gateway has started: the first event."""


class NeighbourTold(NamedTuple):
    """The overlay of a neighbour over a primary link told us something."""

    neighbour: GatewayId
    body: bytes


class LinkStood(NamedTuple):
    """A link, primary or soft, is up, or is not any more."""

    gateway: GatewayId
    up: bool


class NeighboursChanged(NamedTuple):
    """A primary link was moved: these are the neighbours from now on."""

    neighbours: Sequence[GatewayId]


class MoveNear(NamedTuple):
    """A gateway near us moves: no soft link may touch a gateway on the path until the move is over."""

    path: Sequence[GatewayId]


class MoveOver(NamedTuple):
    """The move near us is over."""


class OverlayWoke(NamedTuple):
    """The time that the overlay asked for has come; and how many copies of publications have gone out on links so far.

    A copy counts when it goes out: not what waits for a neighbour that is down, or for room on its link.
    """

    sent: int = 0


class TellNeighbour(NamedTuple):
    """Tell the overlay of a neighbour over a primary link: in order with announcements, or sooner if urgent.

    What is told while the link is not up is lost.
    """

    neighbour: GatewayId
    body: bytes
    urgent: bool = False


class OpenSoftLink(NamedTuple):
    """Open a link for publications to a gateway that is no neighbour; LinkStood tells when it is up."""

    gateway: GatewayId


class CloseSoftLink(NamedTuple):
    """Let a soft link finish what it has, and close it; it must not be routed over any more."""

    gateway: GatewayId


class AnchorsChanged(NamedTuple):
    """What `anchor_here` and `anchor_for` answer may be different from now on; else what they answered once counts."""


class WakeOverlayAt(NamedTuple):
    """Send OverlayWoke at this time; a later one replaces an earlier one."""

    at: float


class CountOverlay(NamedTuple):
    """Count what the overlay could make no use of, by a reason of one word: what was told, or an anchor."""

    counter: Literal["overlay_ignored", "anchors_unknown"]
    reason: str = ""
    amount: int = 1


OverlayEvent = OverlayStarted | NeighbourTold | LinkStood | OverlayWoke | NeighboursChanged | MoveNear | MoveOver
OverlayEffect = TellNeighbour | OpenSoftLink | CloseSoftLink | AnchorsChanged | WakeOverlayAt | CountOverlay


@runtime_checkable
class WeavingOverlay(Overlay, Protocol):
    """An overlay that sees further than its neighbours, and weaves links of its own over the primary ones.

    Subscriptions have anchors (paper 001, section 4): gateways on the way to the subscriber, as far as the map reaches.
    """

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """Return by which anchor we keep what a neighbour announced by this one: it is always right to name itself."""
        ...

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Return by which anchor we announce to a neighbour what we keep by this one (None: is of our own clients)."""
        ...

    def knows(self, gateway: GatewayId) -> bool:
        """Say whether a gateway is on the map: only from such a one a soft link may come."""
        ...

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Take an event, return what is to be done."""
        ...


@runtime_checkable
class MovingOverlay(WeavingOverlay, Protocol):
    """A weaving overlay whose primary links can be moved; it takes NeighboursChanged, MoveNear and MoveOver."""

    @property
    def reach(self) -> int:
        """How many hops a soft link spans at most."""
        ...

    def way_to(self, gateway: GatewayId) -> Sequence[GatewayId]:
        """Return the gateways on the primary way there, with itself; nothing if it is not on the map."""
        ...


LinkKind = Literal["primary", "soft", "candidate"]


class LinkReport(NamedTuple):
    """One link, described: open or only thought about, how many hops it spans, and what it was worth of late."""

    gateway: GatewayId
    kind: LinkKind
    up: bool
    distance: int
    publications: int
    gain: float


class Explanation(NamedTuple):
    """Why a publication goes where it goes."""

    strategy: str
    side: GatewayId | None
    """The primary neighbour from whose side it came."""
    dropped: Sequence[GatewayId]
    """Anchors on that side: whoever sent it serves them."""
    unknown: Sequence[GatewayId]
    """Anchors that are not on the map: they could be on any side."""
    copies: Mapping[GatewayId, Sequence[GatewayId]]
    """Who gets a copy, for which anchors; a gateway may be served twice when the nearer of two is down."""
    bypassed: Sequence[GatewayId]
    """Primary neighbours that are down: what is beyond them also gets it directly, as far as there are links."""


@runtime_checkable
class DescribingOverlay(Overlay, Protocol):
    """An overlay that can be looked into, for people; asking changes and counts nothing."""

    @property
    def strategy(self) -> str:
        """The name of the rule by which links are used."""
        ...

    def links(self) -> Sequence[LinkReport]:
        """Return all links, the primary ones first."""
        ...

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        """Say where `route` would send a publication, and why."""
        ...


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """An overlay that the configuration can choose by name.

    Built with the gateway's id, its primary neighbours, and settings, of which it raises ValueError if they are wrong.
    `hints` says of a gateway's settings, a sentence for each, what is no mistake, but hardly meant.
    """

    name: str
    build: Callable[[GatewayId, Sequence[GatewayId], Settings], Overlay]
    hints: Callable[[Settings], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What an admission plugin is asked about."""

    gateway: GatewayId
    client: ClientId
    name: str
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """A record that a client has written, before anything is done with it; one of 0 bytes deletes."""

    gateway: GatewayId
    client: ClientId
    token: str
    record_bytes: int
    subscriptions: int
    changes_per_min: int


@dataclass(frozen=True, slots=True)
class CounterRecord:
    """What a telemetry sink is given: a gateway's counts by name, at a time in seconds since 1970."""

    gateway: GatewayId
    at: float
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens, and as whom we go there."""

    host: str
    port: int
    username: str = ""
    password: str = ""
    tls: TlsFiles | None = None
    session_secret: bytes = field(default=b"", repr=False)

    def session(self, name: str) -> str:
        """Return the MQTT client id of a session of a gateway's there, by its well-known name.

        Whoever connects by an id can end its session with all that waits in it. So if the federation has a secret for
        that, ids end with what nobody can work out without it, of other sessions' ids as little as of names.
        """
        if not self.session_secret:
            return name
        digest = blake2b(name.encode(), key=self.session_secret, digest_size=8, person=b"mqloom-session")
        return f"{name}-{digest.hexdigest()}"


class BrokerAdapter(Protocol):
    """Makes sure of a broker: one that runs already, or one that it starts itself."""

    async def start(self) -> None:
        """Return when the broker can be connected to; raises BrokerError if it never will."""
        ...

    async def stop(self) -> None:
        """End what `start` began."""
        ...


class Learned(Protocol):
    """How an adapter tells what plain clients want: all of it, and how many more it has passed over since its start."""

    def __call__(self, filters: Collection[str], passed_over: int = 0, /) -> None:
        """Let that count."""
        ...


@runtime_checkable
class InterestAdapter(BrokerAdapter, Protocol):
    """An adapter of a broker that tells what its plain clients subscribe to. One that cannot has no `watch`."""

    def watch(self, gateway: GatewayId, learned: Learned) -> None:
        """Have `learned` called, in the event loop, with all their topic filters, whenever they may have changed.

        Called once, before `start`. What is learned before `start` returns is announced before the gateway says that it
        has told everything; so an adapter that has kept what it knew tells that first.
        """
        ...


class BrokerFigures(NamedTuple):
    """What a broker says of itself at the moment, by the names that it has for it; empty where it says nothing."""

    named: Mapping[str, float] = MappingProxyType({})
    memory_bytes: float | None = None
    """What of it is the broker's memory, if it tells that."""


@runtime_checkable
class FiguresAdapter(BrokerAdapter, Protocol):
    """An adapter of a broker that tells figures of itself. One that cannot has no `figures`."""

    def figures(self) -> BrokerFigures:
        """Return what was told last; asked for when a window of the meters ends. Nothing, if that was long ago."""
        ...


@dataclass(frozen=True, slots=True)
class AdapterKind:
    """A broker adapter that the configuration can choose by name; built with the address it serves."""

    name: str
    build: Callable[[BrokerAddress], BrokerAdapter]

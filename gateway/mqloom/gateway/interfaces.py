"""What plugins build: the narrow shapes in which a gateway uses a codec, a matcher, an overlay, an agent, an adapter.

A hook of `hookspecs.py` is asked once, at the start, and answers with one of the named kinds below; the configuration
chooses among them by name. What they build is then called directly, in batches, with no hook call in between.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.core.subscription import Subscription

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


class OverlayStarted(NamedTuple):
    """The gateway starts: an overlay's first event."""


class NeighbourTold(NamedTuple):
    """The overlay of a primary neighbour said something to ours."""

    neighbour: GatewayId
    body: bytes


class LinkStood(NamedTuple):
    """A link, primary or soft, came up, or is up no more. Until the first word of it a link is not up."""

    gateway: GatewayId
    up: bool


class OverlayWoke(NamedTuple):
    """The time that an overlay asked for has come."""


class TellNeighbour(NamedTuple):
    """Say something to the overlay of a primary neighbour: urgently, or in order with announcements."""

    neighbour: GatewayId
    body: bytes
    urgent: bool


class OpenSoftLink(NamedTuple):
    """Connect to a gateway that is no neighbour; LinkStood says when it is done."""

    gateway: GatewayId


class CloseSoftLink(NamedTuple):
    """Give up a soft link, once what is under way on it has been taken care of."""

    gateway: GatewayId


class AnchorsChanged(NamedTuple):
    """What `anchor_here` and `anchor_for` answer may differ now: ask again."""


class WakeOverlayAt(NamedTuple):
    """Send OverlayWoke at this time; a later one replaces an earlier one."""

    at: float


OverlayEvent = OverlayStarted | NeighbourTold | LinkStood | OverlayWoke
OverlayEffect = TellNeighbour | OpenSoftLink | CloseSoftLink | AnchorsChanged | WakeOverlayAt


class Overlay(Protocol):
    """Decides where announcements and publications go next, and which links there are besides the primary ones.

    A subscription is kept under an anchor: a gateway on the way to its subscriber, as far ahead as the overlay can see.
    `source` is None for what began at this gateway.
    """

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Return the primary neighbours to which a subscription from primary neighbour `source` travels on."""
        ...

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """Return the anchor under which a subscription is kept that `neighbour` announced under `anchor`."""
        ...

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Return the anchor under which primary neighbour `target` is told of a subscription.

        `anchor` is the one under which it is kept here; None is our own client's.
        """
        ...

    def route(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Return the gateways to which a publication goes, over primary and open soft links.

        `anchors` are those under which matching subscriptions are kept here; `source` is the gateway that sent the
        publication to us, over whichever link.
        """
        ...

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Take an event, return what is to be done."""
        ...


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """An overlay that the configuration can choose by name.

    Built with the gateway's id, its primary neighbours and settings; raises ValueError for settings that are wrong.
    """

    name: str
    build: Callable[[GatewayId, Sequence[GatewayId], Settings], Overlay]


class ControlReceived(NamedTuple):
    """An agent of the same name at `origin` published `body`."""

    origin: GatewayId
    body: bytes


class AgentWoke(NamedTuple):
    """The time that an agent asked for has come; also its first event, at the start."""


class PublishControl(NamedTuple):
    """Send `body` to the agents of the same name on all gateways within `hops` links."""

    body: bytes
    hops: int


class WakeAgentAt(NamedTuple):
    """Send AgentWoke at this time; a later one replaces an earlier one."""

    at: float


AgentEvent = ControlReceived | AgentWoke
AgentEffect = PublishControl | WakeAgentAt


class Agent(Protocol):
    """An internal subscriber with timers, which talks to its like on other gateways; a core without IO itself."""

    @property
    def name(self) -> str:
        """The name by which the agents of all gateways find each other."""
        ...

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Take an event, return what is to be done."""
        ...


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What an admission plugin is asked about."""

    gateway: GatewayId
    client: ClientId
    name: str
    subscription: Subscription


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


class BrokerAdapter(Protocol):
    """Makes sure of a broker: one that runs already, or one that it starts itself."""

    async def start(self) -> None:
        """Return when the broker can be connected to; raises BrokerError if it never will."""
        ...

    async def stop(self) -> None:
        """End what `start` began."""
        ...


@dataclass(frozen=True, slots=True)
class AdapterKind:
    """A broker adapter that the configuration can choose by name; built with the address it serves."""

    name: str
    build: Callable[[BrokerAddress], BrokerAdapter]

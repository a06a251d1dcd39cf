"""What a node is built of: the configuration and the plugins of one gateway, as its core sees them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PAYLOAD_BYTES_MAX
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.interfaces import CodecChoice, Matcher, Overlay, RecordRequest, SubscribeRequest
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.pace import Pace
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.sealing import SealParts
from mqloom.gateway.subscribers import Standing


def admit_all(request: SubscribeRequest) -> str | None:
    """Admit everybody: what a gateway does without an admission plugin."""
    return None


def admit_any(request: RecordRequest) -> str | None:
    """Admit every record."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What a node is built of. The epoch must be larger than at any earlier start of this gateway."""

    gateway: GatewayId
    epoch: int
    neighbours: Sequence[GatewayId]
    matcher: Matcher
    overlay: Overlay
    codecs: Sequence[CodecChoice]
    agents: Sequence[Agent] = ()
    offloads: Mapping[str, OffloadKind] = field(default_factory=dict)
    """Ways to choose whom to move, for agents."""
    admit: Callable[[SubscribeRequest], str | None] = admit_all
    admit_record: Callable[[RecordRequest], str | None] = admit_any
    pace: Pace | None = None
    """None: clients may do as much as they like."""
    peers: Collection[GatewayId] = ()
    """All other gateways of the federation: to these a soft link may be opened, and from these one may come."""
    network: Collection[tuple[GatewayId, GatewayId]] | None = None
    """All primary links of the configuration; None if they are not known here: then links that were moved stay."""
    shows_links: bool = False
    """Whether the links are shown on our own broker, for people."""
    standing: Sequence[Standing] = ()
    federate: Sequence[str] = ()
    """What is republished here for plain clients, whatever they are known to want."""
    data: Sequence[str] = ("#",)
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    """Larger payloads are not taken in: some broker on the way might end a connection on them, again and again."""
    counters: Counters = field(default_factory=Counters)
    seals: SealParts | None = None
    """None: the federation has no key, and whoever can write to link topics is believed."""
    orders: OrderParts | None = None
    """None: the federation has no order key, and its clients stay where they are."""

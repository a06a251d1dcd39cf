"""What of a running node can be changed: how payloads are read, what is data, and what is wanted by configuration.

New subscriptions begin before those that are gone end, and these end behind what is under way, so that a filter that is
changed has no gap. What clients have asked for is as it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mqloom.core.seals import Keyring
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.clients import Clients
from mqloom.gateway.contents import Contents
from mqloom.gateway.interfaces import CodecChoice
from mqloom.gateway.link_changes import Network
from mqloom.gateway.plain_interest import PlainInterest
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.subscribers import Standing

if TYPE_CHECKING:
    from mqloom.gateway.node import NodeParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured:
    """The configuration was read again: from now on this holds."""

    codecs: Sequence[CodecChoice]
    standing: Sequence[Standing]
    federate: Sequence[str]
    data: Sequence[str]
    keyring: Keyring | None = None
    """The federation's keys; whether it has any does not change while a gateway runs."""
    orders: OrderParts | None = None
    """With what clients are ordered, and where they find brokers."""
    network: Network | None = None
    """The gateways and their primary links; None: as they were."""
    agents: Mapping[str, Agent | None] = field(default_factory=dict)
    """Agents that take the place of those of their names, or are new; None: there is none of this name any more."""


def reconfigure(
    event: Reconfigured, parts: "NodeParts", contents: Contents, clients: Clients, plain: PlainInterest, now: float
) -> "NodeParts":
    """Let it hold; return the node's parts as they are then."""
    changed = replace(
        parts,
        codecs=event.codecs,
        standing=event.standing,
        federate=event.federate,
        data=event.data,
        orders=event.orders,
    )
    contents.change(event.codecs)
    clients.change(changed, event.standing, now)
    plain.change(event.data, event.federate, now)
    return changed

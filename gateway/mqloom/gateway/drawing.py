"""A federation drawn as text: what it takes in, and its brokers as a tree from the first one."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.gateway.configuration import BrokerTable, Configuration


class Strokes(NamedTuple):
    """What the branches of a tree are drawn with."""

    fork: str
    last: str
    trunk: str
    gap: str


BOXES: Final = Strokes("├── ", "└── ", "│   ", "    ")
"""With box-drawing characters."""

PLAIN: Final = Strokes("|-- ", "`-- ", "|   ", "    ")
"""For a terminal that knows no more than ASCII."""


def draw(configuration: Configuration, strokes: Strokes = BOXES) -> str:
    """Return the drawing, lines joined; the primary links must form a tree."""
    federation = configuration.federation
    lines = [
        f"federation {federation.name}, matcher {federation.matcher}, overlay {federation.overlay}",
        *(f"  data   {topics}" for topics in federation.data),
        *(f"  codec  {', '.join(table.names)} for {table.topics}" for table in configuration.codecs),
        "",
        *_tree(configuration, strokes),
    ]
    return "\n".join(lines)


class _Branch(NamedTuple):
    """A broker to be drawn: where it was come from, what stands before it, and what before all that hangs on it."""

    broker: BrokerTable
    parent: GatewayId | None
    before: str
    below: str


def _tree(configuration: Configuration, strokes: Strokes) -> Iterator[str]:
    brokers = {broker.id: broker for broker in configuration.brokers}
    neighbours: dict[GatewayId, list[GatewayId]] = {broker: [] for broker in brokers}
    for link in configuration.links:
        one, other = link.between
        neighbours[one].append(other)
        neighbours[other].append(one)
    # A stack and no recursion: a federation may be one long line.
    stack = [_Branch(configuration.brokers[0], None, "", "")]
    while stack:
        broker, parent, before, below = stack.pop()
        children = [other for other in neighbours[broker.id] if other != parent]
        yield f"{before}{_headline(broker)}"
        trunk = strokes.trunk if children else strokes.gap
        yield from (f"{below}{trunk}{line}" for line in _subscriptions(configuration, broker.id))
        branches = [
            _Branch(brokers[child], broker.id, below + strokes.fork, below + strokes.trunk) for child in children
        ]
        if branches:
            branches[-1] = branches[-1]._replace(before=below + strokes.last, below=below + strokes.gap)
        stack += reversed(branches)


def _headline(broker: BrokerTable) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    user = f", as {broker.username}" if broker.username else ""
    return f"{broker.id}  {host}:{broker.port}, {broker.adapter}{user}"


def _subscriptions(configuration: Configuration, gateway: GatewayId) -> Iterator[str]:
    for table in configuration.subscriptions:
        if table.broker == gateway:
            where = f" where {' '.join(table.where.split())}" if table.where.strip() else ""
            yield f"wants {table.topics}{where}, into {table.into}"

"""A federation's links as a picture: the tree of primary links, and soft links across it, the wider the busier."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mqloom.core.ids import GatewayId
from mqloom.core.records import PaintedLink
from mqloom.gateway.overlay_view import Gallery

# Okabe and Ito's colours, which everybody can tell apart.
PRIMARY: Final = "#777777"
SOFT: Final = "#0072B2"
CANDIDATE: Final = "#E69F00"
DOWN: Final = "#D55E00"
WIDEST: Final = 5.0
CANDIDATES_MAX: Final = 200
"""Candidates drawn; past that none is, or nothing else could be seen, and the legend says so."""

Places = dict[GatewayId, tuple[float, float]]


def draw(tree: Mapping[GatewayId, Sequence[GatewayId]], gallery: Gallery, title: str, path: Path) -> None:
    """Draw into a file, whose name says the format; needs matplotlib. `tree` has the primary neighbours of each."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to load

    places = place(tree)
    width = 2.0 + 1.5 * max(x for x, _ in places.values())
    height = 3.0 + 0.9 * max(y for _, y in places.values())
    figure = Figure(figsize=(min(max(width, 7.0), 40.0), min(height, 40.0)), dpi=150)
    axes = figure.subplots()
    _links(axes, places, gallery)
    for gateway, (x, y) in places.items():
        missing = gateway in gallery.problems
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": DOWN if missing else "black"}
        text = f"{gateway}\nnot seen" if missing else gateway
        axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=5)
    axes.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axes.margins(0.12, 0.35)
    axes.set_axis_off()
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncols=4, bbox_to_anchor=(0.5, -0.08))
    figure.savefig(path, bbox_inches="tight")


def place(tree: Mapping[GatewayId, Sequence[GatewayId]]) -> Places:
    """Return where each gateway stands: as many steps to the right as it is away from one end of the tree.

    A link counts if one end names it. Parts that are not connected stand below each other.
    """
    tree = _both_ways(tree)
    places: Places = {}
    lines = 0.0
    for gateway in tree:
        if gateway not in places:
            part = _place_part(tree, gateway)
            places |= {each: (x, y + lines) for each, (x, y) in part.items()}
            lines += 1 + max(y for _, y in part.values())
    return places


def _both_ways(tree: Mapping[GatewayId, Sequence[GatewayId]]) -> dict[GatewayId, list[GatewayId]]:
    """Return the links as seen from both ends, of all that are named; one end may know of a move, the other not."""
    links: dict[GatewayId, dict[GatewayId, None]] = {gateway: {} for gateway in tree}
    for gateway, others in tree.items():
        for other in others:
            links[gateway][other] = None
            links.setdefault(other, {})[gateway] = None
    return {gateway: list(others) for gateway, others in links.items()}


def _place_part(tree: Mapping[GatewayId, Sequence[GatewayId]], start: GatewayId) -> Places:
    first = _ways(tree, start)
    order = _ways(tree, list(first)[-1])  # the last found is one of the farthest: an end of the tree
    below: dict[GatewayId, list[GatewayId]] = {gateway: [] for gateway in order}
    for gateway, (parent, _) in order.items():
        if parent is not None:
            below[parent].append(gateway)
    heights: dict[GatewayId, float] = {}
    leaves = 0
    for gateway in _depth_first(below, next(iter(order))):
        if below[gateway]:
            heights[gateway] = sum(heights[each] for each in below[gateway]) / len(below[gateway])
        else:
            heights[gateway] = float(leaves)
            leaves += 1
    return {gateway: (float(distance), heights[gateway]) for gateway, (_, distance) in order.items()}


def _ways(
    tree: Mapping[GatewayId, Sequence[GatewayId]], start: GatewayId
) -> dict[GatewayId, tuple[GatewayId | None, int]]:
    """Return for every gateway its next one towards a start, and how far away that is; the nearest first."""
    found: dict[GatewayId, tuple[GatewayId | None, int]] = {start: (None, 0)}
    queue = [start]
    for gateway in queue:
        for other in tree[gateway]:
            if other not in found:
                found[other] = (gateway, found[gateway][1] + 1)
                queue.append(other)
    return found


def _depth_first(below: Mapping[GatewayId, Sequence[GatewayId]], root: GatewayId) -> list[GatewayId]:
    """Return all gateways, each behind those below it."""
    order, stack = [], [root]
    while stack:
        gateway = stack.pop()
        order.append(gateway)
        stack += below[gateway]
    return order[::-1]


def _links(axes: Any, places: Places, gallery: Gallery) -> None:
    painted = [(gateway, link) for gateway, portrait in gallery.portraits.items() for link in portrait.links]
    painted = [(gateway, link) for gateway, link in painted if link.gateway in places]
    busiest = max((link.publications for _, link in painted), default=0) or 1
    candidates = sum(link.kind == "candidate" for _, link in painted)
    if candidates > CANDIDATES_MAX:
        painted = [(gateway, link) for gateway, link in painted if link.kind != "candidate"]
    for gateway, link in painted:
        width = 0.8 + (WIDEST - 0.8) * link.publications / busiest
        if link.kind == "primary":
            (x, y), (to_x, to_y) = places[gateway], places[link.gateway]
            colour = PRIMARY if link.up else DOWN
            # Each end draws its half: it knows how the link stands there.
            axes.plot([x, (x + to_x) / 2], [y, (y + to_y) / 2], color=colour, linewidth=1.5 + width / 2, zorder=1)
        else:
            _arc(axes, places[gateway], places[link.gateway], link, width)
    for name, colour, style in (
        ("primary", PRIMARY, "-"),
        ("soft, the wider the busier", SOFT, "-"),
        ("candidate" if candidates <= CANDIDATES_MAX else f"candidate: {candidates:,}, not drawn", CANDIDATE, ":"),
        ("not up", DOWN, "-"),
    ):
        axes.plot([], [], color=colour, linestyle=style, label=name)


def _arc(axes: Any, start: tuple[float, float], end: tuple[float, float], link: PaintedLink, width: float) -> None:
    is_soft = link.kind == "soft"
    colour = CANDIDATE if not is_soft else SOFT if link.up else DOWN
    arrow = {
        "arrowstyle": "-|>",
        "connectionstyle": "arc3,rad=-0.35",
        "color": colour,
        "linestyle": "-" if is_soft else ":",
        "linewidth": width if is_soft else 0.8,
        "shrinkA": 12,
        "shrinkB": 12,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=3 if is_soft else 2)

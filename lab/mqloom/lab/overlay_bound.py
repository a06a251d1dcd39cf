"""How few pure forwards a publication could need."""

from collections.abc import Iterable, Mapping, Sequence

from mqloom.core.ids import GatewayId

Depths = tuple[int, int]
"""Of the pieces into which a subtree's stops fall, how deep the highest stop is: of the nearest piece, the farthest."""


class LeastForwards:
    """The least number of pure forwards with links over at most `delta` hops of the tree, however many links there are.

    Whoever a publication comes to are its stops. Stops are one piece if each can be reached from the origin by steps
    of at most delta hops between stops; where none want it stops are pure forwards. The least number is found from
    the leaves up, exactly: what is deeper than delta and still apart can never be reached, pieces whose depths add up
    to delta or less become one, and of several that are apart only the nearest and the farthest matter.
    """

    def __init__(self, links: Iterable[tuple[GatewayId, GatewayId]], delta: int) -> None:
        self._delta = delta
        self._near: dict[GatewayId, list[GatewayId]] = {}
        for one, other in links:
            self._near.setdefault(one, []).append(other)
            self._near.setdefault(other, []).append(one)

    def least(self, origin: GatewayId, wanting: frozenset[GatewayId]) -> int:
        """Return how many pure forwards one publication needs."""
        order: list[tuple[GatewayId, GatewayId | None]] = [(origin, None)]
        for here, parent in order:
            order.extend((other, here) for other in self._near[here] if other != parent)
        below: dict[GatewayId, list[Mapping[Depths, int]]] = {}
        for here, parent in reversed(order):
            stops = self._joined(below.pop(here, []), is_free=here in wanting or here == origin)
            if parent is None:
                return min(cost for (_, farthest), cost in stops.items() if farthest == 0)
            if stops:
                below.setdefault(parent, []).append(stops)
        raise AssertionError("the origin comes last")

    def _joined(self, children: Sequence[Mapping[Depths, int]], *, is_free: bool) -> dict[Depths, int]:
        """Return the least cost of each state of a subtree; empty if nobody in it wants anything."""
        found: dict[Depths, int] = {}
        for child in children:
            lifted = {(near + 1, far + 1): cost for (near, far), cost in child.items() if far < self._delta}
            found = self._both(found, lifted) if found else lifted
        if not found:
            return {(0, 0): 0} if is_free else {}
        here = {(0, 0): min(found.values()) + (not is_free)}
        return here if is_free else {**found, **here}

    def _both(self, some: Mapping[Depths, int], others: Mapping[Depths, int]) -> dict[Depths, int]:
        found: dict[Depths, int] = {}
        for (near, far), cost in some.items():
            for (other_near, other_far), other_cost in others.items():
                nearest, farthest = min(near, other_near), max(far, other_far)
                if nearest + farthest <= self._delta:
                    farthest = nearest
                state = (nearest, farthest)
                found[state] = min(found.get(state, cost + other_cost), cost + other_cost)
        return found

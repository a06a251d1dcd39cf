"""The master overlay map (paper 001, section 3): the primary network within delta hops, numbered for bit vectors.

Gateways are numbered nearer ones first, the primary neighbours from 0 in the order of the configuration. So along any
way out from us the numbers rise, and of a set of gateways on one way the farthest is its highest bit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mqloom.core.ids import GatewayId

Tree = Sequence[tuple[GatewayId, int]]
"""What is behind a neighbour, nearer ones first: each gateway with its parent, 0 for the neighbour, k for the k-th."""


def bits(vector: int) -> Iterator[int]:
    """Return the numbers in a bit vector, rising."""
    while vector:
        low = vector & -vector
        yield low.bit_length() - 1
        vector ^= low


class MasterMap:
    """The tree around one gateway. It never changes: another tree is another map."""

    def __init__(self, us: GatewayId, neighbours: Sequence[GatewayId], trees: Mapping[GatewayId, Tree]) -> None:
        self.us = us
        self.gateways: list[GatewayId] = []
        self.numbers: dict[GatewayId, int] = {}
        self.parents: list[int] = []
        """The next gateway on the way to us; -1 is us."""
        self.distances: list[int] = []
        self.sides: list[int] = []
        """The primary neighbour behind which it is, or which it is."""
        self.ways: list[int] = []
        """The gateways on the way from us to it, with itself: Between, before contraction."""
        self.subtrees: list[int] = []
        """What is downstream of it as seen from us, with itself: Beyond, before contraction."""
        self.primary = (1 << len(neighbours)) - 1
        for gateway, parent in _by_distance(us, neighbours, trees):
            self._add(gateway, parent)
        for number in range(len(self.gateways) - 1, len(neighbours) - 1, -1):
            self.subtrees[self.parents[number]] |= self.subtrees[number]

    def _add(self, gateway: GatewayId, parent: GatewayId) -> None:
        assert gateway not in self.numbers, f"{gateway} has two places"
        number = len(self.gateways)
        bit = 1 << number
        above = self.numbers.get(parent, -1)
        self.gateways.append(gateway)
        self.numbers[gateway] = number
        self.parents.append(above)
        self.distances.append(1 if above < 0 else self.distances[above] + 1)
        self.sides.append(number if above < 0 else self.sides[above])
        self.ways.append(bit if above < 0 else self.ways[above] | bit)
        self.subtrees.append(bit)

    def __len__(self) -> int:
        return len(self.gateways)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MasterMap) and (self.us, self.gateways, self.parents) == (
            other.us,
            other.gateways,
            other.parents,
        )

    __hash__ = None  # type: ignore[assignment] # compared, never kept in a set

    def names(self, vector: int) -> list[GatewayId]:
        """Return the gateways in a bit vector, nearer ones first."""
        return [self.gateways[number] for number in bits(vector)]

    def vector(self, gateways: Iterable[GatewayId]) -> int:
        """Return the bit vector of those gateways that are on the map."""
        vector = 0
        for gateway in gateways:
            number = self.numbers.get(gateway)
            if number is not None:
                vector |= 1 << number
        return vector

    def adjacent(self, number: int) -> list[int]:
        """Return the primary neighbours of a gateway, as far as the map shows them, without us."""
        beyond = [other for other in bits(self.subtrees[number]) if self.parents[other] == number]
        return beyond if self.parents[number] < 0 else [self.parents[number], *beyond]


def _by_distance(
    us: GatewayId, neighbours: Sequence[GatewayId], trees: Mapping[GatewayId, Tree]
) -> Iterator[tuple[GatewayId, GatewayId]]:
    """Return gateways with their parents: all at distance 1, all at distance 2, and so on."""
    yield from ((neighbour, us) for neighbour in neighbours)
    levels: list[list[tuple[GatewayId, GatewayId]]] = []
    for neighbour in neighbours:
        members, depths = [neighbour], [0]
        for gateway, parent in trees.get(neighbour, ()):
            members.append(gateway)
            depths.append(depths[parent] + 1)
            if len(levels) < depths[-1]:
                levels.append([])
            levels[depths[-1] - 1].append((gateway, members[parent]))
    for level in levels:
        yield from level

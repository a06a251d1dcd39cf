"""The working overlay map (paper 001, section 3): the master map as seen through the links that we have.

Step 1, edge contraction, puts each gateway without a direct link in the place of the next one with a link on the way to
us. Because numbers rise along a way, that one is the highest bit of `way & links`; and the three sets of step 3 are
those of the master map masked with `links`. So nothing is built when a link comes or goes: one bit changes. Step 2's
order by distance is the numbering itself. (The paper orders by distance in the contracted graph; along a way both rise,
and the strategies ask for no more.)
"""

from collections.abc import Iterable

from mqloom.core.ids import GatewayId
from mqloom.plugins.overlay.master_map import MasterMap, bits


class WorkingMap:
    """A master map with the bit vector of direct links, which always has the primary ones."""

    __slots__ = ("links", "master")

    def __init__(self, master: MasterMap, linked: Iterable[GatewayId] = ()) -> None:
        self.master = master
        self.links = master.primary | master.vector(linked)

    def add(self, gateway: GatewayId) -> None:
        """Take in a link; a gateway that is not on the map is left out."""
        self.links |= self.master.vector([gateway])

    def remove(self, gateway: GatewayId) -> None:
        """Take out a link that is not primary."""
        self.links &= ~self.master.vector([gateway]) | self.master.primary

    def substitute(self, number: int) -> int:
        """Return the gateway with a link that stands for this one: the nearest on its way to us, or itself."""
        return (self.master.ways[number] & self.links).bit_length() - 1

    def contract(self, vector: int) -> int:
        """Return the gateways with links that stand for those in a bit vector."""
        contracted = 0
        for number in bits(vector):
            contracted |= 1 << self.substitute(number)
        return contracted

    def between(self, number: int) -> int:
        """BetweenSet: the gateway and those with links on the way to it."""
        return self.master.ways[number] & self.links

    def beyond(self, number: int) -> int:
        """BeyondSet: the gateway and those with links downstream of it, as seen from us."""
        return self.master.subtrees[number] & self.links

    def behind(self, number: int) -> int:
        """BehindSet: those with links downstream of us, as seen from the gateway: all that are on other sides."""
        return self.links & ~self.master.subtrees[self.master.sides[number]]

"""What links are worth, each beside the others that there are (paper 001, section 6).

Section 6 counts the publications that a link has on a map where all candidates are links, times the gateways that it
bypasses, times the load scaling factor. That is as if there were room for all: what two links can both serve counts for
the farther one alone, and a gateway with few places fills them with links that spare little together. Here the map has
the links that are there, and no more candidates than there is room for. The worth of a set of links is that of all its
links by section 6's formula, and a link's gain is what the set is worth with it, less what it is worth without it.

Publications are counted by whom they want on one side, as a bit vector on the master map; sides do not concern each
other, neither in S1 nor in S2.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap, bits
from mqloom.plugins.overlay.strategies import STRATEGIES
from mqloom.plugins.overlay.working_map import WorkingMap

Traffic = Mapping[int, int]
"""How many publications wanted these gateways, a bit vector, all on one side."""


class Sent(NamedTuple):
    """Who gets copies of a publication, a bit vector; and what the links are worth that they go over."""

    forward: int
    worth: float


class Gain(NamedTuple):
    """The publications that a link has, or would have; and what it adds to the worth of the others."""

    publications: int
    gain: float


class Worth:
    """What sets of links would have been worth for the publications of one period."""

    def __init__(self, master: MasterMap, links: int, strategy: str, traffic: Traffic, loads: Loads) -> None:
        self._master = master
        self._strategy = STRATEGIES[strategy]
        self._working = WorkingMap(master)
        self._links = links
        self._traffic = list(traffic.items())
        self._scaling = cache(lambda number: loads.scaling(master, number))
        self._sent = [self._send(links, wanted) for wanted, _ in self._traffic]

    def relink(self, links: int) -> None:
        """Take another set of links for the one that there is."""
        concerned = 0
        for number in bits(links ^ self._links):
            concerned |= self._master.subtrees[number]
        self._links = links
        for place, (wanted, _) in enumerate(self._traffic):
            if wanted & concerned:
                self._sent[place] = self._send(links, wanted)

    def gain(self, number: int) -> Gain:
        """Return what a link adds, whether it is there or not."""
        return self._removed(1 << number) if self._links >> number & 1 else self._added(number)

    def _removed(self, link: int) -> Gain:
        publications, gain = 0, 0.0
        for (wanted, count), sent in zip(self._traffic, self._sent, strict=True):
            if sent.forward & link:
                publications += count
                if not link & self._master.primary:  # primary links are always there
                    gain += count * (sent.worth - self._send(self._links & ~link, wanted).worth)
        return Gain(publications, gain)

    def _added(self, number: int) -> Gain:
        link = 1 << number
        way, beyond = self._master.ways[number] & ~link, self._master.subtrees[number]
        publications, gain = 0, 0.0
        for (wanted, count), sent in zip(self._traffic, self._sent, strict=True):
            # Nothing changes for what is wanted elsewhere, or by somebody on the way who gets a copy.
            if wanted & beyond and not wanted & way & sent.forward:
                with_link = self._send(self._links | link, wanted)
                publications += count if with_link.forward & link else 0
                gain += count * (with_link.worth - sent.worth)
        return Gain(publications, gain)

    def _send(self, links: int, wanted: int) -> Sent:
        self._working.links = links
        forward = self._strategy(self._working, self._working.contract(wanted))
        distances = self._master.distances
        worth = sum((distances[number] - 1) * self._scaling(number) for number in bits(forward & ~self._master.primary))
        return Sent(forward, worth)

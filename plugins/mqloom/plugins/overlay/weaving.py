"""Which soft links a gateway has, and which it thinks about (paper 001, section 6).

Theory of operation. A link to a gateway on the map is one of

    candidate   thought about: profiled, but not there
    opening     asked for, and not up: profiled
    open        up: publications travel on it

Every period each is given its gain (`worth`): what it adds to the links that are there and the candidates for which
there is room, in publications times gateways bypassed times their load; smoothed over the periods. Then, in this order:

    1. An opening link that was not up for a whole period is given up, and its gateway left alone for a while.
    2. A soft link that has had no publication for IDLE_PERIODS is closed.
    3. The best candidates of at least GAIN_OPEN are opened while there is room within the fanout. Then a candidate
       takes the place of the worst soft link, if its gain is more than BETTER times that one's, and GAIN_OPEN: links
       whose gains are about the same do not change places, and a link is judged only after a whole period. Each
       time a candidate is taken, what the next best would still add beside it is asked again; and each time a link
       is closed, what those that stay add without it: two that serve the same do not both go.
    4. Candidates are chosen anew: by their gain where it was measured, else by what the links of their neighbours had.

Ties go to the nearer gateway, then to the order of the map. Soft links around a primary neighbour that is down go
before all others, at once and without regard to gain; what they displace is the worst.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import CloseSoftLink, LinkKind, LinkReport, OpenSoftLink
from mqloom.plugins.overlay.limits import (
    BANNED_PERIODS,
    BETTER,
    GAIN_OPEN,
    GAIN_SMOOTHING,
    IDLE_PERIODS,
    POTENTIAL_MIN,
    POTENTIAL_WEIGHT,
)
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap, bits
from mqloom.plugins.overlay.worth import Traffic, Worth

Effects = list[OpenSoftLink | CloseSoftLink]


@dataclass(slots=True)
class Woven:
    """A soft or candidate link: since when it is what it is, and what it was worth."""

    since: float
    gain: float | None = None
    """Smoothed; None before it was first measured."""
    newest: float = 0.0
    """The gain in the last period, not smoothed."""
    periods: int = 0
    """How often it was measured."""
    idle: int = 0
    """For how many periods it has had no publication."""
    publications: int = 0
    soft: bool = False
    up: bool = False
    was_up: bool = False
    """In this period."""


class Weaving:
    """The soft and candidate links of one gateway."""

    def __init__(self, *, fanout: int, max_links: int, period_s: float, loads: Loads) -> None:
        self._fanout = fanout
        self._max_links = max_links
        self._period_s = period_s
        self._loads = loads
        self._links: dict[GatewayId, Woven] = {}
        self._banned: dict[GatewayId, float] = {}
        self._primary: dict[GatewayId, int] = {}
        """Publications of the primary links in the last period."""

    def keep_off(self, gateways: Sequence[GatewayId], now: float) -> Effects:
        """Have no link to these, and make none, until others are named."""
        self._banned = {gateway: until for gateway, until in self._banned.items() if until != math.inf}
        effects: Effects = []
        for gateway in gateways:
            if self._is_soft(gateway):
                effects += self._close(gateway, now)
            self._links.pop(gateway, None)
            self._banned[gateway] = math.inf
        return effects

    # ---- what there is -------------------------------------------------------------------------------------------

    def up(self) -> list[GatewayId]:
        """Return the soft links on which publications may travel."""
        return [gateway for gateway, link in self._links.items() if link.up]

    def soft(self) -> list[GatewayId]:
        """Return the soft links, up or not."""
        return [gateway for gateway, link in self._links.items() if link.soft]

    def profiled(self) -> list[GatewayId]:
        """Return all soft and candidate links."""
        return list(self._links)

    def stood(self, gateway: GatewayId, *, up: bool) -> bool:
        """Take note of how a soft link stands; whether it is one of ours, and that is news."""
        link = self._links.get(gateway)
        if link is None or not link.soft or link.up == up:
            return False
        link.up = up
        link.was_up = link.was_up or up
        return True

    def describe(self, master: MasterMap, down: int) -> list[LinkReport]:
        """Return all links: primary, soft, candidate; nearer ones first."""
        reports = []
        for number, gateway in enumerate(master.gateways):
            if master.primary >> number & 1:
                up = not down >> number & 1
                reports.append(LinkReport(gateway, "primary", up, 1, self._primary.get(gateway, 0), 0.0))
            elif link := self._links.get(gateway):
                kind: LinkKind = "soft" if link.soft else "candidate"
                distance = master.distances[number]
                reports.append(LinkReport(gateway, kind, link.up, distance, link.publications, link.gain or 0.0))
        return sorted(reports, key=lambda report: ("primary", "soft", "candidate").index(report.kind))

    # ---- what changes --------------------------------------------------------------------------------------------

    def remap(self, master: MasterMap, now: float) -> Effects:
        """Take another map: links to whoever left it are given up, and free places for candidates filled."""
        gone = [
            gateway for gateway in self._links if gateway not in master.numbers or self._is_primary(master, gateway)
        ]
        effects: Effects = [CloseSoftLink(gateway) for gateway in gone if self._links[gateway].soft]
        for gateway in gone:
            del self._links[gateway]
        self._choose_candidates(master, now)
        return effects

    def bypass(self, master: MasterMap, down: int, now: float) -> Effects:
        """Open soft links to the neighbours of primary neighbours that are down, a bit vector."""
        effects = self._go_around(master, self._around(master, down), now)
        self._choose_candidates(master, now)
        return effects

    def weave(self, master: MasterMap, traffic: Traffic, strategy: str, down: int, now: float) -> Effects:
        """End a period: judge all links by the publications that there were, and change them."""
        worth = Worth(master, self._possible(master), strategy, traffic, self._loads)
        self._measure(master, worth)
        self._banned = {gateway: until for gateway, until in self._banned.items() if until > now}
        around = self._around(master, down)
        effects = self._give_up(around, now)
        effects += self._go_around(master, around, now)
        worth.relink(self._possible(master))
        effects += self._promote(master, worth, around, now)
        self._choose_candidates(master, now)
        return effects

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _measure(self, master: MasterMap, worth: Worth) -> None:
        self._primary = {each: worth.gain(master.numbers[each]).publications for each in master.names(master.primary)}
        for gateway, link in self._links.items():
            link.publications, link.newest = worth.gain(master.numbers[gateway])
            link.idle = 0 if link.publications else link.idle + 1
            link.periods += 1
            old = link.gain or 0.0
            # At first the mean of all, so that one lucky period is not yet a reason.
            link.gain = old + max(GAIN_SMOOTHING, 1 / link.periods) * (link.newest - old)

    def _around(self, master: MasterMap, down: int) -> list[GatewayId]:
        return [master.gateways[each] for number in bits(down) for each in master.adjacent(number)]

    def _go_around(self, master: MasterMap, around: Sequence[GatewayId], now: float) -> Effects:
        effects: Effects = []
        for gateway in around:
            if self._is_soft(gateway) or gateway in self._banned:
                continue
            if not self._room(master):
                worst = self._worst(master, besides=around)
                if worst is None:
                    break
                effects += self._close(worst, now)
            effects += self._open(gateway, now)
        return effects

    def _give_up(self, around: Sequence[GatewayId], now: float) -> Effects:
        effects: Effects = []
        for gateway in self.soft():
            link = self._links[gateway]
            if not link.up and not link.was_up and link.since <= self._old(now):
                effects += self._close(gateway, now)
                del self._links[gateway]
                self._banned[gateway] = now + BANNED_PERIODS * self._period_s
            elif link.idle >= IDLE_PERIODS and gateway not in around:
                effects += self._close(gateway, now)
            link.was_up = link.up
        return effects

    def _promote(self, master: MasterMap, worth: Worth, around: Sequence[GatewayId], now: float) -> Effects:
        effects: Effects = []
        gains = {gateway: self._gain(gateway) for gateway, link in self._links.items() if not link.soft}
        while gains:
            gateway = min(gains, key=lambda each: (-gains[each], master.numbers[each]))
            left = self._left(master, worth, gateway)
            if left < gains[gateway]:
                gains[gateway] = left
                continue
            if left < GAIN_OPEN:
                break
            if not self._room(master):
                worst = self._worst(master, besides=around, before=self._old(now))
                if worst is None or left <= BETTER * self._gain(worst) + GAIN_OPEN:
                    break
                effects += self._close(worst, now)
                worth.relink(self._possible(master))
                self._reassess(master, worth)
            effects += self._open(gateway, now)
            worth.relink(self._possible(master))
            del gains[gateway]
        return effects

    def _left(self, master: MasterMap, worth: Worth, gateway: GatewayId) -> float:
        """Return how much of its gain a candidate would still add to those that were taken before it."""
        link = self._links[gateway]
        if link.newest <= 0:
            return self._gain(gateway)  # there was nothing to see it by in this period
        still = worth.gain(master.numbers[gateway]).gain
        return self._gain(gateway) * min(max(still / link.newest, 0.0), 1.0)

    def _reassess(self, master: MasterMap, worth: Worth) -> None:
        """Give soft links what they gain more, now that another is gone."""
        for gateway in self.soft():
            link = self._links[gateway]
            gain = worth.gain(master.numbers[gateway]).gain
            if gain > link.newest and link.gain is not None:
                link.gain += gain - link.newest
                link.newest = gain

    def _choose_candidates(self, master: MasterMap, now: float) -> None:
        """Fill the places that links leave with the most promising gateways of the map."""
        places = self._max_links - master.primary.bit_count() - len(self.soft())
        promise: dict[GatewayId, float] = {}
        for number, gateway in enumerate(master.gateways):
            link = self._links.get(gateway)
            if master.primary >> number & 1 or gateway in self._banned or (link and link.soft):
                continue
            promise[gateway] = self._potential(master, number)
            if link and link.gain is not None:  # known better; but while there is room, whoever may gain is watched
                promise[gateway] = link.gain + POTENTIAL_WEIGHT * promise[gateway]
        order = sorted(promise, key=lambda gateway: (-promise[gateway], master.numbers[gateway]))
        chosen = [each for each in order if promise[each] > 0][: max(places, 0)]
        for gateway in [each for each, link in self._links.items() if not link.soft and each not in chosen]:
            del self._links[gateway]
        for gateway in chosen:
            self._links.setdefault(gateway, Woven(since=now))

    def _potential(self, master: MasterMap, number: int) -> float:
        """Return what a link that was never profiled may gain.

        Section 6: next to a link of high gain there may be another. If half of what its neighbours have went on to it,
        and so past slow links and loaded gateways, it would gain this. A little more than nothing is to be expected two
        hops away, where the search begins.
        """
        near = [master.gateways[each] for each in master.adjacent(number)]
        had = max((self._publications(gateway) for gateway in near), default=0)
        weight = self._loads.scaling(master, number) * self._loads.slowness(master, number)
        start = POTENTIAL_MIN if master.distances[number] == 2 else 0.0
        return start + had / 2 * (master.distances[number] - 1) * weight

    # ---- parts of steps ------------------------------------------------------------------------------------------

    def _publications(self, gateway: GatewayId) -> int:
        link = self._links.get(gateway)
        return link.publications if link else self._primary.get(gateway, 0)

    def _gain(self, gateway: GatewayId) -> float:
        return self._links[gateway].gain or 0.0

    def _ranked(self, master: MasterMap, chosen: Callable[[Woven], bool]) -> list[GatewayId]:
        """Return links of one kind, those of the highest gain first."""
        names = [gateway for gateway, link in self._links.items() if chosen(link)]
        return sorted(names, key=lambda gateway: (-self._gain(gateway), master.numbers[gateway]))

    def _worst(self, master: MasterMap, besides: Sequence[GatewayId], before: float | None = None) -> GatewayId | None:
        ranked = self._ranked(master, lambda link: link.soft and (before is None or link.since <= before))
        return next((each for each in reversed(ranked) if each not in besides), None)

    def _possible(self, master: MasterMap) -> int:
        """Return the links that are there, and the best candidates for which there is room: the map for profiles."""
        room = max(self._fanout - master.primary.bit_count() - len(self.soft()), 0)
        best = self._ranked(master, lambda link: not link.soft)[:room]
        return master.primary | master.vector([*self.soft(), *best])

    def _old(self, now: float) -> float:
        """Return the time before which a link must have begun to be judged: a period ago, but for rounding."""
        return now - 0.9 * self._period_s

    def _room(self, master: MasterMap) -> bool:
        return master.primary.bit_count() + len(self.soft()) < self._fanout

    def _is_soft(self, gateway: GatewayId) -> bool:
        return gateway in self._links and self._links[gateway].soft

    def _is_primary(self, master: MasterMap, gateway: GatewayId) -> bool:
        return bool(master.primary >> master.numbers[gateway] & 1)

    def _open(self, gateway: GatewayId, now: float) -> Effects:
        link = self._links.setdefault(gateway, Woven(since=now))
        link.soft, link.since, link.idle = True, now, 0
        return [OpenSoftLink(gateway)]

    def _close(self, gateway: GatewayId, now: float) -> Effects:
        """Close a soft link; it stays a candidate, with the gain it had."""
        link = self._links[gateway]
        link.soft = link.up = link.was_up = False
        link.since = now
        return [CloseSoftLink(gateway)]

    def check(self, master: MasterMap) -> None:
        """State the invariants."""
        soft = self.soft()
        primary = master.primary.bit_count()
        assert not soft or primary + len(soft) <= self._fanout
        assert primary + len(self._links) <= max(self._max_links, primary)
        assert all(link.soft or not link.up for link in self._links.values())
        assert all(gateway in master.numbers and not self._is_primary(master, gateway) for gateway in self._links)

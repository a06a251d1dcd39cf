"""How loaded the gateways around us are, and how slow the links between them; told from neighbour to neighbour.

Section 6 takes the output rate as load, for that is what soft links can spare a gateway, and leaves open how it is
normalised: here by the gateway's uplink, where that is known, else by the highest rate in the neighbourhood.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mqloom.core.ids import GatewayId
from mqloom.plugins.overlay.bodies import Report
from mqloom.plugins.overlay.limits import (
    LOAD_MAX,
    LOAD_THRESHOLD,
    ROUND_TRIP_MS_MAX,
    SLOWNESS_MAX,
    SMOOTHING,
)
from mqloom.plugins.overlay.master_map import MasterMap, bits


@dataclass(slots=True)
class Loads:
    """What is known of loads and round trips within the map."""

    uplink_per_s: float | None
    _loads: dict[GatewayId, int] = field(default_factory=dict)
    _round_trips: dict[GatewayId, int] = field(default_factory=dict)
    """Of the primary link between a gateway and the next one on the way to us, in milliseconds."""
    _heard: dict[GatewayId, tuple[float, float]] = field(default_factory=dict)
    """A neighbour's clock in its last report, and ours when that came."""
    _ours: int = -1

    def measure(self, per_s: float) -> None:
        """Take note of how many copies we send."""
        if self.uplink_per_s is None:
            self._ours = -1 - min(round(per_s), LOAD_MAX)
        else:
            self._ours = min(round(100 * per_s / self.uplink_per_s), LOAD_MAX)

    def report(self, target: GatewayId, members: Sequence[GatewayId], view: int, now: float) -> Report:
        """Return what a neighbour is told; `members` are those in the view that it was told last."""
        sent, came = self._heard.get(target, (None, now))
        return Report(
            view=view,
            loads=[self._ours, *(self._loads.get(each, -1) for each in members)],
            round_trips=[-1, *(self._round_trips.get(each, -1) for each in members)],
            sent=now,
            echo=sent,
            held=now - came,
        )

    def take(self, neighbour: GatewayId, report: Report, members: Sequence[GatewayId] | None, now: float) -> bool:
        """Learn from a neighbour's report; `members` are those in its view, None if we do not know that view.

        Return whether it was of use.
        """
        if not (math.isfinite(report.sent) and math.isfinite(report.held)):
            return False
        self._heard[neighbour] = (report.sent, now)
        if report.echo is not None:
            self._echo(neighbour, now - report.echo - report.held)
        if members is None or not len(report.loads) == len(report.round_trips) >= len(members):
            return False  # the view may be on its way still
        self._loads.update(zip(members, report.loads, strict=False))
        # How far it is to the neighbour itself we know better.
        self._round_trips.update(zip(members[1:], report.round_trips[1:], strict=False))
        return True

    def _echo(self, neighbour: GatewayId, round_trip_s: float) -> None:
        if not 0 <= round_trip_s <= ROUND_TRIP_MS_MAX / 1000:
            return  # an echo of an earlier start, or nonsense
        newest = round(round_trip_s * 1000)
        old = self._round_trips.get(neighbour, -1)
        self._round_trips[neighbour] = newest if old < 0 else round(old + SMOOTHING * (newest - old))

    def forget_but(self, master: MasterMap) -> None:
        """Forget whoever is not on the map any more."""
        for gateway in {*self._loads, *self._round_trips, *self._heard} - master.numbers.keys():
            self._loads.pop(gateway, None)
            self._round_trips.pop(gateway, None)
            self._heard.pop(gateway, None)

    def scaling(self, master: MasterMap, number: int) -> float:
        """Return the load scaling factor of a link (section 6, with max for the printed min).

        It is the product over the gateways that the link bypasses.
        """
        top = max((-1 - load for load in self._loads.values() if load < 0), default=0)
        factor = 1.0
        for between in bits(master.ways[number] & ~(1 << number)):
            load = self._loads.get(master.gateways[between], -1)
            normalised = load / 100 if load >= 0 else (-1 - load) / top if top else 0.0
            factor *= 1 + max(0.0, normalised - LOAD_THRESHOLD)
        return factor

    def slowness(self, master: MasterMap, number: int) -> float:
        """Return how slow the primary links are that a link bypasses, compared with all that are known; 1 is usual."""
        known = [each for each in self._round_trips.values() if each >= 0]
        bypassed = [self._round_trips.get(master.gateways[each], -1) for each in bits(master.ways[number])]
        bypassed = [each for each in bypassed if each >= 0]
        if not bypassed or not any(known):
            return 1.0
        ratio = (sum(bypassed) / len(bypassed)) / (sum(known) / len(known))
        return min(max(ratio, 1 / SLOWNESS_MAX), SLOWNESS_MAX)

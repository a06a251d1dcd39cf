"""What a gateway reports of itself, worked out from looks at it: since when, how long, how many.

A node knows how things stand, not since when. So it is looked at every SAMPLE_EVERY_S, and what has changed since the
look before is dated with the later one. The lag is found in the same way: with each look goes the number that the next
publication of our own broker will get, so that the oldest one that is not taken care of is as old as the last look
before it. Looks that nothing can be older than are forgotten.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from mqloom.core.ids import GatewayId
from mqloom.core.limits import REPORT_COUNTS_MAX, REPORT_LINKS_MAX
from mqloom.core.load import Load
from mqloom.core.reports import Report, ReportedLink
from mqloom.gateway.holdings import Look, Progress
from mqloom.gateway.links import LinkState

LOOKS_MAX: Final = 86_400
"""Looks that are remembered; past that every other one is forgotten, and the lag is less exact."""


STATES: Final[Mapping[LinkState | None, Literal["up", "connecting", "down"]]] = {
    LinkState.UP: "up",
    LinkState.CONNECTING: "connecting",
    LinkState.DOWN: "down",
    None: "up",  # a soft link that is not, is none
}


class Reporting:
    """The reports of one gateway. Times are Unix times."""

    def __init__(self, gateway: GatewayId, epoch: int, now: float) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._links: dict[GatewayId, tuple[LinkState | None, float]] = {}  # None: a soft link
        self._parked: dict[GatewayId, int] = {}
        self._looks: deque[tuple[float, int]] = deque([(now, 0)])
        self._lag_s = 0.0

    def note(self, look: Look, now: float) -> None:
        """Take one look; must be called at times that grow."""
        states: dict[GatewayId, LinkState | None] = dict.fromkeys(look.holdings.flows)
        states |= look.links
        links = {}
        for neighbour, state in states.items():
            before = self._links.get(neighbour)
            links[neighbour] = before if before is not None and before[0] is state else (state, now)
        self._links = links
        parked = {}
        for neighbour, park in look.parks.items():
            # Behind a new marker the count begins anew, although what is before the marker may still be there.
            parked[neighbour] = max(park.lately, self._parked.get(neighbour, 0)) if park.is_used else 0
        self._parked = parked
        self._note_progress(look.progress, now)

    def _note_progress(self, progress: Progress, now: float) -> None:
        oldest = progress.next if progress.oldest is None else progress.oldest
        while len(self._looks) > 1 and self._looks[1][1] <= oldest:
            self._looks.popleft()
        self._lag_s = 0.0 if progress.oldest is None else max(0.0, now - self._looks[0][0])
        if self._looks[-1][1] != progress.next or progress.oldest is None:
            self._looks.append((now, progress.next))
        if len(self._looks) > LOOKS_MAX:
            self._looks = deque(list(self._looks)[::2])

    def report(
        self,
        look: Look,
        counts: Mapping[str, int],
        now: float,
        load: Load | None = None,
        broker: Mapping[str, float] = MappingProxyType({}),
    ) -> Report:
        """Return the report of a look that was noted."""
        names = sorted(self._links, key=lambda name: self._links[name][0] is None)  # soft ones last; else as they came
        listed = sorted(counts.items())
        return Report(
            gateway=self._gateway,
            epoch=self._epoch,
            at=now,
            links=tuple(self._link(name, look) for name in names[:REPORT_LINKS_MAX]),
            links_left_out=max(0, len(names) - REPORT_LINKS_MAX),
            held=look.holdings.duties,
            intake=look.holdings.intake,
            deliveries=look.holdings.deliveries,
            lag_s=round(self._lag_s, 3),
            clients=look.clients,
            migrating=look.migrating,
            draining=look.is_draining,
            subscriptions_here=look.subscriptions_here,
            subscriptions_elsewhere=look.subscriptions_elsewhere,
            load=load,
            broker=dict(list(broker.items())[:REPORT_COUNTS_MAX]),
            counts=dict(listed[:REPORT_COUNTS_MAX]),
            counts_left_out=max(0, len(listed) - REPORT_COUNTS_MAX),
        )

    def _link(self, name: GatewayId, look: Look) -> ReportedLink:
        state, since = self._links[name]
        return ReportedLink(
            gateway=name,
            kind="soft" if state is None else "primary",
            state=STATES[state],
            since=since,
            waiting=look.holdings.flows.get(name, 0),
            parked=self._parked.get(name, 0),
        )

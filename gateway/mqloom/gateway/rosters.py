"""The roster on our own broker: where clients find each broker of the federation, signed with its order key.

It is made of the configuration, and retained. Its serial only grows: if what an earlier run of ours kept there says the
same, it keeps its serial; else it gets a larger one, the time of day in seconds if that is larger still, so that also
who finds an earlier roster put back by somebody writes one that holds. Whatever else somebody writes there is counted,
and written over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import OrderError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import ROSTER_BROKERS_MAX, ROSTER_EVERY_S
from mqloom.core.orders import Roster, RosterBroker, read_roster, sign_roster
from mqloom.core.signatures import OrderKeys
from mqloom.gateway.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderParts:
    """With what a gateway orders clients."""

    federation: str
    keys: OrderKeys
    brokers: Mapping[GatewayId, RosterBroker]
    wall_at: Callable[[float], float]
    """Returns the time of day at a moment of the core's clock."""


class RosterKeeper:
    """Keeps the roster on one broker; without an order key it does nothing."""

    def __init__(self, parts: OrderParts | None, journal: Journal) -> None:
        self._parts = parts
        self._journal = journal
        self._kept: Roster | None = None
        """The newest that was found or written."""
        self._written = b""
        self._earlier = b""
        self._is_read = False
        self._next_at = 0.0
        self._is_due = False

    @property
    def roster(self) -> Roster | None:
        """The roster as it holds."""
        return self._kept if self._written else None

    def change(self, parts: OrderParts | None) -> None:
        """Let another configuration, or other keys, hold."""
        self._parts = parts
        self._is_due = self._is_read and parts is not None

    def found(self, data: bytes) -> None:
        """This is on our broker; no bytes: nothing is."""
        if self._parts is None or data == self._written:
            return
        try:
            roster = read_roster(data, self._parts.keys.public)
        except OrderError as error:
            if data:
                self._refuse(error.reason, error.problem)
        else:
            if self._is_read and data != self._earlier:  # that one may come back behind the next
                self._refuse("stranger", f"somebody else wrote one of serial {roster.serial}")
            if self._kept is None or roster.serial > self._kept.serial:
                self._kept = roster
        self._is_due = self._is_due or self._is_read

    def start(self) -> None:
        """What was kept there has been read."""
        if not self._is_read:
            self._is_read = True
            self._is_due = self._parts is not None

    def drain(self, now: float) -> list[PublishLocally]:
        """Return the roster, if it is to be written."""
        if not self._is_due or self._parts is None or now < self._next_at:
            return []
        self._is_due = False
        count = len(self._parts.brokers)
        if count > ROSTER_BROKERS_MAX:
            self._refuse("size", f"{count} brokers, the bound is {ROSTER_BROKERS_MAX}: none is written")
            return []
        self._next_at = now + ROSTER_EVERY_S
        self._kept = self._next(self._parts, now)
        data = sign_roster(self._kept, self._parts.keys.signing)
        if data != self._written:
            self._earlier, self._written = self._written, data
        return [PublishLocally(topic=layout.roster(), payload=data, qos=1, retain=True)]

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        return self._next_at if self._is_due else None

    def _next(self, parts: OrderParts, now: float) -> Roster:
        brokers, kept = dict(parts.brokers), self._kept
        if kept is not None and (kept.federation, kept.brokers) == (parts.federation, brokers):
            return kept
        serial = max(int(parts.wall_at(now)), 0 if kept is None else kept.serial + 1)
        return Roster(federation=parts.federation, serial=serial, brokers=brokers)

    def _refuse(self, reason: str, problem: str) -> None:
        self._journal.refuse("rosters_refused", reason, f"on {layout.roster()}: {problem}")

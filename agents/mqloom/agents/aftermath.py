"""What came of a session: both brokers stabilise, and what was predicted is compared with what is measured (6.3.6).

The offloading broker keeps the comparison. The accepting one tells it what its load has become.
"""

from mqloom.agents.averages import Average
from mqloom.agents.decisions import Decision, Decisions
from mqloom.agents.mediation import SessionId, Settled
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import BUSY, STABILIZING
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load


class Aftermath:
    """The last session of one broker, until its load has settled."""

    def __init__(self, settings: BalanceSettings, decisions: Decisions) -> None:
        self._window_s = settings.window_s
        self._windows_max = max(1, round(settings.stabilise_s / settings.window_s))
        self._decisions = decisions
        self._settling: tuple[Decision, Average] | None = None

    def begin(self, decision: Decision) -> None:
        """A session has ended, and clients have moved; what came is the mean of the last stabilise duration."""
        self._settling = decision, Average(self._windows_max)

    def drop(self) -> None:
        """Another session begins: what came of the last one will not be seen."""
        if self._settling is not None:
            self._settling[0].is_unseen = True
        self._settling = None

    def sampled(self, load: Load, now: float) -> None:
        """A window of the meters has ended; one that has of before and after does not count."""
        if self._settling is not None:
            decision, average = self._settling
            assert decision.ended_at is not None
            if now >= decision.ended_at + self._window_s:
                average.add(load)

    def settle(self, state: BalanceState) -> Decision | None:
        """Return the decision of which it is known now what came here, when we have stabilised."""
        if self._settling is None or state in (STABILIZING, BUSY):
            return None
        (decision, average), self._settling = self._settling, None
        decision.observed = average.load
        return None if decision.observed is None else decision

    def settled(self, message: Settled, origin: GatewayId) -> Decision | None:
        """Return the decision of which it is known now what came at the accepting broker."""
        decision = self._decisions.find(message.session)
        if decision is None or not decision.is_offloading or decision.partner != origin or decision.observed_partner:
            return None
        decision.observed_partner = message.load
        return decision


def told(decision: Decision) -> Settled:
    """Return what the accepting broker says when it has stabilised."""
    assert decision.observed is not None
    return Settled(session=SessionId(decision.session), load=decision.observed)

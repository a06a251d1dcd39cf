"""Partners that are let be for a while: what has brought nothing, with one and for one metric, is not tried at once.

Beyond the paper, which tries the largest difference each time: a broker with two reasons for a session, of which the
larger one cannot be helped, would never come to the other. Who is overloaded waits no longer than for its next
detection (3.3.3: it balances at once), and where the other side fell silent, or was started anew, nobody waits:
that says nothing of what a session brings.
"""

from collections.abc import Sequence
from typing import Final

from mqloom.agents.detector import Action
from mqloom.agents.sessions import How
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import Metric

FRUITLESS_DETECTIONS: Final = 5
"""Detections in which a partner is not asked again for what has brought nothing."""

OVERLOADED_DETECTIONS: Final = 1
"""The same for who is overloaded."""

PASSING: Final[frozenset[How]] = frozenset({"silent", "gone", "overdue"})
"""Ends of sessions that failed, and so have not shown whether anybody is worth moving."""


class Fruitless:
    """What one edge does not try, until when."""

    def __init__(self, settings: BalanceSettings) -> None:
        self._detection_s = settings.local_detect_max_s
        self._resting: dict[tuple[GatewayId, Metric], tuple[float, bool]] = {}

    def rest(
        self,
        partner: GatewayId,
        metric: Metric,
        now: float,
        *,
        is_overload: bool,
        is_lasting: bool = False,
        until: float | None = None,
    ) -> None:
        """Let it rest: it has brought nothing.

        `is_lasting`: for a reason that neither goes away by itself nor is told by the partner's state. `until`: when
        the reason goes away, if that is known.
        """
        self._resting = {key: found for key, found in self._resting.items() if found[0] > now}
        detections = OVERLOADED_DETECTIONS if is_overload else FRUITLESS_DETECTIONS
        ends = now + detections * self._detection_s
        self._resting[partner, metric] = (ends if until is None else min(ends, until), is_lasting)

    def rests(self, partner: GatewayId, metric: Metric, now: float) -> bool:
        """Tell whether it is not to be tried now."""
        found = self._resting.get((partner, metric))
        return found is not None and found[0] > now

    def is_helpless(self, actions: Sequence[Action], now: float) -> bool:
        """Tell whether overload cannot be met by any of these, and by none of them soon.

        Then they are as good as not OK, and who is overloaded asks its head (3.3.3).
        """
        return bool(actions) and all(
            action.is_overload
            and self.rests(action.partner, action.metric, now)
            and self._resting[action.partner, action.metric][1]
            for action in actions
        )

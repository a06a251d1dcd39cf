"""Sessions of load balancing as telemetry: what was predicted for each broker, and what came, told once it is known.

The offloading broker tells both: its own figures when it has settled, or when another session has begun before that, so
that nobody will ever know; and those of the accepting broker when that has said what its load has become.
"""

import math
from collections.abc import Sequence
from typing import Final

from mqloom.agents.decisions import Decision, Decisions
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.load import Load
from mqloom.core.telemetry import MigrationRecord, Record

NOT_KNOWN: Final = (math.nan, math.nan, math.nan)


class Telling:
    """What one agent has to tell."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._told: set[tuple[str, bool]] = set()

    def records(self, at: float) -> Sequence[Record]:
        """Return what has become known since the last call, dated with the Unix time `at`."""
        found: list[Record] = []
        kept = [each for each in reversed(self._decisions.last()) if each.is_offloading and each.session]
        for decision in kept:
            if decision.ended_at is None or not decision.moved:
                continue
            if decision.observed is not None or decision.is_unseen:
                found += self._once(decision, at, is_offloading=True)
            if decision.observed_partner is not None:
                found += self._once(decision, at, is_offloading=False)
        self._told &= {(each.session, is_offloading) for each in kept for is_offloading in (True, False)}
        return found

    def _once(self, decision: Decision, at: float, *, is_offloading: bool) -> list[Record]:
        if (decision.session, is_offloading) in self._told or decision.metric is None or decision.partner is None:
            return []
        self._told.add((decision.session, is_offloading))
        predicted, observed = (
            (decision.predicted, decision.observed)
            if is_offloading
            else (decision.predicted_partner, decision.observed_partner)
        )
        return [
            MigrationRecord(
                at,
                decision.session,
                decision.metric,
                decision.partner,
                decision.chosen,
                decision.moved,
                *_figures(predicted),
                *_figures(observed),
                is_offloading,
            )
        ]


def _figures(load: Load | BrokerEstimate | None) -> tuple[float, float, float]:
    return NOT_KNOWN if load is None else (load.input_ratio, load.delay_s, load.output_ratio)

"""In which times of its runs `padres-pie` counts messages."""

from dataclasses import replace

from mqloom.core.ids import ClientId, GatewayId
from mqloom.lab.experiments.padres_pie import spans_of
from mqloom.lab.padres_ledger import Ledger
from mqloom.lab.padres_outcome import SETTLE_S, Outcome, Session
from mqloom.lab.padres_setups import SIMULATION

SETUP = replace(SIMULATION, change_at=3_000.0)


def sessions_at(*times: float) -> Outcome:
    sessions = [Session(at, GatewayId("B1"), GatewayId("B2"), (ClientId("s1"),)) for at in times]
    return Outcome(setup=SETUP, loads={}, sessions=sessions, counted=(), ledger=Ledger(1), published=0)


def test_both_runs_are_looked_at_in_the_same_times() -> None:
    spans = spans_of([sessions_at(100.0, 700.0, 1_400.0, 3_100.0), sessions_at(200.0, 900.0, 1_800.0)])
    assert spans == {"while balancing": (0.0, 1_800.0), "when stable": (1_800.0 + SETTLE_S, 3_000.0)}


def test_a_late_session_ends_what_is_stable() -> None:
    spans = spans_of([sessions_at(100.0, 700.0, 1_400.0, 2_990.0), sessions_at(200.0, 900.0, 1_800.0)])
    assert spans == {"while balancing": (0.0, 1_800.0), "when stable": (1_800.0 + SETTLE_S, 2_990.0)}


def test_without_a_pause_nothing_is_stable() -> None:
    busy = [30.0 * number for number in range(100)]
    start, end = spans_of([sessions_at(*busy)])["when stable"]
    assert start == end

"""Load agents on real brokers: everybody joins the weakest of three edges under load, and load is spread.

What the paper has measured on its cluster (6.3.6) is the bound of how wrong predictions may be; its periods are scaled.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import pytest

from integration_tests.balancing import (
    STRENGTHS,
    TRIGGER,
    UTILISATIONS,
    WEAKEST,
    Outcome,
    Plan,
    overload,
)
from mqloom.core.load import METRICS, Metric
from mqloom.lab.demo_mosquitto import MOSQUITTO

ERRORS_MAX: Final[dict[Metric, float]] = {"input": 0.17, "match": 0.13, "output": 0.17}
"""The mean error of all predictions (6.3.6, on a real cluster)."""
UNSTEADY_MAX: Final = 0.05
"""How much more it may be for what the machine's speed fluctuates: past that the machine is no excuse."""
FIGURES_MIN: Final = 4
"""Of so few predictions the mean still tells something: two sessions at both sides. Of who was in its next session
before it had settled, nobody knows what came."""
RUNS_MAX: Final = 2
"""Some runs are balanced after two sessions already: then those of another one count, too."""
DELAY_S_MAX: Final = 20.0
"""No delivery takes longer, from the first overload to the end: a broker that is never relieved passes any bound."""
CALM_S_MAX: Final = 1.0
"""Of a hundred deliveries, 99 are faster when load is spread."""

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.mark.full
@pytest.mark.timeout(400)
def test_three_hundred_clients_that_join_the_weakest_are_spread_and_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(clients=300, rate=16.0, joins_s=8.0, seconds_max=150.0, still_s=15.0)
    outcomes: list[Outcome] = []
    while len(outcomes) < RUNS_MAX and any(len(errors_of(outcomes, metric)) < FIGURES_MIN for metric in METRICS):
        folder = tmp_path / f"run-{len(outcomes)}"
        folder.mkdir()
        outcome = overload(folder, plan)
        check(outcome)
        assert max(seen.figures()[WEAKEST].output_ratio for seen in outcome.seen if WEAKEST in seen.figures()) > 0.95
        outcomes.append(outcome)
    sessions, fluctuation = sum(len(each.sessions) for each in outcomes), max(each.fluctuation for each in outcomes)
    for metric in METRICS:
        errors = errors_of(outcomes, metric)
        assert len(errors) >= FIGURES_MIN, f"hardly anybody knows how wrong predictions of {metric} were: {errors}"
        allowed = allowed_error(metric, fluctuation)
        told = f"{metric}: mean error {fmean(errors):.1%} of {len(errors)} in {sessions} sessions"
        told = f"{told}, at most {ERRORS_MAX[metric]:.0%}, and {allowed:.0%} allowed"
        with capsys.disabled():
            sys.stdout.write(f"\n{told} (the machine fluctuates by {fluctuation:.0%})")
        assert fmean(errors) <= allowed, f"{told}: {errors}"


def test_no_machine_is_so_unsteady_that_any_error_is_allowed() -> None:
    assert allowed_error("input", 0.04) == pytest.approx(0.21)
    assert allowed_error("match", 5.0) == pytest.approx(0.18)
    assert allowed_error("output", 5.0) == 0.17


@pytest.mark.timeout(200)
def test_clients_that_join_the_weakest_are_spread_and_nothing_is_lost(tmp_path: Path) -> None:
    check(overload(tmp_path, Plan(clients=60, rate=16.0, joins_s=4.0, seconds_max=150.0, still_s=6.0)))


def errors_of(outcomes: Sequence[Outcome], metric: Metric) -> list[float]:
    """Return how wrong predictions of a metric were, over all runs."""
    return [error for outcome in outcomes for error in outcome.errors(metric)]


def allowed_error(metric: Metric, fluctuation: float) -> float:
    """Return how wrong predictions may be: input and delay are processor time, and no steadier than the machine is."""
    return ERRORS_MAX[metric] + (0.0 if metric == "output" else min(UNSTEADY_MAX, fluctuation))


def check(outcome: Outcome) -> None:
    """Nothing is lost, came twice or unasked; loads are within a trigger of each other; delays are bounded."""
    expected, twice, unasked = outcome.ledger.verdict()
    assert (outcome.lost, twice, unasked) == (0, 0, 0)
    assert expected > 0
    assert outcome.balanced_at_s is not None, outcome.seen[-1]
    assert outcome.moves > 0
    means = outcome.means(last_s=10.0)
    for metric in UTILISATIONS:
        figures = [means[edge][metric] for edge in STRENGTHS]
        assert max(figures) - min(figures) <= TRIGGER, means
    assert outcome.ledger.delays_s(outcome.began, outcome.ended)[-1] <= DELAY_S_MAX
    balanced = outcome.ledger.delays_s(outcome.began + outcome.balanced_at_s, outcome.ended)
    assert balanced[len(balanced) * 99 // 100] <= CALM_S_MAX

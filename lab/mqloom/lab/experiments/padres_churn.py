"""Whether load balancing stays calm while subscribers come and go (paper 000, section 6.3.1 and Figures 12g, 12h).

The homogeneous cluster of `padres-local` without a change of rates. 60 subscribers join in a minute, evenly, and each
stays 7 to 14 minutes: about 630 at a time. Grouped: all of one minute join the same random edge; individual: each joins
any edge.

The delivery delay is the mean of 10 s, and the largest of these counts from when as many leave as come, after 14
minutes. Stable: no edge is given more than it can do in any window of 10 s.

`--quick` is 1,800 s of both.
"""

from dataclasses import replace
from typing import Final

from mqloom.lab.experiment import Experiment, Panel, Picture, Report, Row, Tell, at_most, exactly
from mqloom.lab.padres_ledger import PERIOD_S
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import HOMOGENEOUS, Setup
from mqloom.lab.padres_workload import Stay, churn

PER_MIN: Final = 60
STAY_S: Final = (420.0, 840.0)
PATTERNS: Final = ("grouped", "individual")
FULL: Final = replace(HOMOGENEOUS, change_at=None, length_s=6_000.0)
QUICK: Final = replace(HOMOGENEOUS, change_at=None, length_s=1_800.0)


def stays(setup: Setup, seed: int, pattern: str) -> list[Stay]:
    """Return who joins where and when, by one of the two patterns."""
    return churn(setup, seed, per_min=PER_MIN, stay_s=STAY_S, is_grouped=pattern == "grouped")


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setup = QUICK if quick else FULL
    rows: list[Row] = []
    panels: list[Panel] = []
    plays = [Play(name, setup, seed, stays=stays(setup, seed, name)) for name in PATTERNS]
    for name, outcome in zip(PATTERNS, play_all(plays, tell, whole), strict=True):
        rows += _rows(name, outcome)
        panels.append(Panel(f"{name}: output utilisation", outcome.curves("output")))
        panels.append(Panel(f"{name}: delivery delay, s", (outcome.delay_curve(),)))
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=tuple(panels)))


def _rows(name: str, outcome: Outcome) -> list[Row]:
    start, end = STAY_S[1], outcome.setup.length_s
    periods = range(int(start // PERIOD_S), int(end // PERIOD_S))
    delays = [outcome.ledger.mean_delay_s(at * PERIOD_S, (at + 1) * PERIOD_S) for at in periods]
    sessions, idle = outcome.sessions_within(start, end), outcome.idle_within(start, end)
    return [
        Row(name=f"{name}: sessions in a minute", ours=60 * len(sessions) / (end - start)),
        Row(name=f"{name}: sessions in a minute that moved nobody", ours=60 * len(idle) / (end - start)),
        Row(name=f"{name}: moved in a minute", ours=60 * sum(each.ordered for each in sessions) / (end - start)),
        Row(name=f"{name}: delivery delay, mean", ours=outcome.ledger.mean_delay_s(start, end), unit="s"),
        at_most(f"{name}: delivery delay, largest of 10 s", max(delays), 0.1, paper="under 0.1", unit="s"),
        at_most(f"{name}: overloaded, share of time", outcome.overloaded_share(start, end), 0.0, paper="stable"),
        exactly(f"{name}: lost", outcome.ledger.lost, 0),
        exactly(f"{name}: repeated", outcome.ledger.repeated, 0),
        Row(name=f"{name}: deliveries owed", ours=outcome.ledger.owed),
    ]


experiment: Final = Experiment(
    name="padres-churn",
    summary="load stays even, and delivery prompt, while subscribers come and go",
    source="paper 000, sections 6.3.1 and 6.3.2, Figures 12g and 12h",
    run=run,
)

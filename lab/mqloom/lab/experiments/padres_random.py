"""What becomes of the same cluster if whom to move is drawn by lot (paper 000, sections 5.4 and 6.3.1).

The homogeneous and the heterogeneous cluster of `padres-local`, 4,500 s long with the change of rates at 1,500 s, each
with twenty seeds, in three ways: with the proposed offload algorithms, with the random one, and as our agents are
delivered. In the first two, three of the things that we have added to the paper's rules are off: a client may be moved
again at once, there is no budget of moves, and a difference counts as soon as one detection finds it. "Ours" is the
proposed algorithms with these three on. Everything else is the same, the draws of clients and publications included.

So none of the three is the paper's to the letter. On in all is what else we have added (docs/balancing.md): a partner
and metric that have brought nothing rest for 200 s, and for 40 s if that was overload, up to 250 publications are
sampled, filters of Adaptive PIE lag by a quarter of a trigger and not by a whole one, who waits for an overloaded
broker does so for 10 detections at most, and load counts as steady after 5 stabilise durations. And the proposed
algorithms, which are ours, bound in all of them what a session may cost in other metrics. The random one looks at no
metric: that bound, too, is a difference between it and them.

The random algorithm knows how many subscriptions to move for the load to be halved between two brokers if all of them
were alike, and draws that many. The paper says that it converges 500 s later than the proposed one on homogeneous
brokers, with more sessions, and with hundreds of subscribers in one, and that on heterogeneous brokers it overloads
the whole system: one subscription to everything is more than the weakest broker can send.

A run has converged with its last session; in the paper's figure 13a that is at about 2,000 s, 500 s after the change of
rates, so the whole run counts. When the last session before that change was is told, too. The paper has one run each;
of ours the last sessions lie 300 to 700 s about their mean, so what twenty seeds must show is that drawing by lot is
later with 95% certainty, with the paper's 500 s among what is likely, and that it is 500 s later than our agents as
they are delivered. What is likely may be no wider than 500 s to either side: else any figure would be among it. A run
is overloaded by the share of the time since everybody has joined in which some edge is given more than it can match or
send.

Oscillation is what sessions undo: a subscriber is moved to a broker from which it had been moved away while nothing but
sessions has changed the load, between the last join and the change of rates, or after that. A session that corrects
a difference moves others. So it is counted how often anybody is moved back, which the proposed algorithms must hardly
ever do. A run diverges if it is overloaded for more than 0.05 of the time, or still moves somebody back in its last
300 s: at least half of the runs by lot on unequal brokers, and none of the others.

Nobody is moved in the last 300 s of any run of the proposed algorithms or ours. Whether there is a session at all then,
in which nobody is found worth moving, is told.

What the paper says of the random algorithm is reached in part. The mean is less than 500 s later than that of the
proposed one, and what diverges on unequal brokers is the weakest one's load, where the paper has "system-wide
overload".

`--quick` is two seeds, 1,800 s long, without the targets that only many runs can meet: those of convergence, of
overload by lot, of who is moved back, and of calm at the end.
"""

import math
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Final

from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most, exactly
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_plays import Play, play_all
from mqloom.lab.padres_setups import HETEROGENEOUS, HOMOGENEOUS

SEEDS, QUICK_SEEDS = 20, 2
QUIET_S: Final = 300.0
OVERLOADED: Final = 0.05
"""A run that is overloaded for a larger share of the time counts as one that is."""
WAYS: Final = ("proposed", "random", "ours")
Z95: Final = 1.96
"""Standard errors to either side of a mean, between which it lies with 95% certainty."""
DOUBT_S_MAX: Final = 500.0
"""How far that may reach to either side of the mean: no further than what it is about."""
RETURNED_MAX, RETURNED_MIN = 1.0, 20.0
"""How many are moved back in a run at most, by the proposed algorithms, and at least, by lot; on average."""
SETUPS: Final = (HOMOGENEOUS, HETEROGENEOUS)
QUICK: Final = tuple(replace(each, change_at=1_000.0, length_s=1_800.0) for each in (HOMOGENEOUS, HETEROGENEOUS))
PLAIN: Final[dict[str, object]] = {"rest_s": 0.0, "moves_per_min": 1_000_000, "lasting_detections": 1}
"""In these three as in the paper: no rest for clients, no budget, and every difference counts at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one run came to."""

    sessions: int
    idle: int
    """How many sessions beside these moved nobody."""
    moved: int
    largest: int
    """The most subscribers in one session."""
    before_s: float
    """When the last session was before the rates changed."""
    last_s: float
    """When the last session of all was."""
    is_quiet: bool
    """Whether nobody was moved at the end."""
    is_idle: bool
    """Whether there was no session at all then."""
    overloaded: float
    returned: int
    """How often a subscriber was moved back, while nothing but sessions changed the load."""
    returned_late: int
    """The same, of the end alone."""
    wrong: int
    curves: tuple[Curve, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> "Found":
        """Return it."""
        end, joined = outcome.setup.length_s, outcome.setup.join_s
        change = outcome.setup.change_at or end
        sizes = [each.ordered for each in outcome.sessions]
        return cls(
            sessions=len(sizes),
            idle=len(outcome.idle),
            moved=sum(sizes),
            largest=max(sizes, default=0),
            before_s=outcome.last_session(0.0, change),
            last_s=outcome.last_session(0.0, end),
            is_quiet=not outcome.sessions_within(end - QUIET_S, end),
            is_idle=not outcome.sessions_within(end - QUIET_S, end) and not outcome.idle_within(end - QUIET_S, end),
            overloaded=outcome.overloaded_share(joined, end),
            returned=outcome.returned(joined, change) + outcome.returned(change, end),
            returned_late=outcome.returned(change, end) - outcome.returned(change, end - QUIET_S),
            wrong=outcome.ledger.lost + outcome.ledger.repeated,
            curves=_capped(outcome),
        )

    @property
    def diverges(self) -> bool:
        """Whether it is overloaded, or still moves subscribers to and fro at its end."""
        return self.overloaded > OVERLOADED or self.returned_late > 0


def settings_of(way: str) -> dict[str, object]:
    """Return the settings of the load agents."""
    return {"proposed": PLAIN, "random": {**PLAIN, "offload": "random"}, "ours": {}}[way]


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setups, seeds = (QUICK, QUICK_SEEDS) if quick else (SETUPS, SEEDS)
    plays = [
        Play(f"{setup.name}, {way}", setup, seed * 1_000 + number, settings_of(way))
        for setup in setups
        for way in WAYS
        for number in range(seeds)
    ]
    found: dict[str, list[Found]] = {}
    for each, one in zip(plays, play_all(plays, tell, Found.of), strict=True):
        found.setdefault(each.name, []).append(one)
    rows = [
        row
        for setup in setups
        for row in _rows(setup.name, *(found[f"{setup.name}, {way}"] for way in WAYS), is_quick=quick)
    ]
    panels = tuple(Panel(f"{name}: output", runs[0].curves) for name, runs in found.items())
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=panels))


def _rows(name: str, proposed: list[Found], drawn: list[Found], ours: list[Found], *, is_quick: bool) -> list[Row]:
    rows = [row for way, runs in zip(WAYS, (proposed, drawn, ours), strict=True) for row in _means(name, way, runs)]
    ratio = fmean(each.moved for each in drawn) / max(1.0, fmean(each.moved for each in proposed))
    rows.append(at_least(f"{name}: random moves, times the proposed", ratio, 2.0))
    if not is_quick:
        rows += later(name, proposed, drawn, ours) if name == "homogeneous" else _fuller(name, drawn)
        rows += _returned(name, proposed, drawn, ours)
        late = sum(not each.is_quiet for each in (*proposed, *ours))
        rows.append(exactly(f"{name}: runs of proposed or ours with a move at the end", late, 0, paper=0))
    diverging = sum(each.diverges for each in (*proposed, *ours))
    rows.append(exactly(f"{name}: runs of proposed or ours that diverge", diverging, 0, paper=0))
    calm = max(each.overloaded for each in (*proposed, *ours))
    rows.append(at_most(f"{name}: proposed or ours overloads, largest share of time", calm, OVERLOADED, paper=0))
    wrong = sum(each.wrong for each in (*proposed, *drawn, *ours))
    rows.append(exactly(f"{name}: lost or repeated, all runs", wrong, 0))
    return rows


def _means(cluster: str, way: str, runs: list[Found]) -> list[Row]:
    name = f"{cluster}, {way}"
    return [
        Row(name=f"{name}: sessions, mean", ours=fmean(each.sessions for each in runs)),
        Row(name=f"{name}: sessions that moved nobody, mean", ours=fmean(each.idle for each in runs)),
        Row(name=f"{name}: subscribers moved, mean", ours=fmean(each.moved for each in runs)),
        Row(name=f"{name}: most in one session, mean", ours=fmean(each.largest for each in runs)),
        Row(name=f"{name}: last session before the change, mean", ours=fmean(each.before_s for each in runs), unit="s"),
        Row(name=f"{name}: last session, mean", ours=fmean(each.last_s for each in runs), unit="s"),
        Row(name=f"{name}: runs in which nobody is moved at the end", ours=sum(each.is_quiet for each in runs)),
        Row(name=f"{name}: runs without any session at the end", ours=sum(each.is_idle for each in runs)),
        Row(name=f"{name}: moved back, mean", ours=fmean(each.returned for each in runs)),
        Row(name=f"{name}: moved back at the end, runs", ours=sum(each.returned_late > 0 for each in runs)),
        Row(name=f"{name}: overloaded, mean share of time", ours=fmean(each.overloaded for each in runs)),
        Row(name=f"{name}: runs that are overloaded", ours=sum(each.overloaded > OVERLOADED for each in runs)),
    ]


def later(name: str, proposed: list[Found], drawn: list[Found], ours: list[Found]) -> list[Row]:
    """Return that drawing by lot converges later on equal brokers."""
    last, before, own = ([each.last_s for each in runs] for runs in (drawn, proposed, ours))
    later_s = fmean(last) - fmean(before)
    doubt_s = Z95 * math.sqrt(variance(last) / len(last) + variance(before) / len(before))
    largest = max(each.largest for each in drawn)
    return [
        Row(name=f"{name}: random converges later by", ours=later_s, paper=500, unit="s"),
        at_least(f"{name}: with 95% certainty at least", later_s - doubt_s, 0, unit="s"),
        at_least(f"{name}: with 95% certainty at most", later_s + doubt_s, 500, unit="s"),
        at_most(f"{name}: half of what lies between these", doubt_s, DOUBT_S_MAX, unit="s"),
        at_least(f"{name}: random converges later than ours by", fmean(last) - fmean(own), 500, paper=500, unit="s"),
        at_least(f"{name}: random moves in one session, at most", largest, 100, paper="hundreds"),
    ]


def _fuller(name: str, drawn: list[Found]) -> list[Row]:
    """Return that drawing by lot overloads unequal brokers, or never ends."""
    share = fmean(each.diverges for each in drawn)
    return [at_least(f"{name}: share of random's runs that diverge", share, 0.5, paper="diverges")]


def _returned(name: str, proposed: list[Found], drawn: list[Found], ours: list[Found]) -> list[Row]:
    """Return that drawing by lot moves many back, and the proposed algorithms hardly anybody."""
    few, many, own = (fmean(each.returned for each in runs) for runs in (proposed, drawn, ours))
    return [
        at_most(f"{name}: moved back in a run by the proposed", few, RETURNED_MAX, paper="no oscillation"),
        at_most(f"{name}: moved back in a run by ours", own, RETURNED_MAX, paper="no oscillation"),
        at_least(f"{name}: moved back in a run by random", many, RETURNED_MIN, paper="oscillates"),
    ]


def _capped(outcome: Outcome) -> tuple[Curve, ...]:
    """Return the lines of output, cut off where a broker is far beyond what it can do."""
    return tuple(
        Curve(curve.name, tuple((at, min(value, 3.0)) for at, value in curve.points))
        for curve in outcome.curves("output")
    )


experiment: Final = Experiment(
    name="padres-random",
    summary="drawing by lot whom to move oscillates, or overloads everything",
    source="paper 000, section 6.3.1, Figures 13 and 15d",
    run=run,
)

"""What becomes of the same cluster if whom to move is drawn by lot (paper 000, sections 5.4 and 6.3.1).

The homogeneous and the heterogeneous cluster of `padres-local`, 3,000 s long, each with twenty seeds, once with the
proposed offload algorithms and once with the random one; everything else is the same, the draws of clients and
publications included.

The random algorithm knows how many subscriptions to move for the load to be halved between two brokers if all of them
were alike, and draws that many. The paper says that it converges 500 s later than the proposed one on homogeneous
brokers, with more sessions, and with hundreds of subscribers in one, and that on heterogeneous brokers it overloads
the whole system: one subscription to everything is more than the weakest broker can send.

A run has converged when its last session is over; one that has a session in its last 300 s has not, and counts with
its whole length. A run is overloaded by the share of its last third, from 2,000 s on, in which some edge is given more
than it can match or send.

`--quick` is two seeds, 1,800 s long with the change at 1,000 s, and does not ask how much later random converges, nor
how many it moves at once.
"""

from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most, exactly
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_play import play
from mqloom.lab.padres_setups import HETEROGENEOUS, HOMOGENEOUS, Setup

SEEDS, QUICK_SEEDS = 20, 2
QUIET_S: Final = 300.0
WAYS: Final = ("proposed", "random")
SETUPS: Final = tuple(replace(each, length_s=3_000.0) for each in (HOMOGENEOUS, HETEROGENEOUS))
QUICK: Final = tuple(replace(each, change_at=1_000.0, length_s=1_800.0) for each in (HOMOGENEOUS, HETEROGENEOUS))


@dataclass(frozen=True, slots=True)
class Found:
    """What one run came to."""

    sessions: int
    moved: int
    largest: int
    """The most subscribers in one session."""
    converged_s: float
    is_converged: bool
    overloaded: float
    wrong: int

    @classmethod
    def of(cls, outcome: Outcome) -> "Found":
        """Return it."""
        end = outcome.setup.length_s
        sizes = [each.ordered for each in outcome.sessions]
        is_converged = not outcome.sessions_within(end - QUIET_S, end)
        return cls(
            sessions=len(sizes),
            moved=sum(sizes),
            largest=max(sizes, default=0),
            converged_s=outcome.last_session(0.0, end) if is_converged else end,
            is_converged=is_converged,
            overloaded=outcome.overloaded_share(end * 2 / 3, end),
            wrong=outcome.ledger.lost + outcome.ledger.repeated,
        )


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setups, seeds = (QUICK, QUICK_SEEDS) if quick else (SETUPS, SEEDS)
    found: dict[tuple[str, str], list[Found]] = {}
    first: dict[tuple[str, str], Outcome] = {}
    runs = [(setup, way, number) for setup in setups for way in WAYS for number in range(seeds)]
    for done, (setup, way, number) in enumerate(runs):

        def told(share: float, text: str, done: int = done, name: str = f"{setup.name}, {way}") -> None:
            tell((done + share) / len(runs), f"{name}: {text}")

        settings = {"offload": "random"} if way == "random" else {}
        outcome = play(setup, seed * 1_000 + number, told, settings)
        found.setdefault((setup.name, way), []).append(Found.of(outcome))
        first.setdefault((setup.name, way), outcome)
    rows = [row for setup in setups for row in _rows(setup, found, is_quick=quick)]
    panels = tuple(Panel(f"{name}, {way}: output", _capped(outcome)) for (name, way), outcome in first.items())
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=panels))


def _rows(setup: Setup, found: dict[tuple[str, str], list[Found]], *, is_quick: bool) -> list[Row]:
    proposed, drawn = (found[setup.name, way] for way in WAYS)
    name, rows = setup.name, list[Row]()
    for way, runs in (("proposed", proposed), ("random", drawn)):
        rows += [
            Row(name=f"{name}, {way}: sessions, mean", ours=fmean(each.sessions for each in runs)),
            Row(name=f"{name}, {way}: subscribers moved, mean", ours=fmean(each.moved for each in runs)),
            Row(name=f"{name}, {way}: most in one session, mean", ours=fmean(each.largest for each in runs)),
            Row(name=f"{name}, {way}: time to converge, mean", ours=fmean(each.converged_s for each in runs), unit="s"),
            Row(name=f"{name}, {way}: runs that converged", ours=sum(each.is_converged for each in runs)),
            Row(
                name=f"{name}, {way}: overloaded in the last third, mean share of time",
                ours=fmean(each.overloaded for each in runs),
            ),
        ]
    later_s = fmean(each.converged_s for each in drawn) - fmean(each.converged_s for each in proposed)
    ratio = fmean(each.moved for each in drawn) / max(1.0, fmean(each.moved for each in proposed))
    if setup.name == "homogeneous":
        rows.append(
            at_least(f"{name}: random converges later by", later_s, 0 if is_quick else 500, paper=500, unit="s")
        )
        rows.append(at_least(f"{name}: random moves, times the proposed", ratio, 1.0))
        if not is_quick:
            largest = fmean(each.largest for each in drawn)
            rows.append(at_least(f"{name}: random moves in one session, at most", largest, 100, paper="hundreds"))
    else:
        overloaded = fmean(each.overloaded > 0.5 for each in drawn)
        rows.append(at_least(f"{name}: runs that random overloads", overloaded, 0.5, paper="diverges"))
        calm = max(each.overloaded for each in proposed)
        rows.append(at_most(f"{name}: the proposed overloads, largest share of time", calm, 0.05, paper=0))
    rows.append(
        at_least(f"{name}: proposed runs that converged", sum(each.is_converged for each in proposed), len(proposed))
    )
    rows.append(exactly(f"{name}: lost or repeated, all runs", sum(each.wrong for each in (*proposed, *drawn)), 0))
    return rows


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

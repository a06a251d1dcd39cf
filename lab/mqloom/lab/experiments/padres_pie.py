"""What load agents say to each other, and how much of it Adaptive PIE spares (paper 000, sections 3.3.4 and 6.3.4).

The simulation of `padres-local`, but with Poisson publishers, so that loads are never quite still; once with PIE and
once with Adaptive PIE. A message is counted on every link that it crosses, those to clients included.

- When stable: before the rates change, the longest time in which neither of the two runs had a session ("with no load
  balancing activity"), from a minute after the session before it.
- While balancing: from the start to that session. Both runs are looked at in the same times: by the last session of
  each, the one that goes on for longer, with pauses, would have the lower rate. That reading is told, too. Sessions are
  those that ordered a move.
- Under churn: the homogeneous cluster of `padres-churn`, both patterns; there subscriptions to PIE, with which Adaptive
  PIE pays, count too. A changed filter is one message, which replaces the one before. PIE needs no advertisements
  here: gateways know their neighbours. The paper has "up to 30%", so the better of both patterns counts.
- The share of overhead while joining, and when stable: everything but publications, among all messages; subscriptions
  of migrating subscribers among them, and of joining ones.

`--quick` is as short as that of `padres-churn`, and as that of `padres-local` until its rates change; it asks for less.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most
from mqloom.lab.experiments import padres_churn, padres_local
from mqloom.lab.padres_outcome import SETTLE_S, Outcome
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import SIMULATION

WAYS: Final = {"PIE": False, "Adaptive PIE": True}
JOINING: Final = "joining"
SPENT: Final = ("PIE subscriptions", "PIE asks")
"""What it costs to hear PIE."""
OVERHEAD: Final = ("PIE", *SPENT, "coordination", "subscriptions")
DATA: Final = ("publications between brokers", "deliveries")
PERIOD_S: Final = 60.0
QUICK: Final = replace(padres_local.QUICK, length_s=padres_local.QUICK.change_at or padres_local.QUICK.length_s)
SPARED: Final = {"while balancing": 0.4, "when stable": 0.65, "churn": 0.3}
QUICK_SPARED: Final = {"while balancing": 0.3, "when stable": 0.5, "churn": 0.0}


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    calm = replace(QUICK if quick else SIMULATION, is_poisson=True)
    restless = replace(padres_churn.QUICK if quick else padres_churn.FULL, is_poisson=True)
    plays: list[Play] = []
    for way, is_adaptive in WAYS.items():
        settings = {"adaptive_pie": is_adaptive}
        plays.append(Play(f"{way}, {JOINING}", calm, seed, settings))
        for pattern in padres_churn.PATTERNS:
            stays = padres_churn.stays(restless, seed, pattern)
            plays.append(Play(f"{way}, {pattern}", restless, seed, settings, stays))
    played = iter(play_all(plays, tell, whole))
    outcomes = {way: {kind: next(played) for kind in (JOINING, *padres_churn.PATTERNS)} for way in WAYS}
    targets = QUICK_SPARED if quick else SPARED
    spans = spans_of([found[JOINING] for found in outcomes.values()])
    rows = [
        *_phases(outcomes, spans, targets),
        *_by_own_session(outcomes),
        *_churned(outcomes, targets),
        *_overhead(outcomes["Adaptive PIE"][JOINING], spans["when stable"]),
    ]
    panels = tuple(
        Panel(f"{label}: messages a second", tuple(_rate(way, each[kind]) for way, each in outcomes.items()))
        for kind, label in ((JOINING, "joining B1"), ("grouped", "churn, grouped joins"))
    )
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=panels))


def spans_of(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Return from when to when runs of one setup are balancing, and then stable, all of them."""
    setup = outcomes[0].setup
    change = setup.change_at or setup.length_s
    times = sorted(each.at for outcome in outcomes for each in outcome.sessions_within(0.0, change))
    last, following = max(pairwise([*(times or [0.0]), change]), key=lambda pause: pause[1] - pause[0])
    return {"while balancing": (0.0, last), "when stable": (min(last + SETTLE_S, following), following)}


def _phases(
    outcomes: dict[str, dict[str, Outcome]], spans: dict[str, tuple[float, float]], targets: dict[str, float]
) -> list[Row]:
    """Return what is said of PIE itself, while balancing and when stable."""
    rows: list[Row] = []
    rates: dict[tuple[str, str], float] = {}
    for way, found in outcomes.items():
        calm = found[JOINING]
        for phase, (start, end) in spans.items():
            rate = calm.messages("PIE", start, end) / max(1.0, end - start)
            rates[way, phase] = rate
            paper = 0.85 if (way, phase) == ("PIE", "while balancing") else None
            rows.append(Row(name=f"{way}: PIE messages {phase}", ours=rate, unit="a second", paper=paper))
            wants = sum(calm.messages(kind, start, end) for kind in SPENT) / max(1.0, end - start)
            rows.append(Row(name=f"{way}: subscriptions to PIE {phase}", ours=wants, unit="a second"))
    for phase in spans:
        plain, adaptive = (rates[way, phase] for way in WAYS)
        share = adaptive / plain if plain else 1.0  # where there is nothing, nothing was spared
        rows.append(at_most(f"Adaptive PIE over PIE, {phase}", share, 1 - targets[phase], paper=1 - SPARED[phase]))
    return rows


def _by_own_session(outcomes: dict[str, dict[str, Outcome]]) -> list[Row]:
    """Return the share while balancing if each run is looked at until its own last session before rates change."""
    rates: list[float] = []
    for found in outcomes.values():
        calm = found[JOINING]
        last = calm.last_session(0.0, calm.setup.change_at or calm.setup.length_s)
        rates.append(calm.messages("PIE", 0.0, last) / max(1.0, last))
    share = rates[1] / rates[0] if rates[0] else 1.0
    paper = 1 - SPARED["while balancing"]
    return [Row(name="Adaptive PIE over PIE, each until its own last session", ours=share, paper=paper)]


def _churned(outcomes: dict[str, dict[str, Outcome]], targets: dict[str, float]) -> list[Row]:
    """Return what is said of PIE with everything that asking for it costs, under churn."""
    rows: list[Row] = []
    shares: list[float] = []
    for pattern in padres_churn.PATTERNS:
        rates: list[float] = []
        for way, found in outcomes.items():
            outcome, end = found[pattern], found[pattern].setup.length_s
            said, spent = outcome.messages("PIE", 0.0, end), sum(outcome.messages(kind, 0.0, end) for kind in SPENT)
            rows.append(Row(name=f"{way}: PIE messages, {pattern} joins", ours=said / end, unit="a second"))
            rows.append(Row(name=f"{way}: subscriptions to PIE, {pattern} joins", ours=spent / end, unit="a second"))
            rates.append((said + spent) / end)
        shares.append(rates[1] / rates[0])
        rows.append(Row(name=f"Adaptive PIE over PIE, subscriptions included, {pattern} joins", ours=shares[-1]))
    best, paper = min(shares), f"down to {1 - SPARED['churn']:g}"
    name = "Adaptive PIE over PIE under churn, the better of both"
    rows.append(at_most(name, best, 1 - targets["churn"], paper=paper))
    return rows


def _overhead(outcome: Outcome, stable: tuple[float, float]) -> list[Row]:
    joining, calm = _share(outcome, 0.0, outcome.setup.join_s), _share(outcome, *stable)
    return [
        at_most("overhead while joining, share of messages", joining, 0.5, paper="under 0.5"),
        at_most("overhead when stable, share of messages", calm, 0.002, paper=0.002),
    ]


def _share(outcome: Outcome, start: float, end: float) -> float:
    spent = sum(outcome.messages(kind, start, end) for kind in OVERHEAD)
    data = sum(outcome.messages(kind, start, end) for kind in DATA)
    return spent / (spent + data) if spent + data else 1.0  # of nothing it is no small share


def _rate(way: str, outcome: Outcome) -> Curve:
    times = [at * PERIOD_S for at in range(int(outcome.setup.length_s // PERIOD_S))]
    points = [
        (at, sum(outcome.messages(kind, at, at + PERIOD_S) for kind in ("PIE", *SPENT)) / PERIOD_S) for at in times
    ]
    return Curve(f"{way}, with subscriptions to it", tuple(points))


experiment: Final = Experiment(
    name="padres-pie",
    summary="how much load agents say, and how much Adaptive PIE spares",
    source="paper 000, section 6.3.4, Figure 16",
    run=run,
)

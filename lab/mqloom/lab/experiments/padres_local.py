"""Whether the load of one cluster becomes even and stays so, and stronger brokers carry more (paper 000, section 6.3).

A star of one head and four edges, Table IV; all subscribers join the weakest edge B1, or in the heterogeneous cluster,
where B1 is the strongest, that. Later half of the publishers double their rate. `padres_setups` has the constants that
the paper leaves open. The paper has both kinds of cluster and its simulation; all three are run here.

Loads are compared as means of 60 s: within that a broker tells another of a change and that one runs its detector, so
that a difference which lasts less cannot be met with a session. The shares of windows of 30 and 10 s are printed, too;
they are less, because what a few subscribers to everything take is never the same for long. Loads have converged when
the last session is over that ordered a move, before the rates change and again before the end; from a minute after that
on they are looked at. A difference of matching delays is normalised as in equation 4. The time to converge counts from
when the last subscriber has joined, and from the change. No session in the last 1,000 s: nor one that moved nobody.

Sessions of two brokers may undo each other without that anybody returns, because others go who want the same. So it is
counted how often a session goes the other way than the one before of the same two, be it for another metric: the more
often of once all have joined until rates change, and of from then on.

Stronger brokers carry more: what they send. The paper's figures show more subscribers, too, which is printed; but that
need not be: a few who want everything take as much as hundreds of others, and those without traffic need not move.

Nothing lost or repeated: every publication is followed to every subscriber that was established when it was published,
and a copy from a second broker counts as repeated unless the subscriber was being moved, and so knew of both.

`--quick` is the simulation alone, 3,800 s long, with the change at 2,300 s; no session in the last 300 s.
"""

from dataclasses import replace
from typing import Final

from mqloom.lab.experiment import Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most, exactly
from mqloom.lab.padres_outcome import METRICS, SETTLE_S, WINDOW_S, Outcome
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import HETEROGENEOUS, HOMOGENEOUS, SIMULATION

QUICK: Final = replace(SIMULATION, change_at=2_300.0, length_s=3_800.0)
QUIET_S, QUICK_QUIET_S = 1_000.0, 300.0
TRIGGER: Final = 0.1
SENT_S: Final = 300.0
REVERSALS_MAX: Final = 4
"""So many sessions of a phase may go the other way: with ten seeds of the simulation there were no more. Each may cost
other metrics half of what it brings, so that what two brokers are apart by in all falls, and they come to rest."""
SHORTER_S: Final = (30.0, 10.0)
"""Windows for which shares are told, too; the shortest is that of the meters."""
LABELS: Final = {"input": "input utilisation", "match": "matching delay", "output": "output utilisation"}


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setups = (QUICK,) if quick else (SIMULATION, HETEROGENEOUS, HOMOGENEOUS)
    rows: list[Row] = []
    pictured: list[Panel] = []
    outcomes = play_all([Play(setup.name, setup, seed) for setup in setups], tell, whole)
    for done, outcome in enumerate(outcomes):
        rows += local_rows(outcome, QUICK_QUIET_S if quick else QUIET_S)
        pictured += _panels(outcome, is_first=not done)
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=tuple(pictured)))


def local_rows(outcome: Outcome, quiet_s: float) -> list[Row]:
    """Return what is said about one run."""
    setup, name = outcome.setup, outcome.setup.name
    change, end = setup.change_at or setup.length_s, setup.length_s
    first, last = outcome.last_session(0.0, change), outcome.last_session(change, end)
    moved = sum(each.ordered for each in outcome.sessions)
    phases = [outcome.reversals(*span) for span in ((setup.join_s, change), (change, end))]
    back = max(len(each) for each in phases)
    later = [each.ordered for each in outcome.sessions_within(change, end)]
    rows = [
        Row(name=f"{name}: time to converge after the joins", ours=max(0.0, first - setup.join_s), unit="s"),
        Row(name=f"{name}: time to converge after the change of rates", ours=last - change, unit="s"),
        Row(name=f"{name}: sessions", ours=len(outcome.sessions)),
        Row(name=f"{name}: sessions that moved nobody", ours=len(outcome.idle)),
        Row(name=f"{name}: subscribers moved", ours=moved),
        Row(
            name=f"{name}: moved in a session after the change, on average",
            ours=sum(later) / len(later) if later else 0,
            paper="under 10",
        ),
        at_most(f"{name}: sessions that went the other way than the one before", back, REVERSALS_MAX, paper=0),
        Row(name=f"{name}: subscribers moved in these", ours=sum(one.ordered for each in phases for one in each)),
    ]
    for metric in METRICS:
        spans = ((first + SETTLE_S, change), (last + SETTLE_S, end))
        share, *shorter = (
            min(outcome.share_within(metric, TRIGGER, *span, window_s) for span in spans)
            for window_s in (WINDOW_S, *SHORTER_S)
        )
        text = f"differences of {LABELS[metric]} up to {TRIGGER}"
        rows.append(at_least(f"{name}: windows with {text}", share, 0.95, paper="all"))
        rows += [
            Row(name=f"{name}: windows of {window_s:g} s with {text}", ours=each)
            for window_s, each in zip(SHORTER_S, shorter, strict=True)
        ]
    late = f"{name}: sessions in the last {quiet_s:g} s, those that moved nobody included"
    rows.append(exactly(late, _late(outcome, quiet_s), 0, paper=0))
    rows += [Row(name=f"{name}: subscribers at {edge}", ours=outcome.subscribers(edge)) for edge in setup.edges]
    if name != "homogeneous":
        ranked, sent = _is_ranked(outcome)
        rows.append(Row(name=f"{name}: stronger brokers have more subscribers", ours=ranked, paper="yes"))
        rows.append(exactly(f"{name}: stronger brokers send more", sent, "yes"))
    rows.append(exactly(f"{name}: lost", outcome.ledger.lost, 0))
    rows.append(exactly(f"{name}: repeated", outcome.ledger.repeated, 0))
    rows.append(Row(name=f"{name}: deliveries owed", ours=outcome.ledger.owed))
    rows.append(Row(name=f"{name}: copies that moving clients dropped", ours=outcome.ledger.dropped))
    return rows


def _late(outcome: Outcome, quiet_s: float) -> int:
    end = outcome.setup.length_s
    return len(outcome.sessions_within(end - quiet_s, end)) + len(outcome.idle_within(end - quiet_s, end))


def _is_ranked(outcome: Outcome) -> tuple[str, str]:
    """Return whether brokers that can send more have more subscribers, and whether they send more, at the end."""
    brokers, end = outcome.setup.brokers, outcome.setup.length_s
    edges = sorted(outcome.setup.edges, key=lambda edge: brokers[edge].bytes_s)
    counts = [outcome.subscribers(edge) for edge in edges]
    sent = [outcome.mean_load("output", edge, end - SENT_S, end) * brokers[edge].bytes_s for edge in edges]
    return ("yes" if counts == sorted(counts) else "no"), ("yes" if sent == sorted(sent) else "no")


def _panels(outcome: Outcome, *, is_first: bool) -> list[Panel]:
    name = outcome.setup.name
    panels = [Panel(f"{name}: output utilisation", outcome.curves("output"))]
    if is_first:
        panels.append(Panel(f"{name}: input utilisation", outcome.curves("input")))
        panels.append(Panel(f"{name}: delivery delay, s", (outcome.delay_curve(),)))
    panels.append(Panel(f"{name}: subscribers", outcome.subscriber_curves()))
    return panels


experiment: Final = Experiment(
    name="padres-local",
    summary="the load of one cluster becomes even and stays so",
    source="paper 000, sections 6.3.1 to 6.3.3, Figures 12, 14 and 15",
    run=run,
)

"""Whether load spreads over clusters in a chain, and how far (paper 000, section 6.4).

Twelve brokers in four clusters, Table VI: four heads in a chain, two edges each. All publishers are at the first head,
and all subscribers join its first edge; half of the publishers double their rate at 8,000 s.

A cluster's load is the mean of its edges. Load has reached the last cluster when the first session moves somebody
there. Farther clusters carry less: the mean output utilisation of a cluster is not more than 0.02 over that of the one
before it, so as to let noise be noise. After convergence, which is a minute after the last
session, neighbouring clusters may differ by the global trigger, 0.15, in windows of 60 s, the period of global PIE.

How the number of clusters matters (Figure 20): 1 to 6 clusters of two equal edges, of 1,000 MHz, 128 MB and 4 Mbps, so
that one cluster can carry everybody; the mean delivery delay of the last 1,000 of 5,000 s. Clusters more than three
cluster-hops away from the first are the fifth and sixth.

`--quick` is 6,000 s with the change at 4,000 s, and no scaling.
"""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most, exactly
from mqloom.lab.padres_outcome import METRICS, SETTLE_S, WINDOW_S, Outcome
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import CHAIN, BrokerSetup, Setup

TRIGGER: Final = 0.15
SLACK: Final = 0.02
QUIET_S, QUICK_QUIET_S = 1_000.0, 300.0
COUNTS: Final = tuple(range(1, 7))
NEAR: Final = 4
"""So many clusters are at most three cluster-hops away from each other."""
QUICK: Final = replace(CHAIN, change_at=4_000.0, length_s=6_000.0)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setups = [QUICK] if quick else [CHAIN, *map(chain, COUNTS)]
    outcome, *others = play_all([Play(setup.name, setup, seed) for setup in setups], tell, whole)
    rows = _rows(outcome, QUICK_QUIET_S if quick else QUIET_S)
    if not quick:
        rows += _scaling(others)
    panels = (
        Panel("output utilisation", _cluster_curves(outcome, "output")),
        Panel("input utilisation", _cluster_curves(outcome, "input")),
        Panel("delivery delay, s", (outcome.delay_curve(),)),
    )
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=panels))


def _rows(outcome: Outcome, quiet_s: float) -> list[Row]:
    setup = outcome.setup
    change, end = setup.change_at or setup.length_s, setup.length_s
    farthest = setup.clusters[setup.heads[-1]]
    reached = min((each.at for each in outcome.sessions if each.target in farthest), default=end)
    first, last = outcome.last_session(0.0, change), outcome.last_session(change, end)
    rows = [
        Row(name="load reaches the last cluster at", ours=reached, unit="s"),
        at_most("converges after that", first - reached if reached < change else end, 2_000, paper=2_000, unit="s"),
        Row(name="time to converge after the change of rates", ours=last - change, unit="s"),
        Row(name="sessions", ours=len(outcome.sessions)),
        Row(name="subscribers moved", ours=sum(each.ordered for each in outcome.sessions)),
    ]
    spans = ((first + SETTLE_S, change), (last + SETTLE_S, end))
    for number, head in enumerate(setup.heads, 1):
        before, after = (_mean(outcome, head, "output", *span) for span in spans)
        rows.append(Row(name=f"cluster {number}: output utilisation before the change", ours=before))
        rows.append(Row(name=f"cluster {number}: output utilisation at the end", ours=after))
    for text, span in zip(("before the change", "at the end"), spans, strict=True):
        means = [_mean(outcome, head, "output", *span) for head in setup.heads]
        falls = all(one >= other - SLACK for one, other in pairwise(means))
        rows.append(exactly(f"farther clusters carry less {text}", "yes" if falls else "no", "yes", paper="yes"))
    for metric in METRICS:
        share = min(_share_within(outcome, metric, span) for span in spans)
        rows.append(at_least(f"windows with neighbours' {metric} within {TRIGGER}", share, 0.95, paper="all"))
    late = len(outcome.sessions_within(end - quiet_s, end))
    rows.append(exactly(f"sessions in the last {quiet_s:g} s", late, 0, paper=0))
    rows.append(exactly("lost", outcome.ledger.lost, 0))
    rows.append(exactly("repeated", outcome.ledger.repeated, 0))
    rows.append(Row(name="deliveries owed", ours=outcome.ledger.owed))
    return rows


def _mean(outcome: Outcome, head: GatewayId, metric: str, start: float, end: float) -> float:
    assert metric in METRICS
    edges = outcome.setup.clusters[head]
    return fmean(outcome.mean_load(each, edge, start, end) for edge in edges for each in METRICS if each == metric)


def _share_within(outcome: Outcome, metric: str, span: tuple[float, float]) -> float:
    """Return in what share of the windows no two neighbouring clusters differed by more than the trigger."""
    setup, good, count = outcome.setup, 0, 0
    name = next(each for each in METRICS if each == metric)
    factor = 0.1 if metric == "match" else 1.0
    for window in outcome.means(name, *span):
        means = [fmean(window[edge] for edge in edges) for edges in setup.clusters.values()]
        good += all(abs(one - other) / factor <= TRIGGER for one, other in pairwise(means))
        count += 1
    return good / count if count else 0.0


def chain(clusters: int) -> Setup:
    """Return a chain of so many clusters of two equal edges."""
    names: dict[GatewayId, tuple[GatewayId, ...]] = {
        GatewayId(f"B{number}0"): (GatewayId(f"B{number}1"), GatewayId(f"B{number}2"))
        for number in range(1, clusters + 1)
    }
    brokers = {head: CHAIN.brokers[GatewayId("B10")] for head in names}
    for edges in names.values():
        brokers |= dict.fromkeys(edges, BrokerSetup.of(1_000, 128, 4))
    return replace(
        CHAIN,
        name=f"{clusters} clusters",
        draws="clusters",
        brokers=brokers,
        clusters=names,
        change_at=None,
        length_s=5_000.0,
    )


def _scaling(outcomes: list[Outcome]) -> list[Row]:
    delays: dict[int, float] = {}
    for clusters, outcome in zip(COUNTS, outcomes, strict=True):
        end = outcome.setup.length_s
        delays[clusters] = outcome.ledger.mean_delay_s(end - 1_000, end)
    rows = [Row(name=f"{count} clusters: delivery delay", ours=delay, unit="s") for count, delay in delays.items()]
    gained = 1 - min(delays[count] for count in COUNTS[NEAR:]) / min(delays[count] for count in COUNTS[:NEAR])
    rows.append(at_most("delay gained past three cluster-hops, share", gained, 0.02, paper="none"))
    return rows


def _cluster_curves(outcome: Outcome, metric: str) -> tuple[Curve, ...]:
    name = next(each for each in METRICS if each == metric)
    windows = outcome.means(name, 0.0, outcome.setup.length_s)
    return tuple(
        Curve(
            f"cluster {number}",
            tuple(((at + 1) * WINDOW_S, fmean(window[edge] for edge in edges)) for at, window in enumerate(windows)),
        )
        for number, edges in enumerate(outcome.setup.clusters.values(), 1)
    )


experiment: Final = Experiment(
    name="padres-global",
    summary="load spreads over clusters in a chain, less the farther",
    source="paper 000, section 6.4, Figures 19 and 20",
    run=run,
)

"""Whether load spreads over clusters in a chain, and how far (paper 000, section 6.4).

Twelve brokers in four clusters, Table VI: four heads in a chain, two edges each. All publishers are at the first head,
and all subscribers join its first edge; half of the publishers double their rate at 8,000 s.

A cluster's load is the mean of its edges. Load has reached the last cluster when the first session moves somebody
there; it has converged with the last session before the rates change. One small session more or less puts that off by
a thousand seconds, so it is the mean of five seeds that is compared with the paper's one figure, and each is told. The
other figures are of all five, too: means, but sums of what must not be at all, sessions at the end and losses.

Farther clusters carry less: the mean output utilisation of a cluster is not more than 0.02 over that of the one before
it, so as to let noise be noise. After convergence, which is a minute after the last session, neighbouring clusters may
differ by the global trigger, 0.15, in windows of 60 s, the period of global PIE. Sessions are those that ordered a
move; how many others there were is told.

How the number of clusters matters (Figure 20): 1 to 6 clusters of two equal edges, of 1,000 MHz, 128 MB and 4 Mbps, so
that one cluster can carry everybody; the mean delivery delay of the last 1,000 of 5,000 s. Clusters more than three
cluster-hops away from the first are the fifth and sixth.

`--quick` is one seed, 6,000 s with the change at 4,000 s, and no scaling.
"""

from dataclasses import dataclass, replace
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
SEEDS, QUICK_SEEDS = 5, 1
COUNTS: Final = tuple(range(1, 7))
NEAR: Final = 4
"""So many clusters are at most three cluster-hops away from each other."""
QUICK: Final = replace(CHAIN, change_at=4_000.0, length_s=6_000.0)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    setup, seeds = (QUICK, QUICK_SEEDS) if quick else (CHAIN, SEEDS)
    plays = [Play(f"chain, run {number + 1}", setup, seed * 1_000 + number) for number in range(seeds)]
    if not quick:
        plays += [Play(each.name, each, seed) for each in map(chain, COUNTS)]
    outcomes = play_all(plays, tell, whole)
    chains = outcomes[:seeds]
    rows = _rows([Converged.of(each) for each in chains], QUICK_QUIET_S if quick else QUIET_S)
    if not quick:
        rows += _scaling(outcomes[seeds:])
    panels = (
        Panel("output utilisation", _cluster_curves(chains[0], "output")),
        Panel("input utilisation", _cluster_curves(chains[0], "input")),
        Panel("delivery delay, s", (chains[0].delay_curve(),)),
    )
    return Report(rows=tuple(rows), picture=Picture(x_label="seconds", panels=panels))


@dataclass(frozen=True, slots=True)
class Converged:
    """A run of the chain, and when it did what."""

    outcome: Outcome
    reached_s: float
    """When load had reached the last cluster."""
    after_s: float
    """How long after that the last session before the change of rates was; the whole run if it was never reached."""
    changed_s: float
    """How long after the change the last session was."""
    spans: tuple[tuple[float, float], tuple[float, float]]
    """When it had converged: before the change, and at the end."""

    @classmethod
    def of(cls, outcome: Outcome) -> "Converged":
        """Return it."""
        setup = outcome.setup
        change, end = setup.change_at or setup.length_s, setup.length_s
        farthest = setup.clusters[setup.heads[-1]]
        reached = min((each.at for each in outcome.sessions if each.target in farthest), default=end)
        first, last = outcome.last_session(0.0, change), outcome.last_session(change, end)
        after_s = first - reached if reached < change else end
        return cls(outcome, reached, after_s, last - change, ((first + SETTLE_S, change), (last + SETTLE_S, end)))

    def loads(self, when: int) -> list[float]:
        """Return the output utilisation of each cluster before the change (0), or at the end (1)."""
        return [_mean(self.outcome, head, "output", *self.spans[when]) for head in self.outcome.setup.heads]


def _rows(runs: list[Converged], quiet_s: float) -> list[Row]:
    outcomes = [each.outcome for each in runs]
    end = outcomes[0].setup.length_s
    rows = [
        Row(name="load reaches the last cluster at", ours=fmean(each.reached_s for each in runs), unit="s"),
        at_most("converges after that", fmean(each.after_s for each in runs), 2_000, paper=2_000, unit="s"),
        Row(name="converges after that, each run", ours=", ".join(f"{each.after_s:,.0f}" for each in runs), unit="s"),
        Row(name="time to converge after the change of rates", ours=fmean(each.changed_s for each in runs), unit="s"),
        Row(name="sessions", ours=fmean(len(each.sessions) for each in outcomes)),
        Row(name="sessions that moved nobody", ours=fmean(len(each.idle) for each in outcomes)),
        Row(name="subscribers moved", ours=fmean(sum(one.ordered for one in each.sessions) for each in outcomes)),
    ]
    means = [[fmean(loads) for loads in zip(*(each.loads(when) for each in runs), strict=True)] for when in (0, 1)]
    for number, (before, after) in enumerate(zip(*means, strict=True), 1):
        rows.append(Row(name=f"cluster {number}: output utilisation before the change", ours=before))
        rows.append(Row(name=f"cluster {number}: output utilisation at the end", ours=after))
    for text, loads in zip(("before the change", "at the end"), means, strict=True):
        falls = all(one >= other - SLACK for one, other in pairwise(loads))
        rows.append(exactly(f"farther clusters carry less {text}", "yes" if falls else "no", "yes", paper="yes"))
    for metric in METRICS:
        share = fmean(_share_within(each.outcome, metric, span) for each in runs for span in each.spans)
        rows.append(at_least(f"windows with neighbours' {metric} within {TRIGGER}", share, 0.95, paper="all"))
    late = sum(len(each.sessions_within(end - quiet_s, end)) for each in outcomes)
    idle = sum(len(each.idle_within(end - quiet_s, end)) for each in outcomes)
    rows.append(exactly(f"sessions in the last {quiet_s:g} s", late, 0, paper=0))
    rows.append(Row(name=f"sessions in the last {quiet_s:g} s that moved nobody", ours=idle))
    rows.append(exactly("lost", sum(each.ledger.lost for each in outcomes), 0))
    rows.append(exactly("repeated", sum(each.ledger.repeated for each in outcomes), 0))
    rows.append(Row(name="deliveries owed", ours=sum(each.ledger.owed for each in outcomes)))
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

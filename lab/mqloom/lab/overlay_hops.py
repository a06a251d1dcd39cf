"""What `publiy-sparse` and `publiy-dense` have in common: pure forwards and hops under each strategy (section 7)."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqloom.lab.experiment import Curve, Panel, Picture, Row, Tell, at_most, exactly
from mqloom.lab.overlay_bound import LeastForwards
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import Load, Tally, publish_all
from mqloom.lab.overlay_workload import Workload

STRATEGIES: Final = ("S0", "S1", "S2", "SH")
DELTA: Final = 4
FANOUT: Final = 35
AMPLE_PER_S: Final = 1_000.0
"""The uplink by which SH judges: nobody fills it, as in the paper, where SH does what S2 does."""

BOUND_EACH: Final = 20
"""The bound is worked out for one publication of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What the paper has for one strategy, and the largest share of S0's pure forwards that we may have."""

    pure_forwards: int
    deliveries: int
    share_delivered: float
    target: float = 1.0
    quick_target: float = 1.0


def run_strategy(workload: Workload, strategy: str, load: Load, seed: int, tell: Tell) -> Tally:
    """Let the workload run under one strategy."""
    settings = {"strategy": strategy, "delta": DELTA, "fanout": FANOUT, "uplink_per_s": AMPLE_PER_S}
    return publish_all(
        OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings)), workload, load, seed, tell
    )


def run_all(workload: Workload, load: Load, seed: int, tell: Tell) -> dict[str, Tally]:
    """Let the same publications run under each strategy."""
    tallies = {}
    for done, strategy in enumerate(STRATEGIES):

        def told(share: float, text: str, done: int = done, strategy: str = strategy) -> None:
            tell((done + share) / len(STRATEGIES), f"{strategy}: {text}")

        tallies[strategy] = run_strategy(workload, strategy, load, seed, told)
    return tallies


def bound_per_publication(workload: Workload, publications: int, seed: int) -> float:
    """Return the least pure forwards of a publication on average, however many links there are, over delta hops."""
    randomness = random.Random(f"{seed} overlay bound")  # noqa: S311 - an experiment, not a secret
    least = LeastForwards(workload.links, DELTA)
    drawn = workload.publications(randomness)
    count = max(1, publications // BOUND_EACH)
    return sum(least.least(*next(drawn)) for _ in range(count)) / count


def rows(tallies: Mapping[str, Tally], printed: Mapping[str, Printed], bound: float, *, quick: bool) -> list[Row]:
    """Return a report's rows; `bound` is in pure forwards for each publication."""
    base = tallies["S0"]
    total = bound * base.publications
    found = [
        Row(name="publications", ours=base.publications, paper=36_000),
        Row(name="deliveries", ours=base.deliveries, paper=printed["S0"].deliveries),
        Row(
            name="S0: pure forwards for each delivery",
            ours=base.pure_forwards / base.deliveries,
            paper=printed["S0"].pure_forwards / printed["S0"].deliveries,
        ),
    ]
    for strategy, tally in tallies.items():
        paper = printed[strategy]
        found.append(Row(name=f"{strategy}: pure forwards", ours=tally.pure_forwards, paper=paper.pure_forwards))
        if strategy != "S0":
            found.append(
                at_most(
                    f"{strategy}: share of S0's pure forwards",
                    tally.pure_forwards / base.pure_forwards,
                    paper.quick_target if quick else paper.target,
                    paper=paper.pure_forwards / printed["S0"].pure_forwards,
                    bound=total / base.pure_forwards,
                )
            )
        found.append(Row(name=f"{strategy}: yield", ours=tally.share_delivered, paper=paper.share_delivered))
        found.append(Row(name=f"{strategy}: hops of a delivery", ours=tally.mean_length))
    found.append(exactly("missed or repeated under any strategy", sum(each.wrong for each in tallies.values()), 0))
    found.append(
        exactly("deliveries differ from S0's", sum(t.deliveries != base.deliveries for t in tallies.values()), 0)
    )
    return found


def picture(tallies: Mapping[str, Tally]) -> Picture:
    """Return the paper's Figure 9: what share of the deliveries has come after so many hops."""
    curves = tuple(Curve(strategy, tally.curve()) for strategy, tally in tallies.items())
    return Picture(x_label="hops", panels=(Panel("% of deliveries within", curves),))

"""How much more is delivered where uplinks are too narrow for S0, over the fanout (paper 001, section 7, Figure 13a).

The federation and the subscriptions of `publiy-sparse`. Uplinks send one copy after the other, all equally fast; what
is not sent waits without limit, and what has not come when the ten minutes are over is not delivered.

The paper publishes 72,000 a minute and does not say what its brokers can carry. Here the uplinks are such that the
busiest is full under S0 at a third of that rate: at a half of it S0 would still deliver 58% of all, because what does
not pass the busiest brokers comes, and nobody could deliver twice as much. To spare time one publication of twenty is
simulated, on uplinks of a twentieth: the used shares and the waiting times are the same.

The bound is what would be delivered if every uplink sent all, over what S0 delivers.

`--quick` is 120 s and two fanouts; S2 must deliver a third more than S0, and more with more links. In two minutes a
third of the time passes before most soft links are there.
"""

from typing import Final

from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, tell_nobody
from mqloom.lab.overlay_flow import Flow, flow
from mqloom.lab.overlay_hops import DELTA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import Workload, topic_workload

SATURATED_AT: Final = 1 / 3
"""The share of the publications at which the busiest uplink is full under S0."""

FULL: Final = Load(per_s=60.0, length_s=600.0)
QUICK: Final = Load(per_s=60.0, length_s=120.0)
PROBE: Final = Load(per_s=60.0, length_s=30.0)
FANOUTS: Final = (5, 10, 15, 20, 25, 30, 35)
QUICK_FANOUTS: Final = (5, 35)
PRINTED: Final = 1.15
"""How much more than S0 the best delivers."""


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    load, fanouts = (QUICK, QUICK_FANOUTS) if quick else (FULL, FANOUTS)
    strategies = ("S1", "S2") if quick else ("S1", "S2", "SH")
    workload = topic_workload(seed, gateways=120, subscriptions=6_552)
    probe = _flow(workload, "S0", fanouts[-1], PROBE, None, seed)
    uplink_per_s = SATURATED_AT * load.per_s * max(probe.sent.values()) / probe.publications
    base = _flow(workload, "S0", fanouts[-1], load, uplink_per_s, seed)
    more: dict[str, list[float]] = {strategy: [] for strategy in strategies}
    runs = [(strategy, fanout) for strategy in strategies for fanout in fanouts]
    for done, (strategy, fanout) in enumerate(runs):
        tell(done / len(runs), f"{strategy}, fanout {fanout}")
        found = _flow(workload, strategy, fanout, load, uplink_per_s, seed)
        more[strategy].append(found.deliveries / base.deliveries - 1)
    bound = base.wanted / base.deliveries - 1
    return Report(rows=tuple(_rows(base, more, fanouts, bound, quick=quick)), picture=_picture(more, fanouts, bound))


def _flow(workload: Workload, strategy: str, fanout: int, load: Load, uplink_per_s: float | None, seed: int) -> Flow:
    settings = {"strategy": strategy, "delta": DELTA, "fanout": fanout, "uplink_per_s": uplink_per_s}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings))
    uplinks = None if uplink_per_s is None else dict.fromkeys(workload.gateways, uplink_per_s)
    return flow(net, workload, load, uplinks, seed, tell_nobody)


def _rows(
    base: Flow, more: dict[str, list[float]], fanouts: tuple[int, ...], bound: float, *, quick: bool
) -> list[Row]:
    rows = [
        Row(name="deliveries wanted", ours=base.wanted),
        Row(name="S0: deliveries", ours=base.deliveries),
    ]
    for strategy, gained in more.items():
        for fanout, each in zip(fanouts, gained, strict=True):
            rows.append(Row(name=f"{strategy}, fanout {fanout}: more than S0", ours=each, bound=bound))
    rows.append(
        at_least("S2: more than S0, at best", max(more["S2"]), 1 / 3 if quick else 1.0, paper=PRINTED, bound=bound)
    )
    rows.append(at_least("S2: more with most links than with fewest", more["S2"][-1] - more["S2"][0], 0.1))
    return rows


def _picture(more: dict[str, list[float]], fanouts: tuple[int, ...], bound: float) -> Picture:
    curves = [
        Curve(strategy, tuple((float(fanout), 100 * each) for fanout, each in zip(fanouts, gained, strict=True)))
        for strategy, gained in more.items()
    ]
    curves.append(Curve("everything", tuple((float(fanout), 100 * bound) for fanout in fanouts), "bound"))
    return Picture(x_label="fanout", panels=(Panel("% more deliveries than S0", tuple(curves)),))


experiment: Final = Experiment(
    name="publiy-throughput",
    summary="soft links deliver more where uplinks are too narrow",
    source="paper 001, section 7, Figure 13a",
    run=run,
)

"""What it costs a gateway that a soft link comes or goes (paper 001, section 7, computational overhead).

The gateway with the most others on its map in the federation of `publiy-sparse`, after three periods of weaving. It
is told that one of its soft links went down, and that it came up again, 200 times. The working map is then one bit.
A working table, which the paper builds anew from all subscriptions, there is none: subscriptions stay under their
anchors, and an anchor's link is looked up on the map when a publication asks for it. What remains is that the answers
that were remembered, 512 at most, are added up for the profile of candidate links and forgotten; that is counted as
the table's cost, with all 512 remembered. It must not depend on the number of subscriptions: ten times as many, of
ten times as many topics, so that a publication is wanted by as many brokers, must not cost more than half as much
again.

This measures processor time, the least of ten rounds each, on whatever machine it runs; the paper's had 2.66 GHz.
`--quick` makes a tenth of the changes.
"""

import random
import time
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import LinkStood
from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_most
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_workload import TOPICS, Workload, topic_workload
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.limits import MEMO_MAX

ROUNDS: Final = 10
CHANGES: Final = 20
"""Of a link, in each round."""

LEARN_S: Final = 61.0
LEARN_PER_S: Final = 20
SUBSCRIPTIONS: Final = 6_552
MORE: Final = 10
GROWTH_MAX: Final = 1.5


class Cost(NamedTuple):
    """Milliseconds for one change, with nothing remembered and with all that can be; and the size of the map."""

    map_ms: float
    table_ms: float
    gateways: int


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    changes = CHANGES // 10 if quick else CHANGES
    tell(0.0, f"{SUBSCRIPTIONS:,} subscriptions")
    few = _cost(topic_workload(seed, gateways=120, subscriptions=SUBSCRIPTIONS), seed, changes)
    tell(0.3, f"{MORE * SUBSCRIPTIONS:,} subscriptions")
    workload = topic_workload(seed, gateways=120, subscriptions=MORE * SUBSCRIPTIONS, topics=MORE * TOPICS)
    many = _cost(workload, seed, changes)
    rows = (
        Row(name="gateways on the map", ours=few.gateways),
        at_most("working map", few.map_ms, 0.8, paper=0.8, unit="ms"),
        at_most(f"working table, {SUBSCRIPTIONS:,} subscriptions", few.table_ms, 17.0, paper=17, unit="ms"),
        Row(name=f"working table, {MORE * SUBSCRIPTIONS:,} subscriptions", ours=many.table_ms, unit="ms"),
        at_most("the same, how many times as much", many.table_ms / few.table_ms, GROWTH_MAX),
    )
    return Report(rows=rows)


def _cost(workload: Workload, seed: int, changes: int) -> Cost:
    randomness = random.Random(f"{seed} overlay cost")  # noqa: S311 - an experiment, not a secret
    settings: dict[str, object] = {"strategy": "S2"}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings))
    net.start()
    publications = workload.publications(randomness)
    for number in range(int(LEARN_S * LEARN_PER_S)):
        net.run(1 + number / LEARN_PER_S)
        net.publish(*next(publications))
    gateway = max(workload.gateways, key=lambda each: len(net.overlays[each].links()))
    overlay = net.overlays[gateway]
    soft = next(report.gateway for report in reversed(overlay.links()) if report.kind == "soft" and report.up)
    known = sorted({net.anchors_of(gateway, wanting) for wanting in workload.wanting}, key=sorted)
    anchors = randomness.sample(known, min(MEMO_MAX, len(known)))
    nothing = min(_changed(overlay, soft, [], net.now, changes) for _ in range(ROUNDS))
    full = min(_changed(overlay, soft, anchors, net.now, changes) for _ in range(ROUNDS))
    return Cost(nothing, full, len(overlay.links()))


def _changed(
    overlay: TreeOverlay, soft: GatewayId, remembered: list[frozenset[GatewayId]], now: float, changes: int
) -> float:
    """Return the milliseconds of one change on average; before each the overlay is asked, so that it remembers."""
    spent = 0.0
    for change in range(changes):
        for anchors in remembered:
            overlay.route(anchors, None)
        begun = time.process_time()
        overlay.handle(LinkStood(soft, up=bool(change % 2)), now)
        spent += time.process_time() - begun
    return 1000 * spent / changes


experiment: Final = Experiment(
    name="publiy-cost",
    summary="a soft link that comes or goes costs next to nothing",
    source="paper 001, section 7, computational overhead",
    run=run,
    measures_time=True,
)

"""What it costs a gateway that a soft link comes or goes (paper 001, section 7, computational overhead).

The gateway with the most others on its map in the federation of `publiy-sparse`, after three periods of weaving. It
is told that one of its soft links went down, and that it came up again, 200 times. The working map is then one bit.
A working table, which the paper builds anew from all subscriptions, there is none: subscriptions stay under their
anchors, and an anchor's link is looked up on the map when a publication asks for it. What remains is that the answers
that were remembered, 512 at most, are added up for the profile of candidate links and forgotten; that is counted as
the table's cost, with as many remembered as there are different ones. It must not depend on the number of
subscriptions: ten times as many, of ten times as many topics, so that a publication is wanted by as many brokers, and
as many answers remembered, must not cost more than half as much again.

This measures processor time, the least of many rounds each, on whatever machine it runs; the paper's had 2.66 GHz.
Few and many subscriptions take turns, so that a machine that slows down slows down both. `--quick` makes a tenth of
the changes.
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

ROUNDS: Final = 20
CHANGES: Final = 10
"""Of a link, in each round."""

LEARN_S: Final = 61.0
LEARN_PER_S: Final = 20
SUBSCRIPTIONS: Final = 6_552
MORE: Final = 10
GROWTH_MAX: Final = 1.5


class Learned(NamedTuple):
    """The gateway with the most others on its map, one of its soft links, and answers it may be asked for."""

    overlay: TreeOverlay
    soft: GatewayId
    answers: list[frozenset[GatewayId]]
    now: float


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    changes = CHANGES // 10 if quick else CHANGES
    tell(0.0, f"{SUBSCRIPTIONS:,} subscriptions")
    few = _learned(topic_workload(seed, gateways=120, subscriptions=SUBSCRIPTIONS), seed)
    tell(0.3, f"{MORE * SUBSCRIPTIONS:,} subscriptions")
    more = topic_workload(seed, gateways=120, subscriptions=MORE * SUBSCRIPTIONS, topics=MORE * TOPICS)
    many = _learned(more, seed)
    remembered = min(len(few.answers), len(many.answers))
    tell(0.8, "changes of a link")
    map_ms = min(_changed(few, 0, changes) for _ in range(ROUNDS))
    pairs = [(_changed(few, remembered, changes), _changed(many, remembered, changes)) for _ in range(ROUNDS)]
    few_ms, many_ms = (min(each) for each in zip(*pairs, strict=True))
    rows = (
        Row(name="gateways on the map", ours=len(few.overlay.links())),
        Row(name="answers remembered", ours=remembered),
        at_most("working map", map_ms, 0.8, paper=0.8, unit="ms"),
        at_most(f"working table, {SUBSCRIPTIONS:,} subscriptions", few_ms, 17.0, paper=17, unit="ms"),
        Row(name=f"working table, {MORE * SUBSCRIPTIONS:,} subscriptions", ours=many_ms, unit="ms"),
        at_most("the same, how many times as much", many_ms / few_ms, GROWTH_MAX),
    )
    return Report(rows=rows)


def _learned(workload: Workload, seed: int) -> Learned:
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
    return Learned(overlay, soft, randomness.sample(known, min(MEMO_MAX, len(known))), net.now)


def _changed(learned: Learned, remembered: int, changes: int) -> float:
    """Return the milliseconds of one change on average; before each the overlay is asked, so that it remembers."""
    spent = 0.0
    for _ in range(changes):
        for up in (False, True):
            for anchors in learned.answers[:remembered]:
                learned.overlay.route(anchors, None)
            begun = time.process_time()
            learned.overlay.handle(LinkStood(learned.soft, up=up), learned.now)
            spent += time.process_time() - begun
    return 1000 * spent / (2 * changes)


experiment: Final = Experiment(
    name="publiy-cost",
    summary="a soft link that comes or goes costs next to nothing",
    source="paper 001, section 7, computational overhead",
    run=run,
    measures_time=True,
)

"""What it costs a gateway that a soft link, or a gateway, comes or goes (paper 001, section 7, computational overhead).

The gateway with the most others on its map in the federation of `publiy-sparse`, after three periods of weaving. It
is told that one of its soft links went down, and that it came up again, 200 times. The working map is then one bit.
A working table, which the paper builds anew from all subscriptions, there is none: subscriptions stay under their
anchors, and an anchor's link is looked up on the map when a publication asks for it. What remains is that the answers
that were remembered, 512 at most, are added up for the profile of candidate links and forgotten; that is counted as
the table's cost, with as many remembered as there are different ones. It must not depend on the number of
subscriptions: ten times as many, of ten times as many topics, so that a publication is wanted by as many brokers, and
as many answers remembered, must not cost more than half as much again.

When a gateway joins the federation or leaves it, the master map is made anew, and subscriptions may have to be kept
and announced by other anchors. Here a leaf comes to the edge of the map and goes again, as often; nobody there has
subscribed to anything. The paper has no figure for that. It is measured in the same gateway's overlay and routing
table, with the subscriptions announced as its neighbours would (`mqloom.lab.overlay_table`), and must not depend on
their number either.

This measures processor time, the least of many rounds each, on whatever machine it runs; the paper's had 2.66 GHz.
Few and many subscriptions take turns, so that a machine that slows down slows down both. `--quick` makes a tenth of
the changes.
"""

import random
import time
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.interfaces import LinkStood
from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_most
from mqloom.lab.overlay_hops import DELTA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_table import TableOnMap, ways_from
from mqloom.lab.overlay_workload import TOPICS, Workload, topic_workload
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.bodies import View
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
    few = _learned(_workload(seed, 1), seed)
    tell(0.3, f"{MORE * SUBSCRIPTIONS:,} subscriptions")
    many = _learned(_workload(seed, MORE), seed)
    remembered = min(len(few.answers), len(many.answers))
    tell(0.8, "changes of a link")
    map_ms = min(_changed(few, 0, changes) for _ in range(ROUNDS))
    pairs = [(_changed(few, remembered, changes), _changed(many, remembered, changes)) for _ in range(ROUNDS)]
    few_ms, many_ms = (min(each) for each in zip(*pairs, strict=True))
    tell(0.85, "changes of the map")
    joined_few_ms, joined_many_ms = _joins(seed, changes)
    rows = (
        Row(name="gateways on the map", ours=len(few.overlay.links())),
        Row(name="answers remembered", ours=remembered),
        at_most("working map", map_ms, 0.8, paper=0.8, unit="ms"),
        at_most(f"working table, {SUBSCRIPTIONS:,} subscriptions", few_ms, 17.0, paper=17, unit="ms"),
        Row(name=f"working table, {MORE * SUBSCRIPTIONS:,} subscriptions", ours=many_ms, unit="ms"),
        at_most("working table, how many times as much", many_ms / few_ms, GROWTH_MAX),
        Row(name=f"a gateway joins or leaves, {SUBSCRIPTIONS:,} subscriptions", ours=joined_few_ms, unit="ms"),
        Row(name=f"a gateway joins or leaves, {MORE * SUBSCRIPTIONS:,} subscriptions", ours=joined_many_ms, unit="ms"),
        at_most("a gateway joins or leaves, how many times as much", joined_many_ms / joined_few_ms, GROWTH_MAX),
    )
    return Report(rows=rows)


def _workload(seed: int, times: int) -> Workload:
    return topic_workload(seed, gateways=120, subscriptions=times * SUBSCRIPTIONS, topics=times * TOPICS)


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


def _joins(seed: int, changes: int) -> tuple[float, float]:
    """Return the milliseconds of a change of the map, with few and with many subscriptions."""
    tables = [_table(_workload(seed, times)) for times in (1, MORE)]
    pairs = [[_joined(table, changes) for table in tables] for _ in range(ROUNDS)]
    few_ms, many_ms = (min(each) for each in zip(*pairs, strict=True))
    return few_ms, many_ms


class Joinable(NamedTuple):
    """A routing table, and what a neighbour tells when a leaf has come, and when it has gone."""

    table: TableOnMap
    neighbour: GatewayId
    views: tuple[View, View]


def _table(workload: Workload) -> Joinable:
    maps = {
        us: [way for way in ways_from(us, workload.links).values() if len(way) <= DELTA] for us in workload.gateways
    }
    us = max(workload.gateways, key=lambda each: len(maps[each]))
    table = TableOnMap(us, workload.links, DELTA)
    for topic, wanting in enumerate(workload.wanting):
        wish = Subscription.parse(f"topics/{topic}", "")
        for subscriber in sorted(wanting):
            table.announce(SubscriptionKey(subscriber, 1, topic), wish, subscriber)
    table.drain()
    near_edge = next(way[-1] for way in maps[us] if len(way) == DELTA - 1)
    with_leaf = table.news([*workload.links, (near_edge, GatewayId("leaf"))])
    assert len(with_leaf) == 1
    ((neighbour, come),) = with_leaf.items()
    table.hear(neighbour, come)
    gone = table.news(workload.links)[neighbour]
    return Joinable(table, neighbour, (gone, come))


def _joined(joinable: Joinable, changes: int) -> float:
    """Return the milliseconds of one change on average."""
    begun = time.process_time()
    for _ in range(changes):
        for view in joinable.views:
            joinable.table.hear(joinable.neighbour, view)
    spent = time.process_time() - begun
    assert joinable.table.drain() == {}  # nobody has to be told anything of subscriptions
    return 1000 * spent / (2 * changes)


experiment: Final = Experiment(
    name="publiy-cost",
    summary="a soft link or a gateway that comes or goes costs next to nothing",
    source="paper 001, section 7, computational overhead",
    run=run,
    measures_time=True,
)

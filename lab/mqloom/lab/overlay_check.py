"""Whole gateways beside overlays that are joined directly: do publications take the same ways.

A small federation, once with gateways, brokers and clients in virtual time, once as `OverlayNet`. Pure forwards and
deliveries must be the same to the last one: under S0, where nothing is learned, and under S2, before the first soft
links are there and when all are.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.checkers import judge
from mqloom.lab.experiment import Row, exactly
from mqloom.lab.node_builders import DATA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_workload import Workload, topic_workload
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import Options, World
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

GATEWAYS: Final = 30
TOPICS: Final = 40
SUBSCRIPTIONS: Final = 120
PUBLICATIONS: Final = 200
"""Half of them to learn from, half to be compared."""

PER_S: Final = 10.0
BEGIN_S: Final = 10.0
"""When publishing begins: every subscription is established by then."""

WEAVE_S: Final = 1.0
CONNECT_S: Final = 0.01
"""How long a soft link takes where overlays are joined: it is there before the next publication, as it is in whole."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """What whole gateways did in each half, and what the judges found."""

    pure_forwards: tuple[int, int]
    deliveries: int
    findings: int
    soft_links: int


def check_rows(seed: int) -> list[Row]:
    """Return the rows of the comparison."""
    workload = topic_workload(seed, gateways=GATEWAYS, subscriptions=SUBSCRIPTIONS, topics=TOPICS)
    drawn = _drawn(workload, seed)
    plain, woven = (_whole(workload, drawn, strategy, seed) for strategy in ("S0", "S2"))
    plainly, softly = (_joined(workload, drawn, strategy) for strategy in ("S0", "S2"))
    deliveries = sum(len(workload.wanting[topic]) for _, topic in drawn)  # at the origin, too
    return [
        *_same("S0", plain.pure_forwards, plainly),
        exactly("30 whole gateways, S0: deliveries", plain.deliveries, deliveries),
        *_same("S2", woven.pure_forwards, softly),
        exactly("30 whole gateways, S2: deliveries", woven.deliveries, deliveries),
        Row(name="30 whole gateways, S2: soft links", ours=woven.soft_links),
        exactly("30 whole gateways: lost, repeated or unasked", plain.findings + woven.findings, 0),
    ]


def _drawn(workload: Workload, seed: int) -> list[tuple[GatewayId, int]]:
    randomness = random.Random(f"{seed} overlay check")  # noqa: S311 - an experiment, not a secret
    topics = range(len(workload.wanting))
    return [(randomness.choice(workload.gateways), randomness.choice(topics)) for _ in range(PUBLICATIONS)]


def _same(strategy: str, whole: tuple[int, int], joined: tuple[int, int]) -> list[Row]:
    halves = zip(("first", "second"), whole, joined, strict=True)
    return [
        exactly(f"30 whole gateways, {strategy}: pure forwards, {half} half", ours, expected)
        for half, ours, expected in halves
    ]


def _at(number: int) -> float:
    """Return when a publication begins: never just when links are judged."""
    return BEGIN_S + (number + 0.5) / PER_S


def _joined(workload: Workload, drawn: Sequence[tuple[GatewayId, int]], strategy: str) -> tuple[int, int]:
    """Return the pure forwards in each half."""
    settings: dict[str, object] = {"strategy": strategy, "weave_s": WEAVE_S}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings), connect_s=CONNECT_S)
    net.start()
    forwards: list[int] = []
    for number, (origin, topic) in enumerate(drawn):
        net.run(_at(number))
        wanting = workload.wanting[topic]
        forwards.append(net.publish(origin, wanting).pure_forwards(wanting))
    half = len(drawn) // 2
    return sum(forwards[:half]), sum(forwards[half:])


def _whole(workload: Workload, drawn: Sequence[tuple[GatewayId, int]], strategy: str, seed: int) -> Relayed:
    overlays: list[TreeOverlay] = []

    def build(gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float) -> Node:
        overlays.append(TreeOverlay(gateway, neighbours, {"strategy": strategy, "weave_s": WEAVE_S}))
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            peers=[other for other in workload.gateways if other != gateway],
            matcher=ScanMatcher(),
            overlay=overlays[-1],
            codecs=[("#", json_codec.mqloom_codec())],
            data=DATA,
        )
        return Node(parts, now)

    world = World(_plan(workload, drawn, seed), Options(build=build))
    world.run(until=BEGIN_S + PUBLICATIONS / 2 / PER_S)
    half = _relayed(world)
    world.run(until=BEGIN_S + PUBLICATIONS / PER_S)
    world.settle()
    judgement = judge(world)
    deliveries = sum(len(each.life.delivered) for each in world.subscribers.values())
    soft_links = sum(report.kind == "soft" for overlay in overlays for report in overlay.links())
    return Relayed((half, _relayed(world) - half), deliveries, len(judgement.findings), soft_links)


def _relayed(world: World) -> int:
    nodes = [gateway.node for gateway in world.gateways.values()]
    return sum(node.counters.total("publications_relayed") for node in nodes if node is not None)


def _plan(workload: Workload, drawn: Sequence[tuple[GatewayId, int]], seed: int) -> Plan:
    wishes: dict[GatewayId, dict[str, tuple[str, str]]] = {gateway: {} for gateway in workload.gateways}
    for topic, wanting in enumerate(workload.wanting):
        for gateway in sorted(wanting):
            wishes[gateway][f"t{topic}"] = (f"stocks/t{topic}", "")
    return Plan(
        seed=seed,
        gateways=tuple(workload.gateways),
        links=tuple(workload.links),
        publishers={f"p-{gateway}": gateway for gateway in workload.gateways},
        subscribers=tuple(
            SubscriberPlan(name=f"s-{gateway}", gateway=gateway, wishes=wanted) for gateway, wanted in wishes.items()
        ),
        publications=tuple(
            PublicationPlan(
                at=_at(number),
                publisher=f"p-{origin}",
                number=number,
                topic=f"stocks/t{topic}",
                attributes={},
            )
            for number, (origin, topic) in enumerate(drawn)
        ),
        length_s=BEGIN_S + PUBLICATIONS / PER_S,
        window=PUBLICATIONS,
        link_latency_s=0.001,
    )

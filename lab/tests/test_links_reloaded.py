"""Links that come into the configuration and leave it while gateways run and publications flow."""

from collections.abc import Sequence

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.link_changes import Network
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.lab import checkers
from mqloom.lab.node_builders import DATA
from mqloom.lab.plan import JoinPlan, MovePlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import Options, World
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

GATEWAYS = ("M", "A", "N", "P", "B", "C", "J")
LINKS = (("M", "A"), ("A", "N"), ("N", "P"), ("P", "B"), ("B", "C"), ("A", "J"))
"""A may move from N to B; J joins."""
CODECS = [("#", json_codec.mqloom_codec())]


class Reloaded:
    """A federation whose gateways read another configuration; who wants everything, and publishes, everywhere."""

    def __init__(self, strategy: str, *, until: float, silent: str = "", moves: Sequence[MovePlan] = ()) -> None:
        """Nobody publishes at a gateway that is `silent` after 14.5."""
        times = [4.0 + 0.05 * number for number in range(int((until - 4.0) / 0.05))]
        publishers = [(number, at, GATEWAYS[number % len(GATEWAYS)]) for number, at in enumerate(times)]
        plan = Plan(
            seed=1,
            gateways=GATEWAYS,
            links=LINKS,
            publishers={f"pub-{each}": each for each in GATEWAYS},
            subscribers=tuple(
                SubscriberPlan(name=f"sub-{each}", gateway=each, wishes={"all": ("stocks/#", "")}) for each in GATEWAYS
            ),
            publications=tuple(
                PublicationPlan(at=at, publisher=f"pub-{each}", number=number, topic="stocks/a", attributes={})
                for number, at, each in publishers
                if each != silent or at < 14.5
            ),
            link_latency_s=0.02,
            moves=tuple(moves),
            joins=(JoinPlan(at=1_000_000.0, gateway="J"),),  # not by a new start: see `add`
        )
        self.settings: dict[str, object] = {"strategy": strategy, "weave_s": 1.0} if strategy != "S0" else {}
        self.world = World(plan, Options(build=self.build))

    def network(self, gateway: str) -> Network:
        links = [(GatewayId(one), GatewayId(other)) for one, other in self.world.links]
        near = [other for link in links if gateway in link for other in link if other != gateway]
        return Network(near, sorted({each for link in links for each in link} - {GatewayId(gateway)}), links)

    def build(self, gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float) -> Node:
        network = self.network(gateway)
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            peers=network.peers,
            network=network.links,
            matcher=ScanMatcher(),
            overlay=TreeOverlay(gateway, neighbours, self.settings),
            codecs=CODECS,
            data=DATA,
        )
        return Node(parts, now)

    def reload(self, *gateways: str) -> None:
        for each in gateways:
            event = Reconfigured(codecs=CODECS, standing=(), federate=(), data=DATA, network=self.network(each))
            self.world.gateways[each]._handle(event)

    def add(self, gateway: str) -> None:
        """Let a gateway join: its links come into the configuration, and its neighbours read that."""
        self.world.links += [pair for pair in LINKS if gateway in pair]
        self.world.gateways[gateway].start()
        self.reload(*(each for each in GATEWAYS if each != gateway))

    def run(self, until: float) -> None:
        self.world.run(until)
        assert list(checkers.invariants(self.world)) == []

    def end(self, *gone: str) -> checkers.Judgement:
        """Let everything come to rest; whoever has left is not asked any more."""
        for each in gone:
            self.world.subscribers.pop(f"sub-{each}", None)
            self.world.publishers.pop(f"pub-{each}", None)
            self.world.left.add(each)
            model = self.world.gateways.pop(each)
            if model.is_running:
                model.crash(lambda: 0.0)
        self.world.settle()
        judgement = checkers.judge(self.world)
        assert [*checkers.at_rest(self.world), *judgement.findings] == []
        return judgement

    def neighbours(self, gateway: str) -> set[str]:
        node = self.world.gateways[gateway].node
        assert node is not None
        return set(node.link_states())

    def epochs(self) -> dict[str, int]:
        return {name: model.epoch for name, model in self.world.gateways.items()}


@pytest.mark.parametrize("strategy", ["S0", "S2"])
def test_a_link_that_is_added_opens_and_nobody_misses_anything_or_gets_it_twice(strategy: str) -> None:
    federation = Reloaded(strategy, until=20.0)
    federation.run(10.0)
    before = federation.epochs()
    federation.add("J")
    federation.run(20.0)
    assert {name: epoch for name, epoch in federation.epochs().items() if name != "J"} == {
        name: epoch for name, epoch in before.items() if name != "J"
    }
    judgement = federation.end()
    assert (judgement.lost, judgement.lost_with_subscription) == (0, 0)
    assert len(federation.world.subscribers["sub-J"].life.delivered) > len(federation.world.sent) // 2
    assert federation.neighbours("A") == {"M", "N", "J"}


def test_a_link_that_is_added_during_a_move_opens_when_that_is_over() -> None:
    federation = Reloaded("S2", until=24.0, moves=[MovePlan(at=9.99, gateway="A", to="B")])
    federation.run(10.0)
    node = federation.world.gateways["A"].node
    assert node is not None
    assert node.is_moving
    federation.add("J")
    assert "J" not in federation.neighbours("A")
    federation.run(24.0)
    assert federation.end().lost == 0
    assert federation.neighbours("A") == {"M", "B", "J"}


@pytest.mark.parametrize("strategy", ["S0", "S2"])
def test_a_link_that_is_removed_closes_when_all_has_crossed_and_others_go_on(strategy: str) -> None:
    federation = Reloaded(strategy, until=30.0, silent="C")
    federation.run(15.0)
    entered = {number for number, sent in federation.world.sent.items() if sent.gateway != "J" and sent.at < 14.5}
    federation.world.links = [pair for pair in federation.world.links if "C" not in pair]
    federation.reload("B", "C")
    federation.run(17.0)
    assert entered <= {number for _, number, _ in federation.world.subscribers["sub-C"].life.delivered}
    assert federation.neighbours("B") == {"P"}
    assert federation.neighbours("C") == set()
    federation.run(30.0)
    assert federation.end("C", "J").lost == 0
    assert "mqloom-B-park-C" not in federation.world.brokers["B"].sessions


def test_a_link_that_is_removed_while_the_neighbour_is_away_closes_at_once() -> None:
    federation = Reloaded("S0", until=40.0, silent="C")
    federation.run(15.0)
    federation.world.gateways["C"].crash(lambda: 0.0)
    federation.run(30.0)
    assert federation.world.brokers["B"].sessions["mqloom-B-park-C"].queue
    federation.world.links = [pair for pair in federation.world.links if "C" not in pair]
    federation.reload("B")
    assert federation.neighbours("B") == {"P"}
    federation.run(40.0)
    assert federation.end("J", "C").lost == 0
    assert "mqloom-B-park-C" not in federation.world.brokers["B"].sessions


def test_a_link_that_comes_back_before_it_is_gone_is_a_link() -> None:
    federation = Reloaded("S0", until=25.0)
    federation.run(15.0)
    links = list(federation.world.links)
    federation.world.links = [pair for pair in links if "C" not in pair]
    federation.reload("B")
    federation.world.links = links
    federation.reload("B")
    federation.run(25.0)
    assert federation.neighbours("B") == {"P", "C"}
    federation.end("J")

"""Brokers that join and leave while publications flow: nobody else misses anything, or gets it twice."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.node import Node, NodeParts
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


class Changing:
    """A federation whose configuration changes; somebody who wants everything, and publishes, at every gateway."""

    def __init__(
        self,
        strategy: str,
        *,
        moves: Sequence[MovePlan] = (),
        until: float = 20.0,
        leaving: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`leaving` says from when on nobody publishes at a broker that leaves."""
        times = [4.0 + 0.05 * number for number in range(int((until - 4.0) / 0.05))]
        plan = Plan(
            seed=1,
            gateways=GATEWAYS,
            links=LINKS,
            publishers={f"pub-{each}": each for each in GATEWAYS},
            subscribers=tuple(
                SubscriberPlan(name=f"sub-{each}", gateway=each, wishes={"all": ("stocks/#", "")}) for each in GATEWAYS
            ),
            publications=tuple(
                PublicationPlan(
                    at=at,
                    publisher=f"pub-{GATEWAYS[number % len(GATEWAYS)]}",
                    number=number,
                    topic="stocks/a",
                    attributes={},
                )
                for number, at in enumerate(times)
                if at < leaving.get(GATEWAYS[number % len(GATEWAYS)], until)
            ),
            link_latency_s=0.02,
            moves=tuple(moves),
            joins=(JoinPlan(at=10.0, gateway="J"),),
        )
        self.settings: dict[str, object] = {"strategy": strategy, "weave_s": 1.0} if strategy != "S0" else {}
        self.world = World(plan, Options(build=self.build))

    def build(self, gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float) -> Node:
        links = [(GatewayId(one), GatewayId(other)) for one, other in self.world.links]
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            peers=sorted({each for link in links for each in link} - {gateway}),
            network=links,
            matcher=ScanMatcher(),
            overlay=TreeOverlay(gateway, neighbours, self.settings),
            codecs=[("#", json_codec.mqloom_codec())],
            data=DATA,
        )
        return Node(parts, now)

    def run(self, until: float) -> None:
        self.world.run(until)
        assert list(checkers.invariants(self.world)) == []

    def end(self) -> checkers.Judgement:
        """Let everything come to rest; whoever has left is not asked any more."""
        for gone in self.world.left:
            self.world.subscribers.pop(f"sub-{gone}", None)
            self.world.publishers.pop(f"pub-{gone}", None)
        self.world.settle()
        judgement = checkers.judge(self.world)
        assert [*checkers.at_rest(self.world), *judgement.findings] == []
        return judgement

    def network(self) -> dict[str, set[str]]:
        nodes = ((name, gateway.node) for name, gateway in self.world.gateways.items())
        return {name: set(node.link_states()) for name, node in nodes if node is not None}


MOVE = MovePlan(at=6.0, gateway="A", to="B")


@pytest.mark.parametrize("strategy", ["S0", "S2"])
def test_one_joins_while_publications_flow_and_nobody_misses_any_or_gets_it_twice(strategy: str) -> None:
    federation = Changing(strategy)
    federation.run(20.0)
    judgement = federation.end()
    assert (judgement.lost, judgement.lost_with_subscription) == (0, 0)
    before = sum(sent.at < 10.0 for sent in federation.world.sent.values())
    assert judgement.expected >= 6 * (len(federation.world.sent) - before // 7)
    joined = federation.world.subscribers["sub-J"].life.delivered
    assert len(joined) > len(federation.world.sent) // 2
    assert federation.network()["A"] == {"M", "N", "J"}


def test_one_joins_a_gateway_that_has_moved_and_the_network_stays_one() -> None:
    federation = Changing("S2", moves=[MOVE])
    federation.run(20.0)
    assert federation.end().lost == 0
    assert federation.network() == {
        "M": {"A"},
        "A": {"M", "B", "J"},
        "N": {"P"},
        "P": {"N", "B"},
        "B": {"P", "C", "A"},
        "C": {"B"},
        "J": {"A"},
    }


@pytest.mark.parametrize("strategy", ["S0", "S2"])
def test_one_leaves_while_publications_flow_and_what_was_parked_for_it_is_discarded(strategy: str) -> None:
    federation = Changing(strategy, until=40.0, leaving={"C": 14.5})
    federation.run(15.0)
    federation.world.gateways["C"].crash(lambda: 0.0)
    federation.run(30.0)
    sessions = federation.world.brokers["B"].sessions
    assert sessions["mqloom-B-park-C"].queue
    federation.world.leave("C")
    federation.run(40.0)
    assert federation.end().lost == 0
    assert federation.network()["B"] == {"P"}
    assert "mqloom-B-park-C" not in sessions


def test_one_leaves_at_the_edge_and_one_in_the_middle_when_those_behind_it_have_moved() -> None:
    federation = Changing("S2", moves=[MOVE], until=40.0, leaving={"C": 14.5, "P": 24.5})
    federation.run(15.0)
    federation.world.leave("C")
    federation.run(20.0)
    federation.world.move("N", "B")  # behind P, which leaves then: the configuration has the link that stands for two
    federation.run(25.0)
    assert federation.network()["P"] == {"B"}
    federation.world.links += [("N", "B")]
    federation.world.leave("P")
    federation.world.restart("N")
    federation.run(40.0)
    assert federation.end().lost == 0
    assert federation.network() == {"M": {"A"}, "A": {"M", "B", "J"}, "N": {"B"}, "B": {"A", "N"}, "J": {"A"}}

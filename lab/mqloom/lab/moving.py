"""A federation in which one gateway moves from a neighbour to another while publications flow, for tests of that."""

from collections.abc import Sequence
from functools import partial

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.records import MoveAnswer, PlaceLink, decode_place
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab import checkers
from mqloom.lab.node_builders import DATA
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import Options, World
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

STEPS = ["asking", "freezing", "linking", "sweeping", "settling", "holding", "keeping", "leaving"]
LATENCY_S = 0.02
GATEWAYS = ("M", "A", "N", "P", "B", "C")
"""A moves from N to B; M is behind A, C behind B."""

LINKS = (("M", "A"), ("A", "N"), ("N", "P"), ("P", "B"), ("B", "C"))


def build(
    settings: dict[str, object], gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float
) -> Node:
    """Return a node with a map, and the plainest plugins."""
    parts = NodeParts(
        gateway=gateway,
        epoch=epoch,
        neighbours=neighbours,
        peers=[GatewayId(name) for name in GATEWAYS if name != gateway],
        matcher=ScanMatcher(),
        overlay=TreeOverlay(gateway, neighbours, settings),
        codecs=[("#", json_codec.mqloom_codec())],
        data=DATA,
    )
    return Node(parts, now)


class Federation:
    """A chain of six, somebody who wants everything and somebody who publishes at every gateway."""

    def __init__(self, *, strategy: str = "S2", delta: int = 4, closes_at: float | None = None) -> None:
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
                    at=9.8 + 0.01 * number,
                    publisher=f"pub-{GATEWAYS[number % len(GATEWAYS)]}",
                    number=number,
                    topic="stocks/a",
                    attributes={},
                )
                for number in range(200)
            ),
            link_latency_s=LATENCY_S,
        )
        settings: dict[str, object] = {"strategy": strategy, "delta": delta} if strategy != "S0" else {}
        self.world = World(plan, Options(build=partial(build, settings)))
        self.mover = "A"
        self.run(10.0)

    def run(self, until: float) -> None:
        """Let time pass up to then; the invariants hold."""
        self.world.run(until)
        assert list(checkers.invariants(self.world)) == []

    def wait(self, seconds: float) -> None:
        """Let time pass for so long."""
        self.run(self.world.clock.now + seconds)

    def order(self, to: str = "B", of: str = "A") -> "Federation":
        """Order a gateway to move."""
        self.mover = of
        self.world.move(of, to, 7)
        return self

    @property
    def answers(self) -> list[MoveAnswer]:
        """What it has answered so far."""
        return [answer for _, answer in self.world.gateways[self.mover].answers]

    @property
    def steps(self) -> list[str]:
        """The steps of its move so far."""
        return [answer.step for answer in self.answers if answer.step]

    def until(self, step: str) -> "Federation":
        """Let time pass until the gateway that moves enters a step."""
        for _ in range(100_000):
            if step in self.steps:
                return self
            self.world.run(self.world.clock.now + 0.000_2)
        raise AssertionError(f"it never came to {step}: {self.answers}")

    def neighbours(self, gateway: str) -> set[str]:
        """Return the neighbours of a gateway as it sees them."""
        node = self.world.gateways[gateway].node
        assert node is not None
        return set(node.link_states())

    def cut(self, one: str, other: str) -> None:
        """Break the link between two, both ways; they notice at once."""
        for path in (self.world.link_path(one, other), self.world.link_path(other, one)):
            path.cut(lambda: 0.0)

    def heal(self, one: str, other: str) -> None:
        """Mend it."""
        for path in (self.world.link_path(one, other), self.world.link_path(other, one)):
            path.heal()

    def end(self) -> MoveAnswer:
        """Let everything come to rest: all that was published came once, the network is a tree. Return the answer."""
        self.wait(2.0)
        self.world.settle()
        judgement = checkers.judge(self.world)
        assert [*checkers.at_rest(self.world), *judgement.findings] == []
        assert judgement.expected == len(self.world.sent) * len(GATEWAYS)
        return self.answers[-1]

    def is_new(self) -> bool:
        """Whether the network is the new one, for everybody; if not, it must be the old one for everybody."""
        is_new = self.neighbours("A") == {"M", "B"}
        assert is_new or self.neighbours("A") == {"M", "N"}
        assert self.neighbours("N") == ({"P"} if is_new else {"A", "P"})
        assert self.neighbours("B") == ({"P", "C", "A"} if is_new else {"P", "C"})
        return is_new

    def kept(self, gateway: str) -> list[PlaceLink]:
        """Return the neighbours as they are kept on a gateway's own broker."""
        retained = self.world.brokers[gateway].retained[layout.place(GatewayId(gateway))]
        return list(decode_place(retained.payload).links)


MOVED = MoveAnswer(answer="moved", number=7)


def stayed(problem: str) -> MoveAnswer:
    """Return the answer of one that stays."""
    return MoveAnswer(answer="stayed", number=7, problem=problem)

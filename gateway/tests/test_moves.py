"""Moves of a primary link, by production nodes in virtual time: every step, every refusal, and trouble in each step."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from mqloom.core import layout
from mqloom.core.effects import CloseLink, OpenLink, PublishLocally, SendFrame
from mqloom.core.events import (
    AcksReceived,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Ordered,
    PlaceRead,
    Woke,
)
from mqloom.core.ids import ClientId, Conversation, GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, HOLD_S, ID_LENGTH_MAX, LINK_GRACE_S, MOVE_S
from mqloom.core.messages import Announce, Freeze, Frozen, Hello, Parting, Passed, Synced, Thaw
from mqloom.core.records import MoveAnswer, PlaceLink, decode_move, decode_place
from mqloom.core.wire import Ack, Frame, decode, encode, encode_ack
from mqloom.gateway.links import LinkState
from mqloom.gateway.moves import LEAVE_S
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.places import MISSED_MAX
from mqloom.lab import checkers
from mqloom.lab.gate import US, A, B, Gate, acknowledged, key, logs, parts_of, sent
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import DATA, Options, World
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
        self.world.run(until)
        assert list(checkers.invariants(self.world)) == []

    def wait(self, seconds: float) -> None:
        self.run(self.world.clock.now + seconds)

    def order(self, to: str = "B", of: str = "A") -> "Federation":
        self.mover = of
        self.world.move(of, to, 7)
        return self

    @property
    def answers(self) -> list[MoveAnswer]:
        return [answer for _, answer in self.world.gateways[self.mover].answers]

    @property
    def steps(self) -> list[str]:
        return [answer.step for answer in self.answers if answer.step]

    def until(self, step: str) -> "Federation":
        """Let time pass until the gateway that moves enters a step."""
        for _ in range(100_000):
            if step in self.steps:
                return self
            self.world.run(self.world.clock.now + 0.000_2)
        raise AssertionError(f"it never came to {step}: {self.answers}")

    def neighbours(self, gateway: str) -> set[str]:
        node = self.world.gateways[gateway].node
        assert node is not None
        return set(node.link_states())

    def cut(self, one: str, other: str) -> None:
        for path in (self.world.link_path(one, other), self.world.link_path(other, one)):
            path.cut(lambda: 0.0)

    def heal(self, one: str, other: str) -> None:
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
    return MoveAnswer(answer="stayed", number=7, problem=problem)


# ---- a whole move --------------------------------------------------------------------------------------------------


def test_a_whole_move() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    assert world.steps == STEPS
    assert world.is_new()
    assert world.kept("A") == [PlaceLink(GatewayId("M")), PlaceLink(GatewayId("B"), 1, True)]
    assert world.kept("B")[-1] == PlaceLink(GatewayId("A"), 1)
    assert world.kept("N") == [PlaceLink(GatewayId("P"))]
    node = world.world.gateways["A"].node
    assert node is not None
    assert node.counters.value("moves_made", "") == 1
    assert not node.is_moving


def test_until_the_new_place_is_kept_the_old_network_is_complete_and_then_the_new_one() -> None:
    world = Federation().order().until("freezing")
    assert world.neighbours("A") == {"M", "N"}
    world.until("linking")
    assert "A" not in world.neighbours("B")
    world.until("sweeping")
    assert world.kept("B")[-1] == PlaceLink(GatewayId("A"), 1)
    assert world.neighbours("A") == {"M", "N", "B"}
    assert "A" in world.neighbours("B")
    world.until("keeping")
    assert PlaceLink(GatewayId("N")) in world.kept("A")
    world.until("leaving")
    assert world.kept("A")[-1] == PlaceLink(GatewayId("B"), 1, True)
    assert "N" in world.neighbours("A")
    assert world.end() == MOVED


def test_the_map_is_that_of_the_new_network_and_the_gateway_can_move_back() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    world.world.gateways["A"].answers.clear()
    world.order("N")
    assert world.end() == MOVED
    assert world.neighbours("A") == {"M", "N"}
    assert world.neighbours("B") == {"P", "C"}
    assert world.kept("A")[-1] == PlaceLink(GatewayId("N"), 2, True)


def test_all_restart_in_the_new_network() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    for gateway in world.world.gateways.values():
        gateway.crash(lambda: 0.0)
    world.wait(1.0)
    for gateway in world.world.gateways.values():
        gateway.start()
    assert world.end() == MOVED
    assert world.is_new()


def test_a_gateway_that_moves_twice_at_once_is_told_so() -> None:
    world = Federation().order().order("C")
    assert world.answers[-1] == stayed("a move is under way here or near: try again when it is over")
    assert world.end() == MOVED


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("A", "A cannot be a neighbour of itself"),
        ("N", "N is a neighbour of A already"),
        ("X", "X is not in the configuration of A: its address is not known"),
        ("C", "C is not on the map of A: a move goes 3 hops at most"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused_in_words(to: str, problem: str) -> None:
    world = Federation(delta=3).order(to)
    assert world.end() == stayed(problem)
    assert not world.is_new()
    assert layout.place(GatewayId("A")) not in world.world.brokers["A"].retained
    node = world.world.gateways["A"].node
    assert node is not None
    assert node.counters.reasons("moves_refused") == {"order": 1}


def test_without_a_map_nothing_is_moved() -> None:
    world = Federation(strategy="S0").order()
    assert world.end() == stayed("the overlay of this gateway keeps no map: choose strategy S1, S2 or SH")


def test_no_move_begins_while_the_old_neighbour_is_down() -> None:
    world = Federation()
    world.cut("A", "N")
    world.wait(8.0)
    world.order()
    world.heal("A", "N")
    assert world.end() == stayed("the link to N is down: what waits for it must arrive first")


def test_two_moves_near_each_other_do_not_both_happen_at_a_time() -> None:
    world = Federation().order()
    world.order("A", of="B")  # it does not hear of the other before it asks itself
    first = world.end()
    theirs = [answer for _, answer in world.world.gateways["A"].answers][-1]
    problems = {first.problem, theirs.problem}
    assert "moved" not in (first.answer, theirs.answer) or "stayed" in (first.answer, theirs.answer)
    assert any("has agreed to a move of" in problem or "moves: try again" in problem for problem in problems)


def test_a_move_ends_where_it_began_when_somebody_near_cannot_be_asked() -> None:
    world = Federation()
    world.cut("B", "C")
    world.wait(8.0)
    world.order()
    world.wait(2.0)
    world.heal("B", "C")
    assert world.end() == stayed("B does not reach C")
    assert not world.is_new()


MALFORMED = '; it must look like {"number": 1, "move_to": "broker-b"}'


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"number": 1}', b'{"number": 1, "move_to": "B", "x": 1}', b" " * 70_000]
)
def test_a_malformed_order_is_answered_and_counted(data: bytes) -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    effects = gate.handle(Ordered(client=ClientId("ann"), data=data))
    (answer,) = [each for each in effects if isinstance(each, PublishLocally)]
    assert answer.topic == layout.control(US, ClientId("ann"))
    told = decode_move(answer.payload)
    assert told.answer == "stayed"
    assert told.problem.endswith(MALFORMED) or "bytes, the bound is" in told.problem
    assert gate.counted("moves_refused") == {"malformed": 1}


def test_an_order_of_one_whose_name_is_too_long_is_counted_and_not_answered() -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    effects = gate.handle(Ordered(client=ClientId("x" * (ID_LENGTH_MAX + 1)), data=b'{"number": 1, "move_to": "B"}'))
    assert not [each for each in effects if isinstance(each, PublishLocally)]
    assert gate.counted("moves_refused") == {"client": 1}


# ---- trouble in each step ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_when_the_link_to_the_old_neighbour_is_lost_it_stays_until_the_new_place_is_kept(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("A", "N")
    world.wait(8.0)
    world.heal("A", "N")
    if step in ("keeping", "leaving"):
        assert world.end() == MOVED
        assert world.is_new()
    else:
        assert world.end() == stayed("the link to N was lost")
        assert not world.is_new()


@pytest.mark.parametrize("step", STEPS[2:])
def test_when_the_link_to_the_new_neighbour_is_lost_it_stays_until_the_new_place_is_kept(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("A", "B")
    world.wait(8.0)
    world.heal("A", "B")
    answer = world.end()
    if step in ("keeping", "leaving"):
        assert answer == MOVED
    elif step == "linking":  # it is waited for, and has come
        assert answer.answer == ("moved" if world.is_new() else "stayed")
    else:
        assert answer == stayed("the link to B was lost")
    assert world.is_new() == (answer == MOVED)


@pytest.mark.parametrize("gateway", ["A", "N", "P", "B"])
@pytest.mark.parametrize("step", STEPS)
def test_whoever_crashes_in_whatever_step_everything_comes_once_and_the_network_is_a_tree(
    step: str, gateway: str
) -> None:
    world = Federation().order().until(step)
    world.world.gateways[gateway].crash(lambda: 0.01)
    world.wait(3.0)
    world.world.gateways[gateway].start()
    world.end()
    assert world.is_new() or step != "leaving"


@pytest.mark.parametrize("step", ["linking", "sweeping"])
def test_a_move_that_takes_too_long_ends_where_it_began(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("N", "P")  # whatever goes along the path waits there
    world.wait(MOVE_S)
    world.heal("N", "P")
    answer = world.end()
    assert answer.problem == f"it took longer than {MOVE_S:g} s: it was {world.steps[-2]}"
    assert not world.is_new()


def test_what_is_held_too_long_is_let_go_and_held_again() -> None:
    world = Federation().order().until("holding")
    world.cut("N", "P")
    world.wait(HOLD_S + 0.1)
    assert world.steps[-2:] == ["settling", "holding"]
    world.heal("N", "P")
    assert world.end() == MOVED


def test_a_flush_that_comes_by_ends_the_holding_and_it_begins_again_behind_it() -> None:
    world = Federation().order().until("holding")
    world.world.subscribers["sub-M"].close()
    world.wait(2.0)
    assert world.steps == [*STEPS[:6], "settling", "holding", "keeping", "leaving"]
    assert world.answers[-1] == MOVED
    world.world.settle()
    assert list(checkers.at_rest(world.world)) == []
    assert checkers.judge(world.world).findings == []


def leave_while(step: str, after_s: float, *, own_latency_s: float = 0.000_2) -> Federation:
    """Let M, a leaf, move from A to N; it holds something when the subscriber at A leaves, which waits for that."""
    world = Federation().order("N", of="M").until("holding")
    publication = PublicationPlan(at=0.0, publisher="pub-M", number=1_000, topic="stocks/a", attributes={})
    world.world._publish(publication)
    world.wait(0.01)
    world.world.paths["M~"].quality.latency_s = own_latency_s
    if step == "holding":
        world.wait(after_s)
    else:
        world.until(step)
    world.world.subscribers["sub-A"].close()
    world.wait(3.0)
    world.world.settle()
    assert [*checkers.at_rest(world.world), *checkers.judge(world.world).findings] == []
    return world


@pytest.mark.parametrize("after_ms", range(0, 100, 10))
def test_who_leaves_while_something_is_held_for_it_gets_that_before_it_has_ended(after_ms: int) -> None:
    """The gateway that moves is a leaf, which answers a flush at once: and the answer was held, and sent elsewhere."""
    leave_while("holding", after_ms / 1_000)


@pytest.mark.parametrize("after_ms", range(0, 100, 10))
def test_who_leaves_while_the_new_place_is_being_kept_gets_what_is_held(after_ms: int) -> None:
    world = leave_while("holding", after_ms / 1_000, own_latency_s=0.05)
    assert "keeping" in world.steps


@pytest.mark.parametrize("name", ["sub-M", "sub-A", "sub-N", "sub-C"])
def test_whoever_leaves_just_when_the_new_place_is_being_kept_misses_nothing(name: str) -> None:
    world = Federation().order("N", of="M").until("keeping")
    node = world.world.gateways["M"].node
    assert node is not None
    world.world.subscribers[name].close()
    world.wait(3.0)
    world.world.settle()
    assert [*checkers.at_rest(world.world), *checkers.judge(world.world).findings] == []


def test_one_that_crashes_meanwhile_keeps_off_the_path_when_it_is_back_until_the_move_is_over() -> None:
    """Else its soft links would follow a map of the old network into the new one, and both would leave somebody out."""
    world = Federation().order().until("holding")
    world.world.subscribers["sub-N"].close()  # a wave that waits: the move goes on when it is over
    world.cut("N", "P")
    world.world.gateways["M"].crash(lambda: 0.0)
    world.wait(0.1)
    world.world.gateways["M"].start()
    world.wait(1.0)
    node = world.world.gateways["M"].node
    assert node is not None
    assert node.link_states() == {GatewayId("A"): LinkState.UP}
    assert not node._freezes.is_free
    world.heal("N", "P")
    world.wait(60.0)
    world.world.settle()
    assert list(checkers.at_rest(world.world)) == []
    assert checkers.judge(world.world).findings == []
    assert all(each.node is not None and each.node._freezes.is_free for each in world.world.gateways.values())


# ---- farewell ------------------------------------------------------------------------------------------------------


def test_an_old_neighbour_that_does_not_hear_the_farewell_hears_it_when_it_asks() -> None:
    world = Federation().order().until("leaving")
    world.world.link_path("A", "N").cut(lambda: 20.0)
    world.wait(LEAVE_S + 1.0)
    assert world.answers[-1] == MOVED
    world.wait(5.0)
    world.world.link_path("A", "N").heal()
    assert world.end() == MOVED
    assert world.is_new()


def test_a_new_neighbour_whom_nobody_tells_that_the_gateway_stays_hears_it_when_it_asks() -> None:
    """It has taken it on, and then the gateway crashes: nobody says farewell."""
    world = Federation().order().until("sweeping")
    world.world.gateways["A"].crash(lambda: 0.0)
    world.wait(1.0)
    assert "A" in world.neighbours("B")
    world.world.gateways["A"].start()
    world.wait(3.0)
    assert "A" not in world.neighbours("B")
    world.order()
    assert world.end() == MOVED
    assert world.is_new()
    assert world.kept("A")[-1] == PlaceLink(GatewayId("B"), 2, True)


def test_one_on_the_path_that_says_farewell_meanwhile_is_heard_when_the_move_is_over() -> None:
    world = Federation().order().until("sweeping")
    parted = encode_ack(Ack(GatewayId("N"), Conversation(1, 0), 0, 0, (), 99))
    world.world.gateways["A"]._handle(AcksReceived(neighbour=GatewayId("N"), acks=(parted,)))
    assert "N" in world.neighbours("A")
    assert world.end() == MOVED


# ---- the moves of others -------------------------------------------------------------------------------------------

MOVER = GatewayId("M")
TO_US = Freeze(MOVER, 5, (MOVER, A, US), 1)


def target() -> Gate:
    """Return a gateway with one neighbour, to which somebody is about to move."""
    return Gate(replace(parts_of(A), peers=(MOVER, A))).up(A)


def links_in(effects: Sequence[object]) -> Iterator[OpenLink | CloseLink]:
    return (each for each in effects if isinstance(each, OpenLink | CloseLink))


def place_in(effects: Sequence[object]) -> list[tuple[PlaceLink, ...]]:
    topic = layout.place(US)
    kept = [each for each in effects if isinstance(each, PublishLocally) and each.topic == topic]
    return [decode_place(each.payload).links for each in kept]


def greeting(number: int = 0) -> FramesReceived:
    frame = Frame(MOVER, Conversation(1, number), 0, (Hello(None, True),))
    return FramesReceived(sender=MOVER, frames=(encode(frame),))


def test_one_that_moves_to_us_is_taken_on_when_it_greets_and_told_everything_when_that_is_kept() -> None:
    gate = target()
    assert list(links_in(gate.handle(greeting()))) == []  # nobody has asked us
    effects = gate.hear(A, TO_US)
    assert sent(effects, A) == [Frozen(MOVER, 5)]
    assert list(links_in(effects)) == []
    gate.answers_local = False
    effects = gate.handle(greeting())
    assert place_in(effects) == [(PlaceLink(A), PlaceLink(MOVER, 5))]
    assert list(links_in(effects)) == [OpenLink(neighbour=MOVER, is_primary=True)]
    (record,) = [each for each in effects if isinstance(each, PublishLocally) and each.topic == layout.place(US)]
    said = [*effects, *gate.handle(LinkConnected(neighbour=MOVER))]
    (ours,) = {decode(each.frame).conversation for each in said if isinstance(each, SendFrame)}
    follows = Frame(MOVER, Conversation(1, 0), 1, (Hello(ours, False),))
    effects = gate.handle(FramesReceived(sender=MOVER, frames=(encode(follows),)))
    assert Synced() not in sent(effects, MOVER)
    assert Synced() in sent(gate.handle(LocallyPublished(numbers=(record.number,))), MOVER)


def test_a_number_that_nobody_can_have_come_to_is_not_believed() -> None:
    gate = target()
    assert sent(gate.hear(A, Freeze(MOVER, 2**63 - 1, TO_US.path, 1)), A) == []
    assert gate.counted("moves_refused") == {"number": 1}
    assert Frozen(MOVER, MISSED_MAX) in sent(gate.hear(A, Freeze(MOVER, MISSED_MAX, TO_US.path, 1)), A)


def test_only_the_last_farewell_of_one_that_moves_to_us_again_counts() -> None:
    gate = target()
    gate.hear(A, TO_US)
    gate.handle(greeting())
    effects = gate.hear(A, Freeze(MOVER, 6, TO_US.path, 1))
    assert Frozen(MOVER, 6) in sent(effects, A)
    assert place_in(effects) == [(PlaceLink(A), PlaceLink(MOVER, 6))]
    assert list(links_in(effects)) == []
    for number, is_over in ((5, False), (6, True), (6, False)):
        parted = encode_ack(Ack(MOVER, Conversation(1, 0), 0, 0, (), number))
        effects = gate.handle(AcksReceived(neighbour=MOVER, acks=(parted,)))
        assert list(links_in(effects)) == ([CloseLink(neighbour=MOVER, is_primary=True)] if is_over else [])
        assert place_in(effects) == ([(PlaceLink(A),)] if is_over else [])
        assert any("M has moved away" in line for line in logs(effects)) is is_over
        assert (Thaw(MOVER, 6, CONTROL_HOPS_MAX - 1) in sent(effects, A)) is is_over
    assert gate.node.link_states() == {A: LinkState.UP}


def test_a_neighbour_that_parts_in_order_is_acknowledged_and_gone() -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    effects = gate.hear(A, Parting(3))
    assert list(links_in(effects)) == [CloseLink(neighbour=A, is_primary=True)]
    assert list(gate.node.link_states()) == [B]


def test_what_is_being_parked_for_one_that_parts_is_waited_for_no_longer() -> None:
    """Its park is discarded, so that nobody may ever acknowledge that."""
    gate = Gate(parts_of(A, B)).up(A, B)
    gate.hear(A, Announce(key(A, 1), "#", ""))
    gate.handle(LinkLost(neighbour=A))
    for _ in range(2):
        gate.now += LINK_GRACE_S
        gate.handle(Woke())
    gate.answers_local = False
    effects = gate.publish(b"one")
    assert [each.topic for each in effects if isinstance(each, PublishLocally)] == [layout.park(US, A)]
    assert acknowledged(effects) == []
    parted = encode_ack(Ack(A, Conversation(1, 0), 0, 0, (), 1))
    effects = gate.handle(AcksReceived(neighbour=A, acks=(parted,)))
    assert list(links_in(effects)) == [CloseLink(neighbour=A, is_primary=True)]
    assert acknowledged(effects) == [1]
    assert gate.node.holdings().deliveries == len(place_in(effects)) == 1


@pytest.mark.parametrize(
    "passed",
    [
        Passed(MOVER, 1, 0, (A, US, B), 0),
        Passed(MOVER, 1, 0, (A, US, B), 3),
        Passed(MOVER, 1, 0, (B, US, A), 1),
        Passed(MOVER, 1, 0, (A, B, MOVER), 1),
    ],
)
def test_what_goes_along_a_path_on_which_we_are_not_just_now_is_refused(passed: Passed) -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    assert sent(gate.hear(A, passed), B) == []
    assert gate.counted("moves_refused") == {"path": 1}


def test_what_goes_along_a_path_goes_on_or_has_come_back() -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    assert sent(gate.hear(A, Passed(MOVER, 1, 2, (A, US, B), 1)), B) == [Passed(MOVER, 1, 2, (A, US, B), 2)]
    assert sent(gate.hear(A, Passed(US, 1, 2, (B, A, US), 2)), B) == []
    assert gate.counted("moves_refused") == {}


def test_what_goes_along_a_path_and_cannot_go_on_is_waited_for_in_vain() -> None:
    gate = Gate(parts_of(A, B)).up(A)
    assert sent(gate.hear(A, Passed(MOVER, 1, 2, (A, US, B), 1)), B) == []


# ---- the next life -------------------------------------------------------------------------------------------------


def test_at_the_start_parks_are_discarded_that_nobody_needs_and_links_opened_that_are_kept() -> None:
    world = Federation().order().until("sweeping")
    data = world.world.brokers["A"].retained[layout.place(GatewayId("A"))].payload
    node = build({"strategy": "S2"}, GatewayId("A"), 2, (GatewayId("M"), GatewayId("N")), 0.0)
    effects = node.handle(PlaceRead(data=data), 0.0)
    assert list(links_in(effects)) == [
        CloseLink(neighbour=GatewayId("B"), is_primary=True),
        OpenLink(neighbour=GatewayId("M"), is_primary=True),
        OpenLink(neighbour=GatewayId("N"), is_primary=True),
    ]
    assert world.end() == MOVED
    data = world.world.brokers["A"].retained[layout.place(GatewayId("A"))].payload
    node = build({"strategy": "S2"}, GatewayId("A"), 2, (GatewayId("M"), GatewayId("N")), 0.0)
    assert list(links_in(node.handle(PlaceRead(data=data), 0.0))) == [
        CloseLink(neighbour=GatewayId("N"), is_primary=True),
        OpenLink(neighbour=GatewayId("M"), is_primary=True),
        OpenLink(neighbour=GatewayId("B"), is_primary=True),
    ]

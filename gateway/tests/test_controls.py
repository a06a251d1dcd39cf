"""Agents: how far their control publications go, when they wake, and what their mistakes cost nobody else."""

import math
from collections.abc import Callable, Sequence

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CONTROL_BYTES_MAX, CONTROL_HOPS_MAX
from mqloom.core.messages import Control, Message, Want
from mqloom.gateway.agent_interfaces import (
    Agent,
    AgentEffect,
    AgentEnded,
    AgentEvent,
    AgentOrder,
    AgentWoke,
    Computed,
    ControlReceived,
    ControlsWanted,
    MoveClients,
    PublishControl,
    WakeAgentAt,
    WantControls,
)
from mqloom.gateway.controls import Controls
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.plugins.tree_overlay import TreeOverlay

A, B, C, US = (GatewayId(name) for name in ("A", "B", "C", "US"))
Answering = Callable[[AgentEvent, float], Sequence[AgentEffect]]


def each(neighbours: str, messages: list[Message]) -> dict[str, list[Message]]:
    """Return the same messages for each of the neighbours, which have names of one letter."""
    return {neighbour: list(messages) for neighbour in neighbours}


class Scripted:
    """An agent that answers by a function and remembers what happened to it."""

    def __init__(self, name: str, answer: Answering = lambda event, now: []) -> None:
        self.name = name
        self.answer = answer
        self.happened: list[tuple[AgentEvent, float]] = []

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        self.happened.append((event, now))
        return self.answer(event, now)


class Room:
    """The controls of a gateway with three neighbours."""

    def __init__(self, *agents: Agent, performs: bool = True) -> None:
        self.performed: list[tuple[str, AgentOrder]] = []
        self.counters = Counters()
        self.outbox = Outbox()
        journal = Journal(self.counters)
        overlay = GuardedOverlay(US, TreeOverlay(US, [A, B, C]), [A, B, C], journal)
        perform = self._perform if performs else None
        self.controls = Controls(US, 1, agents, overlay, self.outbox, journal, perform=perform)

    def _perform(self, agent: str, order: AgentOrder) -> None:
        self.performed.append((agent, order))

    def told(self) -> dict[str, list[Message]]:
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}


def control(number: int = 1, hops_left: int = 5, origin: GatewayId = A, hops: int = 0) -> Control:
    return Control(origin, 1, number, hops_left, "pie", b"body", hops=hops)


# ---- received ----------------------------------------------------------------------------------------------------


def test_it_goes_to_the_agent_of_its_name_and_on_to_the_others() -> None:
    pie, other = Scripted("pie"), Scripted("other")
    room = Room(pie, other)
    room.controls.receive(control(), A, 3.0)
    assert pie.happened == [(ControlReceived(A, b"body"), 3.0)]
    assert other.happened == []
    assert room.told() == each("BC", [control(hops_left=4, hops=1)])
    assert room.counters.snapshot() == {"controls_received": 1, "controls_sent": 2}


def test_without_hops_left_it_stays_here() -> None:
    pie = Scripted("pie")
    room = Room(pie)
    room.controls.receive(control(hops_left=0), A, 0.0)
    assert len(pie.happened) == 1
    assert room.told() == {}


def test_without_an_agent_of_its_name_it_is_only_passed_on() -> None:
    room = Room()
    room.controls.receive(control(), A, 0.0)
    assert set(room.told()) == {"B", "C"}


def test_a_duplicate_is_dropped() -> None:
    pie = Scripted("pie")
    room = Room(pie)
    for sender in (A, A, B):
        room.controls.receive(control(), sender, 0.0)
    assert len(pie.happened) == 1
    assert room.counters.total("duplicates") == 2


def test_our_own_that_comes_back_is_dropped() -> None:
    pie = Scripted("pie")
    room = Room(pie)
    room.controls.receive(control(origin=US), A, 0.0)
    assert pie.happened == []
    assert room.told() == {}
    assert room.counters.total("duplicates") == 1


def test_overtaking_is_no_duplicate() -> None:
    pie = Scripted("pie")
    room = Room(pie)
    for number in (5, 3, 4):
        room.controls.receive(control(number), A, 0.0)
    assert len(pie.happened) == 3


# ---- replaced ----------------------------------------------------------------------------------------------------


def test_an_agent_ends_with_a_last_word_before_another_takes_its_place() -> None:
    ended: list[str] = []

    def last_word(event: AgentEvent, now: float) -> list[AgentEffect]:
        if isinstance(event, AgentEnded):
            return [PublishControl(b"farewell", 1)]
        return [WantControls(["kind = 'x'"], 2), WakeAgentAt(9.0)] if isinstance(event, AgentWoke) else []

    old, new = Scripted("pie", last_word), Scripted("pie")
    room = Room(old)
    room.controls.on_failure = ended.append
    room.controls.start(0.0)
    assert room.controls.wants.wheres_of("pie", US)
    room.controls.replace("pie", new, 1.0)
    assert old.happened[-1] == (AgentEnded(), 1.0)
    assert new.happened == [(AgentWoke(), 1.0)]
    assert ended == ["pie"]  # what it had asked for is not answered
    assert room.controls.deadline is None
    assert room.controls.agents() == {"pie": new}
    assert room.told() == each("ABC", [Control(US, 1, 1, 0, "pie", b"farewell")])
    assert not room.controls.wants.wheres_of("pie", US)  # the new one has not said yet what it wants
    room.controls.receive(control(), A, 2.0)
    assert new.happened[-1] == (ControlReceived(A, b"body"), 2.0)
    assert len(old.happened) == 2


def test_an_agent_is_told_what_neighbours_have_told_the_one_before() -> None:
    old, new = Scripted("pie"), Scripted("pie")
    room = Room(old)
    room.controls.start(0.0)
    room.controls.receive(Want(A, 1, 1, "pie", ("kind = 'x'",), 1, 3), A, 0.0)
    room.controls.receive(Want(B, 1, 1, "other", ("kind = 'x'",), 1, 3), B, 0.0)
    room.controls.receive(Want(GatewayId("far"), 1, 1, "pie", ("kind = 'y'",), 2, 3), A, 0.0)
    told = ControlsWanted(A, ("kind = 'x'",), is_new=True)
    assert [event for event, _ in old.happened] == [AgentWoke(), told]
    room.controls.replace("pie", new, 1.0)
    assert [event for event, _ in new.happened] == [AgentWoke(), told]


def test_an_agent_may_come_and_go_while_the_gateway_runs() -> None:
    room, pie = Room(), Scripted("pie")
    room.controls.start(0.0)
    room.controls.replace("pie", pie, 1.0)
    room.controls.replace("pie", None, 2.0)
    assert pie.happened == [(AgentWoke(), 1.0), (AgentEnded(), 2.0)]
    assert not room.controls.agents()


def test_before_the_start_nobody_has_a_last_word() -> None:
    old, new = Scripted("pie"), Scripted("pie")
    room = Room(old)
    room.controls.replace("pie", new, 0.0)
    room.controls.start(1.0)
    assert old.happened == []
    assert new.happened == [(AgentWoke(), 1.0)]


# ---- published ---------------------------------------------------------------------------------------------------


def test_an_agents_control_publication_goes_to_every_neighbour() -> None:
    room = Room(Scripted("pie", lambda event, now: [PublishControl(b"one", 1), PublishControl(b"two", 3)]))
    room.controls.start(0.0)
    assert room.told() == each("ABC", [Control(US, 1, 1, 0, "pie", b"one"), Control(US, 1, 2, 2, "pie", b"two")])


@pytest.mark.parametrize("hops", [0, -1])
def test_no_hops_is_nobody(hops: int) -> None:
    room = Room(Scripted("pie", lambda event, now: [PublishControl(b"", hops)]))
    room.controls.start(0.0)
    assert room.told() == {}


def test_no_control_publication_goes_further_than_the_bound() -> None:
    room = Room(Scripted("pie", lambda event, now: [PublishControl(b"", 10**9)]))
    room.controls.start(0.0)
    (sent,) = room.told()["A"]
    assert isinstance(sent, Control)
    assert sent.hops_left == CONTROL_HOPS_MAX - 1


def test_an_oversized_one_is_refused_and_the_rest_is_carried_out() -> None:
    answer = [PublishControl(bytes(CONTROL_BYTES_MAX + 1), 1), PublishControl(bytes(CONTROL_BYTES_MAX), 1)]
    room = Room(Scripted("pie", lambda event, now: answer))
    room.controls.start(0.0)
    assert len(room.told()["A"]) == 1
    assert room.counters.reasons("controls_refused") == {"oversized": 1}


# ---- timers ------------------------------------------------------------------------------------------------------


def test_every_agent_wakes_at_the_start() -> None:
    agents = [Scripted("one"), Scripted("two")]
    room = Room(*agents)
    assert room.controls.deadline is None
    room.controls.start(2.0)
    assert [agent.happened for agent in agents] == [[(AgentWoke(), 2.0)]] * 2


def test_an_agent_wakes_when_it_asked_to_and_only_then() -> None:
    slow = Scripted("slow", lambda event, now: [WakeAgentAt(now + 10)] if now < 10 else [])
    fast = Scripted("fast", lambda event, now: [WakeAgentAt(now + 3)])
    room = Room(slow, fast)
    room.controls.start(0.0)
    assert room.controls.deadline == 3.0
    room.controls.wake(2.9)
    assert len(fast.happened) == 1
    room.controls.wake(3.0)
    assert (len(slow.happened), len(fast.happened)) == (1, 2)
    assert room.controls.deadline == 6.0
    room.controls.wake(10.0)
    assert (len(slow.happened), len(fast.happened)) == (2, 3)
    assert room.controls.deadline == 13.0


def test_a_later_wish_to_wake_replaces_an_earlier_one() -> None:
    room = Room(Scripted("pie", lambda event, now: [WakeAgentAt(5.0), WakeAgentAt(9.0)]))
    room.controls.start(0.0)
    assert room.controls.deadline == 9.0


# ---- mistakes ----------------------------------------------------------------------------------------------------


def raises(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    raise RuntimeError("a bug")


def raises_late(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return (PublishControl(bytes([256]), 1) for _ in range(1))  # type: ignore[return-value]


def forgets_to_answer(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return None  # type: ignore[return-value]


def answers_nonsense(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return ["publish!"]  # type: ignore[list-item]


def publishes_text(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return [PublishControl("text", 1)]  # type: ignore[arg-type]


def goes_half_a_hop(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return [PublishControl(b"", 0.5)]  # type: ignore[arg-type]


def wakes_at_no_time(event: AgentEvent, now: float) -> Sequence[AgentEffect]:
    return [WakeAgentAt(math.nan)]


@pytest.mark.parametrize(
    "mistake",
    [
        raises,
        raises_late,
        forgets_to_answer,
        answers_nonsense,
        publishes_text,
        goes_half_a_hop,
        wakes_at_no_time,
    ],
)
def test_an_agents_mistake_is_counted_under_its_name_and_costs_the_others_nothing(mistake: Answering) -> None:
    good = Scripted("good", lambda event, now: [WakeAgentAt(7.0), PublishControl(b"hello", 1)])
    room = Room(Scripted("bad", mistake), good)
    room.controls.start(0.0)
    assert room.counters.reasons("plugin_failures") == {"bad": 1}
    assert room.told() == each("ABC", [Control(US, 1, 1, 0, "good", b"hello")])
    assert room.controls.deadline == 7.0


def test_an_agent_that_raised_still_gets_what_comes_next() -> None:
    bad = Scripted("pie", raises)
    room = Room(bad)
    room.controls.start(0.0)
    room.controls.receive(control(), A, 1.0)
    assert len(bad.happened) == 2
    assert room.counters.reasons("plugin_failures") == {"pie": 2}
    assert set(room.told()) == {"B", "C"}


# ---- orders --------------------------------------------------------------------------------------------------------


def test_what_an_agent_orders_is_told_with_its_name_and_its_answer_handed_to_it() -> None:
    order = MoveClients("t", [], B, 5.0)
    pie, other = Scripted("pie", lambda event, now: [order] if isinstance(event, AgentWoke) else []), Scripted("other")
    room = Room(pie, other)
    room.controls.start(0.0)
    assert room.performed == [("pie", order)]
    room.controls.hand("pie", Computed("t", 5), 1.0)
    assert pie.happened[1:] == [(Computed("t", 5), 1.0)]
    assert len(other.happened) == 1


def test_an_order_where_nobody_performs_any_is_counted_as_a_failure() -> None:
    room = Room(Scripted("pie", lambda event, now: [MoveClients("t", [], B, 5.0)]), performs=False)
    room.controls.start(0.0)
    assert room.counters.value("plugin_failures", "pie") == 1

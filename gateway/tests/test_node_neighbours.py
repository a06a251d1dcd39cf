"""The whole node: links, frames, announcements, waves and agents."""

import itertools

import pytest

from mqloom.core.effects import SendFrame
from mqloom.core.events import (
    FramesReceived,
    LinkConnected,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import (
    AGENT_RETRY_S,
    LINK_GRACE_S,
)
from mqloom.core.messages import (
    Announce,
    Control,
    Established,
    Flush,
    Flushed,
    Hello,
    Synced,
    Withdraw,
)
from mqloom.core.records import Answer
from mqloom.core.wire import Frame, encode
from mqloom.gateway.interfaces import (
    AgentEffect,
    AgentEvent,
    AgentWoke,
    ControlReceived,
)
from mqloom.gateway.links import LinkState
from mqloom.lab.gate import (
    ANN,
    FIRST,
    US,
    A,
    B,
    Chatty,
    Gate,
    answers,
    key,
    logs,
    parts_of,
    payloads,
    publication,
    sent,
    wakings,
    with_two,
)


def test_a_link_is_greeted_when_it_can_be_written_to() -> None:
    gate = Gate(parts_of(A))
    effects = gate.handle(LinkConnected(neighbour=A))
    assert sent(effects, A) == [Hello(None, True)]
    assert wakings(effects) == [2.0]
    gate.now = 2.0
    effects = gate.handle(Woke())
    assert sent(effects, A) == [Hello(None, True)]
    assert wakings(effects) == [4.0]


def test_a_neighbour_that_comes_up_is_told_everything() -> None:
    gate = Gate(parts_of(A, B)).up(A)
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(A, Announce(key(A, 1), "b/#", ""))
    gate.handle(LinkConnected(neighbour=B))
    gate.sequences[B] = itertools.count()
    effects = gate.hear(B, Hello(FIRST, True))
    assert sent(effects, B) == [
        Hello(FIRST, False),
        Announce(key(US, 1), "a/#", ""),
        Announce(key(A, 1), "b/#", ""),
        Synced(),
    ]


def test_a_neighbour_that_stays_away_is_not_waited_for_past_the_grace() -> None:
    gate = Gate(parts_of(A, B)).up(A)
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(A, Established(key(US, 1)))
    gate.now = LINK_GRACE_S
    effects = gate.handle(Woke())
    assert answers(effects) == [Answer(answer="established", name="one")]
    assert any("B does not answer" in line for line in logs(effects))
    assert gate.node.link_states() == {A: LinkState.UP, B: LinkState.DOWN}


def test_a_neighbours_announcement_is_answered_through_us() -> None:
    gate = with_two()
    effects = gate.hear(A, Announce(key(A, 1), "a/#", "x > 1"))
    assert sent(effects, B) == [Announce(key(A, 1), "a/#", "x > 1")]
    assert sent(gate.hear(B, Established(key(A, 1))), A) == [Established(key(A, 1))]
    assert sent(gate.hear(A, Withdraw(key(A, 1))), B) == [Withdraw(key(A, 1))]


@pytest.mark.parametrize(("topics", "where"), [("a/#/b", ""), ("a", "x > > 1"), ("$share/g/a", "")])
def test_an_announcement_that_does_not_parse_is_refused_and_the_rest_of_the_frame_obeyed(
    topics: str, where: str
) -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), topics, where), Announce(key(A, 2), "a", ""))
    assert gate.node.subscription_counts() == (0, 1)
    assert gate.counted("subscriptions_refused") == {"neighbour": 1}


def test_a_frame_that_breaks_the_link_drops_what_it_had_announced_only_once_it_is_back() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""), Announce(key(A, 2), "b/#", ""))
    next(gate.sequences[A])  # a frame is lost
    effects = gate.hear(A, Withdraw(key(A, 1)))
    assert sent(effects, A) == [Hello(None, True)]
    assert gate.node.subscription_counts() == (0, 2)
    frames = (
        Frame(A, Conversation(1, 1), 0, (Hello(Conversation(1, 1), True),)),
        Frame(A, Conversation(1, 1), 1, (Hello(Conversation(1, 1), False), Announce(key(A, 2), "b/#", ""), Synced())),
    )
    gate.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames))))
    assert gate.node.subscription_counts() == (0, 1)
    assert gate.node.link_states()[A] is LinkState.UP


def test_a_wave_of_a_neighbour_is_passed_on_and_answered() -> None:
    gate = with_two()
    assert sent(gate.hear(A, Flush(A, 1, 4)), B) == [Flush(A, 1, 4)]
    assert sent(gate.hear(B, Flushed(A, 1, 4)), A) == [Flushed(A, 1, 4)]


def test_publications_before_a_wave_are_sent_before_its_answer() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    assert sent(gate.hear(A, publication(), Flush(A, 1, 4)), B) == [publication(hops=2), Flush(A, 1, 4)]


def test_a_strangers_frames_are_refused_each() -> None:
    gate = with_two()
    frame = encode(Frame(GatewayId("X"), FIRST, 0, (Hello(FIRST, True),)))
    effects = gate.handle(FramesReceived(sender=GatewayId("X"), frames=(frame, b"")))
    assert gate.counted("frames_refused") == {"stranger": 2}
    assert not any(isinstance(effect, SendFrame) for effect in effects)


def test_a_frame_that_names_another_sender_is_refused() -> None:
    gate = with_two()
    frame = encode(Frame(B, FIRST, 1, (Announce(key(B, 1), "a", ""),)))
    gate.handle(FramesReceived(sender=A, frames=(frame,)))
    assert gate.counted("frames_refused") == {"sender": 1}
    assert gate.node.subscription_counts() == (0, 0)


@pytest.mark.parametrize(("data", "reason"), [(b"", "empty"), (b"\x09", "version"), (b"\x01\xc1", "malformed")])
def test_a_frame_that_cannot_be_read_is_refused_and_the_next_one_obeyed(data: bytes, reason: str) -> None:
    gate = with_two()
    good = encode(Frame(A, FIRST, next(gate.sequences[A]), (Announce(key(A, 1), "a", ""),)))
    gate.handle(FramesReceived(sender=A, frames=(data, good)))
    assert gate.counted("frames_refused") == {reason: 1}
    assert gate.node.subscription_counts() == (0, 1)


def test_a_neighbour_that_announces_one_of_our_keys_cannot_take_it() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(US, 1), "elsewhere", ""))
    effects = gate.record(ANN, {"one": ("a/#", "")})
    assert Announce(key(US, 1), "a/#", "") in sent(effects, A)
    gate.hear(A, Withdraw(key(US, 1)))
    gate.hear(A, Established(key(US, 1)))
    assert answers(gate.hear(B, Established(key(US, 1)))) == [Answer(answer="established", name="one")]
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == [Answer(answer="established", name="one")]
    assert payloads(gate.publish(b"{}")) == [b"{}"]


def test_the_same_waking_is_asked_for_once() -> None:
    gate = Gate(parts_of(A))
    assert wakings(gate.handle(LinkConnected(neighbour=A))) == [2.0]
    assert wakings(gate.publish(b"{}")) == []
    gate.now = 1.0
    assert wakings(gate.handle(Woke())) == [2.0]  # woken early: asked for again


def test_control_publications_are_urgent_both_ways() -> None:
    agent = Chatty()
    gate = Gate(parts_of(A, B, agents=[agent])).up(A, B)
    effects = gate.hear_urgently(A, Control(A, 1, 1, 1, "chatty", b"hi"))
    assert agent.happened == [AgentWoke(), ControlReceived(A, b"hi")]
    assert sent(effects, A, urgent=True) == [Control(US, 1, 2, 1, "chatty", b"2")]
    assert sent(effects, B, urgent=True) == [
        Control(A, 1, 1, 0, "chatty", b"hi"),
        Control(US, 1, 2, 1, "chatty", b"2"),
    ]
    assert sent(effects, A) == sent(effects, B) == []


def test_urgent_frames_outside_the_conversation_are_dropped() -> None:
    gate = Gate(parts_of(A)).up(A)
    frame = Frame(A, Conversation(1, 7), 0, (Control(A, 1, 1, 1, "chatty", b"hi"),))
    gate.handle(FramesReceived(sender=A, frames=(encode(frame),), urgent=True))
    assert gate.node.counters.total("frames_stale") == 1
    assert gate.node.counters.total("controls_received") == 0


def test_an_agents_timer_wakes_the_node() -> None:
    agent = Chatty()
    gate = Gate(parts_of(agents=[agent]))
    gate.now = 60.0
    assert wakings(gate.handle(Woke())) == [120.0]
    assert agent.happened == [AgentWoke(), AgentWoke()]


def test_an_agent_that_raises_on_waking_is_woken_again() -> None:
    class Stumbling:
        name = "stumbling"

        def handle(self, event: AgentEvent, now: float) -> list[AgentEffect]:
            raise RuntimeError("not yet")

    gate = Gate(parts_of(agents=[Stumbling()]))
    gate.now = AGENT_RETRY_S
    gate.handle(Woke())
    assert gate.node.counters.reasons("plugin_failures") == {"stumbling": 2}

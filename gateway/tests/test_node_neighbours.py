"""The whole node: links, frames, announcements, waves and agents."""

import itertools

import pytest

from mqloom.core.effects import SendFrame
from mqloom.core.events import (
    AcksReceived,
    FramesReceived,
    LinkConnected,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import (
    ACK_DELAY_S,
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
from mqloom.core.wire import Ack, Frame, encode, encode_ack
from mqloom.gateway.agent_interfaces import AgentEffect, AgentEvent, AgentWoke, ControlReceived
from mqloom.gateway.links import LinkState
from mqloom.gateway.node import Node
from mqloom.lab.gate import (
    ANN,
    FIRST,
    US,
    A,
    B,
    Chatty,
    Gate,
    acknowledged,
    acks,
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
        Announce(key(A, 1), "b/#", "", hops=1),
        Synced(),
    ]


def test_synced_is_said_only_when_everything_was_heard_from_the_others() -> None:
    gate = Gate(parts_of(A, B))
    for neighbour in (A, B):
        gate.handle(LinkConnected(neighbour=neighbour))
        gate.sequences[neighbour] = itertools.count()
        assert Synced() not in sent(gate.hear(neighbour, Hello(FIRST, True)), neighbour)
    effects = gate.hear(B, Announce(key(B, 1), "b/#", ""), Synced())
    assert sent(effects, A) == [Announce(key(B, 1), "b/#", "", hops=1), Synced()]
    assert sent(effects, B) == []
    assert sent(gate.hear(A, Synced()), B) == [Synced()]
    assert sent(gate.hear(A, Synced()), B) == []


def test_synced_is_said_only_when_our_own_records_are_read() -> None:
    node = Node(parts_of(A), 0.0)
    node.handle(Started(), 0.0)
    node.handle(LinkConnected(neighbour=A), 0.0)
    hello = encode(Frame(A, FIRST, 0, (Hello(FIRST, True),)))
    assert Synced() not in sent(node.handle(FramesReceived(sender=A, frames=(hello,)), 0.0), A)
    assert sent(node.handle(RecordsRead(), 0.0), A) == [Synced()]


def test_a_neighbour_that_begins_anew_is_told_synced_again() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "b/#", ""))
    hello = encode(Frame(A, Conversation(2, 0), 0, (Hello(None, True),)))
    assert sent(gate.handle(FramesReceived(sender=A, frames=(hello,))), A) == [Hello(Conversation(2, 0), True)]
    hello = encode(Frame(A, Conversation(2, 0), 0, (Hello(Conversation(1, 1), True),)))
    assert sent(gate.handle(FramesReceived(sender=A, frames=(hello,))), A) == [
        Hello(Conversation(2, 0), False),
        Announce(key(B, 1), "b/#", "", hops=1),
        Synced(),
    ]


def test_a_neighbour_that_stays_away_is_not_waited_for_past_the_grace_but_the_answer_is_partly() -> None:
    gate = Gate(parts_of(A, B)).up(A)
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(A, Established(key(US, 1)))
    gate.now = LINK_GRACE_S
    effects = gate.handle(Woke())
    assert answers(effects) == [Answer(answer="established", name="one", partly=True)]
    assert any("B does not answer" in line for line in logs(effects))
    assert gate.node.link_states() == {A: LinkState.UP, B: LinkState.DOWN}
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == [Answer(answer="established", name="one", partly=True)]
    gate.up(B)
    assert answers(gate.hear(B, Established(key(US, 1)))) == [Answer(answer="established", name="one")]
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == [Answer(answer="established", name="one")]
    assert gate.counted("subscriptions_established") == {"": 1, "partly": 1}


def test_what_a_neighbour_established_partly_is_answered_partly_and_once_more_when_it_is_complete() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.record(ANN, {"one": ("b/#", "")})
    gate.hear(A, Established(key(US, 1)))
    effects = gate.hear(B, Established(key(US, 1), False), Established(key(A, 1), False))
    assert answers(effects) == [Answer(answer="established", name="one", partly=True)]
    assert sent(effects, A) == [Established(key(A, 1), False)]
    effects = gate.hear(B, Established(key(US, 1)), Established(key(A, 1)))
    assert answers(effects) == [Answer(answer="established", name="one")]
    assert sent(effects, A) == [Established(key(A, 1))]


def test_a_neighbours_announcement_is_answered_through_us() -> None:
    gate = with_two()
    effects = gate.hear(A, Announce(key(A, 1), "a/#", "x > 1"))
    assert sent(effects, B) == [Announce(key(A, 1), "a/#", "x > 1", hops=1)]
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


def test_a_frame_behind_a_gap_waits_for_the_one_that_was_lost() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""), Announce(key(A, 2), "b/#", ""))
    lost, behind = next(gate.sequences[A]), next(gate.sequences[A])
    frames = {number: encode(Frame(A, FIRST, number, (Withdraw(key(A, number)),))) for number in (lost, behind)}
    effects = gate.handle(FramesReceived(sender=A, frames=(frames[behind],)))
    assert sent(effects, A) == []
    assert acks(effects, A) == [(lost, 0)]
    assert gate.node.subscription_counts() == (0, 2)
    effects = gate.handle(FramesReceived(sender=A, frames=(frames[lost], frames[behind])))
    assert acks(effects, A) == []  # for the moment: nothing is to be done about them
    gate.now += ACK_DELAY_S
    assert acks(gate.handle(Woke()), A) == [(behind + 1, 0)]
    assert gate.node.link_states()[A] is LinkState.UP


def test_what_a_neighbour_that_begins_anew_does_not_name_again_goes_only_once_it_has_said_everything() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""), Announce(key(A, 2), "b/#", ""))
    again = Conversation(1, 1)
    frames = (
        Frame(A, again, 0, (Hello(again, True),)),
        Frame(A, again, 0, (Hello(again, True),)),
        Frame(A, again, 1, (Hello(again, False), Announce(key(A, 2), "b/#", ""))),
        Frame(A, again, 2, (Synced(),)),
    )
    gate.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames[:3]))))
    assert gate.node.link_states()[A] is LinkState.UP
    assert gate.node.subscription_counts() == (0, 2)
    gate.handle(FramesReceived(sender=A, frames=(encode(frames[3]),)))
    assert gate.node.subscription_counts() == (0, 1)


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


ACKS = {
    "nothing": (b"", "empty"),
    "another format": (b"\x09", "version"),
    "garbage": (b"\x01\xc1", "malformed"),
    "a frame": (encode(Frame(A, FIRST, 1, ())), "malformed"),
    "another sender's": (encode_ack(Ack(B, FIRST, 1, 1)), "sender"),
    "a stranger's": (encode_ack(Ack(GatewayId("X"), FIRST, 1, 1)), "sender"),
}


@pytest.mark.parametrize("what", ACKS)
def test_an_acknowledgement_that_cannot_be_read_is_refused_and_the_next_one_obeyed(what: str) -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"{}")
    data, reason = ACKS[what]
    good = Ack(A, FIRST, gate.frames[A].sequence + 1, 1)
    effects = gate.handle(AcksReceived(neighbour=A, acks=(data, encode_ack(good))))
    assert gate.counted("frames_refused") == {reason: 1}
    assert acknowledged(effects) == [1]


@pytest.mark.parametrize(("received", "done"), [(2**63 - 1, 2**63 - 1), (1_000, 0), (0, 1_000), (0, 0)])
def test_an_acknowledgement_of_what_was_never_sent_breaks_nothing(received: int, done: int) -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"{}")
    assert acknowledged(gate.ack(A, received=received, done=done)) == []
    assert acknowledged(gate.ack(A)) == [1]


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
        Control(A, 1, 1, 0, "chatty", b"hi", hops=1),
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

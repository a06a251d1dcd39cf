"""The whole node: a publication is acknowledged where it came from when everybody further on has it, and not before."""

from collections import Counter
from collections.abc import Sequence

import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, HoldIntake, PublishFence, PublishLocally, ReleaseIntake, SendAck, WakeAt
from mqloom.core.events import (
    FencePassed,
    FramesReceived,
    IntakeLost,
    LinkLost,
    LocallyPublished,
    LocallyRefused,
    PublishesReceived,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId, SubscriptionKey
from mqloom.core.limits import (
    ACK_DELAY_S,
    FENCE_EVERY_S,
    INTAKE_WINDOW,
    LINK_GRACE_S,
    LINK_WINDOW,
    REFUSED_AFTER_S,
    REFUSED_TRIES_MAX,
)
from mqloom.core.messages import Announce, Hello, Message, Synced
from mqloom.core.publication import Incoming, Publication
from mqloom.core.wire import Frame, decode_ack, encode
from mqloom.gateway.interfaces import Content
from mqloom.lab.gate import (
    ANN,
    BOB,
    US,
    A,
    B,
    Gate,
    acknowledged,
    acks,
    alone,
    key,
    parts_of,
    payloads,
    publication,
    sent,
    with_two,
)
from mqloom.lab.simulation import World
from mqloom.plugins.scan_matcher import ScanMatcher


def numbers(effects: Sequence[Effect]) -> tuple[int, ...]:
    """Return the numbers of what is published on our own broker."""
    return tuple(each.number for each in effects if isinstance(each, PublishLocally) and each.number)


def again(gate: Gate, packet: int, payload: bytes = b"{}") -> list[Effect]:
    """Let the broker hand a publication over again."""
    receipt = next(gate.receipts)
    incoming = Incoming(topic="a/b", payload=payload, qos=1, receipt=receipt, packet=packet, again=True)
    return gate.handle(PublishesReceived(publications=(incoming,)))


def publications(messages: Sequence[Message]) -> list[Publication]:
    return [message for message in messages if isinstance(message, Publication)]


def test_what_our_own_broker_refuses_is_tried_again_in_time_and_acknowledged_when_it_is_dead() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.answers_local = False
    effects = gate.publish(b"{}")
    told: list[int] = []
    for _ in range(REFUSED_TRIES_MAX):
        [number] = numbers(effects)
        effects = gate.handle(LocallyRefused(number=number, reason="quota exceeded"))
        wakes = [each.at for each in effects if isinstance(each, WakeAt)]
        told += acknowledged(effects)
        if wakes:
            assert wakes == [gate.now + REFUSED_AFTER_S]
            gate.now += REFUSED_AFTER_S
            effects = gate.handle(Woke())
    assert told == []
    [dead] = [each for each in effects if isinstance(each, PublishLocally)]
    assert dead.topic == layout.dead(US, layout.out(US, ANN))
    assert acknowledged(gate.handle(LocallyPublished(numbers=(dead.number,)))) == [1]
    assert gate.counted("publications_dead") == {"refused": 1}


def wanted_everywhere() -> Gate:
    """Return a node whose neighbours, and one client of its own, want everything; its broker does not answer."""
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    gate.answers_local = False
    return gate


# ---- our own clients' publications -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["AB-", "BA-", "-AB", "A-B"])
def test_it_is_acknowledged_when_all_next_hops_and_our_own_broker_have_it(order: str) -> None:
    gate = wanted_everywhere()
    effects = gate.publish(b"{}")
    assert acknowledged(effects) == []
    steps = {
        "A": lambda: gate.ack(A),
        "B": lambda: gate.ack(B),
        "-": lambda: gate.handle(LocallyPublished(numbers=numbers(effects))),
    }
    for step in order[:-1]:
        assert acknowledged(steps[step]()) == []
    assert gate.node.holdings().duties == 1
    assert acknowledged(steps[order[-1]]()) == [1]
    assert gate.node.holdings().duties == gate.node.holdings().intake == 0


def test_that_a_frame_has_come_is_not_enough() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"{}")
    last = gate.frames[A].sequence
    assert acknowledged(gate.ack(A, received=last + 1, done=0)) == []
    assert acknowledged(gate.ack(A)) == [1]


def test_what_nobody_wants_is_acknowledged_at_once() -> None:
    assert acknowledged(with_two().publish(b"{}", b"{}")) == [1, 2]


def test_every_client_here_must_have_it() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.record(BOB, {"one": ("a/#", "")}, format="plain")
    gate.answers_local = False
    first, second = numbers(gate.publish(b"{}"))
    assert acknowledged(gate.handle(LocallyPublished(numbers=(second,)))) == []
    assert acknowledged(gate.handle(LocallyPublished(numbers=(first,)))) == [1]


def test_one_that_is_done_waits_for_those_that_came_before_it() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"{}")
    assert acknowledged(gate.publish(b"{}", topic="nobody")) == []
    assert acknowledged(gate.ack(A)) == [1, 2]


def test_one_that_a_neighbour_has_done_ahead_of_others_lets_others_wait_alone() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    gate.publish(b"1", b"2", b"3")
    gate.ack(B)
    assert acknowledged(gate.ack(A, done=0, ahead=(1, 2))) == []  # to our own broker it goes in order
    assert gate.node.holdings().duties == 1
    assert acknowledged(gate.ack(A, done=1)) == [1, 2, 3]


# ---- neighbours' publications ------------------------------------------------------------------------------------


def test_a_neighbour_is_told_that_it_has_come_and_later_that_it_is_done() -> None:
    gate = wanted_everywhere()
    effects = gate.hear(A, publication())
    came = gate.node._links[A]._arrivals.came
    assert acks(effects, A) == []
    gate.now += ACK_DELAY_S
    assert acks(gate.handle(Woke()), A) == [(came, 0)]
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), A) == []
    assert acks(gate.ack(B), A) == [(came, 1)]


def test_what_a_neighbour_sends_again_while_it_is_pending_waits_with_the_first() -> None:
    gate = wanted_everywhere()
    first = gate.hear(A, publication())
    effects = gate.hear(A, publication())
    assert payloads(effects) == []
    assert acks(effects, A) == []
    gate.handle(LocallyPublished(numbers=numbers(first)))
    came = gate.node._links[A]._arrivals.came
    assert acks(gate.ack(B), A) == [(came, 2)]
    assert acks(gate.hear(A, publication()), A) == [(came + 1, 3)]  # done: told at once


def test_what_another_neighbour_sends_while_it_is_pending_is_told_at_once() -> None:
    gate = wanted_everywhere()
    gate.hear(A, publication())
    effects = gate.hear(B, publication())
    came = gate.node._links[B]._arrivals.came
    assert acks(effects, B) == [(came, 1)]
    assert acks(effects, A) == []


def test_our_own_publication_that_comes_back_is_told_at_once_while_it_is_pending() -> None:
    gate = wanted_everywhere()
    gate.publish(b"{}")
    effects = gate.hear(A, publication(0, origin=US))
    came = gate.node._links[A]._arrivals.came
    assert acks(effects, A) == [(came, 1)]
    assert acknowledged(effects) == []


def cycle(count: int, pause_s: float) -> World:
    """Return a ring of gateways, everybody in which wants everything, after somebody published at each in turn."""
    names = [GatewayId(f"G{number}") for number in range(count)]
    world = World([(names[number - 1], names[number]) for number in range(count)], names, lambda: 0.01)
    clients = [world.client(name, "c") for name in names]
    for client in clients:
        client.subscribe("all", "a/#")
    world.run(20.0)
    for number in range(3 * count):
        world.publish(names[number % count], "a/b", {"number": number})
        world.run(world.now + pause_s)
    world.run(80.0)
    world.check()
    for client in clients:
        assert Counter(str(received) for received, _ in client.received) == Counter(
            str({"number": number}) for number in range(3 * count)
        )
    return world


def nobody_waits(world: World) -> bool:
    held = [node.holdings() for node in world.nodes.values()]
    return not any(each.duties or each.intake or each.deliveries or any(each.flows.values()) for each in held)


@pytest.mark.parametrize("count", [3, 4])
def test_in_a_cycle_nobody_waits_for_ever_for_what_comes_by_another_way(count: int) -> None:
    assert nobody_waits(cycle(count, pause_s=1.0))


@pytest.mark.parametrize("count", [3, 4])
def test_in_a_cycle_publications_that_go_round_at_the_same_time_do_not_wait_for_each_other(count: int) -> None:
    assert nobody_waits(cycle(count, pause_s=0.0))


def test_a_neighbour_is_told_of_one_that_is_done_ahead_of_others() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "a/#", "x = 7"))
    gate.ack(B)
    effects = gate.hear(A, publication(0), publication(1, b"{}"), Synced(), publication(2, b"{}"), publication(3))
    (ack,) = [decode_ack(each.ack) for each in effects if isinstance(each, SendAck)]
    assert (ack.done, ack.ahead) == (0, (1, 2))
    (ack,) = [decode_ack(each.ack) for each in gate.ack(B) if isinstance(each, SendAck)]
    assert (ack.done, ack.ahead) == (4, ())


def test_what_was_not_done_is_sent_again_to_a_neighbour_that_begins_anew() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"1")
    gate.ack(A)
    gate.publish(b"2", b"3")
    begun = Conversation(2, 0)
    frames = [Frame(A, begun, 0, (Hello(heard, True),)) for heard in (None, Conversation(1, 1))]
    effects = gate.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames))))
    assert publications(sent(effects, A)) == []  # the park is looked into first
    effects = gate.marker_back(A, 2)
    assert [each.payload for each in publications(sent(effects, A))] == [b"2", b"3"]
    assert acknowledged(gate.ack(A)) == [2, 3]


# ---- sent again by our own broker --------------------------------------------------------------------------------


def test_handed_over_again_while_it_is_pending_it_is_routed_once_and_acknowledged_by_the_new_receipt() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.publish(b"{}")
    gate.handle(IntakeLost())
    effects = again(gate, packet=1)
    assert sent(effects, A) == []
    assert acknowledged(effects) == []
    assert acknowledged(gate.ack(A)) == [2]


def test_handed_over_again_when_it_is_done_it_is_acknowledged_once_more() -> None:
    gate = with_two()
    assert acknowledged(gate.publish(b"{}")) == [1]
    gate.handle(IntakeLost())
    effects = again(gate, packet=1)
    assert acknowledged(effects) == [2]
    assert gate.node.counters.total("publications_in") == 1


def test_after_a_restart_what_is_handed_over_again_goes_out_as_a_repeat() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    (repeated,) = publications(sent(again(gate, packet=9), A))
    assert (repeated.repeat, repeated.packet, repeated.sequence) == (True, 9, 0)
    gate.handle(FencePassed(number=0))
    (lost,) = publications(sent(again(gate, packet=10), A))
    assert not lost.repeat


def test_a_repeat_of_what_we_had_is_dropped_and_waits_with_the_first() -> None:
    gate = wanted_everywhere()
    first = Publication(A, 1, 4, 0, 1, "a/b", b"x", 1, packet=7)
    repeat = Publication(A, 2, 0, 0, 1, "a/b", b"x", 1, packet=7, repeat=True)
    effects = gate.hear(A, first)
    assert payloads(effects) == [b"x"]
    repeated = gate.hear(A, repeat)
    assert payloads(repeated) == []
    assert sent(repeated, B) == []
    assert acks(repeated, A) == []
    gate.handle(LocallyPublished(numbers=numbers(effects)))
    came = gate.node._links[A]._arrivals.came
    assert acks(gate.ack(B), A) == [(came, 2)]


# ---- the low-water mark ------------------------------------------------------------------------------------------


def test_the_mark_of_a_publication_passes_what_is_fenced() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", "x = 1"))
    effects = gate.publish(b"{}")
    assert [each.number for each in effects if isinstance(each, PublishFence)] == [1]
    (one,) = publications(sent(gate.publish(b'{"x": 1}'), A))
    assert one.low_water == 0
    gate.handle(FencePassed(number=1))
    (one,) = publications(sent(gate.publish(b'{"x": 1}'), A))
    assert one.low_water == 1  # the one before is pending
    gate.ack(A)
    gate.now = FENCE_EVERY_S
    effects = gate.handle(Woke())
    assert [each.number for each in effects if isinstance(each, PublishFence)] == [2]
    gate.handle(FencePassed(number=2))
    (one,) = publications(sent(gate.publish(b'{"x": 1}'), A))
    assert one.low_water == 3


# ---- windows -----------------------------------------------------------------------------------------------------


def test_the_intake_is_held_at_its_window_and_released_at_half_of_it() -> None:
    gate = alone()
    gate.record(ANN, {"s": ("a/#", "")})
    gate.answers_local = False
    numbers: list[int] = []

    def publish(count: int) -> list[Effect]:
        effects = gate.publish(*[b"{}"] * count)
        numbers.extend(each.number for each in effects if isinstance(each, PublishLocally) and each.number)
        return effects

    for _ in range(8):
        assert HoldIntake() not in publish(INTAKE_WINDOW // 8)
    assert HoldIntake() in publish(1)
    half = gate.handle(LocallyPublished(numbers=tuple(numbers[:4])))
    assert len(acknowledged(half)) == INTAKE_WINDOW // 2
    assert ReleaseIntake() not in half
    assert ReleaseIntake() in gate.handle(LocallyPublished(numbers=tuple(numbers[4:])))


def test_a_neighbour_that_is_away_does_not_hold_the_intake() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    gate.handle(LinkLost(neighbour=A))
    gate.now = LINK_GRACE_S
    gate.handle(Woke())
    for _ in range(9):
        assert HoldIntake() not in gate.publish(*[b"{}"] * (INTAKE_WINDOW // 8))
    assert gate.node.holdings().intake == 0


def test_no_more_than_the_window_is_on_its_way_to_a_neighbour() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    assert len(publications(sent(gate.publish(*[b"{}"] * (LINK_WINDOW + 5)), A))) == LINK_WINDOW
    assert gate.node.holdings().flows[A] == LINK_WINDOW + 5
    assert len(publications(sent(gate.ack(A), A))) == 5


# ---- dead letters ------------------------------------------------------------------------------------------------


class Poisoned(ScanMatcher):
    """A matcher that fails on one topic."""

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        if any(content.topic == "a/poison" for content in batch):
            raise RuntimeError("a bug")
        return super().match(batch)


def test_a_dead_letter_is_acknowledged_when_our_own_broker_has_it() -> None:
    gate = Gate(parts_of(matcher=Poisoned()))
    gate.answers_local = False
    effects = gate.publish(b"{}", topic="a/poison")
    (dead,) = [each for each in effects if isinstance(each, PublishLocally)]
    assert (dead.topic, dead.qos) == (layout.dead(US, "a/poison"), 1)
    assert acknowledged(effects) == []
    assert acknowledged(gate.handle(LocallyPublished(numbers=(dead.number,)))) == [1]


def test_a_dead_letter_of_a_neighbour_is_done_when_our_own_broker_has_it() -> None:
    gate = Gate(parts_of(A, matcher=Poisoned())).up(A)
    gate.answers_local = False
    effects = gate.hear(A, Publication(A, 1, 0, 0, 1, "a/poison", b"", 1))
    assert acks(effects, A) == []
    came = gate.node._links[A]._arrivals.came
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), A) == [(came, 1)]


def test_publications_of_qos_0_are_never_acknowledged_or_numbered() -> None:
    gate = wanted_everywhere()
    effects = gate.handle(PublishesReceived(publications=(Incoming(topic="a/b", payload=b"{}"),)))
    assert len(sent(effects, A)) == len(sent(effects, B)) == len(payloads(effects)) == 1
    assert numbers(effects) == ()
    assert acknowledged(effects) == []
    assert gate.node.holdings().duties == 0

"""What the moves of others ask of a gateway, message by message; and what it does at its next start."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from mqloom.core import layout
from mqloom.core.effects import CloseLink, OpenLink, PublishLocally, SendFrame
from mqloom.core.events import (
    AcksReceived,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    PlaceRead,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, LINK_GRACE_S
from mqloom.core.messages import Announce, Freeze, Frozen, Hello, Parting, Passed, Synced, Thaw
from mqloom.core.records import PlaceLink, decode_place
from mqloom.core.wire import Ack, Frame, decode, encode, encode_ack
from mqloom.gateway.links import LinkState
from mqloom.gateway.places import MISSED_MAX
from mqloom.lab.gate import US, A, B, Gate, acknowledged, key, logs, parts_of, sent
from mqloom.lab.moving import MOVED, Federation, build

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

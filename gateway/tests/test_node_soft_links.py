"""A whole node with soft links, all others played by hand: custody over a way that is not the only one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from mqloom.core.effects import (
    CloseLink,
    Effect,
    PublishFence,
    PublishLocally,
    SendFrame,
)
from mqloom.core.events import (
    FencePassed,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    PublishesReceived,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S, FLOW_QUEUE_MAX, SILENCE_S
from mqloom.core.messages import Announce, Flush, Flushed, Hello, Message
from mqloom.core.publication import Incoming, Publication
from mqloom.core.wire import Frame, encode
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    OverlayEffect,
    OverlayEvent,
    OverlayStarted,
    OverlayWoke,
    WakeOverlayAt,
)
from mqloom.gateway.links import LinkState
from mqloom.gateway.soft_links import SoftState
from mqloom.lab.gate import ANN, US, A, B, Gate, acknowledged, acks, key, parts_of, publication, sent
from mqloom.lab.woven import WaysOverlay

FAR, NEAR, GUEST = GatewayId("FAR"), GatewayId("NEAR"), GatewayId("GUEST")
FIRST = Conversation(1, 0)


class Woven(Gate):
    """A node with the neighbours A and B; behind A are NEAR, then FAR, and GUEST is behind B."""

    def __init__(self, *opens: GatewayId, overlay: type[WaysOverlay] = WaysOverlay) -> None:
        ways = {NEAR: (A, NEAR), FAR: (A, NEAR, FAR), GUEST: (B, GUEST)}
        self.overlay = overlay(US, [A, B], ways, opens)
        super().__init__(replace(parts_of(A, B), overlay=self.overlay, peers=[A, B, NEAR, FAR, GUEST]))
        self.up(A, B)
        self.guest_frames = 0
        for peer in opens:
            self.stand(peer)

    def stand(self, peer: GatewayId) -> list[Effect]:
        greeting = [each for each in self.handle(LinkConnected(neighbour=peer)) if isinstance(each, SendFrame)]
        assert [each.neighbour for each in greeting] == [peer]
        effects = self.ack(peer)
        assert self.node._soft_links.states()[peer] is SoftState.UP
        return effects

    def want(self, anchor: GatewayId, number: int = 1) -> None:
        self.hear(A, Announce(key(FAR, number), "a/#", "", anchor))

    def hear_guest(
        self, *messages: Message, conversation: Conversation = FIRST, guest: GatewayId = GUEST
    ) -> list[Effect]:
        frame = Frame(guest, conversation, self.guest_frames, messages)
        self.guest_frames += 1
        return self.handle(FramesReceived(sender=guest, frames=(encode(frame),)))

    def guests(self) -> "Woven":
        assert acks(self.hear_guest(Hello(None, True)), GUEST) == [(1, 0)]
        return self


def publications(effects: Sequence[Effect], peer: GatewayId) -> list[int]:
    return [each.sequence for each in sent(effects, peer) if isinstance(each, Publication)]


def numbers(effects: Sequence[Effect]) -> tuple[int, ...]:
    return tuple(each.number for each in effects if isinstance(each, PublishLocally) and each.number)


def test_a_publication_goes_over_a_soft_link_without_its_mark_and_is_acknowledged_when_that_end_is_done() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.publish(b"0")
    assert acknowledged(gate.ack(FAR, done=0)) == []
    assert acknowledged(gate.ack(FAR)) == [1]
    for _ in range(2):  # a fence, so that the mark rises
        gate.now += 1.0
        for effect in gate.handle(Woke()):
            if isinstance(effect, PublishFence):
                gate.handle(FencePassed(number=effect.number))
    effects = gate.publish(b"1")
    assert [each.low_water for each in sent(effects, FAR) if isinstance(each, Publication)] == [0]
    assert publications(effects, A) == []


def test_a_soft_link_that_breaks_gives_its_publications_to_the_primary_way() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.publish(b"0", b"1")
    assert acknowledged(gate.ack(FAR, done=1)) == [1]
    effects = gate.handle(LinkLost(neighbour=FAR))
    assert publications(effects, A) == [1]
    assert acknowledged(effects) == []
    assert acknowledged(gate.ack(A)) == [2]
    assert publications(gate.publish(b"2"), A) == [2]
    assert gate.counted("publications_rerouted") == {"": 1}


class Wakeful(WaysOverlay):
    """Is woken every second, and remembers what it is told then."""

    woken: ClassVar[list[int]] = []

    def handle(self, event: OverlayEvent, now: float) -> list[OverlayEffect]:
        if isinstance(event, OverlayWoke):
            self.woken.append(event.sent)
        wakes = [WakeOverlayAt(now + 1.0)] if isinstance(event, OverlayStarted | OverlayWoke) else []
        return [*super().handle(event, now), *wakes]


def test_the_overlay_hears_how_many_copies_went_out_and_of_none_that_waits_for_a_neighbour_that_is_down() -> None:
    gate = Woven(FAR, overlay=Wakeful)
    gate.want(FAR)
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    gate.publish(b"0")
    gate.now += 1.0
    gate.handle(Woke())
    gate.ack(FAR)
    gate.ack(A)
    gate.now += SILENCE_S  # B has said nothing for so long
    gate.handle(Woke())
    assert gate.node.link_states()[B] is not LinkState.UP
    gate.publish(b"1", b"2")
    gate.now += 1.0
    gate.handle(Woke())
    assert Wakeful.woken == [2, 2, 4]


def test_what_a_guest_sent_is_done_when_it_is_delivered_and_not_before() -> None:
    gate = Woven().guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.answers_local = False
    effects = gate.hear_guest(publication(origin=GUEST))
    gate.now += ACK_DELAY_S
    assert acks(gate.handle(Woke()), GUEST) == [(2, 0)]
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), GUEST) == [(2, 1)]


def test_what_comes_again_another_way_while_we_hold_it_is_not_acknowledged_before_we_are_done() -> None:
    """Its sender has given the soft link up: if we crashed now, only the other way would bring it again."""
    gate = Woven().guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.answers_local = False
    effects = gate.hear_guest(publication(origin=GUEST))
    gate.hear(B, publication(origin=GUEST, hops=2))
    gate.now += ACK_DELAY_S
    came = gate.node._links[B]._arrivals.came
    assert acks(gate.handle(Woke()), B) == [(came, 0)]
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), B) == [(came, 1)]


def test_from_a_guest_only_publications_are_obeyed() -> None:
    gate = Woven().guests()
    effects = gate.hear_guest(Announce(key(GUEST, 1), "a/#", ""), Flush(GUEST, 1, 1))
    assert sent(effects, A) == sent(effects, B) == []
    assert gate.node.subscription_counts() == (0, 0)


def test_a_stranger_and_whoever_is_urgent_is_no_guest() -> None:
    gate = Woven()
    data = encode(Frame(GUEST, FIRST, 0, (Hello(None, True),)))
    assert acks(gate.handle(FramesReceived(sender=GUEST, frames=(data,), urgent=True)), GUEST) == []
    assert acks(gate.hear_guest(Hello(None, True), guest=GatewayId("NOBODY")), GatewayId("NOBODY")) == []
    assert gate.counted("frames_refused") == {"stranger": 2}


def test_a_gateway_without_a_map_takes_no_guests_for_it_would_send_back_what_they_bring() -> None:
    gate = Gate(replace(parts_of(A, B), peers=[A, B, GUEST])).up(A, B)
    data = encode(Frame(GUEST, FIRST, 0, (Hello(None, True),)))
    assert acks(gate.handle(FramesReceived(sender=GUEST, frames=(data,))), GUEST) == []
    assert gate.counted("frames_refused") == {"stranger": 1}


def test_soft_links_to_gateways_that_are_not_configured_are_refused() -> None:
    overlay = WaysOverlay(US, [A], {}, [GatewayId("NOBODY")])
    gate = Gate(replace(parts_of(A), overlay=overlay, peers=[FAR]))
    assert gate.counted("links_refused") == {"unknown": 1}


def test_a_gateway_that_is_a_guest_may_have_a_soft_link_from_us_too() -> None:
    gate = Woven(GUEST).guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(B, Announce(key(GUEST, 1), "a/#", "", GUEST))
    effects = gate.publish(b"0")
    assert publications(effects, GUEST) == [0]
    effects = gate.hear_guest(publication(origin=GUEST))
    assert acks(effects, GUEST) == [(2, 1)]
    assert publications(effects, GUEST) == []
    assert acknowledged(gate.ack(GUEST)) == [1]


def test_what_leaves_the_map_is_matched_again_but_does_not_go_back_to_where_it_came_from() -> None:
    gate = Woven(FAR).guests()
    gate.want(FAR)
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    assert publications(gate.hear_guest(publication(7, origin=GUEST)), FAR) == [7]
    gate.hear(A, Announce(key(FAR, 1), "a/#", "", A))
    del gate.overlay.ways[FAR]
    effects = gate.handle(LinkLost(neighbour=FAR))
    assert publications(effects, A) == [7]
    assert publications(effects, B) == []
    assert acks(gate.ack(A), GUEST) == [(2, 1)]


def test_what_is_given_back_while_it_is_sent_another_way_goes_on_in_the_same_event() -> None:
    gate = Woven(FAR, NEAR)
    gate.want(FAR)
    gate.obliging.clear()
    incoming = tuple(Incoming(topic="a/b", payload=b"{}", qos=0) for _ in range(FLOW_QUEUE_MAX + 1))
    effects = gate.handle(PublishesReceived(publications=incoming))
    # Too much for FAR, then for NEAR; all of it goes to A at last.
    assert len(publications(effects, A)) == FLOW_QUEUE_MAX + 1
    assert publications(effects, FAR) == publications(effects, NEAR) == []
    assert gate.counted("links_crowded") == {"soft": 2}
    assert publications(gate.publish(b"1"), FAR) == []  # they stand again from now on
    assert publications(gate.publish(b"2"), FAR) == [FLOW_QUEUE_MAX + 2]


def test_an_overlay_that_names_a_link_that_it_closed_in_the_same_event_loses_nothing() -> None:
    gate = Woven(FAR, NEAR)
    gate.want(FAR)
    gate.publish(b"0")
    gate.overlay.answers = [CloseSoftLink(NEAR), AnchorsChanged()]
    effects = gate.handle(LinkLost(neighbour=FAR))  # told of this, it closes NEAR, and still names it
    assert CloseLink(neighbour=NEAR) in effects
    assert publications(effects, A) == [0]
    assert acknowledged(gate.ack(A)) == [1]


def test_a_wave_is_answered_behind_what_went_over_soft_links_before_the_last_answer() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.hear(A, Flush(FAR, 1, 1))
    gate.hear(B, publication(3, origin=B))
    assert Flushed(FAR, 1, 1) not in sent(gate.hear(B, Flushed(FAR, 1, 1)), A)
    effects = gate.handle(LinkLost(neighbour=FAR))
    last = [each for each in sent(effects, A) if isinstance(each, Publication | Flushed)]
    assert [type(each) for each in last] == [Publication, Flushed]


@pytest.mark.parametrize("count", [0, 35])
def test_soft_links_that_an_event_does_not_touch_are_not_looked_at(count: int) -> None:
    peers = [GatewayId(f"P{number}") for number in range(count)]
    overlay = WaysOverlay(US, [A], {peer: (A, peer) for peer in peers}, peers)
    gate = Gate(replace(parts_of(A), overlay=overlay, peers=peers)).up(A)
    for peer in peers:
        gate.handle(LinkConnected(neighbour=peer))
        gate.ack(peer)
    assert len(overlay.standing) == count
    gate.node._soft_links._links = dict.fromkeys(peers)  # type: ignore[assignment]
    gate.node.handle(LocallyPublished(numbers=()), gate.now)

"""Links that come into the configuration of a running node, and leave it."""

from collections.abc import Sequence

import pytest

from mqloom.core.effects import CloseLink, Effect, OpenLink, PublishLocally
from mqloom.core.events import LinkLost, LocallyPublished, PlaceRead, Woke
from mqloom.core.ids import GatewayId
from mqloom.core.messages import Announce
from mqloom.core.records import decode_place
from mqloom.gateway.link_changes import LEAVE_S, LINGER_S, Network
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.lab.gate import (
    ANN,
    JSON,
    US,
    A,
    B,
    Gate,
    acknowledged,
    acks,
    key,
    local,
    publication,
    sent,
    wakings,
    with_two,
)

C = GatewayId("C")


def gate_of_two() -> Gate:
    """Return a node with two neighbours that want everything, and of which it knows that they are its neighbours."""
    gate = with_two()
    gate.handle(PlaceRead(data=b""))
    for each in (A, B):
        gate.hear(each, Announce(key(each, 1), "a/#", ""))
    for each in (A, B):
        gate.ack(each)
    gate.now = 1.0
    return gate


def linger(gate: Gate) -> list[Effect]:
    gate.now += LINGER_S
    return gate.handle(Woke())


def configure(gate: Gate, *neighbours: GatewayId) -> list[Effect]:
    links = [(US, each) for each in neighbours]
    network = Network(neighbours, neighbours, links)
    event = Reconfigured(codecs=[("#", JSON)], standing=(), federate=(), data=("#",), network=network)
    effects = gate.node.handle(event, gate.now)
    gate.node.check()
    return effects


def links_in(effects: Sequence[Effect]) -> list[OpenLink | CloseLink]:
    return [each for each in effects if isinstance(each, OpenLink | CloseLink)]


def closed(neighbour: GatewayId) -> CloseLink:
    return CloseLink(neighbour=neighbour, is_primary=True)


def test_a_link_that_is_added_is_opened_and_kept_and_the_others_do_not_notice() -> None:
    gate = gate_of_two()
    effects = configure(gate, A, B, C)
    assert links_in(effects) == [OpenLink(neighbour=C, is_primary=True)]
    [place] = [decode_place(payload) for topic, payload in local(effects) if topic.endswith("/place")]
    assert [link.gateway for link in place.links] == [A, B, C]
    assert sent(effects, A) == sent(effects, B) == []
    assert set(gate.node.link_states()) == {A, B, C}


def test_what_is_published_before_a_new_neighbour_has_said_what_it_wants_waits_for_it() -> None:
    gate = gate_of_two()
    configure(gate, A, B, C)
    gate.obliging = {A, B}
    assert acknowledged(gate.publish(b"{}")) == []
    gate.up(C)
    assert len(sent(gate.handle(Woke()), C)) + gate.places.get(C, 0) >= 1


def test_the_same_configuration_changes_nothing() -> None:
    gate = gate_of_two()
    effects = configure(gate, A, B)
    assert links_in(effects) == []
    assert local(effects) == []
    assert sent(effects, A) == sent(effects, B) == []


def test_a_link_that_is_removed_without_anything_under_way_is_closed_soon() -> None:
    gate = gate_of_two()
    effects = configure(gate, B)
    assert links_in(effects) == []
    assert gate.now + LINGER_S in wakings(effects)
    assert links_in(linger(gate)) == [closed(A)]
    assert set(gate.node.link_states()) == {B}
    assert sent(gate.publish(b"{}"), A) == []


def test_a_link_that_is_removed_is_closed_when_its_neighbour_has_taken_care_of_all_that_was_sent() -> None:
    gate = gate_of_two()
    gate.obliging = {B}
    gate.publish(b"{}")
    assert links_in(configure(gate, B)) == []
    effects = gate.publish(b"{}")  # for those that are left
    assert sent(effects, A) == []
    assert acknowledged(effects) == []  # in order: the first waits for A
    assert links_in(linger(gate)) == []
    effects = gate.ack(A)
    assert links_in(effects) == [closed(A)]
    assert acknowledged(effects) == [1, 2]


def test_a_link_that_is_removed_is_closed_when_what_came_from_there_is_acknowledged() -> None:
    gate = gate_of_two()
    gate.record(ANN, {"all": ("a/#", "")})
    gate.answers_local = False
    gate.obliging = {B}
    effects = gate.hear(A, publication())
    numbers = [each.number for each in effects if isinstance(each, PublishLocally) and each.number]
    assert links_in(configure(gate, B)) == []
    assert links_in(linger(gate)) == []
    effects = gate.handle(LocallyPublished(numbers=tuple(numbers)))
    assert acks(effects, A)[-1][1] == 1
    assert links_in(effects) == [closed(A)]


@pytest.mark.parametrize("how", ["time", "lost"])
def test_a_link_that_is_removed_does_not_wait_for_ever(how: str) -> None:
    gate = gate_of_two()
    gate.obliging = {B}
    gate.publish(b"{}")
    configure(gate, B)
    if how == "lost":
        gate.handle(LinkLost(neighbour=A))
    effects = []
    for _ in range(int(LEAVE_S) + 1):
        gate.now += 1.0
        effects += gate.handle(Woke())
    assert links_in(effects) == [closed(A)]
    assert acknowledged(effects) == [1]


def test_a_link_that_comes_back_before_it_is_gone_begins_anew() -> None:
    gate = gate_of_two()
    gate.publish(b"{}")
    configure(gate, B)
    assert links_in(configure(gate, A, B)) == [closed(A), OpenLink(neighbour=A, is_primary=True)]
    assert set(gate.node.link_states()) == {A, B}


def test_before_it_is_known_who_the_neighbours_are_a_change_waits() -> None:
    gate = with_two()
    assert links_in(configure(gate, A, B, C)) == []
    effects = gate.handle(PlaceRead(data=b""))
    assert OpenLink(neighbour=C, is_primary=True) in effects

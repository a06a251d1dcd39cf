"""The other end of soft links: who is answered what."""

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S
from mqloom.core.messages import Hello, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode_ack
from mqloom.gateway import guests as guests_module
from mqloom.gateway.guests import Guests
from mqloom.gateway.journal import Journal

US, FAR, OTHER = GatewayId("US"), GatewayId("FAR"), GatewayId("OTHER")
FIRST, SECOND, REBORN = Conversation(1, 0), Conversation(1, 1), Conversation(2, 0)
GREETING, ASKING = Hello(None, True), Hello(None, False)


def publication(sequence: int, qos: int = 1) -> Publication:
    return Publication(FAR, 1, sequence, 0, 1, "t", b"", qos)


class House:
    """A gateway with guests; what it says to them after each event."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.guests = Guests(US, Journal(self.counters))
        self.now = 0.0

    def hear(
        self, sequence: int, *messages: Message, conversation: Conversation = FIRST, sender: GatewayId = FAR
    ) -> list[Message]:
        obeyed = list(self.guests.receive(Frame(sender, conversation, sequence, messages), self.now))
        self.guests.check()
        return obeyed

    def said(self) -> list[tuple[GatewayId, Ack]]:
        said = [(effect.neighbour, decode_ack(effect.ack)) for effect in self.guests.drain(self.now)]
        self.guests.check()
        return said

    def greeted(self, sender: GatewayId = FAR) -> "House":
        assert self.hear(0, GREETING, sender=sender) == []
        assert self.said() == [(sender, Ack(US, FIRST, 1, 0))]
        return self


def test_a_greeting_is_acknowledged_at_once() -> None:
    house = House().greeted()
    assert house.said() == []
    assert house.guests.deadline is None


def test_a_repeated_greeting_is_acknowledged_again_until_more_has_come() -> None:
    house = House().greeted().greeted()
    house.hear(1, publication(0))
    house.now = ACK_DELAY_S
    house.said()
    house.hear(0, GREETING)
    assert house.said() == []
    assert house.guests.places(FAR) == 1


def test_what_comes_is_obeyed_once_and_acknowledged_after_a_while_then_when_it_is_done() -> None:
    house = House().greeted()
    sent = [publication(0), publication(1, qos=0), publication(2)]
    assert house.hear(1, *sent) == sent
    assert house.guests.places(FAR) == 2
    assert house.said() == []
    assert house.guests.deadline == ACK_DELAY_S
    house.now = ACK_DELAY_S
    assert house.said() == [(FAR, Ack(US, FIRST, 2, 0))]
    assert house.guests.deadline is None
    house.guests.taken_care_of(FAR, FIRST, 1)
    assert house.said() == [(FAR, Ack(US, FIRST, 2, 0, (1,)))]
    house.guests.taken_care_of(FAR, FIRST, 0)
    assert house.said() == [(FAR, Ack(US, FIRST, 2, 2))]
    assert house.hear(1, *sent) == []
    assert house.counters.total("frames_stale") == 1
    assert house.said() == [(FAR, Ack(US, FIRST, 2, 2))]


def test_behind_a_gap_nothing_is_obeyed_and_the_guest_is_told_where_we_are() -> None:
    house = House().greeted()
    assert house.hear(2, publication(0)) == []
    assert house.said() == [(FAR, Ack(US, FIRST, 1, 0))]


def test_a_guest_that_asks_is_told_everything() -> None:
    house = House().greeted()
    house.hear(1, publication(0), publication(1))
    house.guests.taken_care_of(FAR, FIRST, 1)
    house.said()
    house.hear(2, ASKING)
    assert house.said() == [(FAR, Ack(US, FIRST, 3, 0, (1,)))]


@pytest.mark.parametrize("known", [False, True])
def test_a_conversation_that_did_not_begin_with_a_greeting_is_answered_by_nothing(known: bool) -> None:
    house = House()
    if known:
        house.greeted()
    assert house.hear(1, publication(0), conversation=SECOND) == []
    assert house.said() == [(FAR, Ack(US, SECOND, 0, 0))]
    assert house.said() == []


def test_a_frame_without_anything_in_it_is_no_greeting() -> None:
    house = House()
    assert house.hear(0) == []
    assert house.said() == [(FAR, Ack(US, FIRST, 0, 0))]


@pytest.mark.parametrize("later", [SECOND, REBORN])
def test_a_new_conversation_replaces_the_one_before(later: Conversation) -> None:
    house = House().greeted()
    house.hear(1, publication(0))
    house.hear(0, GREETING, conversation=later)
    assert house.said() == [(FAR, Ack(US, later, 1, 0))]
    house.guests.taken_care_of(FAR, FIRST, 0)  # nobody waits for it
    assert house.said() == []
    assert house.hear(0, GREETING, conversation=FIRST) == []
    assert house.hear(2, publication(1), conversation=FIRST) == []
    assert house.said() == []
    assert house.hear(1, publication(2), conversation=later) == [publication(2)]


def test_past_the_bound_the_one_unheard_of_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests_module, "GUESTS_MAX", 2)
    house = House()
    house.greeted(FAR).greeted(OTHER)
    house.hear(1, publication(0), sender=OTHER)
    house.hear(1, publication(0), sender=FAR)
    house.greeted(GatewayId("NEW"))
    assert (house.guests.places(FAR), house.guests.places(OTHER)) == (1, 0)
    house.guests.taken_care_of(OTHER, FIRST, 0)
    house.now = ACK_DELAY_S
    assert house.said() == [(FAR, Ack(US, FIRST, 2, 0))]
    house.hear(2, publication(1), sender=OTHER)
    assert house.said() == [(OTHER, Ack(US, FIRST, 0, 0))]


def test_a_late_greeting_of_a_guest_that_was_forgotten_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests_module, "GUESTS_MAX", 1)
    house = House().greeted()
    house.hear(1, publication(0))
    house.greeted(OTHER)
    house.greeted(FAR)  # doubled on its way, and late
    house.guests.taken_care_of(FAR, FIRST, 0)
    assert house.said() == []


def test_only_guests_to_whom_there_is_something_to_say_are_looked_at() -> None:
    house = House().greeted(FAR).greeted(OTHER)
    assert not house.guests._stirred
    house.hear(1, publication(0))
    assert list(house.guests._stirred) == [FAR]

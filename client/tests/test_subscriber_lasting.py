"""A lasting subscriber: its subscriptions come and go, and nothing but its user ends it."""

from collections.abc import Iterator, Sequence

import pytest

from mqloom.client.limits import ANSWER_S, ASK_AGAIN_S, CHANGE_S, ENDED_S, FIND_S, LEASE_S, LOOK_S
from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    Failed,
    Finished,
    LeaveRequested,
    MessageReceived,
    Publish,
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import Answer, Delivered, Status, Wish, decode_record, encode_answer, encode_envelope
from mqloom.core.records import encode_status as status_bytes

HOT = Wish(topics="stocks/#", where="volume > 300000")
ALL = Wish(topics="stocks/#")
RECORD = "mqloom/v1/EDGE1/sub/me"
OUT = "mqloom/v1/EDGE1/out/me"
ADD_HOT = WishAdded(name="hot", wish=HOT)
ADD_ALL = WishAdded(name="all", wish=ALL)
REMOVE_HOT = WishRemoved(name="hot")
TOLD_ENDED = Tell(answer=Answer(answer="ended", name="hot"))


def status(*, alive: bool = True, epoch: int = 7) -> MessageReceived:
    payload = status_bytes(Status(alive=alive, gateway=GatewayId("EDGE1"), version="0.1.0", epoch=epoch))
    return MessageReceived(topic="mqloom/v1/EDGE1/status", payload=payload, qos=1, retain=True)


def answered(answer: Answer) -> MessageReceived:
    return MessageReceived(topic="mqloom/v1/EDGE1/ctl/me", payload=encode_answer(answer), qos=1)


def established(name: str = "hot") -> MessageReceived:
    return answered(Answer(answer="established", name=name))


def ended(name: str = "hot") -> MessageReceived:
    return answered(Answer(answer="ended", name=name))


def refused(name: str = "hot") -> MessageReceived:
    return answered(Answer(answer="refused", name=name, problem="not on the list"))


def envelope(sequence: int, name: str = "hot") -> MessageReceived:
    publication = Publication(GatewayId("CORE"), 3, sequence, 0, 2, "stocks/YHOO", b"{}", 1)
    return MessageReceived(topic=OUT, payload=encode_envelope([Delivered(publication, (name,))]), qos=1)


class Script:
    """A lasting subscriber and its clock; every step states the invariants."""

    def __init__(self) -> None:
        self.subscriber = Subscriber(ClientId("me"), {}, lasting=True)
        self.now = 1_000.0

    def __call__(self, event: Event, *, after: float = 0.0) -> list[Effect]:
        self.now += after
        effects = self.subscriber.handle(event, self.now)
        self.subscriber.check()
        assert not any(isinstance(effect, Failed) for effect in effects)
        return effects

    def is_in(self, state: State) -> bool:
        return self.subscriber.state is state


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script(CloseRequested())
    script(CloseRequested())
    assert script.is_in(State.CLOSED)


@pytest.fixture
def served(script: Script) -> Script:
    """Served with `hot`, and some time has passed since."""
    for event in (Connected(), ADD_HOT, status(), established()):
        script(event)
    script.now += 1.0
    return script


def records(effects: Sequence[Effect]) -> list[dict[str, Wish] | None]:
    """Return what the record says after each time it was written; None: deleted."""
    published = [effect for effect in effects if isinstance(effect, Publish)]
    assert all((each.topic, each.qos, each.retain) == (RECORD, 1, True) for each in published)
    return [decode_record(each.payload).subscriptions if each.payload else None for each in published]


def test_with_nothing_to_ask_for_it_says_nothing(script: Script) -> None:
    assert script(Connected()) == []
    assert script.is_in(State.IDLE)
    assert script(Woke(), after=10 * FIND_S) == []


def test_the_first_wish_makes_it_look_for_a_gateway(script: Script) -> None:
    script(Connected())
    assert script(ADD_HOT)[0] == Subscribe(topic="mqloom/v1/+/status", qos=1)
    assert records(script(status())) == [{"hot": HOT}]
    assert script(established()) == [Tell(answer=Answer(answer="established", name="hot"))]
    assert script.subscriber.gateway == "EDGE1"


def test_a_wish_from_before_the_connection_is_asked_for(script: Script) -> None:
    assert script(ADD_HOT) == []
    script(Connected())
    assert records(script(status())) == [{"hot": HOT}]


def test_a_further_wish_is_written_at_once(served: Script) -> None:
    assert records(served(ADD_ALL)) == [{"hot": HOT, "all": ALL}]
    assert served.is_in(State.ASKING)
    assert served(established("all")) == [Tell(answer=Answer(answer="established", name="all"))]
    assert served.is_in(State.SERVED)


def test_many_wishes_at_once_are_two_records(served: Script) -> None:
    written = [records(served(WishAdded(name=f"w{number}", wish=ALL))) for number in range(50)]
    assert [len(each) for each in written] == [1] + 49 * [0]
    (last,) = records(served(Woke(), after=CHANGE_S))
    assert last is not None
    assert len(last) == 51


def test_what_is_added_again_is_answered_again(served: Script) -> None:
    assert records(served(ADD_HOT)) == [{"hot": HOT}]
    assert served(established()) == [Tell(answer=Answer(answer="established", name="hot"))]


def test_what_its_session_kept_since_an_earlier_life_is_delivered_before_it_wants_anything(script: Script) -> None:
    script(Connected())
    assert any(isinstance(effect, Deliver) for effect in script(envelope(1, "of an earlier life")))
    assert script(envelope(1, "of an earlier life")) == []


def test_another_wish_under_the_same_name_takes_its_place(served: Script) -> None:
    assert records(served(WishAdded(name="hot", wish=ALL))) == [{"hot": ALL}]
    assert served.is_in(State.ASKING)


def test_a_removed_wish_delivers_until_its_end_is_told(served: Script) -> None:
    served(ADD_ALL)
    served(established("all"))
    assert records(served(REMOVE_HOT, after=1.0)) == [{"all": ALL}]
    assert any(isinstance(effect, Deliver) for effect in served(envelope(1)))
    assert served(established()) == []  # an answer to the record before
    assert served(ended())[0] == TOLD_ENDED
    assert served(envelope(2)) == []
    assert served.subscriber.counts["unwanted"] == 1


def test_without_the_last_wish_the_record_is_deleted_and_not_renewed(served: Script) -> None:
    assert records(served(REMOVE_HOT)) == [None]
    assert served(ended())[0] == TOLD_ENDED
    assert records(served(Woke(), after=LEASE_S)) == []
    assert served.is_in(State.SERVED)
    assert records(served(ADD_ALL)) == [{"all": ALL}]


def test_an_end_that_is_never_answered_is_told_in_time(served: Script) -> None:
    assert WakeAt(at=served.now + ENDED_S) in served(REMOVE_HOT)
    assert served(Woke(), after=ENDED_S) == [TOLD_ENDED]


def test_a_wish_that_is_removed_while_the_gateway_is_gone_ends_in_time_too(served: Script) -> None:
    served(status(alive=False))
    assert served(REMOVE_HOT) == [WakeAt(at=served.now + ENDED_S)]
    assert served(Woke(), after=ENDED_S) == [TOLD_ENDED]


def test_a_wish_that_nobody_was_asked_for_ends_at_once(script: Script) -> None:
    script(Connected())
    script(ADD_HOT)
    assert script(REMOVE_HOT) == [TOLD_ENDED]
    script(Woke(), after=FIND_S)  # and nobody is missed for it


def test_a_wish_removed_and_added_again_is_asked_for_again(served: Script) -> None:
    served(REMOVE_HOT)
    assert records(served(ADD_HOT)) == []
    assert records(served(Woke(), after=CHANGE_S)) == [{"hot": HOT}]
    served(established())
    assert served(ended())[0] is not None  # of the earlier one: asked again, after a pause
    assert records(served(Woke(), after=ASK_AGAIN_S)) == [{"hot": HOT}]


def test_when_everything_is_refused_the_record_is_deleted_and_it_goes_on(script: Script) -> None:
    for event in (Connected(), ADD_HOT, status()):
        script(event)
    assert isinstance(script(refused())[0], Tell)
    assert script.is_in(State.SERVED)
    assert records(script(Woke(), after=CHANGE_S)) == [None]
    assert records(script(Woke(), after=LEASE_S)) == []
    assert records(script(ADD_HOT)) == [{"hot": HOT}]  # who asks again is asked for again


def test_a_refused_wish_that_is_removed_has_ended(script: Script) -> None:
    for event in (Connected(), ADD_HOT, status(), refused()):
        script(event)
    assert script(REMOVE_HOT)[0] == TOLD_ENDED


def test_when_a_whole_record_is_refused_each_is_told_and_a_good_one_is_written(served: Script) -> None:
    served(ADD_ALL)
    tell, *_ = served(answered(Answer(answer="refused", problem="too many changes")))
    assert tell == Tell(answer=Answer(answer="refused", name="all", problem="too many changes"))
    assert records(served(Woke(), after=ASK_AGAIN_S)) == [{"hot": HOT}]


def test_a_missing_gateway_is_told_and_waited_for(script: Script) -> None:
    script(Connected())
    script(ADD_HOT)
    script(Woke(), after=LOOK_S)
    (unserved,) = script(Woke(), after=FIND_S)
    assert isinstance(unserved, Unserved)
    assert unserved.names == ("hot",)
    assert "no gateway answers at this broker" in unserved.problem
    assert script(ADD_ALL) == [WakeAt(at=script.now + FIND_S)]
    assert isinstance(script(Woke(), after=FIND_S)[0], Unserved)
    assert records(script(status())) == [{"hot": HOT, "all": ALL}]


def test_a_gateway_that_never_answers_is_told_and_asked_on(script: Script) -> None:
    for event in (Connected(), ADD_HOT, status()):
        script(event)
    effects = script(Woke(), after=ANSWER_S)
    assert [each.names for each in effects if isinstance(each, Unserved)] == [("hot",)]
    assert records(script(Woke(), after=LEASE_S)) == [{"hot": HOT}]


def test_a_wish_removed_while_the_connection_is_lost_is_gone_from_the_next_record(served: Script) -> None:
    served(ADD_ALL)
    served(established("all"))
    served(ConnectionLost())
    served(REMOVE_HOT)
    served(Connected())
    assert records(served(status())) == [{"all": ALL}]
    assert served(ended())[0] == TOLD_ENDED


def unsubscribed_while_away(script: Script) -> Script:
    """Let the last wish be removed, and its end be overdue, while the connection is lost."""
    script(ConnectionLost())
    script(REMOVE_HOT)
    assert script(Woke(), after=ENDED_S) == [TOLD_ENDED]
    return script


def test_what_was_removed_while_the_connection_was_lost_for_long_does_not_stand_on_the_broker(served: Script) -> None:
    unsubscribed_while_away(served)
    assert served(Connected())[0] == Subscribe(topic="mqloom/v1/+/status", qos=1)
    assert records(served(status())) == [None]
    assert served.is_in(State.SERVED)


def test_a_deletion_that_nobody_has_answered_is_written_again_with_the_next_connection(served: Script) -> None:
    unsubscribed_while_away(served)
    for event in (Connected(), status(), ConnectionLost(), Connected()):
        served(event)
    assert records(served(status())) == [None]


def test_one_whose_last_wish_has_ended_has_nothing_to_say_with_the_next_connection(served: Script) -> None:
    served(REMOVE_HOT)
    served(ended())
    served(ConnectionLost())
    assert served(Connected()) == []
    assert served.is_in(State.IDLE)


@pytest.mark.parametrize("resumed", [True, False])
def test_one_that_is_to_leave_does_so_though_it_wants_nothing_any_more(served: Script, resumed: bool) -> None:
    served(ConnectionLost())
    served(LeaveRequested(to="EDGE2"))
    served(REMOVE_HOT)
    served(Woke(), after=ENDED_S)
    served(Connected(resumed=resumed))
    assert records(served(status())) == [{}]
    assert served.is_in(State.LEAVING)
    effects = served(answered(Answer(answer="ended")))
    assert records(effects) == [{}]
    assert effects[-1] == Finished()


def test_one_that_wants_nothing_any_more_leaves_when_its_broker_is_back(served: Script) -> None:
    unsubscribed_while_away(served)
    assert served(LeaveRequested(to="EDGE2")) == []
    served(Connected())
    assert records(served(status())) == [{}]
    assert served(answered(Answer(answer="ended")))[-1] == Finished()


def test_one_that_never_asked_for_anything_leaves_at_once(script: Script) -> None:
    script(Connected())
    assert script(LeaveRequested(to="EDGE2")) == [Finished()]


@pytest.mark.parametrize(("resumed", "gaps"), [(True, 0), (False, 1)])
def test_a_session_that_the_broker_has_forgotten_is_a_gap(served: Script, resumed: bool, gaps: int) -> None:
    served(ConnectionLost())
    served(Connected(resumed=resumed))
    assert served.subscriber.counts["gaps"] == gaps


def test_an_end_that_was_not_asked_for_is_a_gap(served: Script) -> None:
    served(ended())
    assert served.subscriber.counts["gaps"] == 1


def test_closing_ends_what_is_wanted_and_what_is_ending(served: Script) -> None:
    served(ADD_ALL)
    served(REMOVE_HOT)
    assert records(served(CloseRequested())) == [None]
    served(WishAdded(name="late", wish=ALL))  # too late
    assert served(ended("hot")) == [TOLD_ENDED]
    assert served(ended("all"))[-1] == Finished()


def test_closing_with_nothing_wanted_is_simple(script: Script) -> None:
    script(Connected())
    assert script(CloseRequested()) == [Finished()]

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mqloom.client.limits import ANSWER_S, ASK_AGAIN_S, CLOSE_S, FIND_S, LEASE_S, LOOK_S
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
    MessageReceived,
    Note,
    Publish,
    Subscribe,
    Tell,
    WakeAt,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import (
    Answer,
    Delivered,
    Record,
    Status,
    Wish,
    decode_record,
    encode_answer,
    encode_envelope,
    encode_status,
)

EDGE = GatewayId("EDGE1")
ME = ClientId("me")
HOT = Wish(topics="stocks/#", where="volume > 300000")
ALL = Wish(topics="stocks/#")
RECORD = "mqloom/v1/EDGE1/sub/me"
OUT = "mqloom/v1/EDGE1/out/me"
CTL = "mqloom/v1/EDGE1/ctl/me"
STATUS = "mqloom/v1/EDGE1/status"


def status(*, alive: bool = True, gateway: str = "EDGE1", epoch: int = 7, topic: str = STATUS) -> MessageReceived:
    payload = encode_status(Status(alive=alive, gateway=GatewayId(gateway), version="0.1.0", epoch=epoch))
    return MessageReceived(topic=topic, payload=payload, qos=1, retain=True)


def answered(answer: Answer) -> MessageReceived:
    return MessageReceived(topic=CTL, payload=encode_answer(answer), qos=1)


def established(name: str = "hot") -> MessageReceived:
    return answered(Answer(answer="established", name=name))


def ended(name: str = "hot") -> MessageReceived:
    return answered(Answer(answer="ended", name=name))


def publication(sequence: int) -> Publication:
    return Publication(GatewayId("CORE"), 3, sequence, 0, 2, "stocks/YHOO", b"{}", 1)


def envelope(*sequences: int, names: tuple[str, ...] = ("hot",)) -> MessageReceived:
    payload = encode_envelope([Delivered(publication(sequence), names) for sequence in sequences])
    return MessageReceived(topic=OUT, payload=payload, qos=1)


def deleted() -> Publish:
    return Publish(topic=RECORD, payload=b"", qos=1, retain=True)


class Script:
    """A subscriber and its clock; every step states the invariants."""

    def __init__(self, **wishes: Wish) -> None:
        self.subscriber = Subscriber(ME, wishes or {"hot": HOT})
        self.now = 1_000.0

    def __call__(self, event: Event, *, after: float = 0.0) -> list[Effect]:
        self.now += after
        effects = self.subscriber.handle(event, self.now)
        self.subscriber.check()
        return effects

    @property
    def state(self) -> State:
        return self.subscriber.state

    def ask(self) -> None:
        self(Connected())
        self(status())

    def serve(self) -> None:
        self.ask()
        self(established())


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def served() -> Script:
    script = Script()
    script.serve()
    return script


def written(effects: Sequence[Effect]) -> Record:
    (published,) = [effect for effect in effects if isinstance(effect, Publish)]
    assert (published.topic, published.qos, published.retain) == (RECORD, 1, True)
    return decode_record(published.payload)


# ---- finding -----------------------------------------------------------------------------------------------------


def test_it_looks_for_the_status_of_any_gateway(script: Script) -> None:
    assert script(Connected()) == [Subscribe(topic="mqloom/v1/+/status", qos=1), WakeAt(at=1_000.0 + LOOK_S)]


def test_a_gateway_can_be_named_for_brokers_that_replay_nothing_to_a_wildcard() -> None:
    subscriber = Subscriber(ME, {"hot": HOT}, gateway=EDGE)
    assert subscriber.handle(Connected(), 0.0)[0] == Subscribe(topic=STATUS, qos=1)


def test_it_listens_before_it_asks(script: Script) -> None:
    script(Connected())
    listen_ctl, listen_out, record, wake = script(status())
    assert listen_ctl == Subscribe(topic=CTL, qos=1)
    assert listen_out == Subscribe(topic=OUT, qos=1)
    assert written([record]) == Record(subscriptions={"hot": HOT}, format="frame", qos=1, lease_s=LEASE_S)
    assert wake == WakeAt(at=script.now + LEASE_S / 3)
    assert script.state is State.ASKING


def test_without_a_gateway_it_fails_in_time(script: Script) -> None:
    script(Connected())
    (failed,) = script(Woke(), after=FIND_S)
    assert isinstance(failed, Failed)
    assert "no gateway answers at this broker" in failed.problem
    assert script(Connected()) == []


def test_waking_too_early_asks_to_be_woken_again(script: Script) -> None:
    script(Connected())
    assert script(Woke(), after=LOOK_S / 2) == [WakeAt(at=1_000.0 + LOOK_S)]


def test_where_no_status_comes_by_a_wildcard_it_looks_who_the_gateway_here_is(script: Script) -> None:
    script(Connected())
    look, wake = script(Woke(), after=LOOK_S)
    assert (look, wake) == (Subscribe(topic="mqloom/v1/here", qos=1), WakeAt(at=1_000.0 + FIND_S))
    assert script(status(topic="mqloom/v1/here")) == [Subscribe(topic=STATUS, qos=1)]
    assert written(script(status())).subscriptions == {"hot": HOT}  # only its own status says that it is alive


def test_nonsense_about_the_gateway_here_is_counted(script: Script) -> None:
    script(Connected())
    script(Woke(), after=LOOK_S)
    assert script(MessageReceived(topic="mqloom/v1/here", payload=b"?")) == []
    assert script.subscriber.counts["statuses_malformed"] == 1


def test_who_the_gateway_here_is_does_not_matter_to_who_has_one(served: Script) -> None:
    assert served(status(gateway="EDGE2", topic="mqloom/v1/here")) == []


def test_a_gateway_that_is_not_alive_is_none(script: Script) -> None:
    script(Connected())
    assert script(status(alive=False)) == []
    assert script.state is State.FINDING


@pytest.mark.parametrize(
    ("topic", "payload", "count"),
    [
        (STATUS, b"alive", "statuses_malformed"),
        (STATUS, b"\xff", "statuses_malformed"),
        (STATUS, b'{"alive": true}', "statuses_malformed"),
        (STATUS, status(gateway="EDGE2").payload, "statuses_malformed"),
        ("mqloom/v1/%zz/status", status().payload, "messages_unexpected"),
        ("mqloom/v2/EDGE1/status", status().payload, "messages_unexpected"),
        ("stocks/YHOO", b"", "messages_unexpected"),
        ("mqloom/v1/EDGE1/out/you", envelope(1).payload, "messages_unexpected"),
        ("mqloom/v1/out/me", envelope(1).payload, "messages_unexpected"),
    ],
)
def test_what_is_no_status_is_counted_and_ignored(script: Script, topic: str, payload: bytes, count: str) -> None:
    script(Connected())
    assert script(MessageReceived(topic=topic, payload=payload)) == []
    assert script.subscriber.counts[count] == 1
    assert script.state is State.FINDING


def test_a_status_with_fields_of_a_later_release_is_understood(script: Script) -> None:
    script(Connected())
    payload = b'{"alive": true, "gateway": "EDGE1", "version": "9.0", "epoch": 1, "load": {"cpu": 0.5}}'
    script(MessageReceived(topic=STATUS, payload=payload))
    assert script.state is State.ASKING


# ---- asking ------------------------------------------------------------------------------------------------------


def test_it_is_served_when_every_name_is_answered() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    states = [script.state]
    for name in ("hot", "all"):
        assert script(established(name)) == [Tell(answer=Answer(answer="established", name=name))]
        states.append(script.state)
    assert states == [State.ASKING, State.ASKING, State.SERVED]


def test_a_refused_name_is_told_and_left_out_of_the_next_record() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    refused = Answer(answer="refused", name="hot", problem="expected a value", column=10)
    assert script(answered(refused)) == [Tell(answer=refused)]
    script(established("all"))
    assert script.state is State.SERVED
    assert written(script(Woke(), after=LEASE_S / 3)).subscriptions == {"all": ALL}


def test_when_everything_is_refused_the_record_is_deleted_and_it_fails(script: Script) -> None:
    script.ask()
    refused = Answer(answer="refused", name="hot", problem="not on the list")
    tell, delete, failed = script(answered(refused))
    assert (tell, delete) == (Tell(answer=refused), deleted())
    assert isinstance(failed, Failed)
    assert "EDGE1 refused every subscription" in failed.problem


def test_a_refusal_of_the_whole_record_refuses_all_that_is_open() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    refused = Answer(answer="refused", problem="this gateway serves 100000 clients already")
    effects = script(answered(refused))
    assert effects[:2] == [Tell(answer=replace(refused, name=name)) for name in ("hot", "all")]
    assert isinstance(effects[-1], Failed)


def test_a_refusal_of_the_whole_record_does_not_end_what_is_established(served: Script) -> None:
    assert served(answered(Answer(answer="refused", problem="somebody else's"))) == []
    assert served.state is State.SERVED


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", "answers_malformed"),
        (b"yes", "answers_malformed"),
        (b'{"answer": "maybe"}', "answers_malformed"),
        (encode_answer(Answer(answer="established", name="cold")), "answers_unexpected"),
        (encode_answer(Answer(answer="established")), "answers_unexpected"),
        (encode_answer(Answer(answer="ended")), "answers_unexpected"),
    ],
)
def test_what_is_no_answer_to_us_is_counted_and_ignored(script: Script, payload: bytes, count: str) -> None:
    script.ask()
    assert script(MessageReceived(topic=CTL, payload=payload)) == []
    assert script.subscriber.counts[count] == 1
    assert script.state is State.ASKING


def test_a_gateway_that_never_answers_is_given_up(script: Script) -> None:
    script.ask()
    assert written(script(Woke(), after=LEASE_S / 3)).subscriptions == {"hot": HOT}
    delete, failed = script(Woke(), after=ANSWER_S - LEASE_S / 3)
    assert delete == deleted()
    assert isinstance(failed, Failed)
    assert "answered nothing" in failed.problem
    assert f"let us write {RECORD} and read {CTL}?" in failed.problem


def test_a_gateway_that_has_answered_for_some_names_is_waited_for() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    script(established("hot"))
    for _ in range(10):
        assert not any(isinstance(effect, Failed) for effect in script(Woke(), after=ANSWER_S))
    assert script.state is State.ASKING


# ---- served ------------------------------------------------------------------------------------------------------


def test_the_lease_is_renewed_at_a_third(served: Script) -> None:
    for _ in range(3):
        record, wake = served(Woke(), after=LEASE_S / 3)
        assert written([record]).lease_s == LEASE_S
        assert wake == WakeAt(at=served.now + LEASE_S / 3)
        assert served(established()) == []  # the answer to a renewal is no news
        assert served.state is State.SERVED


def test_publications_are_delivered_in_order_with_our_names(served: Script) -> None:
    expected = [Deliver(publication=publication(sequence), names=("hot",)) for sequence in (4, 5)]
    assert served(envelope(4, 5, names=("cold", "hot"))) == expected


def test_duplicates_are_dropped_and_counted(served: Script) -> None:
    served(envelope(4, 5))
    assert served(envelope(5, 6)) == [Deliver(publication=publication(6), names=("hot",))]
    assert served.subscriber.counts["duplicates"] == 1


def test_what_only_an_earlier_record_of_our_name_wanted_is_dropped(served: Script) -> None:
    assert served(envelope(4, names=("cold",))) == []
    assert served.subscriber.counts["unwanted"] == 1
    assert served(envelope(4)) != []  # and that is no duplicate


@pytest.mark.parametrize("payload", [b"", b"\x02\x90", b"\x01", b"\x01\xc1", b"\x01\x91\x90", b"plain text"])
def test_a_malformed_envelope_is_counted_and_ignored(served: Script, payload: bytes) -> None:
    assert served(MessageReceived(topic=OUT, payload=payload)) == []
    assert served.subscriber.counts["envelopes_malformed"] == 1


def test_what_comes_before_the_answer_is_delivered_too(script: Script) -> None:
    script.ask()
    assert script(envelope(1)) == [Deliver(publication=publication(1), names=("hot",))]


def test_an_end_that_was_not_asked_for_is_answered_by_asking_again(served: Script) -> None:
    note, wake = served(ended(), after=10.0)
    assert isinstance(note, Note)
    assert wake == WakeAt(at=served.now)
    assert written(served(Woke())).subscriptions == {"hot": HOT}
    assert served(established()) == [Tell(answer=Answer(answer="established", name="hot"))]
    assert served.state is State.SERVED


def test_asking_again_is_not_done_at_once_after_a_record(served: Script) -> None:
    """Two clients of one name end each other's subscriptions: they must not do it without a pause."""
    _, wake = served(ended())
    assert wake == WakeAt(at=1_000.0 + ASK_AGAIN_S)
    assert served(ended()) == []


def test_an_end_of_what_was_refused_is_not_asked_for_again() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    script(answered(Answer(answer="refused", name="hot", problem="no")))
    script(established("all"))
    assert script(ended("hot")) == []
    assert script.state is State.SERVED


def test_what_a_kept_session_brings_before_a_gateway_is_found_is_delivered(script: Script) -> None:
    script(Connected())
    assert script(envelope(1)) == [Deliver(publication=publication(1), names=("hot",))]


def test_established_everywhere_is_told_after_partly(script: Script) -> None:
    script.ask()
    partly = Answer(answer="established", name="hot", partly=True)
    assert script(answered(partly)) == [Tell(answer=partly)]
    assert script(answered(partly)) == []
    assert script(established()) == [Tell(answer=Answer(answer="established", name="hot"))]
    assert script(established()) == []


# ---- faults ------------------------------------------------------------------------------------------------------


def test_a_gateway_that_goes_is_waited_for_and_asked_again(served: Script) -> None:
    (note,) = served(status(alive=False))
    assert isinstance(note, Note)
    assert "EDGE1 is gone" in note.text
    assert served(Woke(), after=10 * FIND_S) == []  # there was one: it may take its time
    assert served(envelope(1)) != []
    assert written(served(status(epoch=8))).subscriptions == {"hot": HOT}
    assert served(established()) == [Tell(answer=Answer(answer="established", name="hot"))]


def test_a_deleted_status_is_one_not_alive(served: Script) -> None:
    served(MessageReceived(topic=STATUS, payload=b""))
    assert served.state is State.FINDING


def test_a_gateway_that_restarted_unnoticed_is_asked_again(served: Script) -> None:
    assert written(served(status(epoch=8))).subscriptions == {"hot": HOT}
    assert served.state is State.ASKING


def test_a_status_that_says_nothing_new_changes_nothing(served: Script) -> None:
    assert served(status()) == []
    assert served.state is State.SERVED


def test_another_gateway_changes_nothing_while_ours_is_alive(served: Script) -> None:
    other = status(gateway="EDGE2", topic="mqloom/v1/EDGE2/status")
    assert served(other) == []
    served(status(alive=False, gateway="EDGE2", topic="mqloom/v1/EDGE2/status"))
    assert served.state is State.SERVED


def test_another_gateway_is_taken_when_ours_has_gone(served: Script) -> None:
    served(status(alive=False))
    effects = served(status(gateway="EDGE2", topic="mqloom/v1/EDGE2/status"))
    assert Subscribe(topic="mqloom/v1/EDGE2/out/me", qos=1) in effects
    assert served.state is State.ASKING


def test_after_a_lost_connection_everything_is_asked_again(served: Script) -> None:
    (note,) = served(ConnectionLost(problem="timeout"))
    assert isinstance(note, Note)
    assert "timeout" in note.text
    assert served(Woke(), after=LEASE_S) == []  # nothing can be written now
    assert served(Connected())[0] == Subscribe(topic="mqloom/v1/+/status", qos=1)
    assert served(envelope(1)) != []  # a kept session brings it before anything else
    assert written(served(status())).subscriptions == {"hot": HOT}
    assert served(envelope(1)) == []
    assert served(established()) == [Tell(answer=Answer(answer="established", name="hot"))]


def test_an_answer_to_an_earlier_record_counts_for_nothing(served: Script) -> None:
    served(ConnectionLost())
    served(Connected())
    assert served(ended()) == []
    assert served(established()) == []
    assert served.state is State.FINDING


@pytest.mark.parametrize("event", [ConnectionLost(), envelope(1)])
def test_what_cannot_happen_while_offline_is_the_drivers_mistake(script: Script, event: Event) -> None:
    with pytest.raises(AssertionError):
        script(event)


def test_connecting_twice_is_the_drivers_mistake(served: Script) -> None:
    with pytest.raises(AssertionError):
        served(Connected())


# ---- closing -----------------------------------------------------------------------------------------------------


def test_closing_deletes_the_record_and_waits_for_every_end() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    script(established("hot"))
    assert script(CloseRequested()) == [deleted(), WakeAt(at=script.now + CLOSE_S)]
    assert script(ended("hot")) == [Tell(answer=Answer(answer="ended", name="hot"))]
    assert script(established("all")) == []
    assert script(envelope(1, names=("all",))) != []  # what was under way still comes
    assert script(ended("all")) == [Tell(answer=Answer(answer="ended", name="all")), Finished()]
    assert script.state is State.CLOSED


def test_closing_does_not_wait_for_what_was_refused() -> None:
    script = Script(hot=HOT, all=ALL)
    script.ask()
    script(answered(Answer(answer="refused", name="hot", problem="no")))
    script(established("all"))
    script(CloseRequested())
    assert script(ended("all"))[-1] == Finished()


def test_closing_ends_in_time_without_an_answer(served: Script) -> None:
    served(CloseRequested())
    assert served(Woke(), after=CLOSE_S) == [Finished()]


@pytest.mark.parametrize("event", [CloseRequested(), ConnectionLost()])
def test_closing_ends_at_once_when_there_is_nothing_to_wait_for(served: Script, event: Event) -> None:
    served(CloseRequested())
    assert served(event) == [Finished()]


def test_closing_does_not_wait_for_a_gateway_that_has_gone(served: Script) -> None:
    served(status(alive=False))
    assert served(CloseRequested()) == [deleted(), Finished()]


@pytest.mark.parametrize(
    "event", [Connected(), ConnectionLost(), Woke(), CloseRequested(), status(), envelope(1), established()]
)
def test_after_the_end_nothing_happens(served: Script, event: Event) -> None:
    served(CloseRequested())
    served(ended())
    assert served(event) == []

"""A later life whose broker has kept its session, and what an earlier one wanted there."""

import pytest

from mqloom.client.journey import Journey, record_of
from mqloom.client.limits import READ_S
from mqloom.client.party import Manner
from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    Adopted,
    Connected,
    ConnectionLost,
    Effect,
    Event,
    MessageReceived,
    Publish,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import RECORD_SUBSCRIPTIONS_MAX
from mqloom.core.records import Status, Wish, decode_record, encode_status
from mqloom.lab.trip import A, B, Trip, found, order

ME, EDGE = ClientId("me"), GatewayId("EDGE")
HOT, COLD = Wish(topics="stocks/#", where="volume > 3"), Wish(topics="weather/#")
RECORD = layout.record(EDGE, ME)


def left(**wishes: Wish) -> bytes:
    return record_of(wishes, Journey(), qos=1, lease_s=60.0, token="")


class Life:
    """One subscriber, and all that it has asked for."""

    def __init__(self, *, adopts: bool = True) -> None:
        self.now = 0.0
        self.core = Subscriber(ME, {}, lasting=True, adopts=adopts)
        self.effects: list[Effect] = []

    def do(self, *events: Event) -> None:
        for event in events:
            self.effects += self.core.handle(event, self.now)
            self.core.check()

    def find(self) -> None:
        status = Status(alive=True, gateway=EDGE, version="1", epoch=1)
        self.do(MessageReceived(topic=layout.status(EDGE), payload=encode_status(status)))

    def read(self, record: bytes) -> None:
        """Let what is there come, and then our own probe."""
        if record:
            self.do(MessageReceived(topic=RECORD, payload=record, retain=True))
        probe = next(each for each in self.effects if isinstance(each, Publish) and not each.retain)
        self.do(MessageReceived(topic=RECORD, payload=probe.payload))

    @property
    def adopted(self) -> list[dict[str, Wish]]:
        return [each.wishes for each in self.effects if isinstance(each, Adopted)]

    @property
    def written(self) -> list[dict[str, Wish]]:
        """What its records ask for, each in turn; nothing where one is deleted."""
        records = [each for each in self.effects if isinstance(each, Publish) and each.retain]
        return [dict(decode_record(each.payload).subscriptions) if each.payload else {} for each in records]


def resumed(record: bytes, *before: Event) -> Life:
    life = Life()
    life.do(Connected(resumed=True), *before)
    life.find()
    life.read(record)
    return life


def test_one_that_says_nothing_goes_on_with_what_it_wanted() -> None:
    life = resumed(left(hot=HOT, cold=COLD))
    assert life.adopted == [{"hot": HOT, "cold": COLD}]
    assert life.written == [{"hot": HOT, "cold": COLD}]
    assert life.core.state is State.ASKING


def test_of_topics_that_it_names_again_only_what_it_says_now_counts() -> None:
    other = Wish(topics="stocks/#", where="volume > 5")
    life = resumed(left(hot=HOT, cold=COLD), WishAdded(name="new", wish=other))
    assert life.adopted == [{"cold": COLD}]
    assert life.written == [{"new": other, "cold": COLD}]


def test_what_it_has_taken_back_before_it_was_read_does_not_come_back() -> None:
    life = resumed(left(hot=HOT), WishAdded(name="hot", wish=HOT), WishRemoved(name="hot"))
    assert life.adopted == []
    assert life.written == [{}]  # nor does it stand on the broker
    assert life.core.state is State.SERVED


def test_with_nothing_there_and_nothing_wanted_nothing_is_written() -> None:
    life = resumed(b"")
    assert (life.adopted, life.written, life.core.state) == ([], [], State.IDLE)
    life.do(WishAdded(name="hot", wish=HOT))
    life.find()
    assert life.written == [{"hot": HOT}]


def test_a_broker_that_has_forgotten_the_session_has_nothing_to_adopt() -> None:
    life = Life()
    life.do(Connected(resumed=False))
    assert (life.core.state, life.effects) == (State.IDLE, [])
    life.do(ConnectionLost(), Connected(resumed=True))  # it is this life's own, now
    assert life.core.state is State.IDLE
    life.do(WishAdded(name="hot", wish=HOT))
    life.find()
    assert life.written == [{"hot": HOT}]


def test_one_that_is_not_to_adopt_asks_at_once() -> None:
    life = Life(adopts=False)
    life.do(Connected(resumed=True), WishAdded(name="hot", wish=HOT))
    life.find()
    assert life.written == [{"hot": HOT}]


@pytest.mark.parametrize("is_wanted", [False, True])
def test_where_the_record_cannot_be_read_it_goes_on_without_and_leaves_it_alone(is_wanted: bool) -> None:
    life = Life()
    life.do(Connected(resumed=True), *([WishAdded(name="hot", wish=HOT)] if is_wanted else []))
    life.find()
    life.now = READ_S
    life.do(Woke())
    assert life.written == ([{"hot": HOT}] if is_wanted else [])
    assert life.core.state is (State.ASKING if is_wanted else State.IDLE)


def test_a_record_of_somebody_else_is_not_adopted() -> None:
    for record in (b"{", b'{"subscriptions": {"hot": {"topics": "stocks/#"}}}'):  # the second is of a plain client
        assert resumed(record).adopted == []


def test_no_more_is_adopted_than_a_record_can_hold() -> None:
    many = {f"w{number}": Wish(topics=f"t/{number}") for number in range(RECORD_SUBSCRIPTIONS_MAX)}
    life = resumed(left(**many), WishAdded(name="hot", wish=HOT))
    assert len(life.written[-1]) == RECORD_SUBSCRIPTIONS_MAX


def test_a_connection_that_is_lost_while_it_reads_is_read_again() -> None:
    life = Life()
    life.do(Connected(resumed=True))
    life.find()
    life.do(ConnectionLost(), Connected(resumed=True))
    life.find()
    life.read(left(hot=HOT))
    assert life.written == [{"hot": HOT}]


# ---- one that is moved -----------------------------------------------------------------------------------------------


def wishless(record: bytes) -> Trip:
    """Return a later life of a client that is moved, which subscribes to nothing."""
    return Trip(record, wishes={}, manner=Manner(adopts=True))


def test_a_traveller_adopts_where_it_comes_back() -> None:
    trip = wishless(found())
    assert trip.core.home.core.wishes == {"w": Wish(topics="a/#")}
    assert decode_record(trip.records[A][-1]).subscriptions == {"w": Wish(topics="a/#")}


def test_killed_while_it_left_it_goes_on_to_the_other_with_what_it_wanted() -> None:
    trip = wishless(found(leaving_to="B"))
    assert trip.roles() == {"A": "WAITING", "B": "TARGET"}
    trip.arrive(1, found(moved_from="A"))
    assert decode_record(trip.records[B][-1]).subscriptions == {"w": Wish(topics="a/#")}


def test_what_it_finds_where_it_went_on_is_wanted_at_both() -> None:
    trip = wishless(found(moved_to="B"))
    trip.arrive(1, found())
    assert {name: leg.core.wishes for name, leg in zip(trip.roles(), trip.core.legs.values(), strict=True)} == {
        "A": {"w": Wish(topics="a/#")},
        "B": {"w": Wish(topics="a/#")},
    }


def test_a_target_of_a_move_has_nothing_to_adopt() -> None:
    trip = Trip(manner=Manner(adopts=True))
    trip.establish(0)
    trip.order(order())
    trip.arrive(1, record_of({"old": COLD}, Journey(incarnation="life 0"), qos=1, lease_s=60.0, token=""))
    assert trip.core.home.core.wishes == {"w": Wish(topics="a/#")}
    assert not [each for each in trip.effects if isinstance(each, Adopted)]

"""A client that is moved waits for its own record where publications may stand before it, and says so."""

from typing import Any

from mqloom.client.journey import Journey
from mqloom.client.legs import ForLeg
from mqloom.client.limits import FAILOVER_S, READ_HELD_S, READ_HELD_S_MAX, READ_S, READ_TRIES
from mqloom.client.party import Manner
from mqloom.client.vocabulary import Connected, ConnectionLost, Publish, Unserved, WishAdded
from mqloom.core import layout
from mqloom.core.orders import sign_roster
from mqloom.core.records import Status, Wish, encode_status
from mqloom.lab.trip import ANN, KEY, ROSTER, A, Trip, envelope, found


def reading(**options: Any) -> Trip:
    """Return one whose record of an earlier life has not come, at a broker that is alive."""
    trip = Trip.__new__(Trip)
    trip.begin(A, **options)
    trip.happen(0, Connected(resumed=True))
    trip.hear(0, layout.roster(), sign_roster(ROSTER, KEY))
    status = Status(alive=True, gateway=A, version="1", epoch=1)
    trip.hear(0, layout.status(A), encode_status(status))
    return trip


def test_what_is_not_read_yet_is_not_written_over() -> None:
    trip = reading()
    for _ in range(READ_TRIES - 1):
        trip.wait(READ_S)
    assert trip.records[A] == []
    trip.hear(0, layout.record(A, ANN), found(moved_to="B"))
    trip.wait(READ_S)
    assert trip.roles() == {"A": "WAITING", "B": "TARGET"}


def probes(trip: Trip) -> list[Publish]:
    orders = [each.effect for each in trip.effects if isinstance(each, ForLeg)]
    return [each for each in orders if isinstance(each, Publish) and not each.retain]


def test_what_may_wait_behind_publications_that_an_application_holds_is_waited_for() -> None:
    trip = reading()
    trip.hear(0, layout.out(A, ANN), envelope(1))  # and more, as many as a broker sends unacknowledged
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    assert trip.records[A] == []
    (unserved,) = [each for each in trip.effects if isinstance(each, Unserved)]
    assert unserved.names == ("w",)
    assert "an earlier life" in unserved.problem
    for sequence in range(2, 5):  # the application takes one now and then, and the next comes
        trip.wait(READ_HELD_S - 1.0)
        trip.hear(0, layout.out(A, ANN), envelope(sequence))
        trip.wait(1.0)
    assert trip.records[A] == []
    assert len([each for each in trip.effects if isinstance(each, Unserved)]) == 1
    trip.hear(0, layout.record(A, ANN), found(leaving_to="B"))
    trip.hear(0, layout.record(A, ANN), probes(trip)[-1].payload)
    assert trip.roles() == {"A": "WAITING", "B": "TARGET"}
    assert trip.records[A] == []


def missed(trip: Trip, name: str) -> list[tuple[str, ...]]:
    """Add a subscription; return for which ones the user is told, now, that nobody answers."""
    effects = trip.handle(WishAdded(name=name, wish=Wish(topics=f"{name}/#")))
    return [each.names for each in effects if isinstance(each, Unserved)]


def test_what_is_asked_for_while_the_record_is_late_is_answered_at_once_and_alone() -> None:
    trip = reading()
    trip.hear(0, layout.out(A, ANN), envelope(1))
    assert missed(trip, "v") == []  # there is time yet
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    assert [each.names for each in trip.effects if isinstance(each, Unserved)] == [("w", "v")]
    trip.wait(20.0)
    assert missed(trip, "x") == [("x",)]
    trip.hear(0, layout.record(A, ANN), found(moved_to="B"))
    trip.hear(0, layout.record(A, ANN), probes(trip)[-1].payload)
    assert trip.roles() == {"A": "WAITING", "B": "TARGET"}
    assert missed(trip, "y") == []  # it has come


def test_one_that_wanted_nothing_when_the_record_got_late_is_answered_when_it_asks() -> None:
    trip = reading(wishes={}, manner=Manner(adopts=True))
    trip.hear(0, layout.out(A, ANN), envelope(1))
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    assert not any(isinstance(each, Unserved) for each in trip.effects)
    assert missed(trip, "v") == [("v",)]


def test_where_nothing_comes_any_more_it_is_served_all_the_same() -> None:
    trip = reading()
    trip.hear(0, layout.out(A, ANN), envelope(1))
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    trip.wait(READ_HELD_S)
    assert trip.journey(A) == Journey(incarnation="life 1")


def test_where_a_record_cannot_be_read_and_publications_flow_it_is_served_after_a_while() -> None:
    trip = reading()
    while trip.now < READ_HELD_S_MAX:
        assert trip.records[A] == []
        trip.hear(0, layout.out(A, ANN), envelope(int(trip.now) + 1))
        trip.wait(READ_S)
    trip.wait(READ_HELD_S)
    assert trip.journey(A) == Journey(incarnation="life 1")


def test_one_that_has_read_late_is_given_time_to_be_served_before_another_broker_is_tried() -> None:
    trip = reading()
    trip.hear(0, layout.out(A, ANN), envelope(1))
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    trip.wait(FAILOVER_S)
    trip.hear(0, layout.record(A, ANN), probes(trip)[-1].payload)
    trip.wait(FAILOVER_S - 1.0)
    assert trip.roles() == {"A": "HOME"}
    trip.wait(1.0)
    assert "TARGET" in trip.roles().values()


def test_with_another_connection_it_is_asked_anew_for_what_is_there() -> None:
    trip = reading()
    trip.hear(0, layout.out(A, ANN), envelope(1))
    trip.happen(0, ConnectionLost())
    trip.happen(0, Connected(resumed=True))
    trip.hear(0, layout.status(A), encode_status(Status(alive=True, gateway=A, version="1", epoch=1)))
    for _ in range(READ_TRIES):
        trip.wait(READ_S)
    assert trip.journey(A) == Journey(incarnation="life 1")

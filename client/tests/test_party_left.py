"""Brokers that were left: our record names each until it has forgotten our session, for a later life of ours."""

import pytest
from msgspec.structs import replace

from mqloom.client.journey import Journey, wishes_in
from mqloom.client.legs import CloseLeg, Forgotten, OpenLeg
from mqloom.client.limits import ENDED_S, FAILOVER_S, LINGER_S, REACH_S
from mqloom.client.vocabulary import CloseRequested, Connected, ConnectionLost, WishRemoved
from mqloom.core.ids import GatewayId
from mqloom.core.records import Answer
from mqloom.lab.trip import A, B, C, Trip, found, moving, order, served


def moved() -> Trip:
    """Return one that has moved from A to B, and A has not forgotten it yet."""
    trip = moving()
    trip.arrive(1)
    trip.establish(1)
    trip.say(0, Answer(answer="ended"))
    assert trip.roles() == {"B": "HOME"}
    return trip


def going(trip: Trip, at: GatewayId) -> Journey:
    """Return the journey that the record there tells, without where it has led before: that is told elsewhere."""
    journey = trip.journey(at)
    assert journey is not None
    return replace(journey, visited=())


def to_c(trip: Trip) -> None:
    trip.order(order(source=B, to=C, session="again"), 1)


def test_a_broker_that_was_left_is_named_until_it_has_forgotten_us() -> None:
    trip = moved()
    assert going(trip, B) == Journey(incarnation="life 1", left="A")
    trip.happen(0, Forgotten())
    assert going(trip, B) == Journey(incarnation="life 1")


def test_it_is_told_once() -> None:
    trip = moved()
    trip.happen(0, Forgotten())
    assert trip.happen(0, Forgotten()) == []
    assert trip.happen(7, Forgotten()) == []


def test_a_later_life_that_reads_of_one_sees_that_it_forgets() -> None:
    trip = Trip(found(left="A"), at=B)
    assert trip.roles() == {"B": "HOME", "A": "OLD"}
    assert going(trip, B) == Journey(incarnation="life 1", left="A")  # should this one die, too
    trip.establish(0)
    trip.arrive(1, found(moved_to="B"))
    assert CloseLeg(leg=1, forget=True) in trip.effects
    trip.happen(1, Forgotten())
    assert going(trip, B) == Journey(incarnation="life 1")


def test_one_that_goes_on_names_it_at_every_broker_until_then() -> None:
    trip = moved()
    to_c(trip)
    assert going(trip, B) == Journey(incarnation="life 1", moving_to="C", left="A")
    trip.arrive(2)
    assert going(trip, C) == Journey(incarnation="life 1", moved_from="B", left="A")
    trip.happen(0, Forgotten())
    assert going(trip, B) == Journey(incarnation="life 1", moving_to="C")


def test_two_that_were_left_are_named_one_after_the_other() -> None:
    trip = moved()
    to_c(trip)
    trip.arrive(2)
    trip.establish(2)
    trip.say(1, Answer(answer="ended"))
    assert going(trip, C) == Journey(incarnation="life 1", left="A")
    trip.happen(0, Forgotten())
    assert going(trip, C) == Journey(incarnation="life 1", left="B")
    trip.happen(1, Forgotten())
    assert going(trip, C) == Journey(incarnation="life 1")


def test_one_that_goes_back_does_not_wait_to_be_forgotten_there() -> None:
    trip = moved()
    trip.order(order(source=B, to=A, session="back"), 1)
    assert going(trip, B) == Journey(incarnation="life 1", moving_to="A")
    assert any(isinstance(effect, OpenLeg) and effect.gateway == A for effect in trip.effects)
    trip.arrive(2, found(moved_to="B"))
    trip.establish(2)
    trip.say(1, Answer(answer="ended"))
    assert trip.roles() == {"A": "HOME"}
    assert going(trip, A) == Journey(incarnation="life 1", left="B")
    trip.happen(1, Forgotten())
    assert going(trip, A) == Journey(incarnation="life 1")


def test_one_that_is_given_up_is_named_and_we_can_be_moved_all_the_same() -> None:
    trip = moving()
    trip.arrive(1)
    trip.establish(1)
    trip.happen(0, ConnectionLost())
    trip.wait(LINGER_S)
    assert going(trip, B) == Journey(incarnation="life 1", left="A")
    wall = 1_000.0 + trip.now
    trip.order(order(source=B, to=C, session="again", issued_at=wall, expires_at=wall + 30), 1)
    assert trip.roles() == {"B": "HOME", "C": "TARGET"}


def test_what_is_left_at_a_broker_of_no_roster_stays_named() -> None:
    trip = Trip(found(left="D"))
    trip.establish(0)
    assert trip.roles() == {"A": "HOME"}
    assert going(trip, A) == Journey(incarnation="life 1", left="D")
    trip.order(order())
    assert going(trip, A) == Journey(incarnation="life 1", moving_to="B", left="D")


# ---- and nothing is wanted any more --------------------------------------------------------------------------------


def unsubscribed(trip: Trip) -> Trip:
    """Let the only subscription be removed, and whatever has not answered that by then be late."""
    trip.handle(WishRemoved(name="w"))
    trip.wait(ENDED_S)
    return trip


@pytest.mark.parametrize("is_before", [False, True])
def test_a_broker_that_was_away_is_left_as_any_other_though_nothing_is_wanted_by_then(is_before: bool) -> None:
    trip = served()
    trip.happen(0, ConnectionLost())
    if is_before:
        unsubscribed(trip)
    trip.wait(FAILOVER_S)
    assert trip.roles() == {"A": "HOME", "C": "TARGET"}
    trip.arrive(1)
    if not is_before:
        trip.establish(1)
        unsubscribed(trip)
    assert trip.roles() == {"A": "OLD", "C": "HOME"}
    trip.arrive(0)
    assert going(trip, A) == Journey(incarnation="life 1", leaving_to="C")
    assert wishes_in(trip.records[A][-1]) == {}
    effects = trip.say(0, Answer(answer="ended"))
    assert going(trip, A) == Journey(incarnation="life 1", moved_to="C")
    assert CloseLeg(leg=0, forget=True) in effects
    assert trip.core.counts["given up"] == 0


def test_what_an_earlier_life_has_at_a_broker_that_was_away_is_read_and_left_though_nothing_is_wanted_by_then() -> None:
    trip = Trip(found(moving_to="B"))
    trip.establish(0)
    unsubscribed(trip)
    assert trip.roles() == {"A": "HOME", "B": "OLD"}
    trip.arrive(1, found(moved_from="A"))
    assert going(trip, B) == Journey(incarnation="life 1", leaving_to="A")
    trip.say(1, Answer(answer="ended"))
    assert going(trip, B) == Journey(incarnation="life 1", moved_to="A")
    assert trip.roles() == {"A": "HOME"}


def test_where_an_earlier_life_was_served_and_that_is_away_it_is_left_though_nothing_is_wanted_by_then() -> None:
    trip = Trip(found(moved_to="B"))
    trip.wait(REACH_S)
    trip.establish(0)
    unsubscribed(trip)
    assert trip.roles() == {"A": "HOME", "B": "OLD"}
    trip.arrive(1, found())
    assert going(trip, B) == Journey(incarnation="life 1", leaving_to="A")


def test_where_it_goes_it_has_read_what_is_there_though_it_wants_nothing_and_leaves_no_session_when_it_closes() -> None:
    trip = served()
    trip.happen(0, ConnectionLost())
    unsubscribed(trip)
    trip.wait(FAILOVER_S)
    trip.happen(1, Connected(resumed=False))
    assert trip.roles() == {"A": "HOME", "C": "TARGET"}
    trip.happen(1, ConnectionLost())
    trip.arrive(1)
    assert trip.roles() == {"A": "OLD", "C": "HOME"}
    trip.handle(CloseRequested())
    assert CloseLeg(leg=1, forget=True) in trip.effects

"""A client that is moved: what it obeys, what it tells its driver, and what it leaves behind."""

from typing import Any

import pytest

from mqloom.client.cores import handled
from mqloom.client.journey import Journey
from mqloom.client.legs import CloseLeg, Forgotten, ForLeg, Migrated, OpenLeg, Stayed, TurnedAway
from mqloom.client.limits import CLOSE_S, FAILOVER_S, LINGER_S, MOVE_S, REACH_S
from mqloom.client.states import State
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Finished,
    Publish,
    Tell,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import (
    Roster,
    RosterBroker,
    sign_roster,
)
from mqloom.core.records import Answer, Wish
from mqloom.lab.trip import ANN, KEY, OTHER_KEY, ROSTER, A, B, C, Trip, envelope, found, moving, order, served

# ---- orders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": OTHER_KEY}, "key"),
        ({"federation": "g"}, "federation"),
        ({"client": ClientId("bob")}, "client"),
        ({"incarnation": "life 0"}, "incarnation"),
        ({"source": C}, "elsewhere"),
        ({"issued_at": 10.0, "expires_at": 20.0}, "expired"),
        ({"to": GatewayId("D")}, "target"),
        ({"to": A}, "target"),
    ],
)
def test_an_order_that_does_not_count_moves_nobody_and_is_counted(changes: dict[str, Any], reason: str) -> None:
    trip = served()
    trip.order(order(**changes))
    assert trip.roles() == {"A": "HOME"}
    assert trip.core.counts[f"refused: {reason}"] == 1
    assert trip.answers == []


def test_an_order_once_more_moves_nobody() -> None:
    trip = moving()
    trip.wait(MOVE_S)
    assert trip.roles() == {"A": "HOME"}
    trip.order(order())
    assert trip.core.counts["refused: replayed"] == 1


@pytest.mark.parametrize(("behind_s", "reason"), [(90.0, "early"), (-120.0, "expired")])
def test_a_clock_that_was_wrong_and_is_set_right_obeys_from_then_on(behind_s: float, reason: str) -> None:
    """So does one that stood still while the machine slept: nothing is kept of what time it was."""
    trip = served()
    trip.wall_offset_s -= behind_s
    trip.order(order())
    assert trip.core.counts[f"refused: {reason}"] == 1
    trip.wall_offset_s += behind_s
    trip.order(order())
    assert trip.roles() == {"A": "HOME", "B": "TARGET"}


@pytest.mark.parametrize("ahead_s", [-59.0, 29.0, 31.0, 59.0])
def test_a_clock_that_differs_by_less_than_a_minute_leaves_as_much_time_as_the_order_has(ahead_s: float) -> None:
    trip = served()
    trip.wall_offset_s += ahead_s
    trip.order(order())  # it lasts for 30 s
    trip.wait(29.0)
    assert trip.roles() == {"A": "HOME", "B": "TARGET"}
    trip.wait(1.0)
    assert trip.roles() == {"A": "HOME"}
    assert "has not served us in time" in trip.answers[-1][1]


@pytest.mark.parametrize(("lasts_s", "bound_s"), [(3_000.0, MOVE_S), (-5.0, 0.0)])
def test_no_move_takes_longer_than_a_minute_whatever_the_order_says(lasts_s: float, bound_s: float) -> None:
    trip = served()
    trip.order(order(expires_at=1_000.0 + lasts_s))
    trip.wait(bound_s)
    assert trip.roles() == {"A": "HOME"}


def test_the_driver_reads_the_time_of_day_with_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    trip = served()
    for wall in (1_000.0, 5_000.0):
        monkeypatch.setattr("mqloom.client.cores.time.time", lambda wall=wall: wall)
        handled(trip.core, None, Woke())
        assert trip.core._summons.wall == wall


def test_a_roster_with_a_wrong_key_is_no_roster() -> None:
    trip = served()
    forged = Roster(federation="f", serial=9, brokers={**ROSTER.brokers, GatewayId("D"): RosterBroker(host="evil")})
    trip.hear(0, layout.roster(), sign_roster(forged, OTHER_KEY))
    trip.order(order(to=GatewayId("D")))
    assert trip.core.counts["refused: key"] == 1
    assert trip.core.counts["refused: target"] == 1
    assert trip.roles() == {"A": "HOME"}


# ---- a move --------------------------------------------------------------------------------------------------------


def test_it_writes_down_where_it_goes_before_it_goes() -> None:
    trip = served()
    effects = trip.order(order())
    kinds = [effect.effect if isinstance(effect, ForLeg) else effect for effect in effects]
    written = next(index for index, each in enumerate(kinds) if isinstance(each, Publish) and each.retain)
    opened = next(index for index, each in enumerate(kinds) if isinstance(each, OpenLeg))
    assert written < opened
    assert trip.journey(A) == Journey(incarnation="life 1", moving_to="B")
    assert trip.answers == [("moving", "")]


def test_it_leaves_when_the_target_serves_it_and_goes_when_all_has_come() -> None:
    trip = moving()
    trip.arrive(1)
    assert trip.journey(B) == Journey(incarnation="life 1", moved_from="A")
    trip.establish(1, partly=True)
    assert trip.roles() == {"A": "HOME", "B": "TARGET"}
    assert Migrated(source="A", to="B") in trip.establish(1)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}
    assert trip.journey(A) == Journey(incarnation="life 1", leaving_to="B")
    effects = trip.say(0, Answer(answer="ended"))
    assert CloseLeg(leg=0, forget=True) in effects
    assert trip.journey(A) == Journey(incarnation="life 1", moved_to="B")
    assert trip.journey(B) == Journey(incarnation="life 1", left="A", visited=(A,))
    assert trip.roles() == {"B": "HOME"}
    assert [answer for answer, _ in trip.answers] == ["moving", "arrived", "moved"]


def test_what_comes_by_both_ways_is_given_out_once_whatever_is_done_at_the_other() -> None:
    trip = moving()
    trip.arrive(1)
    trip.establish(1)

    given = [*trip.hear(1, layout.out(B, ANN), envelope(7)), *trip.hear(0, layout.out(A, ANN), envelope(5))]
    given += [*trip.hear(0, layout.out(A, ANN), envelope(7)), *trip.hear(1, layout.out(B, ANN), envelope(5))]
    assert [each.publication.sequence for each in given if isinstance(each, Deliver)] == [7, 5]


def test_a_target_that_refuses_is_left_without_a_trace() -> None:
    trip = moving()
    trip.arrive(1)
    effects = trip.say(1, Answer(answer="refused", name="w", problem="not you"))
    assert any(isinstance(effect, Stayed) and "refuses w" in effect.problem for effect in effects)
    assert CloseLeg(leg=1, forget=True) in effects
    assert trip.records[B][-1] == b""
    assert trip.journey(A) == Journey(incarnation="life 1", left="B")
    trip.happen(1, Forgotten())
    assert trip.journey(A) == Journey(incarnation="life 1")
    assert trip.answers[-1][0] == "stayed"


def test_a_target_that_does_not_let_us_in_is_given_up_at_once_and_says_why() -> None:
    trip = moving()
    effects = trip.happen(1, TurnedAway(reason="it does not take our user name and password"))
    problem = (
        "the broker of B does not let us in: it does not take our user name and password; "
        "is our account the same at each broker?"
    )
    assert Stayed(to=B, problem=problem) in effects
    assert CloseLeg(leg=1, forget=False) in effects
    assert trip.answers[-1] == ("stayed", problem)
    assert trip.journey(A) == Journey(incarnation="life 1")


def test_where_an_earlier_life_was_served_is_waited_for_even_if_it_lets_us_in_only_later() -> None:
    trip = Trip(found(moved_to=B))
    roles = trip.roles()
    assert roles["B"] == "TARGET"
    trip.happen(1, TurnedAway(reason="it does not let us in"))
    assert trip.roles() == roles


def test_a_broker_that_does_not_let_us_in_again_is_tried_on() -> None:
    trip = served()
    trip.happen(0, ConnectionLost())
    assert trip.happen(0, TurnedAway(reason="it does not let us in")) == []


def test_a_target_that_was_there_and_is_gone_is_tidied_up_when_it_is_back() -> None:
    trip = moving()
    trip.arrive(1)
    trip.happen(1, ConnectionLost())
    trip.wait(MOVE_S)
    assert trip.roles() == {"A": "HOME", "B": "ERASING"}
    trip.happen(1, Connected(resumed=True))
    assert trip.records[B][-1] == b""
    assert trip.roles() == {"A": "HOME"}


def test_if_the_old_broker_is_away_whoever_is_in_reach_is_enough() -> None:
    trip = moving()
    trip.happen(0, ConnectionLost())
    trip.arrive(1)
    trip.establish(1, partly=True)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}
    trip.wait(LINGER_S)
    assert trip.roles() == {"B": "HOME"}
    assert trip.core.counts["given up"] == 1


def test_a_second_order_waits_for_no_move_and_is_answered() -> None:
    trip = moving()
    trip.order(order(session="t", to=C))
    assert trip.answers[-1] == ("stayed", "a move is under way already")


def test_if_nobody_serves_it_the_next_of_the_roster_is_tried() -> None:
    trip = served()
    trip.happen(0, ConnectionLost())
    trip.wait(FAILOVER_S)
    assert trip.roles()["A"] == "HOME"
    assert "TARGET" in trip.roles().values()


def test_subscriptions_that_change_during_a_move_change_at_both() -> None:
    trip = moving()
    trip.arrive(1)
    trip.handle(WishAdded(name="v", wish=Wish(topics="b/#")))
    trip.wait(1.0)
    assert all(b'"v"' in trip.records[gateway][-1] for gateway in (A, B))
    trip.handle(WishRemoved(name="v"))
    trip.wait(1.0)
    assert all(b'"v"' not in trip.records[gateway][-1] for gateway in (A, B))


def test_what_a_target_refuses_is_not_told_and_what_has_ended_is_told_when_it_has_at_both() -> None:
    trip = moving()
    trip.arrive(1)
    assert not any(isinstance(each, Tell) for each in trip.say(1, Answer(answer="refused", name="w", problem="no")))
    trip = moving()
    trip.arrive(1)
    trip.establish(1, partly=True)
    trip.handle(WishRemoved(name="w"))
    assert not any(isinstance(each, Tell) for each in trip.say(1, Answer(answer="ended", name="w")))
    assert any(isinstance(each, Tell) for each in trip.say(0, Answer(answer="ended", name="w")))


def test_as_long_as_it_does_not_know_where_it_is_it_goes_nowhere() -> None:
    trip = Trip.__new__(Trip)
    trip.begin(A)
    trip.happen(0, Connected(resumed=False))
    trip.hear(0, layout.roster(), sign_roster(ROSTER, KEY))
    trip.wait(10 * FAILOVER_S)
    assert trip.roles() == {"A": "HOME"}


def test_a_second_broker_that_dies_does_not_wait_for_the_first() -> None:
    trip = moving()
    trip.arrive(1)
    trip.happen(0, ConnectionLost())
    trip.establish(1, partly=True)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}
    trip.happen(1, ConnectionLost())
    trip.wait(FAILOVER_S)
    assert trip.roles() == {"A": "OLD", "B": "HOME", "C": "TARGET"}


# ---- a later life --------------------------------------------------------------------------------------------------


def test_one_that_was_moving_stays_and_leaves_the_other() -> None:
    trip = Trip(found(moving_to="B"))
    assert trip.roles() == {"A": "HOME", "B": "OLD"}
    assert trip.journey(A) == Journey(incarnation="life 1", moving_to="B")
    trip.establish(0)
    trip.arrive(1, found(moved_from="A"))
    assert trip.journey(B) == Journey(incarnation="life 1", leaving_to="A")
    trip.say(1, Answer(answer="ended"))
    assert trip.roles() == {"A": "HOME"}
    assert trip.journey(A) == Journey(incarnation="life 1", left="B")
    trip.happen(1, Forgotten())
    assert trip.journey(A) == Journey(incarnation="life 1")


def test_one_that_had_arrived_goes_where_it_was_served() -> None:
    trip = Trip(found(leaving_to="B"))
    assert trip.roles() == {"A": "WAITING", "B": "TARGET"}
    assert trip.records[A] == []
    trip.arrive(1, found(moved_from="A"))
    trip.establish(1, partly=True)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}


def test_one_that_had_moved_on_follows_its_own_word() -> None:
    trip = Trip(found(moved_to="B"))
    trip.arrive(1, found(moved_to="C"))
    assert trip.roles() == {"A": "WAITING", "C": "TARGET"}
    trip.arrive(2, found())
    trip.establish(2)
    assert trip.roles()["C"] == "HOME"


def test_if_that_broker_is_not_there_it_is_served_here_and_leaves_it_later() -> None:
    trip = Trip(found(moved_to="B"))
    trip.wait(REACH_S)
    assert trip.roles() == {"A": "HOME", "B": "OLD"}
    assert trip.journey(A) == Journey(incarnation="life 1", moving_to="B")
    trip.establish(0)
    trip.arrive(1, found())
    assert trip.journey(B) == Journey(incarnation="life 1", leaving_to="A")


def test_one_that_comes_back_at_the_target_leaves_the_other() -> None:
    trip = Trip(found(moved_from="A"), at=B)
    assert trip.roles() == {"B": "HOME", "A": "OLD"}
    trip.arrive(1, found(moved_to="B"))  # there is nothing to leave
    assert trip.roles() == {"B": "HOME"}
    trip.happen(1, Forgotten())
    assert trip.journey(B) == Journey(incarnation="life 1", visited=(A,))


def test_a_word_about_a_broker_that_is_in_no_roster_is_not_followed() -> None:
    trip = Trip(found(moved_to="D"))
    assert trip.roles() == {"A": "HOME"}
    assert trip.journey(A) == Journey(incarnation="life 1", moving_to="D")  # a later life may have another roster
    assert trip.core.home.core.state is State.ASKING


# ---- the end -------------------------------------------------------------------------------------------------------


def test_closed_it_leaves_all_brokers() -> None:
    trip = moving()
    trip.arrive(1)
    trip.handle(CloseRequested())
    assert trip.roles() == {"A": "HOME"}
    assert trip.say(0, Answer(answer="ended", name="w"))[-1] == Finished()
    assert trip.records[A][-1] == trip.records[B][-1] == b""
    assert not trip.core.legs


def test_closed_it_waits_a_little_for_a_broker_that_is_not_there() -> None:
    trip = Trip(found(moving_to="B"))
    trip.handle(CloseRequested())
    trip.say(0, Answer(answer="ended", name="w"))
    assert trip.roles() == {"B": "ERASING"}
    assert trip.wait(CLOSE_S)[-1] == Finished()


def test_what_happens_to_a_leg_that_was_given_up_is_nobodys() -> None:
    trip = served()
    assert trip.happen(9, ConnectionLost()) == []
    assert trip.roles() == {"A": "HOME"}


# ---- where it has been -----------------------------------------------------------------------------------------------


def test_its_record_names_all_brokers_where_it_was_before_and_a_later_life_goes_on_with_that() -> None:
    trip = moving()
    trip.arrive(1)
    trip.establish(1)
    trip.say(0, Answer(answer="ended"))
    moved = trip.journey(B)
    assert moved is not None
    assert (moved.moved_from, moved.visited) == ("", (A,))
    trip.order(order(source=B, to=C, session="t"), leg=1)
    trip.arrive(2)
    moved = trip.journey(C)
    assert moved is not None
    assert (moved.moved_from, moved.visited) == ("B", (A,))
    later = Trip(found(visited=(A,), moved_from=B), at=C)
    assert {*later.core._party.visited} == {A, B}


def test_where_it_is_it_has_not_been_before_and_a_move_that_fails_is_none() -> None:
    later = Trip(found(visited=(A, B)), at=A)
    settled = later.journey(A)
    assert settled is not None
    assert settled.visited == (B,)
    trip = moving()
    trip.wait(MOVE_S)
    stayed = trip.journey(A)
    assert stayed is not None
    assert stayed.visited == ()

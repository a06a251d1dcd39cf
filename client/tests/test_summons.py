"""A broker that sends its client elsewhere by itself: where that counts, and what comes of it."""

import pytest

from mqloom.client.journey import Journey, record_of
from mqloom.client.legs import CloseLeg, Migrated, OpenLeg, Referred, Stayed, TravelEffect
from mqloom.client.limits import FAILOVER_S, MOVE_S, REFER_S
from mqloom.client.vocabulary import Connected, ConnectionLost
from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.orders import Roster, RosterBroker, sign_roster
from mqloom.core.records import Answer
from mqloom.lab.trip import KEY, ROSTER, STRANGER, WISHES, A, B, C, Trip, order, served


def refer(trip: Trip, reference: str, leg: int = 0, *, tls: bool = False) -> list[TravelEffect]:
    """Let the broker end the connection, and name another place."""
    if trip.core.legs[leg].is_up:
        trip.happen(leg, ConnectionLost())
    return trip.happen(leg, Referred(reference=reference, host="a", port=1883, tls=tls))


def opened(effects: list[TravelEffect]) -> list[tuple[GatewayId | None, str, int, bool]]:
    found = [effect for effect in effects if isinstance(effect, OpenLeg)]
    return [(each.gateway, each.broker.host, each.broker.port, each.broker.tls) for each in found]


# ---- the roster's ----------------------------------------------------------------------------------------------------


def test_a_place_of_the_roster_is_a_move_and_the_old_broker_is_left_when_it_is_back() -> None:
    trip = served()
    assert opened(refer(trip, "b:1883")) == [(B, "B", 1883, False)]
    trip.arrive(1)
    assert trip.journey(B) == Journey(incarnation="life 1", moved_from="A")
    trip.establish(1, partly=True)  # A is out of reach for us; for the federation it may be, too
    assert Migrated(source="A", to="B") in trip.effects
    assert trip.roles() == {"A": "OLD", "B": "HOME"}
    trip.arrive(0)
    assert trip.journey(A) == Journey(incarnation="life 1", leaving_to="B")
    trip.say(0, Answer(answer="ended"))
    assert CloseLeg(leg=0, forget=True) in trip.effects
    assert trip.roles() == {"B": "HOME"}


def test_of_several_places_the_first_of_the_roster_counts() -> None:
    trip = served()
    assert opened(refer(trip, "elsewhere:1 b c")) == [(B, "B", 1883, False)]


def test_one_that_only_publishes_goes_there_too_as_soon_as_a_gateway_answers() -> None:
    trip = Trip.__new__(Trip)
    trip.begin(A, wishes={})
    trip.happen(0, Connected(resumed=False))
    trip.hear(0, layout.roster(), sign_roster(ROSTER, KEY))
    refer(trip, "b")
    trip.happen(1, Connected(resumed=False))
    trip.wait(MOVE_S - 1.0)
    assert trip.roles() == {"A": "HOME", "B": "TARGET"}
    trip.happen(1, ConnectionLost())
    trip.arrive(1)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}


def test_an_address_of_the_roster_is_taken_as_the_roster_has_it_with_tls_or_without() -> None:
    roster = Roster(
        federation="f", serial=2, brokers={**ROSTER.brokers, B: RosterBroker(host="b", port=8883, tls=True)}
    )
    trip = served()
    trip.hear(0, layout.roster(), sign_roster(roster, KEY))
    assert opened(refer(trip, "b:8883")) == [(B, "b", 8883, True)]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("evil.example:1883", "stranger"),
        ("b:1884", "stranger"),
        ("", "malformed"),
        ("a:1883", "target"),
        ("a", "target"),
    ],
)
def test_any_other_place_moves_nobody_and_is_counted_and_told(reference: str, reason: str) -> None:
    trip = served()
    effects = refer(trip, reference)
    assert opened(effects) == []
    assert trip.core.counts[f"refused: {reason}"] == 1
    assert "does not count" in str(effects)
    trip.arrive(0)
    trip.establish(0)
    assert trip.roles() == {"A": "HOME"}


def test_the_roster_may_know_our_own_broker_by_another_address() -> None:
    trip = served()
    trip.happen(0, ConnectionLost())
    trip.happen(0, Referred(reference="a", host="proxy", port=1883))
    assert trip.core.counts["refused: target"] == 1


def test_before_a_roster_has_come_no_place_counts() -> None:
    trip = Trip.__new__(Trip)
    trip.begin(A)
    refer(trip, "b")
    assert trip.core.counts["refused: roster"] == 1
    assert trip.roles() == {"A": "HOME"}


def test_a_roster_that_is_over_leads_nowhere() -> None:
    """Neither by a reference, nor by itself when nobody serves us; what is served is served on."""
    trip = served()
    until = 1_000.0 + 100.0
    ending = Roster(federation="f", serial=2, brokers=ROSTER.brokers, valid_until=until)
    trip.hear(0, layout.roster(), sign_roster(ending, KEY))
    trip.wait(1_000.0)
    refer(trip, "b")
    assert trip.core.counts["refused: roster"] == 1
    trip.wait(10 * FAILOVER_S)
    assert trip.roles() == {"A": "HOME"}
    trip.happen(0, Connected(resumed=True))
    trip.hear(0, layout.roster(), sign_roster(Roster(federation="f", serial=3, brokers=ROSTER.brokers), KEY))
    trip.happen(0, ConnectionLost())
    trip.wait(FAILOVER_S)
    assert len(trip.roles()) == 2


def test_a_target_that_does_not_serve_us_is_given_up_and_we_are_where_we_were() -> None:
    trip = served()
    refer(trip, "b")
    trip.arrive(0)
    trip.establish(0)
    trip.wait(MOVE_S)
    assert [effect.to for effect in trip.effects if isinstance(effect, Stayed)] == ["B"]
    assert trip.roles() == {"A": "HOME"}


def test_brokers_that_refer_to_each_other_keep_nobody_busy() -> None:
    trip = served()
    refer(trip, "b")
    trip.arrive(1)
    trip.establish(1, partly=True)
    trip.arrive(0)
    trip.say(0, Answer(answer="ended"))
    trip.happen(1, ConnectionLost())
    back = Referred(reference="a", host="b", port=1883)
    trip.happen(1, back)
    assert trip.core.counts["refused: crowded"] == 1
    trip.now += REFER_S
    assert opened(trip.happen(1, back)) == [(A, "A", 1883, False)]


def test_in_the_middle_of_a_move_a_reference_changes_nothing() -> None:
    trip = served()
    trip.order(order())
    assert opened(refer(trip, "c")) == []
    assert trip.core.counts["refused: under way"] == 1
    trip.arrive(1)
    trip.establish(1, partly=True)
    assert trip.roles() == {"A": "OLD", "B": "HOME"}
    trip.happen(0, Referred(reference="c", host="a", port=1883))
    assert trip.core.counts["refused: under way"] == 2


# ---- TLS -------------------------------------------------------------------------------------------------------------

SEALED = Roster(federation="f", serial=2, brokers={**ROSTER.brokers, C: RosterBroker(host="c", port=8883, tls=True)})


def served_with_tls() -> Trip:
    trip = served(needs_tls=True)
    trip.hear(0, layout.roster(), sign_roster(SEALED, KEY))
    return trip


def test_one_that_has_tls_is_not_moved_to_a_broker_without_and_says_so() -> None:
    trip = served_with_tls()
    effects = trip.order(order())
    assert opened(effects) == []
    (stayed,) = [effect for effect in effects if isinstance(effect, Stayed)]
    assert stayed.to == B
    assert "B has no TLS in the roster, and this client has" in stayed.problem
    assert trip.answers == [("stayed", stayed.problem)]
    assert trip.core.counts["refused: tls"] == 1
    assert opened(trip.order(order(session="t", to=C))) == [(C, "c", 8883, True)]


def test_nor_does_its_own_broker_or_its_absence_lead_there() -> None:
    trip = served_with_tls()
    assert opened(refer(trip, "b:1883", tls=True)) == []
    assert trip.core.counts["refused: tls"] == 1
    trip.wait(FAILOVER_S)
    assert trip.roles() == {"A": "HOME", "C": "TARGET"}


def test_of_several_places_that_its_broker_names_the_first_with_tls_counts() -> None:
    trip = served_with_tls()
    assert opened(refer(trip, "b:1883 c:8883", tls=True)) == [(C, "c", 8883, True)]


def test_an_earlier_life_that_went_there_is_not_followed_there_and_the_word_of_it_stays() -> None:
    trip = Trip(found=record_of(WISHES, Journey(moving_to="B"), qos=1, lease_s=60.0, token=""), needs_tls=True)
    trip.establish(0)
    assert trip.roles() == {"A": "HOME"}
    assert trip.journey(A) == Journey(incarnation="life 1", moving_to="B")


# ---- strangers -------------------------------------------------------------------------------------------------------


def test_a_stranger_is_followed_only_when_that_is_asked_for_and_never_without_tls_after_tls() -> None:
    trip = served(follows_strangers=True)
    assert opened(refer(trip, "x.example", tls=True)) == [(None, "x.example", 8883, True)]
    trip.arrive(1)
    trip.establish(1, partly=True)
    assert Migrated(source="A", to=STRANGER) in trip.effects
    assert trip.journey(STRANGER) == Journey(incarnation="life 1", moved_from="A")


def test_the_rosters_own_go_before_strangers() -> None:
    trip = served(follows_strangers=True)
    assert opened(refer(trip, "x.example b")) == [(B, "B", 1883, False)]


def test_a_stranger_that_is_our_own_broker_under_another_address_costs_us_nothing() -> None:
    trip = served(follows_strangers=True)
    refer(trip, "x.example")
    trip.at[1] = A
    written = list(trip.records[A])
    trip.arrive(1)
    assert trip.records[A] == written
    assert CloseLeg(leg=1, forget=False) in trip.effects
    assert len(trip.core.legs) == 1


def test_one_that_is_refused_from_the_first_goes_and_leaves_nothing_to_go_back_for() -> None:
    trip = Trip.__new__(Trip)
    trip.begin(A, follows_strangers=True)
    assert opened(refer(trip, "x.example")) == [(None, "x.example", 1883, False)]
    trip.arrive(1)
    trip.establish(1)
    assert CloseLeg(leg=0, forget=False) in trip.effects
    assert len(trip.core.legs) == 1
    assert trip.journey(STRANGER) == Journey(incarnation="life 1")

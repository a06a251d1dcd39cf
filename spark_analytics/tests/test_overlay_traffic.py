"""Links: what they carry for whom, and the best place."""

from dataclasses import replace

import pytest

from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.groups import GroupTraffic
from mqloom.spark_analytics.capacity.overlay import (
    LinkTraffic,
    candidates_of,
    distances,
    members_of,
    neighbours_of,
    passings_of,
    sites_of,
    yields_of,
)

LINK = LinkTraffic("A", "B", "primary", 10.0, 100, 40, 2_000, 50, 20, 0.0, 1, 1.0, 1.0, True)


def group(gateway: str, where: str, rate: float) -> GroupTraffic:
    return GroupTraffic(gateway, "stocks/#", where, 10, rate, 100.0, Subscription.parse("stocks/#", where))


def test_the_yield_of_a_direction_is_told_by_whom_it_leads_to() -> None:
    back = replace(LINK, gateway="B", peer="A", received=80, received_unwanted=60)
    assert yields_of([LINK, back]) == pytest.approx({("B", "A"): 0.6, ("A", "B"): 0.25})


def test_what_passes_through_a_gateway_is_summed_over_its_links() -> None:
    other = replace(LINK, peer="C", received=150, received_unwanted=150)
    (found,) = passings_of([LINK, other, replace(LINK, kind="candidate")], {"A": 10.0})
    assert (found.received_s, found.unwanted_s, found.pure_forwards_s) == pytest.approx((20.0, 17.0, 8.0))
    assert found.yields == pytest.approx(0.15)


def test_a_link_that_was_there_for_a_tenth_of_the_time_brings_a_tenth_of_its_rate() -> None:
    now_and_then = replace(LINK, peer="C", kind="soft", seconds=1.0, received=100, received_unwanted=0, pure_forwards=0)
    (found,) = passings_of([LINK, now_and_then], {"A": 10.0})
    assert (found.received_s, found.unwanted_s) == pytest.approx((5.0 + 10.0, 2.0))


def test_only_candidates_with_gain_of_pairs_without_a_soft_link_are_worth_having() -> None:
    links = [
        replace(LINK, peer="C", kind="candidate", gain=5.0, distance=2, last_at=1.0),
        replace(LINK, peer="D", kind="candidate", gain=9.0, distance=3),
        replace(LINK, peer="E", kind="candidate", gain=0.1),
        replace(LINK, peer="D", kind="soft", gain=9.0),
    ]
    assert [(each.gateway, each.peer) for each in candidates_of(links)] == [("A", "C")]


def test_a_soft_link_that_was_closed_may_be_worth_having_again() -> None:
    closed = replace(LINK, peer="D", kind="soft", gain=9.0, last_at=100.0)
    thought_of = replace(LINK, peer="D", kind="candidate", gain=9.0, last_at=200.0)
    assert [(each.gateway, each.peer) for each in candidates_of([closed, thought_of])] == [("A", "D")]
    assert candidates_of([replace(closed, last_at=300.0), thought_of]) == []


def test_load_should_be_even_among_edges_and_whoever_has_clients() -> None:
    near = neighbours_of([LINK, replace(LINK, peer="C"), replace(LINK, peer="D")])
    assert members_of(near, {"A": 0, "B": 3, "C": 0, "D": 1}) == ["B", "C", "D"]
    assert members_of(near, {"A": 2, "B": 3, "C": 0, "D": 1}) == ["A", "B", "C", "D"]
    assert members_of({}, {"A": 0, "B": 0}) == ["A", "B"]


def test_distances_are_counted_on_the_tree() -> None:
    near = neighbours_of([LINK, replace(LINK, gateway="B", peer="C"), replace(LINK, gateway="C", peer="D")])
    assert distances(near, "A") == {"A": 0, "B": 1, "C": 2, "D": 3}


def test_the_best_place_is_where_what_is_wanted_comes_already() -> None:
    near = neighbours_of([LINK, replace(LINK, gateway="B", peer="C")])
    groups = [group("A", "symbol = 'IBM'", 20.0), group("C", "symbol = 'DELL'", 5.0)]
    wanted = [Subscription.parse("stocks/#", "symbol = 'IBM'"), Subscription.parse("stocks/#", "symbol = 'DELL'")]
    sites = sites_of(wanted, groups, near, {"A": 0.5, "B": 0.1, "C": 0.1})
    assert [each.gateway for each in sites] == ["A", "B", "C"]
    assert [each.cost for each in sites] == pytest.approx([10.0, 25.0, 40.0])  # copies times links


def test_of_equal_places_the_emptiest_is_best() -> None:
    sites = sites_of([Subscription.parse("weather/#")], [], {}, {"A": 0.5, "B": 0.1})
    assert [each.gateway for each in sites] == ["B", "A"]

"""What is wanted more than once, and how many clusters make least traffic."""

import math

import pytest

from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.groups import GroupTraffic
from mqloom.spark_analytics.capacity.overlay import LinkTraffic
from mqloom.spark_analytics.capacity.redundancy import (
    best_clusters,
    cluster_traffic,
    clusters_of,
    families_of,
    redundancy_of,
)


def group(gateway: str, where: str, subscribers: int = 10) -> GroupTraffic:
    return GroupTraffic(gateway, "stocks/#", where, subscribers, 1.0, 10.0, Subscription.parse("stocks/#", where))


GROUPS = [
    group("A", "volume > 10", 20),
    group("A", "volume > 20"),
    group("A", "volume > 30 AND symbol = 'IBM'", 5),
    group("A", "symbol = 'DELL'"),
    group("B", "volume > 20", 3),
]


def test_a_family_is_a_group_and_what_it_covers_at_the_same_broker() -> None:
    (family,) = families_of(GROUPS)
    assert (family.gateway, family.head) == ("A", "stocks/# WHERE volume > 10")
    assert (family.groups, family.subscriptions) == (3, 35)
    assert set(family.covered) == {"stocks/# WHERE volume > 20", "stocks/# WHERE volume > 30 AND symbol = 'IBM'"}


def test_aggregating_saves_what_the_covered_cost_in_each_publication() -> None:
    estimate = BrokerEstimate(
        input_rate=100.0,
        subscriptions=200,
        delay=DelayModel(0.00001, 0.001),
        output_bytes_s=0.0,
        output_bytes_s_max=1.0,
    )
    first, second = redundancy_of(GROUPS, {"A": estimate, "B": estimate}, {"A": 0.00001, "B": 0.00001})
    assert (first.gateway, first.groups, first.subscriptions, first.needed) == ("A", 4, 45, 2)
    assert first.delay_s - first.delay_needed_s == pytest.approx(43 * 0.00001)
    assert first.saved_ratio == pytest.approx(0.043)
    assert (second.gateway, second.needed) == ("B", 1)


def test_where_a_subscription_costs_nothing_to_match_aggregating_saves_no_input() -> None:
    estimate = BrokerEstimate(
        input_rate=100.0,
        subscriptions=200,
        delay=DelayModel(0.00001, 0.001),
        output_bytes_s=0.0,
        output_bytes_s_max=1.0,
        deliveries_s=3_000.0,
    )
    (found,) = redundancy_of(GROUPS[:3], {"A": estimate}, {"A": 0.0})
    assert (found.subscriptions, found.needed) == (35, 1)
    assert found.saved_ratio == 0.0


@pytest.mark.parametrize(
    ("brokers", "publications", "subscriptions", "matching"), [(100, 50.0, 400.0, 0.3), (12, 7.0, 3.0, 0.0)]
)
def test_the_formula_of_paper_004_is_where_its_traffic_is_least(
    brokers: int, publications: float, subscriptions: float, matching: float
) -> None:
    best = best_clusters(brokers, publications, subscriptions, matching)
    assert best == pytest.approx(math.sqrt(subscriptions * brokers / (publications * (1 - matching))))
    least = cluster_traffic(best, brokers, publications, subscriptions, matching)
    for other in (best * 0.9, best * 1.1):
        assert cluster_traffic(other, brokers, publications, subscriptions, matching) > least


def test_where_everybody_wants_everything_there_is_no_best_number_but_all() -> None:
    assert best_clusters(10, 5.0, 5.0, 1.0) == math.inf


def test_the_number_of_clusters_is_made_of_what_links_and_brokers_saw() -> None:
    def link(gateway: str, peer: str, received: int, unwanted: int) -> LinkTraffic:
        return LinkTraffic(gateway, peer, "primary", 100.0, 0, 0, 0, received, unwanted, 0.0, 1, 1.0, 1.0, True)

    # Ten a second are published at A, all go to B, and half of them on from B to C.
    links = [link("B", "A", 1_000, 0), link("C", "B", 500, 250)]
    found = clusters_of(100.0, {"A": 10.0, "B": 10.0, "C": 5.0}, links, {}, 600)
    assert found is not None
    assert found.publications == pytest.approx(1_000)
    assert found.matching == pytest.approx(12.5 / 20)
    assert found.best == pytest.approx(math.sqrt(600 * 3 / (1_000 * 0.375)))
    assert found.number == 2


def test_a_single_broker_or_silence_has_no_clusters() -> None:
    assert clusters_of(100.0, {"A": 5.0}, [], {}, 10) is None
    assert clusters_of(100.0, {"A": 0.0, "B": 0.0, "C": 0.0}, [], {}, 10) is None


def test_what_came_over_a_link_now_and_then_counts_for_the_whole_time() -> None:
    # Ten a second are published at A; for a tenth of the time they go to B, over a soft link.
    link = LinkTraffic("B", "A", "soft", 10.0, 0, 0, 0, 100, 0, 0.0, 1, 1.0, 1.0, True)
    found = clusters_of(100.0, {"A": 10.0, "B": 3.0}, [link], {"A": 100.0, "B": 100.0}, 600)
    assert found is not None
    assert found.publications == pytest.approx(100.0 * (10.0 + 3.0 - 1.0))
    assert found.matching == pytest.approx(1.0 / 12.0)

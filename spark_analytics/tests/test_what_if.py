"""What if: predictions by the load agents' estimators."""

import pytest

from mqloom.core.errors import LocalError
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.groups import GroupTraffic
from mqloom.spark_analytics.capacity.questions import Move, Questions, parse_interest, parse_move, scenarios_of
from mqloom.spark_analytics.capacity.what_if import NEW, Scenario, WhatIf


def estimate(subscriptions: int = 100, rate: float = 100.0, bytes_s: float = 3_000.0) -> BrokerEstimate:
    return BrokerEstimate(
        input_rate=rate,
        subscriptions=subscriptions,
        delay=DelayModel(0.00001, 0.001),
        output_bytes_s=bytes_s,
        output_bytes_s_max=10_000.0,
    )


def group(
    gateway: str, where: str, subscribers: int = 50, rate: float = 10.0, bytes_s_each: float = 30.0
) -> GroupTraffic:
    subscription = Subscription.parse("stocks/#", where)
    return GroupTraffic(gateway, "stocks/#", where, subscribers, rate, bytes_s_each, subscription)


def counting(subscriptions: int = 100, rate: float = 100.0, deliveries_s: float = 1_000.0) -> BrokerEstimate:
    """Return a broker that tells its deliveries, with output to spare: 0.1 ms, and 50 microseconds for each."""
    return BrokerEstimate(
        input_rate=rate,
        subscriptions=subscriptions,
        delay=DelayModel(0.00005, 0.0001),
        output_bytes_s=0.0,
        output_bytes_s_max=1e9,
        deliveries_s=deliveries_s,
    )


def federation(groups: list[GroupTraffic] | None = None) -> WhatIf:
    estimates = {name: estimate() for name in ("A", "B", "C")}
    if groups is None:
        groups = [group(name, f"symbol = '{name}{number}'") for name in estimates for number in (1, 2)]
    return WhatIf(estimates, groups, dict.fromkeys(estimates, 100))


def after(scenario: Scenario) -> dict[str, float]:
    return {each.gateway: each.after for each in scenario.outlooks}


def test_growth_of_publications_raises_input_and_output_in_proportion() -> None:
    found = federation().grows(50)
    assert after(found) == pytest.approx({"A": 0.45, "B": 0.45, "C": 0.45})
    assert {each.resource for each in found.outlooks} == {"output"}


def test_when_a_broker_fails_its_subscribers_are_shared_by_the_others() -> None:
    found = federation().fails("A")
    assert set(after(found)) == {"B", "C"}
    assert sum(each.subscriptions for each in found.outlooks) == 300
    assert after(found) == pytest.approx({"B": 0.45, "C": 0.45}, abs=0.02)


def test_clients_of_which_no_traffic_is_known_go_somewhere_too() -> None:
    found = federation(groups=[]).fails("A")
    assert sum(each.subscriptions for each in found.outlooks) == 300
    assert after(found) == pytest.approx({"B": 0.45, "C": 0.45}, abs=0.02)


def test_a_group_that_comes_where_its_publications_come_already_brings_no_input() -> None:
    covered = [group("A", "symbol = 'IBM' AND volume > 5"), group("B", "symbol = 'IBM'")]
    foreign = [group("A", "symbol = 'IBM' AND volume > 5"), group("B", "symbol = 'DELL'")]
    rates = []
    for groups in (covered, foreign):
        what_if = WhatIf({"A": estimate(bytes_s=1_500.0), "B": estimate(bytes_s=0.0)}, groups, {})
        (there,) = (each for each in what_if.moves("A", "B").outlooks if each.gateway == "B")
        rates.append((there.resource, there.after))
    # 150 subscriptions, 2.5 ms: 100 publications a second are 0.25; ten more a second are 0.275.
    assert rates[0][1] < rates[1][1] == pytest.approx(0.275)


def test_moving_takes_from_one_what_it_gives_to_the_other() -> None:
    found = federation().moves("A", "B", "stocks/#", "symbol = 'A1'")
    assert after(found) == pytest.approx({"A": 0.15, "B": 0.45, "C": 0.3}, abs=0.06)
    assert {each.gateway: each.subscriptions for each in found.outlooks} == {"A": 50, "B": 150, "C": 100}


def test_with_deliveries_moving_takes_along_what_subscribers_are_given() -> None:
    groups = [
        group("A", "volume > 10", 10, rate=50.0),
        group("A", "volume < 3", 50, rate=10.0),
        group("B", "volume > 1"),
    ]
    what_if = WhatIf({"A": counting(), "B": counting()}, groups, {})
    found = after(what_if.moves("A", "B", "stocks/#", "volume > 10"))
    # Ten subscribers are given 50 a second each: 500 deliveries of 50 microseconds go, however few they are; and the
    # 50 publications that nobody else at A wants. B gets these already, by the wider of its own.
    assert found == pytest.approx({"A": 0.5 * 0.05 + 50 * 0.0001, "B": 1.5 * 0.05 + 100 * 0.0001})


def test_with_deliveries_growth_raises_both_parts_of_the_cost_in_proportion() -> None:
    found = after(WhatIf({"A": counting()}, [], {}).grows(100))
    assert found == pytest.approx({"A": 2 * (0.05 + 0.01)})


def test_with_deliveries_what_a_broker_leaves_behind_is_shared_though_no_group_tells_of_it() -> None:
    found = after(WhatIf({name: counting() for name in "ABC"}, [], dict.fromkeys("ABC", 100)).fails("A"))
    assert found == pytest.approx({"B": 0.05 * 1.5 + 0.01, "C": 0.05 * 1.5 + 0.01})


def test_groups_are_corrected_to_the_deliveries_that_were_counted_within_bounds() -> None:
    groups = [group("A", "volume > 10", 10, rate=25.0)]
    found = after(WhatIf({"A": counting(deliveries_s=500.0), "B": counting()}, groups, {}).moves("A", "B"))
    assert found["A"] == pytest.approx(0.0 + (100 - 25) * 0.0001)  # twice what the group tells: all of it goes


def test_a_new_broker_is_like_those_that_tell_deliveries_if_some_do() -> None:
    groups = [group("A", f"symbol = 'A{number}'", 10, rate=10.0) for number in range(10)]
    what_if = WhatIf({"A": counting(), "B": estimate(bytes_s=0.0, rate=1.0)}, groups, {})
    found = after(what_if.adds(1.0))
    assert found[NEW] == pytest.approx(found["A"], abs=0.02)
    assert found[NEW] == pytest.approx(0.03, abs=0.01)


def test_a_new_broker_takes_load_from_the_fullest() -> None:
    found = federation().adds(1.0)
    assert after(found)[NEW] == pytest.approx(0.225, abs=0.05)
    assert max(after(found).values()) < 0.3
    stronger = federation().adds(3.0)
    assert max(after(stronger).values()) < max(after(found).values())


def test_full_is_what_is_said_to_be_full() -> None:
    estimates = {name: estimate() for name in ("A", "B", "C")}
    scenarios = [WhatIf(estimates, [], {}, full=full).grows(100) for full in (0.5, 0.7)]  # 0.6 each
    assert [[each.gateway for each in scenario.full_ones] for scenario in scenarios] == [["A", "B", "C"], []]
    assert [{row[-1] for row in scenario.rows()} for scenario in scenarios] == [{True}, {False}]


def test_nothing_that_is_asked_changes_what_is() -> None:
    what_if = federation()
    before = after(what_if.grows(0))
    what_if.fails("A")
    what_if.moves("A", "B")
    assert after(what_if.grows(0)) == before


def test_where_nobody_asks_the_usual_is_answered() -> None:
    names = [each.name for each in scenarios_of(federation(), Questions())]
    assert names[:3] == ["A fails", "B fails", "C fails"]
    assert "+50% publications" in names
    assert "a broker of strength 1 is added" in names


def test_what_is_asked_is_all_that_is_answered() -> None:
    names = [each.name for each in scenarios_of(federation(), Questions(grows=(10.0,)))]
    assert names == ["+10% publications"]


def test_a_broker_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(LocalError, match=r"no broker 'X'.*A, B, C"):
        scenarios_of(federation(), Questions(fails=("X",)))


def test_moves_and_interests_are_read_from_text() -> None:
    assert parse_move("A:B") == Move("A", "B")
    assert parse_move("A:B:stocks/# WHERE volume > 3") == Move("A", "B", "stocks/#", "volume > 3")
    assert parse_interest("stocks/# volume > 3") == Subscription.parse("stocks/#", "volume > 3")
    with pytest.raises(LocalError, match="SOURCE:TARGET"):
        parse_move("A")
    with pytest.raises(LocalError, match="volume >"):
        parse_interest("stocks/# WHERE volume >")

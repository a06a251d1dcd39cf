import random

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.groups import Groups, GroupTold


def key(number: int) -> SubscriptionKey:
    return SubscriptionKey(GatewayId("A"), 1, number)


def wish(number: int) -> Subscription:
    return Subscription.parse("stocks/#", f"volume > {number}")


def figures(groups: list[GroupTold]) -> list[tuple[str, int, float, float]]:
    return [(str(each.subscription.where), each.subscribers, each.publications, each.payload_bytes) for each in groups]


def test_those_who_want_the_same_are_one_group_however_they_wrote_it() -> None:
    groups = Groups([(key(1), wish(1)), (key(2), Subscription.parse("stocks/#", "volume>1")), (key(3), wish(3))])
    groups.matched([key(1), key(2)], 100, 1)
    groups.matched([key(1), key(2), key(3)], 10, 5)
    assert figures(groups.window(10, 1.0)) == [("volume > 1", 2, 6, 150), ("volume > 3", 1, 5, 50)]


def test_a_window_begins_with_nothing_and_a_group_without_subscribers_is_told_once() -> None:
    groups = Groups([])
    groups.add(key(1), wish(1))
    groups.add(key(2), wish(2))
    groups.matched([key(1), key(2)], 1, 1)
    groups.window(10, 1.0)
    groups.remove(key(2))
    assert figures(groups.window(10, 1.0)) == [("volume > 2", 0, 0, 0), ("volume > 1", 1, 0, 0)]
    groups.matched([key(1)], 7, 1)
    groups.remove(key(1))
    assert figures(groups.window(10, 1.0)) == [("volume > 1", 0, 1, 7)]
    assert groups.window(10, 1.0) == []
    assert len(groups) == 0


def test_a_group_that_is_back_before_it_was_told_as_gone_was_never_gone() -> None:
    groups = Groups([(key(1), wish(1)), (key(2), wish(2))])
    groups.remove(key(1))
    groups.add(key(3), wish(1))
    assert sorted(figures(groups.window(10, 1.0))) == [("volume > 1", 1, 0, 0), ("volume > 2", 1, 0, 0)]


def test_groups_that_are_gone_come_first_and_none_is_forgotten_for_lack_of_room() -> None:
    groups = Groups([(key(number), wish(number)) for number in range(6)])
    groups.matched([key(5)], 1, 1)
    for number in range(5):
        groups.remove(key(number))
    told = [figures(groups.window(2, 1.0)) for _ in range(3)]
    assert [len(each) for each in told] == [2, 2, 2]
    assert {where: count for each in told for where, count, _, _ in each} == {
        **{f"volume > {number}": 0 for number in range(5)},
        "volume > 5": 1,
    }


def test_alerts_are_in_no_group() -> None:
    groups = Groups([(key(1), Subscription.parse("mqloom/v1/alerts")), (key(2), wish(2))])
    groups.matched([key(1), key(2)], 10, 1)
    assert figures(groups.window(10, 1.0)) == [("volume > 2", 1, 1, 10)]
    groups.remove(key(1))
    assert len(groups) == 1


def test_what_matches_a_subscription_that_is_gone_is_passed_over() -> None:
    groups = Groups([(key(1), wish(1))])
    groups.matched([key(7)], 1, 1)
    assert figures(groups.window(10, 1.0)) == [("volume > 1", 1, 0, 0)]


def test_the_busiest_come_first_and_the_silent_in_turn() -> None:
    groups = Groups((key(number), wish(number)) for number in range(10))
    told: list[str] = []
    for _ in range(5):
        groups.matched([key(9)], 1, 1)
        busiest, *others = groups.window(3, 1.0)
        assert busiest.publications == 1
        assert [each.publications for each in others] == [0, 0]
        told += [str(each.subscription.where) for each in others]
    assert set(told) == {f"volume > {number}" for number in range(9)}


def test_more_busy_ones_than_may_be_told_are_told_in_later_windows_those_with_most_first() -> None:
    groups = Groups((key(number), wish(number)) for number in range(10))
    for number in range(10):
        groups.matched([key(number)], 1, number + 1)
    told = [groups.window(3, 5.0) for _ in range(4)]
    assert [[each.publications for each in found] for found in told] == [[10, 9, 8], [7, 6, 5], [4, 3, 2], [1, 0, 0]]
    assert [[each.window_s for each in found] for found in told] == [[5] * 3, [10] * 3, [15] * 3, [20, 5, 5]]


def test_each_group_tells_over_how_long_it_got_what_it_tells() -> None:
    groups = Groups([(key(1), wish(1))])
    groups.window(0, 10.0)
    groups.add(key(2), wish(2))
    groups.matched([key(1), key(2)], 1, 4)
    groups.window(0, 10.0)
    groups.matched([key(1), key(2)], 1, 4)
    found = {str(each.subscription.where): (each.publications, each.window_s) for each in groups.window(2, 5.0)}
    assert found == {"volume > 1": (8, 25.0), "volume > 2": (8, 15.0)}
    assert [each.window_s for each in groups.window(2, 7.0)] == [7.0, 7.0]


def test_what_a_group_got_before_it_was_gone_is_told_though_it_is_back_or_had_to_wait() -> None:
    groups = Groups([(key(1), wish(1)), (key(2), wish(2))])
    groups.matched([key(1), key(2)], 1, 3)
    groups.remove(key(1))
    groups.remove(key(2))
    groups.window(0, 1.0)
    groups.add(key(3), wish(2))
    groups.matched([key(3)], 1, 2)
    assert figures(groups.window(1, 1.0)) == [("volume > 1", 0, 3, 3)]
    assert figures(groups.window(1, 1.0)) == [("volume > 2", 1, 5, 5)]


def test_counting_begins_anew_where_nobody_was_told() -> None:
    groups = Groups([(key(1), wish(1)), (key(2), wish(2))])
    groups.matched([key(1), key(2)], 1, 3)
    groups.remove(key(2))
    groups.window(0, 100.0)
    groups.begin()
    found = groups.window(2, 1.0)
    assert figures(found) == [("volume > 2", 0, 0, 0), ("volume > 1", 1, 0, 0)]
    assert [each.window_s for each in found] == [1.0, 1.0]


def test_rates_are_right_of_more_groups_than_a_window_tells_each_of_which_is_busy_now_and_then() -> None:
    count, most, every = 400, 40, 100
    groups = Groups((key(number), wish(number)) for number in range(count))
    told: dict[Subscription, list[GroupTold]] = {}
    for window in range(4 * every):
        groups.matched([key(number) for number in range(count) if number % every == window % every], 1, 6)
        for each in groups.window(most, 10.0):
            told.setdefault(each.subscription, []).append(each)
    rates = [sum(each.publications for each in found) / sum(each.window_s for each in found) for found in told.values()]
    assert len(rates) == count
    assert all(4 * 6 / (4 * every * 10.0) * 0.7 <= rate <= 4 * 6 / (4 * every * 10.0) * 1.3 for rate in rates)


def test_at_random_it_counts_as_counting_one_by_one_does() -> None:
    randomness = random.Random(5)
    standing: dict[SubscriptionKey, Subscription] = {}
    groups = Groups([])
    counted: dict[Subscription, int] = {}
    for number in range(2_000):
        event = randomness.random()
        if event < 0.4:
            standing[key(number)] = wish(randomness.randrange(20))
            groups.add(key(number), standing[key(number)])
        elif event < 0.6 and standing:
            gone = randomness.choice(list(standing))
            groups.remove(gone)
            del standing[gone]
        else:
            wanted = wish(randomness.randrange(20))
            groups.matched([each for each, subscription in standing.items() if subscription == wanted], 1, 1)
            if wanted in standing.values():
                counted[wanted] = counted.get(wanted, 0) + 1
    found = {each.subscription: (each.subscribers, each.publications) for each in groups.window(100, 1.0)}
    held = list(standing.values())
    assert found == {each: (held.count(each), counted.get(each, 0)) for each in {*held, *counted}}
    assert {each.subscription for each in groups.window(100, 1.0)} == set(held)

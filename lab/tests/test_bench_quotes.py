"""What the federation's measurement publishes, and how it accounts for what came."""

import json
from array import array

import pytest

from mqloom.core.filter import Filter
from mqloom.lab.bench_quotes import (
    FIRST_NUMBER,
    PREFIX,
    QUOTES,
    SHARE,
    Came,
    Quotes,
    Sent,
    account,
    quantile,
    slope,
)

TEN = Quotes(seed=7, subscribers=10)


def came(*numbers: int, at: float = 1.0) -> Came:
    return Came(array("q", numbers), array("d", [at] * len(numbers)))


def sent(count: int, first: int = FIRST_NUMBER) -> Sent:
    return Sent(first, array("d", [0.5] * count), 1.0)


def test_each_subscriber_wants_about_one_in_a_hundred() -> None:
    assert all(SHARE[0] <= len(indices) / QUOTES <= SHARE[1] for indices in TEN.wanted)
    assert len(TEN.interests) == 10


def test_another_share_can_be_asked_for() -> None:
    few = Quotes(seed=7, subscribers=3, share=(0.001, 0.004))
    assert all(0.001 <= len(indices) / QUOTES <= 0.004 for indices in few.wanted)


def test_what_is_wanted_is_found_as_by_trying_every_quote() -> None:
    for interest, indices in zip(TEN.interests, TEN.wanted, strict=True):
        assert indices == {index for index, quote in enumerate(TEN.quotes) if interest.wants(quote)}


def test_what_is_wanted_is_what_the_filter_language_says() -> None:
    for interest, indices in zip(TEN.interests[:3], TEN.wanted, strict=False):
        where = Filter.parse(interest.where)
        assert {index for index, quote in enumerate(TEN.quotes) if where.matches(quote)} == indices


def test_the_same_seed_gives_the_same_quotes_and_interests() -> None:
    again = Quotes(seed=7, subscribers=10)
    assert again.quotes == TEN.quotes
    assert again.interests == TEN.interests
    assert Quotes(seed=7, subscribers=0).quotes == TEN.quotes


def test_a_packet_is_a_quote_with_its_number() -> None:
    topic, rest = TEN.packets()[3]
    number = FIRST_NUMBER + QUOTES + 3
    quote = json.loads(f"{PREFIX}{number}".encode() + rest)
    assert quote == {**TEN.quotes[3], "id": number}
    assert topic.decode() == f"stocks/{quote['symbol']}"


@pytest.mark.parametrize(("first", "count"), [(0, 5), (QUOTES - 3, 6), (17, 3 * QUOTES + 11)])
def test_numbers_are_those_of_trying_each(first: int, count: int) -> None:
    indices = {0, 2, 17, QUOTES - 1}
    expected = {number for number in range(first, first + count) if number % QUOTES in indices}
    assert TEN.numbers(indices, first, count) == expected


def test_what_did_not_come_is_lost_and_what_came_twice_is_not_counted_twice() -> None:
    everything = TEN.everything()
    result = account(everything, sent(4), [came(*(FIRST_NUMBER + place for place in (0, 1, 1)))])
    assert (result.wanted, result.lost, result.repeated, result.wrong) == (4, 2, 1, 0)
    assert result.late_s == 0.5
    assert result.delays == [0.5] * 3


def test_what_nobody_asked_for_is_wrong() -> None:
    index = next(iter(set(range(QUOTES)) - TEN.wanted[0]))
    others = [came(*TEN.numbers(indices, FIRST_NUMBER, QUOTES)) for indices in TEN.wanted[1:]]
    mine = came(*TEN.numbers(TEN.wanted[0], FIRST_NUMBER, QUOTES), FIRST_NUMBER + index)
    result = account(TEN, sent(QUOTES), [mine, *others])
    assert (result.lost, result.wrong) == (0, 1)


def test_quantiles_and_slopes() -> None:
    assert quantile([], 0.5) is None
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([1.0, 2.0], 0.99) == 2.0
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == pytest.approx(2.0)
    assert slope([(1.0, 1.0)]) == slope([(1.0, 1.0), (1.0, 2.0)]) == 0.0

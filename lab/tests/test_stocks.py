import random

from mqloom.core.filter import Filter
from mqloom.lab.stocks import Market, interest


def test_the_filter_language_agrees_with_plain_python_on_every_quote() -> None:
    randomness = random.Random(3)
    market = Market(randomness)
    quotes = [market.quote(number) for number in range(200)]
    interests = [interest(randomness) for _ in range(300)]
    for each in interests:
        where = Filter.parse(each.where)
        assert [where.matches(quote) for quote in quotes] == [each.wants(quote) for quote in quotes], each.where


def test_the_same_seed_gives_the_same_market() -> None:
    def draw(seed: int) -> list[object]:
        randomness = random.Random(seed)
        return [Market(randomness).quote(1), interest(randomness).where]

    assert draw(5) == draw(5) != draw(6)

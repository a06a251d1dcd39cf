"""Zipf's law, by counting."""

import random
from collections import Counter

import pytest

from mqloom.lab.zipf import Zipf


def test_the_shares_follow_the_law_and_add_up() -> None:
    shares = Zipf(100, 1.0).shares
    assert sum(shares) == pytest.approx(1.0)
    assert shares[0] / shares[9] == pytest.approx(10.0)
    assert Zipf(100, 2.0).shares[0] / Zipf(100, 2.0).shares[9] == pytest.approx(100.0)


def test_without_an_exponent_all_are_alike() -> None:
    assert set(Zipf(8, 0.0).shares) == {1 / 8}


def test_draws_come_by_their_shares() -> None:
    zipf, randomness = Zipf(50, 1.2), random.Random(1)
    counts = Counter(zipf.draw(randomness) for _ in range(50_000))
    for rank in (0, 1, 2, 10):
        assert counts[rank] / 50_000 == pytest.approx(zipf.shares[rank], rel=0.1)
    assert set(counts) == set(range(50))


class Last(random.Random):
    def random(self) -> float:
        return 1 - 2**-53


def test_the_largest_random_number_still_draws_a_rank() -> None:
    assert all(Zipf(ranks, 0.9).draw(Last()) == ranks - 1 for ranks in range(1, 200))


def test_the_same_seed_draws_the_same() -> None:
    zipf = Zipf(1_000)
    first, second = random.Random(4), random.Random(4)
    assert [zipf.draw(first) for _ in range(100)] == [zipf.draw(second) for _ in range(100)]


@pytest.mark.parametrize(("ranks", "exponent"), [(0, 1.0), (5, -0.1)])
def test_nonsense_is_refused(ranks: int, exponent: float) -> None:
    with pytest.raises(ValueError, match="rank"):
        Zipf(ranks, exponent)

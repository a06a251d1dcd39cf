"""Interests: the wished share of brokers is what a count over publications finds."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.lab.interests import TOLERANCE, Interests, zipf_interests


def counted_share(interests: Interests, publications: int) -> float:
    """Publish, and ask every broker."""
    wanted = [frozenset(topics) for topics in interests.wanted]
    topics = islice(interests.publications(random.Random(99)), publications)
    return sum(topic in each for topic in topics for each in wanted) / publications / len(wanted)


@pytest.mark.parametrize(
    ("brokers", "topics", "share", "exponent"),
    [
        (120, 1_000, 0.08, 1.0),  # paper 001, sparse
        (120, 1_000, 0.24, 1.0),  # paper 001, dense
        (100, 500, 0.75, 1.0),  # paper 004
        (10, 50, 0.1, 0.8),
        (60, 20, 0.3, 0.0),
        (40, 300, 1.0, 1.0),
    ],
)
def test_a_publication_is_wanted_by_the_wished_share(brokers: int, topics: int, share: float, exponent: float) -> None:
    interests = zipf_interests(random.Random(1), brokers=brokers, topics=topics, share=share, exponent=exponent)
    assert len(interests.wanted) == brokers
    assert interests.share() == pytest.approx(share, rel=0.01)
    assert counted_share(interests, 5_000) == pytest.approx(share, rel=TOLERANCE)


@given(st.integers(1, 60), st.integers(1, 200), st.floats(0.001, 1.0), st.floats(0.0, 2.0), st.integers(0, 5))
def test_either_the_share_is_reached_or_it_is_said_that_it_cannot_be(
    brokers: int, topics: int, share: float, exponent: float, seed: int
) -> None:
    try:
        interests = zipf_interests(random.Random(seed), brokers=brokers, topics=topics, share=share, exponent=exponent)
    except ValueError:
        # Then one broker with one topic of middling popularity is already too much of a step.
        assert brokers * topics * share < 40 or exponent > 0.5
    else:
        assert interests.share() == pytest.approx(share, rel=TOLERANCE)
        assert all(list(each) == sorted(set(each)) for each in interests.wanted)


def test_popular_topics_are_wanted_by_more_brokers_than_rare_ones() -> None:
    interests = zipf_interests(random.Random(1), brokers=100, topics=400, share=0.2)
    counts = [len(interests.brokers_of(topic)) for topic in range(400)]
    assert counts[0] > 2 * counts[20] > 4 * counts[200]
    assert sum(counts) == interests.subscriptions


def test_brokers_differ_in_what_they_want() -> None:
    interests = zipf_interests(random.Random(1), brokers=50, topics=400, share=0.2)
    assert len(set(interests.wanted)) == 50


def test_the_same_seed_gives_the_same_interests() -> None:
    first, second, other = (
        zipf_interests(random.Random(seed), brokers=30, topics=200, share=0.2).wanted for seed in (5, 5, 6)
    )
    assert first == second != other


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        zipf_interests(random.Random(1), brokers=10, topics=10, share=share)

"""Subscriptions: two texts, checked, and whether one stands in for another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import FilterError, TopicError
from mqloom.core.filter import Filter
from mqloom.core.limits import FILTER_TEXT_MAX, TOPIC_LENGTH_MAX
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches

TOPICS = ["#", "a/#", "a/+", "a/b", "a", "+/b", "$SYS/#"]
WHERES = ["", "x > 1", "x > 2", "x = 3", "x IN (3, 4)", "NOT x > 2", "x IS NULL", "s LIKE 'ab%'", "x > 1 OR s = 'abc'"]
subscriptions = st.builds(Subscription.parse, st.sampled_from(TOPICS), st.sampled_from(WHERES))
attributes = st.fixed_dictionaries({}, optional={"x": st.integers(0, 5), "s": st.sampled_from(["a", "ab", "abc", "b"])})


def test_without_a_where_everything_on_its_topics_is_wanted() -> None:
    assert Subscription.parse("a/#").where == Filter.ALL


def test_a_bad_topic_filter_is_refused() -> None:
    with pytest.raises(TopicError):
        Subscription.parse("a/#/b")


def test_a_bad_where_is_refused_with_its_column() -> None:
    with pytest.raises(FilterError) as caught:
        Subscription.parse("a/#", "x > > 1")
    assert caught.value.column == 5


def test_a_topic_filter_past_the_bound_is_refused() -> None:
    Subscription.parse("t" * TOPIC_LENGTH_MAX)
    with pytest.raises(TopicError, match=f"more than {TOPIC_LENGTH_MAX} characters"):
        Subscription.parse("t" * (TOPIC_LENGTH_MAX + 1))


def test_a_where_that_neighbours_could_not_read_is_refused() -> None:
    short = "x IN (" + ",".join(f"{n}e22" for n in range(1_000, 2_000)) + ")"
    assert len(short) < FILTER_TEXT_MAX
    with pytest.raises(FilterError, match=f"{FILTER_TEXT_MAX}"):
        Subscription.parse("a", short)


def test_it_covers_what_is_narrower_in_both_parts_only() -> None:
    wide = Subscription.parse("a/#", "x > 1")
    assert wide.covers(Subscription.parse("a/b", "x > 2"))
    assert not wide.covers(Subscription.parse("a/b", "x > 0"))
    assert not wide.covers(Subscription.parse("#", "x > 2"))


@given(subscriptions, subscriptions, st.sampled_from(["a", "a/b", "a/b/c", "b/b", "$SYS/x"]), attributes)
def test_covering_is_never_claimed_where_it_does_not_hold(
    wide: Subscription, narrow: Subscription, topic: str, content: dict[str, object]
) -> None:
    def wants(subscription: Subscription) -> bool:
        return topic_matches(subscription.topics, topic) and subscription.where.matches(content)

    if wide.covers(narrow):
        assert wants(wide) or not wants(narrow)


@given(subscriptions, subscriptions, st.sampled_from(["a", "a/b", "a/b/c", "b/b", "$SYS/x"]), attributes)
def test_what_two_both_want_makes_them_intersect(
    one: Subscription, other: Subscription, topic: str, content: dict[str, object]
) -> None:
    wanted = [topic_matches(each.topics, topic) and each.where.matches(content) for each in (one, other)]
    assert one.intersects(other) is other.intersects(one)
    assert one.intersects(other) or not all(wanted)
    assert not one.equal(other) or wanted[0] is wanted[1]


def test_they_intersect_only_in_both_parts() -> None:
    one = Subscription.parse("a/#", "x > 1")
    assert one.intersects(Subscription.parse("+/b", "x < 2"))
    assert not one.intersects(Subscription.parse("b/#", "x < 2"))
    assert not one.intersects(Subscription.parse("+/b", "x < 1"))


def test_two_that_are_written_differently_can_be_equal() -> None:
    assert Subscription.parse("#", "x IN (1, 2)").equal(Subscription.parse("+/#", "x = 2 OR x = 1"))
    assert not Subscription.parse("#", "x = 1").equal(Subscription.parse("a/#", "x = 1"))


@given(subscriptions)
def test_everything_covers_itself(subscription: Subscription) -> None:
    assert subscription.covers(Subscription.parse(subscription.topics, str(subscription.where)))


@given(subscriptions)
def test_only_a_wish_by_topic_alone_covers_one(subscription: Subscription) -> None:
    # What no codec can read is delivered by topic alone: a WHERE, however wide, must not stand in for none.
    if subscription.covers(Subscription.parse("a/b")):
        assert subscription.where == Filter.ALL


def test_it_may_touch_topics_that_some_topic_has_in_common() -> None:
    assert Subscription.parse("a/+/c").may_touch("a/b/#")
    assert not Subscription.parse("a/+/c").may_touch("b/#")

"""The content matcher against the plain one, under random additions, removals and batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.interfaces import Content
from mqloom.plugins import content_matcher
from mqloom.plugins.content_matcher import ContentMatcher, mqloom_matcher
from mqloom.plugins.scan_matcher import ScanMatcher

TOPICS = ["a/#", "a/+", "a/b", "#", "+/b", "c", "$x/#"]
WHERE = [  # of every kind
    "",
    "x > 3",
    "x = 3",
    "x < 3 OR y = 'p'",
    "NOT x = 1",
    "y LIKE 'p%'",
    "z IS NULL",
    "x BETWEEN 1 AND 4 AND y <> 'q'",
]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(TOPICS), st.sampled_from(WHERE)),
        st.tuples(st.just("remove"), st.integers(0, 50), st.none()),
        st.tuples(
            st.just("match"),
            st.lists(
                st.builds(
                    Content,
                    st.sampled_from(["a/b", "a/c", "a", "c", "z/b", "$x/y"]),
                    st.none()
                    | st.fixed_dictionaries(
                        {}, optional={"x": st.integers(0, 5), "y": st.sampled_from(["p", "q"]), "z": st.just(1)}
                    ),
                ),
                max_size=20,
            ),
            st.none(),
        ),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_it_finds_what_the_plain_matcher_finds(script: list[tuple[str, object, object]]) -> None:
    fast, plain = ContentMatcher(), ScanMatcher()
    keys: list[SubscriptionKey] = []
    for number, (what, first, second) in enumerate(script):
        if what == "add":
            key = SubscriptionKey(GatewayId("G"), 1, number)
            subscription = Subscription.parse(str(first), str(second))
            for matcher in (fast, plain):
                matcher.add(key, subscription)
            keys.append(key)
        elif what == "remove" and keys:
            assert isinstance(first, int)
            key = keys.pop(first % len(keys))
            for matcher in (fast, plain):
                matcher.remove(key)
        elif what == "match":
            assert isinstance(first, list)
            assert [sorted(found) for found in fast.match(first)] == [sorted(found) for found in plain.match(first)]
    for key in keys:
        fast.remove(key)
    assert not fast._groups
    assert not fast._topics


def test_topics_known_by_heart_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_matcher, "TOPICS_REMEMBERED_MAX", 3)
    matcher = ContentMatcher()
    key = SubscriptionKey(GatewayId("G"), 1, 1)
    matcher.add(key, Subscription.parse("a/#"))
    for number in range(10):
        assert matcher.match([Content(f"a/{number}", None)]) == [[key]]
        assert len(matcher._remembered) <= 3


def test_a_long_topic_is_matched_and_not_known_by_heart() -> None:
    matcher = ContentMatcher()
    key = SubscriptionKey(GatewayId("G"), 1, 1)
    matcher.add(key, Subscription.parse("a/#"))
    assert matcher.match([Content("a/" + "x" * 10_000, None)]) == [[key]]
    assert matcher._remembered == {}


def test_it_is_offered_by_name() -> None:
    assert mqloom_matcher().name == "content"
    assert isinstance(mqloom_matcher().build(), ContentMatcher)

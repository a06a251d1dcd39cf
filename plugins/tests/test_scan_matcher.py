from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Content, Matcher
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import scan_matcher


def matcher(**subscriptions: tuple[str, str]) -> Matcher:
    built = Manager([LoadedPlugin("scan_matcher", "test", scan_matcher)], {}).matchers()["scan"].build()
    for name, (topics, where) in subscriptions.items():
        built.add(key(name), Subscription.parse(topics, where))
    return built


def key(name: str) -> SubscriptionKey:
    return SubscriptionKey(GatewayId(name), 1, 1)


def names(found: Matcher, *batch: Content) -> list[set[str]]:
    answered = found.match(batch)
    assert all(len(set(keys)) == len(keys) for keys in answered)
    return [{each.gateway for each in keys} for keys in answered]


def test_topic_and_content_must_both_match() -> None:
    found = matcher(both=("stocks/#", "volume > 3"), topic=("stocks/+", ""), other=("news/#", "volume > 3"))
    batch = [Content("stocks/YHOO", {"volume": 4}), Content("stocks/YHOO", {"volume": 3}), Content("x", {"volume": 4})]
    assert names(found, *batch) == [{"both", "topic"}, {"topic"}, set()]


def test_an_undecoded_payload_reaches_those_who_asked_by_topic_alone() -> None:
    found = matcher(topic=("stocks/#", ""), content=("stocks/#", "volume > 3"), absent=("stocks/#", "volume IS NULL"))
    assert names(found, Content("stocks/YHOO", None)) == [{"topic"}]


def test_an_empty_object_is_content() -> None:
    found = matcher(absent=("stocks/#", "volume IS NULL"))
    assert names(found, Content("stocks/YHOO", {})) == [{"absent"}]


def test_what_was_removed_matches_no_more_and_its_like_still_do() -> None:
    found = matcher(one=("stocks/#", ""), two=("stocks/#", ""))
    found.remove(key("one"))
    assert names(found, Content("stocks/YHOO", {})) == [{"two"}]
    found.remove(key("two"))
    assert names(found, Content("stocks/YHOO", {})) == [set()]


def test_an_empty_batch_has_an_empty_answer() -> None:
    assert list(matcher(one=("#", "")).match([])) == []


LEVELS = st.sampled_from(["a", "b", ""])
TOPICS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join).filter(bool)
FILTERS = st.one_of(TOPICS, TOPICS.map(lambda topic: f"{topic}/#"), st.sampled_from(["#", "+", "a/+", "+/b", "+/+/#"]))
WHERES = st.sampled_from(["", "x > 1", "x = 1 OR y = 'a'", "NOT x > 1", "y IS NULL", "y LIKE 'a%'"])
ATTRIBUTES = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={"x": st.integers(0, 2), "y": st.sampled_from(["a", "ab", "b"])}),
)


@given(
    st.lists(st.tuples(FILTERS, WHERES), max_size=8),
    st.sets(st.integers(0, 7)),
    st.lists(st.builds(Content, TOPICS, ATTRIBUTES), max_size=5),
)
def test_it_finds_what_trying_every_subscription_finds(
    wanted: list[tuple[str, str]], removed: set[int], batch: list[Content]
) -> None:
    subscriptions = {f"s{number}": Subscription.parse(*each) for number, each in enumerate(wanted)}
    found = matcher(**{f"s{number}": each for number, each in enumerate(wanted)})
    for number in removed & set(range(len(wanted))):
        found.remove(key(f"s{number}"))
        del subscriptions[f"s{number}"]

    def matches(subscription: Subscription, content: Content) -> bool:
        if content.attributes is None:
            return topic_matches(subscription.topics, content.topic) and not str(subscription.where)
        return topic_matches(subscription.topics, content.topic) and subscription.where.matches(content.attributes)

    assert names(found, *batch) == [
        {name for name, subscription in subscriptions.items() if matches(subscription, content)} for content in batch
    ]

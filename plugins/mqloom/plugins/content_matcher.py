"""Matcher `content`: one content engine for each topic filter, and a tree that finds the filters of a topic."""

from collections.abc import Sequence
from typing import Final, cast

from mqloom.core.filter import Filter
from mqloom.core.ids import SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.core.topic_tree import TopicTree
from mqloom.core.topics import REMEMBERED_LENGTH_MAX
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Content, MatcherKind
from mqloom.plugins.content import Engine

TOPICS_REMEMBERED_MAX: Final = 10_000
"""Topics whose filters are known by heart, none of them long; at the bound all are forgotten, and learnt again as they
come."""


class _Group:
    """The subscriptions with one topic filter: those on the content, and those on the topic alone."""

    __slots__ = ("asks_content", "by_content", "by_topic_alone")

    def __init__(self) -> None:
        self.by_topic_alone: dict[SubscriptionKey, None] = {}
        self.by_content = Engine()
        self.asks_content = False


class ContentMatcher:
    """Subscriptions grouped by topic filter; a batch is parted by the groups that its topics have."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._tree = TopicTree()
        self._topics: dict[SubscriptionKey, str] = {}
        self._remembered: dict[str, list[_Group]] = {}

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Take a subscription in."""
        assert key not in self._topics
        topics = subscription.topics
        if topics not in self._groups:
            self._groups[topics] = _Group()
            self._tree.add(topics)
            self._remembered.clear()
        group = self._groups[topics]
        if subscription.where == Filter.ALL:
            group.by_topic_alone[key] = None
        else:
            group.by_content.add(key, subscription.where)
            group.asks_content = True
        self._topics[key] = topics

    def remove(self, key: SubscriptionKey) -> None:
        """Forget a subscription."""
        topics = self._topics.pop(key)
        group = self._groups[topics]
        if key in group.by_topic_alone:
            del group.by_topic_alone[key]
        else:
            group.by_content.remove(key)
            group.asks_content = len(group.by_content) > 0
        if not group.by_topic_alone and not group.asks_content:
            del self._groups[topics]
            self._tree.remove(topics)
            self._remembered.clear()

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        """Return the matching keys for each publication; one that was not decoded matches by topic alone."""
        found: list[list[SubscriptionKey]] = [[] for _ in batch]
        asked: dict[_Group, tuple[list[int], list[Attributes]]] = {}
        for index, (topic, attributes) in enumerate(batch):
            for group in self._groups_of(topic):
                if group.by_topic_alone:
                    found[index] += group.by_topic_alone
                if attributes is not None and group.asks_content:
                    question = asked.get(group)
                    if question is None:
                        question = asked[group] = [], []
                    question[0].append(index)
                    question[1].append(attributes)
        for group, (places, contents) in asked.items():
            for index, keys in zip(places, group.by_content.match_batch(contents), strict=True):
                found[index] += cast("list[SubscriptionKey]", keys)
        return found

    def _groups_of(self, topic: str) -> list[_Group]:
        groups = self._remembered.get(topic)
        if groups is None:
            groups = [self._groups[topics] for topics in self._tree.covering(topic)]
            if len(topic) <= REMEMBERED_LENGTH_MAX:
                if len(self._remembered) >= TOPICS_REMEMBERED_MAX:
                    self._remembered.clear()
                self._remembered[topic] = groups
        return groups


@hookimpl
def mqloom_matcher() -> MatcherKind:
    """Offer the matcher."""
    return MatcherKind(name="content", build=ContentMatcher)

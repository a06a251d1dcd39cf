"""Matcher `scan`: exact and plain, it tries every subscription whose topic filter matches."""

from collections.abc import Sequence

from mqloom.core.filter import Filter
from mqloom.core.ids import SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Content, MatcherKind


class ScanMatcher:
    """Subscriptions grouped by topic filter, so that a topic is compared with each filter once."""

    def __init__(self) -> None:
        self._by_topics: dict[str, dict[SubscriptionKey, Filter]] = {}
        self._topics: dict[SubscriptionKey, str] = {}

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Take a subscription in."""
        assert key not in self._topics
        self._topics[key] = subscription.topics
        self._by_topics.setdefault(subscription.topics, {})[key] = subscription.where

    def remove(self, key: SubscriptionKey) -> None:
        """Forget a subscription."""
        topics = self._topics.pop(key)
        group = self._by_topics[topics]
        del group[key]
        if not group:
            del self._by_topics[topics]

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        """Return the matching keys for each publication."""
        return [self._match(content) for content in batch]

    def _match(self, content: Content) -> list[SubscriptionKey]:
        keys: list[SubscriptionKey] = []
        for topics, group in self._by_topics.items():
            if not topic_matches(topics, content.topic):
                continue
            if content.attributes is None:
                # Not decoded: those who asked by topic alone still get it.
                keys += [key for key, where in group.items() if where == Filter.ALL]
            else:
                keys += [key for key, where in group.items() if where.matches(content.attributes)]
        return keys


@hookimpl
def mqloom_matcher() -> MatcherKind:
    """Offer the matcher."""
    return MatcherKind(name="scan", build=ScanMatcher)

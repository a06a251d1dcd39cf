"""A matcher whose mistakes cost no more than the publications on which it makes them."""

from collections.abc import Sequence

from mqloom.core.ids import SubscriptionKey
from mqloom.gateway.interfaces import Content, Matcher
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.routes import Routes


class GuardedMatcher:
    """A matcher plugin, asked with care: what raises, or answers nonsense, is a failure."""

    def __init__(self, matcher: Matcher, routes: Routes, journal: Journal) -> None:
        self._matcher = matcher
        self._routes = routes
        self._journal = journal

    def match(self, contents: Sequence[Content]) -> Sequence[list[SubscriptionKey] | None]:
        """Ask for a batch; if that fails, for each by itself: None for those on which it fails again."""
        try:
            return self.ask(contents)
        except PluginFailed:
            pass
        found: list[list[SubscriptionKey] | None] = []
        for content in contents:
            try:
                found += self.ask([content])
            except PluginFailed:
                found.append(None)
        return found

    def ask(self, contents: Sequence[Content]) -> list[list[SubscriptionKey]]:
        """Return the matching keys for each publication; raises PluginFailed."""
        return self._journal.guard("matcher", self._ask, contents)

    def _ask(self, contents: Sequence[Content]) -> list[list[SubscriptionKey]]:
        found = [list(keys) for keys in self._matcher.match(contents)]  # ours: a matcher may use its own again
        if len(found) != len(contents):
            raise ValueError(f"it answered for {len(found)} publications instead of {len(contents)}")
        if all(key in self._routes for keys in found for key in keys):
            return found
        self._journal.refuse("plugin_failures", "matcher", "it named subscriptions that are not there: passed over")
        return [[key for key in keys if key in self._routes] for keys in found]

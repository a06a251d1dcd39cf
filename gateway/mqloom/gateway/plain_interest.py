"""What plain MQTT clients of our own broker want: topic filters, announced like any other subscription.

An adapter learns them from the broker, all at a time; those of the configuration are always among them. A publication
of another gateway that matches is republished here once, under its own topic, and the broker does the rest. What
entered here is not: these clients have it from their broker.

Only data crosses, so a filter that touches no data is passed over, and of a wider one, such as `#`, only data comes. Of
a shared subscription, `$share/GROUP/FILTER`, the filter counts: the broker shares out what comes.
"""

from collections.abc import Callable, Collection, Sequence

from mqloom.core.errors import TopicError
from mqloom.core.ids import SubscriptionKey
from mqloom.core.limits import PLAIN_FILTERS_MAX
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_filters_intersect
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.journal import Journal
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Subscribers


class PlainInterest:
    """The topic filters of the plain clients of one broker."""

    def __init__(
        self,
        data: Sequence[str],
        routes: Routes,
        subscribers: Subscribers,
        flushes: Flushes,
        journal: Journal,
        next_key: Callable[[], SubscriptionKey],
    ) -> None:
        self._data = data
        self._routes = routes
        self._subscribers = subscribers
        self._flushes = flushes
        self._journal = journal
        self._next_key = next_key
        self._always: frozenset[str] = frozenset()
        self._learned: Collection[str] = ()
        self._keys: dict[str, SubscriptionKey] = {}
        self._refused: set[str] = set()
        self._passed_over = 0
        self._touching: dict[str, bool] = {}  # of each filter that was learned last, whether it touches data

    def start(self, always: Collection[str], now: float) -> None:
        """Begin what is wanted whatever clients say; what they say may have been learned before."""
        self._always = frozenset(always)
        self.learned(self._learned, now)

    def change(self, data: Sequence[str], always: Collection[str], now: float) -> None:
        """Other topics are data now, and other filters are always wanted."""
        self._data = data
        self._touching.clear()
        self.start(always, now)

    def learned(self, filters: Collection[str], now: float, passed_over: int = 0) -> None:
        """Plain clients want this, and no more: begin what is new, then end what is gone behind what is under way."""
        self._learned = filters
        if passed_over > self._passed_over:
            text = "of a plain client that wants too many, or past the bound of all, further ones are passed over"
            self._journal.refuse("interest_refused", "client", text, passed_over - self._passed_over)
            self._passed_over = passed_over
        plain = {_without_share(text) for text in filters} - {""}
        known = self._touching
        self._touching = {text: known[text] if text in known else self._touches_data(text) for text in plain}
        wanted = {text for text, touches in self._touching.items() if touches} | self._always
        gone = [text for text in self._keys if text not in wanted]
        self._refused &= wanted
        room = PLAIN_FILTERS_MAX - len(self._keys) + len(gone)
        # Those of the configuration first; else in an order that is the same everywhere.
        new = wanted - self._keys.keys()
        for text in (*sorted(new & self._always), *sorted(new - self._always)):
            if room > 0:
                room -= self._begin(text)
            elif text not in self._refused:
                self._refuse(text, "too many", f"{PLAIN_FILTERS_MAX} topic filters are; widen `federate` to cover it")
        self._flushes.close([self._keys.pop(text) for text in gone], now)

    def __len__(self) -> int:
        """How many filters are announced."""
        return len(self._keys)

    def _begin(self, text: str) -> bool:
        try:
            subscription = Subscription.parse(text)
        except TopicError as error:
            self._refuse(text, "topic", str(error))
            return False
        key = self._next_key()
        if not self._routes.add(key, subscription, None):
            self._refuse(text, "matcher", "the matcher failed on it")
            return False
        self._keys[text] = key
        self._subscribers.begin_plain(text, key)
        return True

    def _touches_data(self, text: str) -> bool:
        return any(topic_filters_intersect(text, topics) for topics in self._data)

    def _refuse(self, text: str, reason: str, problem: str) -> None:
        """Count a filter that is not federated, once as long as it is wanted."""
        if text not in self._refused:
            self._refused.add(text)
            self._journal.refuse("interest_refused", reason, f"plain clients want {text[:100]!r}: {problem}")


def _without_share(text: str) -> str:
    """Return the topic filter of a shared subscription, and any other as it is; nothing if it has none."""
    return text.split("/", 2)[2] if text.startswith("$share/") and text.count("/") > 1 else text

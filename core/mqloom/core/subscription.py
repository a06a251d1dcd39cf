"""What somebody wants: an MQTT topic filter, and a filter on the content."""

from dataclasses import dataclass

from mqloom.core.errors import FilterError, TopicError
from mqloom.core.filter import Filter
from mqloom.core.limits import FILTER_TEXT_MAX, TOPIC_LENGTH_MAX
from mqloom.core.topics import check_topic_filter, topic_filter_covers, topic_filters_intersect


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic filter and a WHERE; build it with `parse`, which checks both."""

    topics: str
    where: Filter

    @classmethod
    def parse(cls, topics: str, where: str = "") -> "Subscription":
        """Return the subscription of two texts; raises TopicError or FilterError."""
        check_topic_filter(topics)
        if len(topics) > TOPIC_LENGTH_MAX:
            raise TopicError(f"more than {TOPIC_LENGTH_MAX} characters", topics)
        parsed = Filter.parse(where)
        if len(str(parsed)) > FILTER_TEXT_MAX:  # neighbours get it written out, and read no longer one
            raise FilterError(f"more than {FILTER_TEXT_MAX} characters when written out: split it", where, 1)
        return cls(topics, parsed)

    def covers(self, other: "Subscription") -> bool:
        """Whether everything that `other` wants is wanted by this too. Never claims what does not hold."""
        return topic_filter_covers(self.topics, other.topics) and self.where.covers(other.where)

    def intersects(self, other: "Subscription") -> bool:
        """Whether perhaps something is wanted by both. A no is sure."""
        return topic_filters_intersect(self.topics, other.topics) and self.where.intersects(other.where)

    def equal(self, other: "Subscription") -> bool:
        """Whether surely both want the same, however they are written. Never claims what does not hold."""
        return self == other or (self.covers(other) and other.covers(self))

    def may_touch(self, topics: str) -> bool:
        """Whether some topic is matched by both this and the topic filter `topics`."""
        return topic_filters_intersect(self.topics, topics)

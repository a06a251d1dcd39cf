"""Topics and topic filters of MQTT, and ids as levels of topics.

A topic is levels joined by `/`; a level may be empty. In a topic filter `+` stands for any one level and a final `#`
for any number of further ones, none included: `a/#` matches `a`. A wildcard on the first level does not match topics
that begin with `$` (MQTT 5, section 4.7.2).

All relations are exact. They take topics and filters that the checks have passed.
"""

import urllib.parse
from collections.abc import Callable
from functools import lru_cache
from typing import Final, ParamSpec, TypeVar, cast

from mqloom.core.errors import TopicError

TOPIC_BYTES_MAX: Final = 65535
"""The length of a topic in UTF-8, set by MQTT's two bytes for it."""

TOPICS_REMEMBERED_MAX: Final = 16_384
"""Topics about which answers are known by heart; of more, those asked for least lately are worked out again."""

REMEMBERED_LENGTH_MAX: Final = 256
"""Longer topics are remembered only for a moment: nobody's topics may fill the memory."""

LONG_REMEMBERED_MAX: Final = 64
"""Answers about longer ones; with the next all answers are forgotten, and worked out again. At 64 KiB for a topic, and
as much for what is said of it, that is 8 MiB."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def by_heart(answers_max: int) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Have the answers of a function of texts known by heart, short ones and few long ones.

    That is looked at only for answers that are new: those that are known come as fast as from `lru_cache`.
    """

    def decorate(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        long = 0
        answer = cast(Callable[..., object], function)

        @lru_cache(answers_max)
        def remembered(*texts: str) -> object:
            nonlocal long
            for text in texts:
                if len(text) > REMEMBERED_LENGTH_MAX:
                    if long == LONG_REMEMBERED_MAX:
                        remembered.cache_clear()
                        long = 0
                    long += 1
                    break
            return answer(*texts)

        return cast(Callable[Arguments, Answer], remembered)

    return decorate


_ID_SAFE: Final = "@:=,"
"""Left as they are in ids, besides ASCII letters, digits and `_-~`, which are always."""

_EMPTY_ID: Final = "%"
"""The empty id: an empty level is too easily lost, and no other id is written so."""


@by_heart(TOPICS_REMEMBERED_MAX)
def check_topic(topic: str) -> None:
    """Raise TopicError unless one can publish to the topic."""
    _check_text(topic)
    if "+" in topic or "#" in topic:
        raise TopicError("a topic to publish to has no wildcards + or #", topic)


def check_topic_filter(text: str) -> None:
    """Raise TopicError unless one can subscribe to the topic filter. Shared subscriptions are refused."""
    _check_text(text)
    levels = text.split("/")
    if levels[0] == "$share":
        raise TopicError("a shared subscription would be split at every gateway; subscribe without $share", text)
    for level in levels[:-1]:
        if level == "#":
            raise TopicError("# is the last level of a topic filter or none", text)
    for level in levels:
        if len(level) > 1 and ("#" in level or "+" in level):
            raise TopicError(f"+ and # are a level by themselves, not part of one as in {level[:100]!r}", text)


@by_heart(TOPICS_REMEMBERED_MAX)  # each publication is asked about several times, and most topics come again
def topic_matches(text: str, topic: str) -> bool:
    """Say whether the topic filter matches the topic."""
    if "+" not in text and "#" not in text:
        return text == topic
    if topic[0] == "$" and text[0] in "+#":
        return False
    wanted, levels = text.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(want in ("+", level) for want, level in zip(wanted, levels, strict=False))


def topic_filter_covers(wide: str, narrow: str) -> bool:
    """Say whether every topic that `narrow` matches is matched by `wide`."""
    if wide[0] in "+#" and narrow[0] == "$":
        return False
    wides, narrows = filter_levels(wide), filter_levels(narrow)
    for index, level in enumerate(wides):
        if level == "#":
            return True
        if index == len(narrows) or narrows[index] == "#" or level not in ("+", narrows[index]):
            return False
    return len(wides) == len(narrows)


def topic_filters_intersect(one: str, other: str) -> bool:
    """Say whether some topic is matched by both."""
    if (one[0] == "$" and other[0] in "+#") or (other[0] == "$" and one[0] in "+#"):
        return False
    ones, others = filter_levels(one), filter_levels(other)
    for level, opposite in zip(ones, others, strict=False):
        if "#" in (level, opposite):
            return True
        if "+" not in (level, opposite) and level != opposite:
            return False
    rest = ones[len(others) :] or others[len(ones) :]
    return rest in ([], ["#"])


def filter_levels(text: str) -> list[str]:
    """Return the levels of a topic filter, in the form that says how many a topic has at least.

    As there is no empty topic, `#` matches what `+/#` does, and `/#` what `/+/#` does.
    """
    if text == "#":
        return ["+", "#"]
    return ["", "+", "#"] if text == "/#" else text.split("/")


@by_heart(TOPICS_REMEMBERED_MAX)  # the same few names, once for every message
def encode_id(text: str) -> str:
    """Return the id as one level of a topic, percent-encoded. Raises TopicError for a lone surrogate.

    Only ASCII is left as it is, so that it depends on no version of Unicode. A full stop is not: for RabbitMQ it is the
    same as a slash, and NATS refuses it.
    """
    if not text:
        return _EMPTY_ID
    try:
        return urllib.parse.quote(text, safe=_ID_SAFE).replace(".", "%2E")
    except UnicodeEncodeError:
        raise TopicError("an id is Unicode text without lone surrogates", text) from None


def decode_id(text: str) -> str:
    """Return the id that a level stands for. Raises TopicError if `encode_id` would not have written it so."""
    if text == _EMPTY_ID:
        return ""
    try:
        decoded = urllib.parse.unquote(text, errors="strict")
        canonical = encode_id(decoded)
    except (UnicodeDecodeError, TopicError):
        canonical = None
    if canonical != text:
        raise TopicError("not an id in percent-encoding", text)
    return decoded


def _check_text(topic: str) -> None:
    if not topic:
        raise TopicError("a topic has at least one character", topic)
    if "\0" in topic:
        raise TopicError("a topic contains no NUL", topic)
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise TopicError("a topic is Unicode text without lone surrogates", topic) from None
    if size > TOPIC_BYTES_MAX:
        raise TopicError(f"a topic has at most {TOPIC_BYTES_MAX} bytes, this one has {size}", topic)

"""Errors: whose mistake, and what they tell."""

import pytest

from mqloom.core.errors import (
    BrokerError,
    ConfigurationError,
    FilterError,
    FrameError,
    LocalError,
    MQLoomError,
    OrderError,
    PluginError,
    RecordError,
    RemoteError,
    TopicError,
)


@pytest.mark.parametrize(
    ("error", "whose", "text"),
    [
        (ConfigurationError("f.toml", ("no brokers",)), LocalError, "f.toml: 1 mistake\n  - no brokers"),
        (ConfigurationError("f.toml", ("one", "two")), LocalError, "f.toml: 2 mistakes\n  - one\n  - two"),
        (PluginError("csv", "plugins.d/csv.py", "it raised"), LocalError, "plugin 'csv' (plugins.d/csv.py): it raised"),
        (BrokerError("localhost:1883", "refused"), LocalError, "broker at localhost:1883: refused"),
        (FilterError("a value is missing", "x = ", 5), RemoteError, "column 5: a value is missing"),
        (TopicError("no wildcards", "a/#"), RemoteError, "topic 'a/#': no wildcards"),
        (FrameError("version", "format 9"), RemoteError, "frame refused (version): format 9"),
        (RecordError("no JSON"), RemoteError, "subscription record refused: no JSON"),
        (OrderError("expired", "over for 90 s"), RemoteError, "not obeyed (expired): over for 90 s"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MQLoomError) else "",
)
def test_an_error_says_what_happened_and_whose_mistake_it_is(
    error: MQLoomError, whose: type[MQLoomError], text: str
) -> None:
    assert str(error) == text
    assert isinstance(error, whose)
    assert isinstance(error, LocalError) != isinstance(error, RemoteError)


def test_a_filter_error_points_at_the_column() -> None:
    assert FilterError("a value is missing", "a = 1\nAND\tb =", 14).pointer() == (
        "a = 1 AND b =\n             ^ a value is missing"
    )


def test_a_topic_error_does_not_repeat_a_long_topic_whole() -> None:
    assert len(str(TopicError("too long", "x" * 100_000))) < 200

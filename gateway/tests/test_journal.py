"""What is counted and told, and what a plugin that raises becomes."""

import pytest

from mqloom.core.counters import Counters
from mqloom.core.effects import Log
from mqloom.core.ids import GatewayId
from mqloom.core.messages import Synced
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.outbox import Outbox


def test_what_is_told_is_handed_on_once() -> None:
    journal = Journal(Counters())
    journal.tell("info", "one")
    journal.tell("error", "two")
    assert journal.drain() == [Log(level="info", text="one"), Log(level="error", text="two")]
    assert journal.drain() == []


def test_a_flood_of_refusals_is_counted_whole_and_told_seldom() -> None:
    journal = Journal(Counters())
    told = []
    for number in range(1, 101):
        journal.refuse("frames_refused", "version", "from A")
        told += [number] * len(journal.drain())
    assert told == [1, 2, 4, 8, 16, 32, 64]
    assert journal.counters.value("frames_refused", "version") == 100


def test_each_reason_is_told_by_itself() -> None:
    journal = Journal(Counters())
    for reason in ("version", "version", "version", "malformed"):
        journal.refuse("frames_refused", reason, "from A")
    assert [effect.text for effect in journal.drain() if isinstance(effect, Log)] == [
        "frames_refused (version, 1 so far): from A",
        "frames_refused (version, 2 so far): from A",
        "frames_refused (malformed, 1 so far): from A",
    ]


def test_a_guarded_call_gives_what_the_plugin_gives() -> None:
    assert Journal(Counters()).guard("sums", sum, [1, 2], start=3) == 6


def test_a_plugin_that_raises_is_counted_and_named() -> None:
    journal = Journal(Counters())
    with pytest.raises(PluginFailed) as caught:
        journal.guard("numbers", int, "seven")
    assert isinstance(caught.value.__cause__, ValueError)
    assert journal.counters.snapshot() == {"plugin_failures.numbers": 1}
    (effect,) = journal.drain()
    assert isinstance(effect, Log)
    assert "plugin numbers raised ValueError" in effect.text


def test_a_wish_to_end_the_program_is_no_failure_of_a_plugin() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Journal(Counters()).guard("leaves", leave)


def test_the_outbox_keeps_the_order_for_each_neighbour_and_is_emptied() -> None:
    outbox = Outbox()
    a, b = GatewayId("A"), GatewayId("B")
    outbox.post(a, [Synced()])
    outbox.post(b, [])
    outbox.post(a, [Synced(), Synced()])
    assert outbox.drain() == {a: [Synced()] * 3, b: []}
    assert outbox.drain() == {}

import logging

import pytest

from mqloom.client.herald import Herald
from mqloom.client.legs import Migrated, Stayed
from mqloom.client.vocabulary import Note, Tell, Unserved
from mqloom.client.wanted import REFUSED, Table, Wanted
from mqloom.core.ids import ClientId
from mqloom.core.records import Answer, Wish

HOT = Wish(topics="stocks/#", where="volume >> 3")


class Heard:
    """Notes which callbacks are called."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def tell_established(self, wish: Wish, *, partly: bool) -> None:
        self.calls.append(("established", wish, partly))

    def tell_refused(self, wish: Wish, problem: str) -> None:
        self.calls.append(("refused", wish, problem))

    def tell_migrated(self, source: str, to: str) -> None:
        self.calls.append(("migrated", source, to))

    def pretend_suback(self, mid: int, codes: list[int]) -> None:
        self.calls.append(("suback", mid, codes))

    def pretend_unsuback(self, mid: int, count: int) -> None:
        self.calls.append(("unsuback", mid, count))


@pytest.fixture
def table() -> Table:
    table = Table()
    table.add("hot", Wanted(HOT, 1))
    table.subscribing.begin(4, ["hot"])
    return table


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def herald(heard: Heard, table: Table) -> Herald:
    return Herald(heard, ClientId("me"), table)


def test_nothing_is_told_before_it_is_time(herald: Herald, heard: Heard) -> None:
    herald.add(Migrated(source="west", to="east"))
    assert heard.calls == []
    herald.tell_all()
    herald.tell_all()
    assert heard.calls == [("migrated", "west", "east")]


def test_an_established_subscription_answers_its_call_first(herald: Herald, heard: Heard) -> None:
    herald.add(Tell(answer=Answer(answer="established", name="hot", partly=True)))
    herald.add(Tell(answer=Answer(answer="established", name="hot")))
    herald.tell_all()
    assert heard.calls == [("suback", 4, [1]), ("established", HOT, True), ("established", HOT, False)]


def test_a_mistake_that_only_the_gateway_sees_is_told_with_its_column(herald: Herald, heard: Heard) -> None:
    herald.add(Tell(answer=Answer(answer="refused", name="hot", problem="unknown operator", column=8)))
    herald.tell_all()
    told = ("refused", HOT, "refused: column 8: unknown operator")
    assert heard.calls == [told, ("suback", 4, [REFUSED])]


def test_that_nobody_answers_is_told_of_each(herald: Herald, heard: Heard, table: Table) -> None:
    cold = Wish(topics="weather/#")
    table.add("cold", Wanted(cold, 0))
    herald.add(Unserved(names=("hot", "cold", "removed since"), problem="nobody is there"))
    herald.tell_all()
    assert heard.calls == [
        ("refused", HOT, "nobody is there"),
        ("suback", 4, [REFUSED]),
        ("refused", cold, "nobody is there"),
    ]


def test_what_has_ended_is_not_wanted_any_more(herald: Herald, heard: Heard, table: Table) -> None:
    table.unsubscribing.begin(5, ["hot"])
    table.end("hot")
    herald.add(Tell(answer=Answer(answer="ended", name="hot")))
    herald.add(Tell(answer=Answer(answer="established", name="hot")))
    herald.tell_all()
    assert heard.calls == [("unsuback", 5, 1)]
    assert len(table) == 0


def test_a_move_that_did_not_take_place_is_a_warning(herald: Herald, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mqloom.client"):
        herald.add(Note(text="the gateway west is gone; waiting for it"))
        herald.add(Stayed(to="east", problem="it refuses us"))
        herald.tell_all()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "me: the gateway west is gone; waiting for it"),
        ("WARNING", "me: stays where it is, and does not go to east: it refuses us"),
    ]

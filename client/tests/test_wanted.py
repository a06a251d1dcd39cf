from mqloom.client.wanted import REFUSED, Calls, Table, Wanted
from mqloom.core.records import Wish

HOT = Wish(topics="stocks/#", where="volume > 3")
ALL = Wish(topics="stocks/#")


def test_a_call_is_answered_when_all_its_names_are_in_their_order() -> None:
    calls = Calls()
    calls.begin(1, ["a", "b", "a"])
    assert calls.answer("b", REFUSED) == []
    assert calls.answer("c", 0) == []
    assert calls.answer("a", 1) == [(1, [1, REFUSED, 1])]
    assert len(calls) == 0


def test_one_answer_can_be_for_several_calls() -> None:
    calls = Calls()
    calls.begin(1, ["a"])
    calls.begin(2, ["a"])
    assert calls.answer("a", 0) == [(1, [0]), (2, [0])]


def test_subscriptions_are_found_by_topic_and_filter() -> None:
    table = Table()
    table.add("hot", Wanted(HOT, 1))
    table.add("all", Wanted(ALL, 0))
    assert table.names_of("stocks/#", None) == ["hot", "all"]
    assert table.names_of("stocks/#", "volume > 3") == ["hot"]
    assert table.names_of("stocks/#", "") == ["all"]
    assert table.names_of("bonds/#", None) == []
    table.end("hot")
    assert table.names_of("stocks/#", None) == ["hot", "all"]
    table.drop("hot")
    assert list(table) == ["all"]


def test_what_is_wanted_again_before_its_end_was_told_stays() -> None:
    table = Table()
    table.add("hot", Wanted(HOT, 1))
    table.end("hot")
    table.add("hot", Wanted(HOT, 0))
    table.drop("hot")
    assert table.get("hot") == Wanted(HOT, 0)


def test_an_answer_can_be_for_those_alone_who_waited_before() -> None:
    calls = Calls()
    calls.begin(1, ["a"])
    waiting = calls.waiting_for("a")
    calls.begin(2, ["a"])
    assert calls.answer("a", 0, waiting) == [(1, [0])]
    assert calls.answer("a", 0) == [(2, [0])]


def test_the_qos_is_the_best_of_those_that_match_and_never_above_the_publications() -> None:
    table = Table()
    table.add("hot", Wanted(HOT, 1))
    table.add("all", Wanted(ALL, 0))
    assert [table.qos_for(("hot", "all"), published) for published in (0, 1, 2)] == [0, 1, 1]
    assert table.qos_for(("all",), 1) == 0
    assert table.qos_for(("of an earlier life",), 1) == 1


def test_what_is_outdated_is_found_while_the_loop_ends_another() -> None:
    table = Table()

    class EndsAnother:
        def __bool__(self) -> bool:
            table.drop("ended")
            return True

    table.add("old", Wanted(HOT, 1, is_adopted=EndsAnother()))  # type: ignore[arg-type]
    table.add("ended", Wanted(ALL, 1))
    assert table.outdated_by("new", Wanted(ALL, 1)) == ["old"]

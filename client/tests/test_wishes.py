"""What a subscriber wants, and what the gateway has said of each."""

from mqloom.client.limits import GONE_MAX
from mqloom.client.wishes import Wishes, WishState
from mqloom.core.records import Answer, Wish

HOT, COLD = Wish(topics="hot/#"), Wish(topics="cold/#")


def established(name: str, *, partly: bool = False) -> Answer:
    return Answer(answer="established", name=name, partly=partly)


def both(*, lasting: bool = True) -> Wishes:
    return Wishes({"hot": HOT, "cold": COLD}, lasting=lasting)


def test_what_is_refused_is_not_asked_for_again_unless_it_is_added_again() -> None:
    wishes = both()
    assert wishes.obey(Answer(answer="refused", name="hot"), WishState.REFUSED) == ["hot"]
    assert wishes.asked() == {"cold": COLD}
    wishes.reopen()
    assert wishes.asked() == {"cold": COLD}
    wishes.add("hot", HOT)
    assert wishes.asked() == {"cold": COLD, "hot": HOT}


def test_an_answer_changes_something_once_but_complete_is_news_after_partly() -> None:
    wishes = both()
    assert wishes.obey(established("hot", partly=True), WishState.ESTABLISHED) == ["hot"]
    assert wishes.obey(established("hot", partly=True), WishState.ESTABLISHED) == []
    wishes.obey(established("cold"), WishState.ESTABLISHED)
    assert (wishes.are_answered(), wishes.are_complete()) == (True, False)
    assert wishes.obey(established("hot"), WishState.ESTABLISHED) == ["hot"]
    assert wishes.are_complete()


def test_a_refusal_of_the_whole_record_is_one_of_each_that_is_open() -> None:
    wishes = both()
    wishes.obey(established("hot"), WishState.ESTABLISHED)
    assert wishes.obey(Answer(answer="refused"), WishState.REFUSED) == ["cold"]
    assert not wishes.are_refused()


def test_one_that_is_removed_delivers_until_it_has_ended_and_is_asked_for_no_more() -> None:
    wishes = both()
    wishes.obey(established("hot"), WishState.ESTABLISHED)
    assert wishes.remove("hot", 15.0)
    assert (wishes.asked(), wishes.copy()) == ({"cold": COLD}, {"cold": COLD})
    assert (wishes.wants("hot"), wishes.has("hot"), wishes.end_by) == (True, True, 15.0)
    assert (wishes.overdue(14.9), wishes.overdue(15.0)) == ([], ["hot"])
    wishes.forget("hot")
    assert (wishes.wants("hot"), wishes.has("hot"), wishes.end_by) == (False, False, None)


def test_one_of_which_no_gateway_can_know_has_ended_at_once() -> None:
    wishes = both()
    wishes.obey(Answer(answer="refused", name="hot"), WishState.REFUSED)
    assert not wishes.remove("hot", 15.0)
    assert not wishes.remove("never", 15.0)
    assert not wishes.wants("hot")


def test_what_an_earlier_life_wanted_is_delivered_to_one_that_lasts_and_to_no_other() -> None:
    assert both().wants("of another life")
    assert not both(lasting=False).wants("of another life")


def test_of_those_that_have_ended_only_the_newest_are_remembered() -> None:
    wishes = Wishes({}, lasting=True)
    for number in range(GONE_MAX + 1):
        wishes.forget(f"w{number}")
    assert wishes.wants("w0")
    assert not wishes.wants("w1")


def test_an_answer_without_a_name_is_about_all_but_establishes_none() -> None:
    wishes = both()
    assert wishes.knows(Answer(answer="refused"))
    assert not wishes.knows(Answer(answer="established"))
    assert not wishes.knows(established("other"))

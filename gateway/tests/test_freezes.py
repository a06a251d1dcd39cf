"""Leave to move: who agrees, who refuses and in which words, and when it is over."""

from collections.abc import Sequence

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, FREEZE_S
from mqloom.core.messages import Freeze, Frozen, Message, Thaw
from mqloom.core.records import PlaceLink
from mqloom.gateway.freezes import MOVERS_MAX, Freezes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import MoveNear, MoveOver, OverlayEvent
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.soft_links import SoftLinks
from mqloom.lab.gate import US, A, B
from mqloom.lab.woven import FAR, C
from mqloom.plugins.tree_overlay import TreeOverlay

MOVER, NEW = GatewayId("M"), GatewayId("T")
PATH = (MOVER, A, US, NEW)
ASKED = Freeze(MOVER, 3, PATH, 4)
FURTHER = Freeze(MOVER, 3, PATH, 3)
OURS = Freeze(US, 3, (US, A, NEW), 4)


class Ice:
    """The agreements of one gateway with three neighbours, and what they are told."""

    def __init__(self, *reachable: GatewayId) -> None:
        neighbours = [A, B, C]
        journal = Journal(Counters())
        overlay = GuardedOverlay(US, TreeOverlay(US, neighbours), neighbours, journal)
        self.soft_links = SoftLinks(US, 1, journal)
        self.outbox = Outbox()
        self.told: list[OverlayEvent] = []
        self.freezes = Freezes(
            US, overlay, self.soft_links, self.outbox, lambda event, now: self.told.append(event), {MOVER}
        )
        for neighbour in reachable or neighbours:
            self.freezes.reach(neighbour)

    def said(self) -> dict[str, list[Message]]:
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}

    def asked(self, freeze: Freeze = ASKED, sender: GatewayId = A, now: float = 0.0) -> dict[str, list[Message]]:
        self.freezes.asked(sender, freeze, now)
        self.freezes.settle()
        return self.said()

    def answered(self, *senders: GatewayId, problem: str = "", freeze: Freeze = ASKED) -> dict[str, list[Message]]:
        for sender in senders:
            self.freezes.answered(sender, Frozen(freeze.mover, freeze.number, problem))
        self.freezes.settle()
        return self.said()


def agreed(problem: str = "", number: int = 3) -> list[Message]:
    return [Frozen(MOVER, number, problem)]


def refused(answers: dict[str, list[Message]], sender: GatewayId = A) -> str:
    """Return in which words somebody is refused, and nobody else is told anything."""
    (answer,) = answers.pop(sender)
    assert not answers
    assert isinstance(answer, Frozen)
    return answer.problem


def test_who_is_asked_keeps_off_and_asks_further_and_agrees_when_all_have() -> None:
    ice = Ice()
    assert ice.asked() == {B: [FURTHER], C: [FURTHER]}
    assert ice.told == [MoveNear(PATH)]
    assert not ice.freezes.is_free
    assert ice.answered(B) == {}
    assert ice.answered(C) == {A: agreed()}
    assert ice.answered(C) == {}
    assert not ice.freezes.is_free


def test_with_no_hops_left_nobody_is_asked_further() -> None:
    ice = Ice()
    assert ice.asked(Freeze(MOVER, 3, PATH, 0)) == {A: agreed()}


def test_one_who_refuses_is_passed_on_once_in_his_words() -> None:
    ice = Ice()
    ice.asked()
    assert ice.answered(B, problem="no") == {A: agreed("no")}
    assert ice.answered(C) == {}


@pytest.mark.parametrize(("sender", "freeze"), [(A, ASKED), (FAR, ASKED), (B, Freeze(MOVER, 4, PATH, 4))])
def test_an_answer_that_was_not_asked_for_changes_nothing(sender: GatewayId, freeze: Freeze) -> None:
    ice = Ice()
    ice.asked()
    assert ice.answered(sender, problem="no", freeze=freeze) == {}
    assert ice.answered(B, C) == {A: agreed()}


def test_an_answer_when_nothing_was_agreed_changes_nothing() -> None:
    ice = Ice()
    assert ice.answered(B) == {}
    assert ice.freezes.is_free


def test_one_who_cannot_ask_further_refuses_and_stays_free() -> None:
    ice = Ice(A, B)
    assert refused(ice.asked()) == "US does not reach C"
    assert ice.freezes.is_free
    assert ice.told == []


def test_soft_links_that_touch_the_path_must_be_gone_first() -> None:
    ice = Ice()
    ice.soft_links.open(FAR)
    ice.soft_links.connected(FAR, 0.0)
    ice.asked()
    ice.soft_links.close(FAR, 0.0)
    assert ice.soft_links.are_closing
    assert ice.answered(B, C) == {}
    ice.soft_links.lost(FAR)
    ice.soft_links.sweep(0.0)
    assert not ice.soft_links.are_closing
    assert ice.answered() == {A: agreed()}


# ---- two moves -----------------------------------------------------------------------------------------------------


def test_who_has_agreed_to_a_move_refuses_another() -> None:
    ice = Ice()
    ice.asked()
    problem = refused(ice.asked(Freeze(NEW, 9, (NEW, B, US, C), 4), B), B)
    assert problem == "US has agreed to a move of M: try again when it is over"
    assert ice.answered(B, C) == {A: agreed()}


def test_two_that_move_and_meet_each_other_refuse_each_other() -> None:
    ice = Ice()
    ice.freezes.ask(OURS, 0.0)
    ice.said()
    assert refused(ice.asked()) == "US has agreed to a move of US: try again when it is over"


def test_our_own_question_that_comes_round_is_refused_even_when_we_have_given_up() -> None:
    ice = Ice()
    assert refused(ice.asked(OURS)) == "US has agreed to a move of US: try again when it is over"
    ice.freezes.ask(OURS, 0.0)
    ice.said()
    assert refused(ice.asked(OURS)) == "it came by twice: is there a cycle in the primary network?"


def test_a_question_that_comes_twice_shows_a_cycle() -> None:
    ice = Ice()
    ice.asked()
    assert refused(ice.asked(sender=B), B) == "it came by twice: is there a cycle in the primary network?"


def test_a_later_move_of_the_same_gateway_shows_that_the_earlier_one_is_over() -> None:
    """It crashed in the middle, and nobody said so: nobody near could move for FREEZE_S."""
    ice = Ice()
    ice.asked()
    later = Freeze(MOVER, 4, (MOVER, A, US), 1)
    assert ice.asked(later, now=5.0) == {B: [Freeze(MOVER, 4, later.path, 0)], C: [Freeze(MOVER, 4, later.path, 0)]}
    assert ice.told == [MoveNear(PATH), MoveOver(), MoveNear(later.path)]
    assert ice.answered(B, C) == {}
    assert ice.freezes.deadline == 5.0 + FREEZE_S
    ice.freezes.thawed(A, Thaw(MOVER, 3, 4), 6.0)
    assert not ice.freezes.is_free


def test_an_earlier_move_does_not_end_a_later_one() -> None:
    ice = Ice()
    ice.asked()
    assert refused(ice.asked(Freeze(MOVER, 2, PATH, 4))) == "US has agreed to a move of M: try again when it is over"


# ---- our own -------------------------------------------------------------------------------------------------------


def test_our_own_question_goes_to_all_and_is_open_until_all_have_answered() -> None:
    ice = Ice()
    ice.freezes.ask(OURS, 0.0)
    further = Freeze(US, 3, OURS.path, 3)
    assert ice.said() == {A: [further], B: [further], C: [further]}
    assert ice.told == [MoveNear(OURS.path)]
    assert ice.answered(A, B, freeze=OURS) == {}
    assert ice.freezes.answer is None
    ice.answered(C, freeze=OURS)
    assert ice.freezes.answer == ""
    ice.freezes.end(1.0)
    thaw = Thaw(US, 3, CONTROL_HOPS_MAX - 1)
    assert ice.said() == {A: [thaw], B: [thaw], C: [thaw]}
    assert ice.told[1:] == [MoveOver()]
    ice.freezes.end(1.0)
    assert ice.said() == {}


def test_our_own_question_is_refused_at_once_if_somebody_is_out_of_reach() -> None:
    ice = Ice(A, C)
    ice.freezes.ask(OURS, 0.0)
    assert ice.said() == {}
    assert ice.freezes.answer == "US does not reach B"


def test_nobody_else_can_end_our_own_move() -> None:
    ice = Ice()
    ice.freezes.ask(OURS, 0.0)
    ice.freezes.thawed(A, Thaw(US, 3, 4), 0.0)
    assert ice.freezes.answer is None
    ice.said()
    ice.freezes.thawed(A, Thaw(MOVER, 3, 4), 0.0)  # that of another is passed on all the same
    assert ice.said() == {B: [Thaw(MOVER, 3, 3)], C: [Thaw(MOVER, 3, 3)]}


def test_our_end_does_not_end_the_move_of_another() -> None:
    ice = Ice()
    ice.asked()
    ice.freezes.end(1.0)
    assert not ice.freezes.is_free


# ---- neighbours that are lost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [A, B])
def test_one_that_is_lost_on_the_way_of_the_question_is_a_problem(lost: GatewayId) -> None:
    ice = Ice()
    ice.asked()
    ice.freezes.lose(lost)
    assert ice.said() == {A: agreed(f"US has lost {lost} meanwhile")}
    assert ice.answered(B, C) == {}


def test_one_that_has_answered_may_be_lost() -> None:
    ice = Ice()
    ice.asked()
    ice.answered(B)
    ice.freezes.lose(B)
    assert ice.answered(C) == {A: agreed()}
    ice.freezes.lose(A)
    assert ice.said() == {}


# ---- its end -------------------------------------------------------------------------------------------------------


def test_the_end_is_passed_on_as_far_as_the_question_was_and_to_whom_it_reaches() -> None:
    ice = Ice()
    ice.asked()
    ice.answered(B, C)
    ice.freezes.lose(C)
    ice.freezes.thawed(A, Thaw(MOVER, 3, 2), 1.0)
    assert ice.said() == {B: [Thaw(MOVER, 3, 1)]}
    assert ice.told == [MoveNear(PATH), MoveOver()]
    assert ice.freezes.is_free
    ice.freezes.thawed(A, Thaw(MOVER, 3, 2), 1.0)
    assert ice.told == [MoveNear(PATH), MoveOver()]


def test_the_end_goes_no_further_than_its_hops() -> None:
    ice = Ice()
    ice.asked()
    ice.freezes.thawed(A, Thaw(MOVER, 3, 0), 1.0)
    assert ice.said() == {}
    assert ice.freezes.is_free


@pytest.mark.parametrize("thaw", [Thaw(MOVER, 2, 4), Thaw(NEW, 3, 4)])
def test_the_end_of_another_move_ends_nothing(thaw: Thaw) -> None:
    ice = Ice()
    ice.asked()
    ice.freezes.thawed(A, thaw, 1.0)
    assert not ice.freezes.is_free


def test_when_nothing_more_is_heard_of_a_move_it_is_over() -> None:
    ice = Ice()
    assert ice.freezes.deadline is None
    ice.freezes.wake(0.0)
    ice.asked(now=2.0)
    assert ice.freezes.deadline == 2.0 + FREEZE_S
    ice.freezes.wake(1.9 + FREEZE_S)
    assert not ice.freezes.is_free
    ice.freezes.wake(2.0 + FREEZE_S)
    assert ice.freezes.is_free
    assert ice.freezes.deadline is None
    assert ice.told == [MoveNear(PATH), MoveOver()]


# ---- taking on -----------------------------------------------------------------------------------------------------

TO_US = Freeze(MOVER, 3, (MOVER, A, US), 4, instead_of=(MOVER, B))


def test_only_the_gateway_of_a_move_to_us_may_be_our_neighbour_and_only_while_we_agree() -> None:
    ice = Ice()
    assert ice.freezes.may_join(MOVER) is None
    ice.asked(TO_US)
    assert ice.freezes.may_join(MOVER) is None  # not all have agreed
    ice.answered(B, C, freeze=TO_US)
    assert ice.freezes.may_join(MOVER) == PlaceLink(MOVER, 3, False, (MOVER, B))
    assert ice.freezes.may_join(NEW) is None
    ice.freezes.thawed(A, Thaw(MOVER, 3, 0), 1.0)
    assert ice.freezes.may_join(MOVER) is None
    ice.asked()
    assert ice.freezes.may_join(MOVER) is None


def test_the_one_from_whom_a_gateway_has_parted_says_that_its_move_is_over() -> None:
    ice = Ice()
    ice.asked(TO_US)
    ice.freezes.parted(NEW, 1.0)
    assert ice.said() == {}
    ice.freezes.parted(MOVER, 1.0)
    thaw = Thaw(MOVER, 3, CONTROL_HOPS_MAX - 1)
    assert ice.said() == {A: [thaw], B: [thaw], C: [thaw]}
    assert ice.freezes.is_free
    ice.freezes.parted(MOVER, 1.0)
    assert ice.said() == {}


# ---- after a restart -----------------------------------------------------------------------------------------------

AGAIN = Freeze(MOVER, 3, PATH, 3, True)
"""As it is told by one that was asked with four hops left."""


def test_a_neighbour_that_comes_back_is_told_again_and_is_not_asked() -> None:
    ice = Ice()
    ice.asked()
    ice.freezes.lose(C)
    ice.said()
    ice.freezes.reach(C)
    assert ice.said() == {C: [AGAIN]}


def test_one_that_is_told_again_keeps_off_and_answers_nobody() -> None:
    ice = Ice(A)
    assert ice.asked(AGAIN) == {}
    assert ice.told == [MoveNear(PATH)]
    assert ice.asked(AGAIN, sender=B) == {}
    assert ice.told == [MoveNear(PATH)]
    ice.freezes.reach(B)
    assert ice.said() == {B: [Freeze(MOVER, 3, PATH, 2, True)]}
    ice.freezes.thawed(A, Thaw(MOVER, 3, 4), 1.0)
    assert ice.said() == {B: [Thaw(MOVER, 3, 3)]}
    assert ice.freezes.is_free
    assert ice.asked(AGAIN, sender=B) == {B: [Thaw(MOVER, 3, CONTROL_HOPS_MAX)]}
    assert ice.freezes.is_free


def test_one_that_is_told_again_tells_those_further_on_as_far_as_the_question_went() -> None:
    ice = Ice()
    assert ice.asked(AGAIN) == {each: [Freeze(MOVER, 3, PATH, 2, True)] for each in (B, C)}
    other = Ice()
    assert other.asked(Freeze(MOVER, 3, PATH, 0, True)) == {}
    assert not other.freezes.is_free


def test_an_end_is_passed_on_by_one_that_has_forgotten_what_it_was_asked() -> None:
    ice = Ice()
    ice.freezes.thawed(A, Thaw(MOVER, 3, 2), 1.0)
    assert ice.said() == {B: [Thaw(MOVER, 3, 1)], C: [Thaw(MOVER, 3, 1)]}
    assert ice.told == []
    ice.freezes.thawed(B, Thaw(MOVER, 2, 2), 1.0)
    assert ice.said() == {}


def test_that_moves_are_over_is_remembered_of_so_many_gateways() -> None:
    ice = Ice()
    for number in range(MOVERS_MAX + 1):
        ice.freezes.thawed(A, Thaw(GatewayId(f"G{number}"), 1, 0), 1.0)
    assert ice.asked(Freeze(GatewayId("G1"), 1, PATH, 0, True)) == {A: [Thaw(GatewayId("G1"), 1, CONTROL_HOPS_MAX)]}
    assert ice.asked(Freeze(GatewayId("G0"), 1, PATH, 0, True)) == {}
    assert not ice.freezes.is_free


def test_one_that_moved_before_it_crashed_is_told_so_itself() -> None:
    ice = Ice(A)
    ice.asked(Freeze(US, 3, OURS.path, 4, True))
    assert not ice.freezes.is_free
    ice.freezes.thawed(A, Thaw(US, 3, 0), 1.0)
    assert ice.freezes.is_free


def test_one_whose_address_is_not_known_is_not_taken_on() -> None:
    ice = Ice()
    path: Sequence[GatewayId] = (NEW, A, US)
    problem = refused(ice.asked(Freeze(NEW, 3, tuple(path), 4)))
    assert problem == "T is not in the configuration of US: its address is not known there"
    assert ice.freezes.is_free


def test_after_a_crash_we_are_told_of_our_own_move_and_that_is_no_contradiction() -> None:
    ice = Ice()
    ice.asked(Freeze(US, 3, (US, A, C), 4, True))
    ice.freezes.check()
    assert not ice.freezes.is_free

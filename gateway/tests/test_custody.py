"""Duties: who is told, when, and that nobody is told twice or never."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import Conversation, GatewayId, PublicationId
from mqloom.gateway.custody import Custody, Duty, FromBroker, FromGuest, FromNeighbour, FromPark, Source

A, B, C = GatewayId("A"), GatewayId("B"), GatewayId("C")
FIRST, LATER = Conversation(1, 0), Conversation(1, 1)
ID, REPEAT = PublicationId(A, 1, 7), PublicationId(A, 2, 0)


def from_a(frame: int = 1, conversation: Conversation = FIRST) -> FromNeighbour:
    return FromNeighbour(A, conversation, frame)


def from_b(frame: int = 1) -> FromNeighbour:
    return FromNeighbour(B, FIRST, frame)


@pytest.mark.parametrize("source", [FromBroker(3), from_a(), FromPark(A, 9)])
def test_a_source_is_told_when_the_last_claim_is_met(source: Source) -> None:
    custody = Custody()
    duty = custody.begin(source, ID)
    duty.claims += 2
    for _ in range(2):
        custody.meet(duty)
        assert custody.met() == []
        assert len(custody) == 1
    custody.meet(duty)
    assert custody.met() == [source]
    assert custody.met() == []
    assert len(custody) == 0


def test_what_has_no_id_is_told_likewise_and_counts_for_nobody() -> None:
    custody = Custody()
    duty = custody.begin(FromPark(A, 9))
    assert len(custody) == 0
    custody.meet(duty)
    assert custody.met() == [FromPark(A, 9)]


def test_a_claim_too_many_is_our_own_mistake() -> None:
    custody = Custody()
    duty = custody.begin(FromBroker(1), ID)
    custody.meet(duty)
    with pytest.raises(AssertionError):
        custody.meet(duty)


@pytest.mark.parametrize("conversation", [FIRST, LATER])
def test_again_from_its_source_is_told_together_with_the_first(conversation: Conversation) -> None:
    custody = Custody()
    duty = custody.begin(from_a(1), ID)
    custody.again(from_a(2, conversation), ID, ID)
    assert custody.met() == []
    custody.meet(duty)
    assert custody.met() == [from_a(1), from_a(2, conversation)]


@pytest.mark.parametrize("first", [from_a(), FromBroker(0)])
def test_again_from_another_source_is_told_at_once_and_the_first_waits(first: Source) -> None:
    custody = Custody()
    duty = custody.begin(first, ID)
    custody.again(from_b(), ID, ID)
    assert custody.met() == [from_b()]
    custody.meet(duty)
    assert custody.met() == [first]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FromGuest(A, FIRST, 1), from_b()),
        (FromGuest(A, FIRST, 1), FromGuest(B, FIRST, 1)),
        (FromGuest(A, FIRST, 1), FromGuest(A, LATER, 1)),
        (from_a(), FromGuest(B, FIRST, 1)),
    ],
)
def test_where_a_soft_link_is_one_of_the_ways_both_wait_for_its_sender_may_have_given_it_up(
    first: Source, second: Source
) -> None:
    custody = Custody()
    duty = custody.begin(first, ID)
    custody.again(second, ID, ID)
    assert custody.met() == []
    custody.meet(duty)
    assert custody.met() == [first, second]


def test_what_comes_back_to_its_origin_over_a_soft_link_is_told_at_once() -> None:
    custody = Custody()
    custody.begin(FromBroker(0), ID)
    custody.again(FromGuest(B, FIRST, 1), ID, ID)
    assert custody.met() == [FromGuest(B, FIRST, 1)]


def test_again_after_it_was_met_is_told_at_once() -> None:
    custody = Custody()
    custody.meet(custody.begin(from_a(1), ID))
    custody.met()
    custody.again(from_a(2), ID, ID)
    assert custody.met() == [from_a(2)]


def test_a_repeat_is_the_same_duty_by_another_name() -> None:
    custody = Custody()
    duty = custody.begin(from_a(1), ID)
    custody.again(from_a(1, LATER), REPEAT, ID)
    custody.again(from_a(2, LATER), REPEAT, REPEAT)
    assert custody.met() == []
    custody.meet(duty)
    assert custody.met() == [from_a(1), from_a(1, LATER), from_a(2, LATER)]
    assert len(custody) == 0
    custody.again(from_a(3, LATER), REPEAT, REPEAT)
    assert custody.met() == [from_a(3, LATER)]


def test_a_repeat_that_came_by_another_way_is_known_when_it_is_repeated_once_more() -> None:
    custody = Custody()
    duty = custody.begin(from_a(1), ID)
    custody.again(from_b(1), REPEAT, ID)
    assert custody.met() == [from_b(1)]
    custody.again(from_a(1, LATER), PublicationId(A, 3, 0), REPEAT)
    assert custody.met() == []  # this is who waits for us
    custody.meet(duty)
    assert custody.met() == [from_a(1), from_a(1, LATER)]
    assert len(custody) == 0


def test_an_id_that_duplicate_removal_has_forgotten_may_begin_once_more() -> None:
    custody = Custody()
    first = custody.begin(from_a(1), ID)
    second = custody.begin(from_b(1), ID)
    custody.meet(first)
    assert custody.met() == [from_a(1)]
    custody.again(from_b(2), ID, ID)
    custody.meet(second)
    assert custody.met() == [from_b(1), from_b(2)]
    assert len(custody) == 0


scripts = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["come", "claim", "meet"]), st.booleans()), max_size=60)


@given(scripts)
def test_whoever_brings_a_publication_is_told_once_for_each_time(script: list[tuple[int, str, bool]]) -> None:
    custody = Custody()
    duties: dict[PublicationId, Duty] = {}
    brought: list[Source] = []
    told: list[Source] = []
    for frame, (sequence, what, is_a) in enumerate(script):
        id_ = PublicationId(A, 1, sequence)
        source = from_a(frame) if is_a else from_b(frame)
        if what == "come":
            brought.append(source)
            if id_ in duties:
                custody.again(source, id_, id_)
            else:
                duties[id_] = custody.begin(source, id_)
        elif id_ in duties and duties[id_].claims:
            if what == "claim":
                duties[id_].claims += 1
            else:
                custody.meet(duties[id_])
        told += custody.met()
        assert len(custody) == sum(duty.claims > 0 for duty in duties.values())
    for duty in duties.values():
        while duty.claims:
            custody.meet(duty)
    told += custody.met()
    assert sorted(told, key=str) == sorted(brought, key=str)
    assert len(custody) == 0


# ---- neighbours that come and go -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(from_a(), from_b()), (from_b(), from_a())])
def test_from_both_ends_of_a_link_that_is_moved_both_wait(first: Source, second: Source) -> None:
    custody = Custody()
    custody.twins = frozenset((A, B))
    duty = custody.begin(first, ID)
    custody.again(second, ID, ID)
    assert custody.met() == []
    custody.meet(duty)
    assert custody.met() == [first, second]


def test_what_came_from_a_third_one_is_not_waited_for_by_the_ends_of_a_link_that_is_moved() -> None:
    """It went out to one of them, and comes round by the other: that one would wait for itself."""
    custody = Custody()
    custody.twins = frozenset((A, B))
    duty = custody.begin(FromNeighbour(C, FIRST, 1), ID)
    for source in (from_a(), from_b()):
        custody.again(source, ID, ID)
    assert custody.met() == [from_a(), from_b()]
    custody.meet(duty)
    assert custody.met() == [FromNeighbour(C, FIRST, 1)]


def test_a_neighbour_that_is_none_any_more_is_not_told_and_the_others_are() -> None:
    custody = Custody()
    custody.twins = frozenset((A, B))
    both, theirs, ours = custody.begin(from_a(), ID), custody.begin(from_b(2), REPEAT), custody.begin(FromBroker(1))
    custody.again(from_b(1), ID, ID)
    assert custody.open_from(A) == [both]
    assert custody.open_from(B) == [both, theirs]
    custody.forget(A)
    assert custody.open_from(A) == []
    for duty in (both, theirs, ours):
        custody.meet(duty)
    assert custody.met() == [from_b(1), from_b(2), FromBroker(1)]


def test_what_nobody_waits_for_any_more_is_waited_for_by_whoever_sends_it_again() -> None:
    custody = Custody()
    duty = custody.begin(from_a(), ID)
    custody.forget(A)
    custody.again(from_b(), ID, ID)
    assert custody.met() == []
    custody.meet(duty)
    assert custody.met() == [from_b()]


def test_a_duty_under_two_names_is_open_once() -> None:
    custody = Custody()
    duty = custody.begin(from_a(), ID)
    custody.again(from_a(2), ID, REPEAT)
    assert custody.open_from(A) == [duty]


def test_a_guest_of_the_name_of_a_neighbour_is_not_forgotten_with_it() -> None:
    custody = Custody()
    duty = custody.begin(FromGuest(A, FIRST, 1), ID)
    custody.forget(A)
    custody.meet(duty)
    assert custody.met() == [FromGuest(A, FIRST, 1)]

"""The waves behind which a subscription ends."""

import pytest

from mqloom.core.ids import Conversation, GatewayId, SubscriptionKey
from mqloom.core.limits import FLUSH_AGAIN_S, FLUSH_DEADLINE_S
from mqloom.core.messages import Flush, Flushed, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack
from mqloom.gateway import flushes as flushes_module
from mqloom.gateway.custody import Duty, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.flushes import RELAYS_MAX
from mqloom.gateway.soft_links import SoftLinks
from mqloom.lab.waves import Waves

A, B, C, US, FAR = (GatewayId(name) for name in ("A", "B", "C", "US", "FAR"))


def key(number: int) -> SubscriptionKey:
    return SubscriptionKey(US, 1, number)


def each(neighbours: str, messages: list[Message]) -> dict[str, list[Message]]:
    """Return the same messages for each of the neighbours, which have names of one letter."""
    return {neighbour: list(messages) for neighbour in neighbours}


def waves() -> Waves:
    return Waves(US, [A, B, C])


# ---- our own -----------------------------------------------------------------------------------------------------


def test_without_a_neighbour_in_reach_it_ends_at_once() -> None:
    alone = Waves(US, [A], reached=False)
    alone.flushes.close([key(1)], 0.0)
    assert alone.flushes.finished() == [key(1)]
    assert alone.flushes.finished() == []
    assert alone.told() == {}
    assert alone.flushes.deadline is None


def test_closing_nothing_begins_no_wave() -> None:
    ours = waves()
    ours.flushes.close([], 0.0)
    assert ours.told() == {}
    assert ours.flushes.deadline is None


def test_it_ends_when_everybody_has_answered() -> None:
    ours = waves()
    ours.flushes.close([key(1), key(2)], 0.0)
    assert ours.told() == each("ABC", [Flush(US, 1, 1)])
    for neighbour in (C, A):
        ours.flushes.answered(neighbour, Flushed(US, 1, 1), 0.1)
        assert ours.flushes.finished() == []
    ours.flushes.answered(B, Flushed(US, 1, 1), 0.2)
    assert ours.flushes.finished() == [key(1), key(2)]
    assert ours.flushes.deadline is None
    ours.flushes.check()


def test_those_that_come_meanwhile_share_the_next_wave() -> None:
    ours = Waves(US, [A])
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.close([key(2)], 0.1)
    ours.flushes.close([key(3)], 0.2)
    assert ours.told() == {A: [Flush(US, 1, 1)]}
    ours.flushes.answered(A, Flushed(US, 1, 1), 1.0)
    assert ours.flushes.finished() == [key(1)]
    assert ours.told() == {A: [Flush(US, 1, 2)]}
    assert ours.flushes.deadline == 1.0 + FLUSH_DEADLINE_S
    ours.flushes.answered(A, Flushed(US, 1, 2), 2.0)
    assert ours.flushes.finished() == [key(2), key(3)]


@pytest.mark.parametrize(
    "stale", [Flushed(US, 1, 0), Flushed(US, 1, 2), Flushed(US, 0, 1), Flushed(A, 1, 1), Flushed(GatewayId("X"), 1, 1)]
)
def test_a_stale_answer_changes_nothing(stale: Flushed) -> None:
    ours = Waves(US, [A])
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.answered(A, stale, 0.1)
    assert ours.flushes.finished() == []


def test_an_answer_twice_or_after_the_end_changes_nothing() -> None:
    ours = Waves(US, [A, B])
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.answered(A, Flushed(US, 1, 1), 0.1)
    ours.flushes.answered(A, Flushed(US, 1, 1), 0.1)
    assert ours.flushes.finished() == []
    ours.flushes.answered(B, Flushed(US, 1, 1), 0.1)
    ours.flushes.answered(B, Flushed(US, 1, 1), 0.1)
    assert ours.flushes.finished() == [key(1)]


def test_a_lost_neighbour_is_not_waited_for() -> None:
    ours = Waves(US, [A, B])
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.answered(A, Flushed(US, 1, 1), 0.1)
    ours.flushes.lose(B, 0.2)
    assert ours.flushes.finished() == [key(1)]
    ours.told()
    ours.flushes.close([key(2)], 0.3)
    assert ours.told() == {A: [Flush(US, 1, 2)]}


def test_a_neighbour_that_comes_during_a_wave_is_not_asked() -> None:
    ours = Waves(US, [A, B], reached=False)
    ours.flushes.reach(A)
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.reach(B)
    ours.flushes.answered(A, Flushed(US, 1, 1), 0.1)
    assert ours.flushes.finished() == [key(1)]


def test_after_the_deadline_nobody_is_waited_for() -> None:
    ours = Waves(US, [A, B])
    ours.flushes.close([key(1)], 1.0)
    ours.flushes.close([key(2)], 2.0)
    ours.flushes.answered(B, Flushed(US, 1, 1), 3.0)
    ours.flushes.wake(FLUSH_DEADLINE_S)
    assert ours.flushes.finished() == []
    ours.flushes.wake(1.0 + FLUSH_DEADLINE_S)
    assert ours.flushes.finished() == [key(1)]
    assert ours.counters.reasons("flushes_expired") == {"deadline": 1}
    assert ours.told() == {A: [Flush(US, 1, 1), Flush(US, 1, 2)], B: [Flush(US, 1, 1), Flush(US, 1, 2)]}
    assert ours.flushes.deadline == 1.0 + 2 * FLUSH_DEADLINE_S


def test_without_a_wave_waking_does_nothing() -> None:
    ours = waves()
    ours.flushes.wake(1_000.0)
    assert ours.told() == {}


# ---- those of others ---------------------------------------------------------------------------------------------


def test_a_leaf_answers_at_once() -> None:
    leaf = Waves(US, [A])
    leaf.flushes.passed(A, Flush(C, 7, 3))
    assert leaf.told() == {A: [Flushed(C, 7, 3)]}


def test_a_wave_is_passed_on_and_answered_when_all_have() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(A, 7, 3))
    assert ours.told() == each("BC", [Flush(A, 7, 3)])
    ours.flushes.answered(B, Flushed(A, 7, 3), 0.0)
    assert ours.told() == {}
    ours.flushes.answered(C, Flushed(A, 7, 3), 0.0)
    assert ours.told() == {A: [Flushed(A, 7, 3)]}


def test_a_later_wave_of_a_gateway_replaces_its_earlier_one() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(A, 7, 3))
    ours.flushes.passed(A, Flush(A, 7, 4))
    ours.told()
    for neighbour in (B, C):
        ours.flushes.answered(neighbour, Flushed(A, 7, 3), 0.0)
    assert ours.told() == {}
    for neighbour in (B, C):
        ours.flushes.answered(neighbour, Flushed(A, 7, 4), 0.0)
    assert ours.told() == {A: [Flushed(A, 7, 4)]}


def test_waves_of_several_gateways_do_not_mix() -> None:
    ours = waves()
    ours.flushes.close([key(1)], 0.0)
    ours.flushes.passed(A, Flush(A, 1, 1))
    ours.told()
    for neighbour in (A, B, C):
        ours.flushes.answered(neighbour, Flushed(US, 1, 1), 0.0)
    assert ours.flushes.finished() == [key(1)]
    assert ours.told() == {}


def test_a_lost_neighbours_questions_are_moot_and_nobody_waits_for_its_answers() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(A, 1, 1))
    ours.flushes.passed(B, Flush(B, 1, 1))
    ours.told()
    ours.flushes.answered(C, Flushed(A, 1, 1), 0.0)
    ours.flushes.answered(C, Flushed(B, 1, 1), 0.0)
    ours.flushes.lose(B, 0.0)
    assert ours.told() == {A: [Flushed(A, 1, 1, complete=False)]}
    ours.flushes.answered(A, Flushed(B, 1, 1), 0.0)
    assert ours.told() == {}


# ---- those that have only moved away -----------------------------------------------------------------------------


def test_with_patience_it_ends_behind_a_wave_that_reached_everybody() -> None:
    ours = waves()
    ours.flushes.lose(C, 0.0)
    ours.flushes.close([key(1)], 0.0, patient_until=60.0)
    ours.flushes.close([key(2)], 0.0)
    ours.flushes.check()
    for number, at in ((1, 0.1), (2, 1.2)):  # the second wave is for those that came meanwhile, and the impatient
        for neighbour in (A, B):
            ours.flushes.answered(neighbour, Flushed(US, 1, number), at)
    assert ours.flushes.finished() == [key(2)]
    ours.flushes.check()
    ours.told()
    ours.flushes.reach(C)
    assert ours.flushes.deadline is not None
    ours.flushes.wake(ours.flushes.deadline)
    assert ours.told() == each("ABC", [Flush(US, 1, 3)])
    for neighbour in (A, B, C):
        assert ours.flushes.finished() == []
        ours.flushes.answered(neighbour, Flushed(US, 1, 3), 3.0)
    assert ours.flushes.finished() == [key(1)]
    assert ours.flushes.deadline is None
    ours.flushes.check()


def test_with_patience_an_answer_that_is_not_complete_is_asked_for_again() -> None:
    ours = waves()
    ours.flushes.close([key(1)], 0.0, patient_until=60.0)
    for neighbour in (A, B, C):
        ours.flushes.answered(neighbour, Flushed(US, 1, 1, complete=neighbour != B), 0.1)
    assert ours.flushes.finished() == []
    ours.flushes.wake(0.1 + FLUSH_AGAIN_S)
    for neighbour in (A, B, C):
        ours.flushes.answered(neighbour, Flushed(US, 1, 2), 2.0)
    assert ours.flushes.finished() == [key(1)]


def test_patience_ends() -> None:
    ours = waves()
    ours.flushes.lose(A, 0.0)
    ours.flushes.close([key(1)], 0.0, patient_until=60.0)
    now = 0.0
    while now < 60.0:
        assert ours.flushes.finished() == []
        ours.flushes.answered(B, Flushed(US, 1, ours.flushes.came), now)
        ours.flushes.answered(C, Flushed(US, 1, ours.flushes.came), now)
        assert ours.flushes.deadline is not None
        now = ours.flushes.deadline
        ours.flushes.wake(now)
    ours.flushes.answered(B, Flushed(US, 1, ours.flushes.came), now)
    ours.flushes.answered(C, Flushed(US, 1, ours.flushes.came), now)
    assert ours.flushes.finished() == [key(1)]


def test_what_is_passed_on_is_complete_if_everybody_was_there() -> None:
    ours = waves()
    ours.flushes.lose(C, 0.0)
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    ours.told()
    ours.flushes.answered(B, Flushed(FAR, 1, 1), 0.0)
    assert ours.told() == {A: [Flushed(FAR, 1, 1, complete=False)]}
    ours.flushes.reach(C)
    ours.flushes.passed(A, Flush(FAR, 1, 2))
    for neighbour in (B, C):
        ours.told()
        ours.flushes.answered(neighbour, Flushed(FAR, 1, 2), 0.0)
    assert ours.told() == {A: [Flushed(FAR, 1, 2)]}


def test_past_the_bound_the_oldest_wave_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushes_module, "RELAYS_MAX", 2)
    ours = Waves(US, [A, B])
    for name in ("X", "Y", "Z"):
        ours.flushes.passed(A, Flush(GatewayId(name), 1, 1))
    ours.told()
    for name in ("X", "Y", "Z"):
        ours.flushes.answered(B, Flushed(GatewayId(name), 1, 1), 0.0)
    assert ours.told() == {A: [Flushed(GatewayId("Y"), 1, 1), Flushed(GatewayId("Z"), 1, 1)]}


def test_a_flood_of_waves_is_kept_within_the_bound() -> None:
    ours = Waves(US, [A, B])
    for number in range(RELAYS_MAX + 100):
        ours.flushes.passed(A, Flush(GatewayId(f"X{number}"), 1, 1))
    assert len(ours.flushes._relayed) == RELAYS_MAX


def test_our_own_wave_that_comes_back_is_answered_and_goes_no_further() -> None:
    ours = waves()
    ours.flushes.close([key(1)], 0.0)
    ours.told()
    ours.flushes.passed(B, Flush(US, 1, 1))
    assert ours.told() == {B: [Flushed(US, 1, 1)]}


def test_a_wave_that_its_asker_repeats_is_not_answered_before_its_time() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(GatewayId("X"), 1, 1))
    ours.told()
    ours.flushes.passed(A, Flush(GatewayId("X"), 1, 1))
    assert ours.told() == each("BC", [Flush(GatewayId("X"), 1, 1)])


def test_a_wave_that_comes_by_twice_is_answered_and_goes_no_further() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(GatewayId("X"), 1, 1))
    ours.told()
    ours.flushes.passed(B, Flush(GatewayId("X"), 1, 1))
    assert ours.told() == {B: [Flushed(GatewayId("X"), 1, 1)]}


# ---- soft links --------------------------------------------------------------------------------------------------

FAR, FARTHER = GatewayId("FAR"), GatewayId("FARTHER")


def soft(ours: Waves, *peers: GatewayId) -> SoftLinks:
    """Return the soft links of a gateway, these of which stand."""
    for peer in peers:
        ours.soft_links.open(peer)
        ours.soft_links.connected(peer, 0.0)
        ours.soft_links.acknowledged(peer, Ack(peer, Conversation(1, 0), 1, 0), 0.0)
    ours.soft_links.drain(0.0)
    return ours.soft_links


def post(ours: Waves, peer: GatewayId) -> None:
    ours.soft_links.post(peer, Entry(Publication(US, 1, 0, 0, 1, "t", b"", 1), Duty(FromBroker(0))))
    ours.soft_links.drain(0.0)


def test_a_leaf_answers_when_what_it_sent_over_soft_links_is_taken_care_of() -> None:
    leaf = Waves(US, [A])
    links = soft(leaf, FAR)
    post(leaf, FAR)
    leaf.flushes.passed(A, Flush(C, 7, 3))
    post(leaf, FAR)
    assert leaf.told() == {}
    links.acknowledged(FAR, Ack(FAR, Conversation(1, 0), 3, 1), 0.0)
    leaf.flushes.advance(0.0)
    assert leaf.told() == {A: [Flushed(C, 7, 3)]}


def test_what_goes_over_a_soft_link_before_the_last_answer_has_come_goes_before_ours() -> None:
    ours = Waves(US, [A, B])
    links = soft(ours, FAR)
    ours.flushes.passed(A, Flush(A, 7, 3))
    assert ours.told() == {B: [Flush(A, 7, 3)]}
    post(ours, FAR)  # it came from B, before B's answer: it had entered before the wave
    ours.flushes.answered(B, Flushed(A, 7, 3), 0.0)
    assert ours.told() == {}
    links.acknowledged(FAR, Ack(FAR, Conversation(1, 0), 2, 1), 0.0)
    ours.flushes.advance(0.0)
    assert ours.told() == {A: [Flushed(A, 7, 3)]}


def test_what_is_given_back_goes_before_the_answer() -> None:
    leaf = Waves(US, [A])
    links = soft(leaf, FAR)
    post(leaf, FAR)
    leaf.flushes.passed(A, Flush(C, 7, 3))
    links.lost(FAR)
    leaf.flushes.advance(0.0)
    assert leaf.told() == {}
    assert len(links.returned()) == 1  # now it goes
    leaf.flushes.advance(0.0)
    assert leaf.told() == {A: [Flushed(C, 7, 3)]}


def test_what_is_given_back_and_goes_over_another_soft_link_is_waited_for_there() -> None:
    leaf = Waves(US, [A])
    links = soft(leaf, FAR, FARTHER)
    post(leaf, FARTHER)
    leaf.flushes.passed(A, Flush(C, 7, 3))
    links.lost(FARTHER)
    [(_, entry)] = links.returned()
    links.post(FAR, entry)
    leaf.flushes.follow()
    leaf.flushes.advance(0.0)
    assert leaf.told() == {}
    links.drain(0.0)
    links.acknowledged(FAR, Ack(FAR, Conversation(1, 0), 2, 1), 0.0)
    leaf.flushes.advance(0.0)
    assert leaf.told() == {A: [Flushed(C, 7, 3)]}


def test_a_wave_that_still_waits_for_answers_has_nothing_to_follow() -> None:
    ours = Waves(US, [A, B])
    soft(ours, FAR)
    ours.flushes.passed(A, Flush(A, 7, 3))
    ours.flushes.follow()
    ours.flushes.advance(0.0)
    ours.told()
    ours.flushes.answered(B, Flushed(A, 7, 3), 0.0)
    assert ours.told() == {A: [Flushed(A, 7, 3)]}


# ---- while a primary link is moved ---------------------------------------------------------------------------------


def moving() -> Waves:
    """Return the waves of a gateway that moves from A to C, which is no neighbour of its overlay yet."""
    ours = Waves(US, [A, B])
    ours.flushes.reach(C)
    ours.overlay.stand_in, ours.overlay.joining = {C: A}, C
    return ours


def test_the_new_neighbour_is_answered_by_itself_and_in_full() -> None:
    ours = moving()
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    assert ours.told() == {B: [Flush(FAR, 1, 1)]}
    ours.flushes.passed(C, Flush(FAR, 1, 1))
    assert ours.told() == {B: [Flush(FAR, 1, 1)]}
    assert not ours.flushes.is_calm
    ours.flushes.answered(B, Flushed(FAR, 1, 1), 0.0)
    assert ours.told() == {A: [Flushed(FAR, 1, 1)], C: [Flushed(FAR, 1, 1)]}
    assert ours.flushes.is_calm


def test_a_wave_of_one_behind_us_goes_to_the_old_neighbour_alone_until_we_have_moved() -> None:
    ours = moving()
    ours.flushes.passed(B, Flush(FAR, 1, 1))
    assert ours.told() == {A: [Flush(FAR, 1, 1)]}
    ours.flushes.passed(C, Flush(FAR, 1, 1))  # it comes round
    assert ours.told() == {B: [Flush(FAR, 1, 1)]}
    ours.flushes.answered(B, Flushed(FAR, 1, 1), 0.0)
    assert ours.told() == {C: [Flushed(FAR, 1, 1)]}
    ours.flushes.answered(A, Flushed(FAR, 1, 1), 0.0)
    assert ours.told() == {B: [Flushed(FAR, 1, 1)]}


def test_our_own_wave_that_comes_round_by_the_new_neighbour_is_answered_at_once() -> None:
    ours = moving()
    ours.flushes.close([key(1)], 0.0)
    assert ours.told() == {A: [Flush(US, 1, 1)], B: [Flush(US, 1, 1)]}
    ours.flushes.passed(C, Flush(US, 1, 1))
    assert ours.told() == {C: [Flushed(US, 1, 1)]}
    assert not ours.flushes.is_calm


def test_the_neighbour_that_we_have_left_is_answered_at_once() -> None:
    ours = Waves(US, [B, C])
    ours.overlay.stand_in = {A: C}
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    assert ours.told() == {A: [Flushed(FAR, 1, 1)]}
    ours.flushes.passed(C, Flush(FAR, 1, 1))
    assert ours.told() == {B: [Flush(FAR, 1, 1)]}


def test_a_lost_neighbour_to_be_takes_its_questions_with_it_and_no_others() -> None:
    ours = moving()
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    ours.flushes.passed(C, Flush(FAR, 1, 1))
    ours.told()
    ours.flushes.lose(C, 0.0)
    ours.flushes.answered(B, Flushed(FAR, 1, 1), 0.0)
    assert ours.told() == {A: [Flushed(FAR, 1, 1)]}


def test_while_it_is_being_kept_that_a_link_has_changed_waves_wait() -> None:
    ours = Waves(US, [A, B])
    assert ours.flushes.came == 0
    ours.flushes.hold()
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    ours.flushes.close([key(1)], 0.0)
    assert ours.told() == {}
    assert (ours.flushes.came, ours.flushes.is_calm, ours.flushes.deadline) == (0, True, None)
    ours.flushes.release(2.0)
    assert ours.told() == {A: [Flush(US, 1, 1)], B: [Flush(FAR, 1, 1), Flush(US, 1, 1)]}
    assert (ours.flushes.came, ours.flushes.deadline) == (2, 2.0 + FLUSH_DEADLINE_S)
    ours.flushes.release(3.0)
    assert ours.told() == {}


def test_a_leaf_that_answers_at_once_has_seen_a_wave_all_the_same() -> None:
    leaf = Waves(US, [A])
    leaf.flushes.passed(A, Flush(FAR, 1, 1))
    assert (leaf.flushes.came, leaf.flushes.is_calm) == (1, True)


def test_no_wave_may_be_under_way_when_they_are_held() -> None:
    ours = waves()
    ours.flushes.passed(A, Flush(FAR, 1, 1))
    with pytest.raises(AssertionError):
        ours.flushes.hold()

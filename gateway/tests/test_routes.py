"""The routing table: what is told to whom, when a subscription is established, and what a break leaves."""

import pytest

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Established, Synced, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway import routes as routes_module
from mqloom.lab.gate import US, A, B, key
from mqloom.lab.woven import C, RouteTable, announce, each

WIDE, NARROW, OTHER = (Subscription.parse("a/#", where) for where in ("", "x > 1", "y > 1"))
HERE, FROM_A = key(US, 1), key(A, 1)


# ---- adding ------------------------------------------------------------------------------------------------------


def test_a_local_subscription_travels_to_everybody() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    assert table.told() == each("ABC", [announce(HERE, WIDE)])
    assert table.routes.source_of(HERE) is None
    assert (len(table.routes), table.routes.here()) == (1, 1)


def test_a_neighbours_subscription_travels_to_the_others() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == each("BC", [announce(FROM_A, WIDE)])
    assert table.routes.source_of(FROM_A) == A
    assert (len(table.routes), table.routes.here()) == (1, 0)


def test_it_is_established_when_everybody_has_answered() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B):
        table.routes.establish(HERE, neighbour)
        assert table.routes.standing_of(HERE) is None
        assert table.routes.established_here() == []
    table.routes.establish(HERE, C)
    assert table.routes.standing_of(HERE) is True
    assert table.routes.established_here() == [(HERE, True)]
    assert table.routes.established_here() == []


def test_a_neighbours_is_answered_when_the_others_have() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.establish(FROM_A, B)
    table.told()
    table.routes.establish(FROM_A, A)  # nobody asked A
    assert table.told() == {}
    table.routes.establish(FROM_A, C)
    assert table.told() == {A: [Established(FROM_A)]}


def test_what_is_covered_waits_for_the_answer_to_its_cover() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    table.routes.add(key(US, 2), NARROW, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    assert table.routes.established_here() == [(HERE, True), (key(US, 2), True)]
    assert table.counters.total("announcements_withheld") == 3


def test_what_comes_under_an_established_cover_is_established_at_once() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    table.routes.established_here()
    table.told()
    table.routes.add(key(US, 2), NARROW, None)
    assert table.routes.established_here() == [(key(US, 2), True)]
    assert table.told() == {}


def test_a_subscription_overtaken_by_a_wider_one_is_established_with_it() -> None:
    table = RouteTable()
    table.routes.add(HERE, NARROW, None)
    table.routes.add(key(US, 2), WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)  # answered before it was withdrawn: too late to mean anything
    assert table.routes.established_here() == []
    for neighbour in (A, B, C):
        table.routes.establish(key(US, 2), neighbour)
    assert sorted(table.routes.established_here()) == [(HERE, True), (key(US, 2), True)]


def test_an_answer_to_nothing_known_changes_nothing() -> None:
    table = RouteTable()
    table.routes.establish(key(B, 99), B)
    assert table.told() == {}


# ---- removing ----------------------------------------------------------------------------------------------------


def test_removing_withdraws_everywhere_and_leaves_nothing() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    assert table.routes.remove(FROM_A, A)
    assert table.told() == each("BC", [Withdraw(FROM_A)])
    assert len(table.routes) == 0
    assert table.matcher._topics == {}


@pytest.mark.parametrize("source", [B, None])
def test_only_where_it_came_from_can_remove_it(source: GatewayId | None) -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    assert not table.routes.remove(FROM_A, source)
    assert table.told() == {}
    assert len(table.routes) == 1


def test_removing_what_is_not_known_says_so() -> None:
    assert not RouteTable().routes.remove(FROM_A, A)


def test_removing_what_is_waited_for_leaves_nobody_waiting() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    table.routes.remove(HERE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    assert table.routes.established_here() == []


# ---- keys that are used twice ------------------------------------------------------------------------------------


def test_the_same_key_from_another_side_is_refused() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    table.routes.add(FROM_A, WIDE, B)
    assert table.told() == {}
    assert table.routes.source_of(FROM_A) == A
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_the_same_key_for_another_wish_is_refused() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.add(FROM_A, NARROW, A)
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_a_neighbour_that_took_one_of_our_own_keys_makes_way() -> None:
    table = RouteTable()
    table.routes.add(HERE, NARROW, A)
    table.told()
    table.routes.add(HERE, WIDE, None)
    assert table.routes.source_of(HERE) is None
    assert table.told()[A] == [announce(HERE, WIDE)]
    assert not table.routes.remove(HERE, A)
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_announcements_past_the_bound_are_refused_but_not_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "ENTRIES_MAX", 2)
    table = RouteTable()
    for number in range(4):
        table.routes.add(key(A, number), WIDE, A)
    assert len(table.routes) == 2
    assert table.counters.reasons("subscriptions_refused") == {"too many": 2}
    table.routes.add(HERE, NARROW, None)
    assert len(table.routes) == 3
    table.routes.add(key(A, 0), WIDE, A)  # named again: known already
    assert table.counters.reasons("subscriptions_refused") == {"too many": 2}


# ---- links that come and go --------------------------------------------------------------------------------------


def test_a_link_that_opens_is_told_everything_and_synced_when_that_is_said() -> None:
    table = RouteTable(opened=False)
    table.routes.add(HERE, WIDE, None)
    table.routes.add(key(B, 1), OTHER, B)
    table.routes.add(FROM_A, NARROW, A)
    assert table.told() == {}
    table.routes.open_link(A)
    assert table.told() == {A: [announce(HERE, WIDE)]}
    table.routes.say_synced(A)
    assert table.told() == {A: [Synced()]}
    assert table.counters.total("announcements_withheld") == 1


def test_answers_given_while_the_link_was_away_are_given_again() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.close_link(A)
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C)
    table.told()
    table.routes.open_link(A)
    assert table.told() == {A: [Established(FROM_A)]}


def test_an_announcement_named_again_is_answered_again_once_it_can_be() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == {}
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C)
    table.told()
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == {A: [Established(FROM_A)]}


def test_a_neighbour_given_up_is_not_waited_for_but_the_answer_is_not_complete() -> None:
    table = RouteTable(opened=False)
    for neighbour in (A, B):
        table.routes.open_link(neighbour)
    table.routes.add(HERE, WIDE, None)
    table.routes.add(FROM_A, WIDE, A)
    for neighbour in (A, B):
        table.routes.establish(HERE, neighbour)
    table.told()
    table.routes.give_up_on(C)
    assert table.routes.established_here() == [(HERE, False)]
    assert table.routes.standing_of(HERE) is False
    assert table.told() == {A: [Established(FROM_A, False)]}  # for B it is withheld under HERE, which B has answered
    table.routes.give_up_on(C)
    assert (table.routes.established_here(), table.told()) == ([], {})  # that is said once
    table.routes.open_link(C)
    table.told()
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True)]
    assert table.told() == {A: [Established(FROM_A)]}


def test_a_neighbour_given_up_is_not_waited_for_by_newcomers_until_it_is_back() -> None:
    table = RouteTable()
    table.routes.close_link(C)
    table.routes.give_up_on(C)
    table.routes.add(HERE, WIDE, None)
    table.routes.establish(HERE, A)
    table.routes.establish(HERE, B)
    assert table.routes.established_here() == [(HERE, False)]
    table.routes.open_link(C)
    table.routes.add(key(US, 3), Subscription.parse("b"), None)
    table.routes.establish(key(US, 3), A)
    table.routes.establish(key(US, 3), B)
    assert table.routes.standing_of(key(US, 3)) is None
    assert table.routes.established_here() == []
    table.routes.establish(key(US, 3), C)
    assert table.routes.established_here() == [(key(US, 3), True)]


def test_a_break_keeps_what_waits_waiting_and_the_next_answer_counts() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    table.routes.establish(HERE, A)
    table.routes.establish(HERE, B)
    table.routes.close_link(C)
    table.routes.establish(HERE, C)  # of the conversation before
    assert table.routes.standing_of(HERE) is None
    table.routes.open_link(C)
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True)]


# ---- answers that are not complete -------------------------------------------------------------------------------


def test_an_answer_that_is_not_complete_is_passed_on_as_such_once_nobody_else_is_waited_for() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    table.routes.establish(HERE, A, complete=False)
    table.routes.establish(HERE, B)
    assert table.routes.established_here() == []
    table.routes.establish(HERE, C, complete=False)
    assert table.routes.established_here() == [(HERE, False)]
    table.routes.establish(HERE, A, complete=False)
    table.routes.establish(HERE, A)
    assert table.routes.established_here() == []  # C's is still not complete, and that has been said
    assert table.routes.standing_of(HERE) is False
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True)]


def test_an_answer_that_is_not_complete_takes_nothing_back() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    table.routes.established_here()
    table.routes.establish(HERE, A, complete=False)
    assert table.routes.standing_of(HERE) is True
    assert table.routes.established_here() == []


def test_what_comes_under_a_cover_that_is_partly_established_is_so_too() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour, complete=neighbour != C)
    assert table.routes.established_here() == [(HERE, False)]
    table.routes.add(key(US, 2), NARROW, None)
    assert table.routes.established_here() == [(key(US, 2), False)]
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True), (key(US, 2), True)]


def test_an_answer_that_is_not_complete_is_forgotten_with_its_conversation() -> None:
    table = RouteTable()
    table.routes.add(HERE, WIDE, None)
    table.routes.establish(HERE, A)
    table.routes.establish(HERE, B)
    table.routes.establish(HERE, C, complete=False)
    table.routes.established_here()
    table.routes.close_link(C)
    assert table.routes.standing_of(HERE) is None
    table.routes.open_link(C)
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True)]


def test_an_announcement_named_again_is_answered_partly_again() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C, complete=False)
    assert table.told()[A] == [Established(FROM_A, False)]
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == {A: [Established(FROM_A, False)]}
    table.routes.close_link(A)
    table.routes.open_link(A)
    assert table.told() == {A: [Established(FROM_A, False)]}


def test_what_a_neighbour_does_not_name_again_goes_at_synced_and_not_before() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.add(key(A, 2), OTHER, A)
    table.routes.add(key(B, 1), NARROW, B)
    table.told()
    table.routes.doubt(A)
    assert len(table.routes) == 3
    table.routes.add(key(A, 2), OTHER, A)
    table.told()
    table.routes.sweep(A)
    assert len(table.routes) == 2
    assert table.told()[B] == [announce(key(A, 2), OTHER), Withdraw(FROM_A)]
    assert table.routes.source_of(key(B, 1)) == B
    table.routes.sweep(A)
    assert table.told() == {}


def test_the_same_wishes_under_new_keys_leave_no_moment_without_a_route() -> None:
    table = RouteTable()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    table.routes.doubt(A)
    restarted = SubscriptionKey(A, 2, 1)
    table.routes.add(restarted, WIDE, A)
    assert table.told() == {}  # withheld: the old one still stands for it
    table.routes.sweep(A)
    assert table.told() == each("BC", [announce(restarted, WIDE), Withdraw(FROM_A)])

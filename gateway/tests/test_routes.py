"""The routing table: what is told to whom, when a subscription is established, and what a break leaves."""

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Message, Synced, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway import routes as routes_module
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import OverlayEffect, OverlayEvent
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.routes import Routes
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

A, B, C, US = (GatewayId(name) for name in ("A", "B", "C", "US"))
WIDE, NARROW, OTHER = (Subscription.parse("a/#", where) for where in ("", "x > 1", "y > 1"))


def each(neighbours: str, messages: list[Message]) -> dict[str, list[Message]]:
    """Return the same messages for each of the neighbours, which have names of one letter."""
    return {neighbour: list(messages) for neighbour in neighbours}


class Table:
    """Routes with three neighbours, and what they are told."""

    def __init__(self, *, opened: bool = True) -> None:
        self.counters = Counters()
        self.outbox = Outbox()
        self.matcher = ScanMatcher()
        neighbours = [A, B, C]
        journal = Journal(self.counters)
        overlay = GuardedOverlay(US, TreeOverlay(US, neighbours), neighbours, journal)
        self.routes = Routes(neighbours, self.matcher, overlay, self.outbox, journal)
        if opened:
            for neighbour in neighbours:
                self.routes.open_link(neighbour)
            self.told()

    def told(self) -> dict[str, list[Message]]:
        self.routes.check()
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}


def key(gateway: GatewayId, number: int) -> SubscriptionKey:
    return SubscriptionKey(gateway, 1, number)


def announce(which: SubscriptionKey, wish: Subscription) -> Announce:
    return Announce(which, wish.topics, str(wish.where))


HERE, FROM_A = key(US, 1), key(A, 1)


# ---- adding ------------------------------------------------------------------------------------------------------


def test_a_local_subscription_travels_to_everybody() -> None:
    table = Table()
    table.routes.add(HERE, WIDE, None)
    assert table.told() == each("ABC", [announce(HERE, WIDE)])
    assert table.routes.source_of(HERE) is None
    assert (len(table.routes), table.routes.here()) == (1, 1)


def test_a_neighbours_subscription_travels_to_the_others() -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == each("BC", [announce(FROM_A, WIDE)])
    assert table.routes.source_of(FROM_A) == A
    assert (len(table.routes), table.routes.here()) == (1, 0)


def test_it_is_established_when_everybody_has_answered() -> None:
    table = Table()
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
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.establish(FROM_A, B)
    table.told()
    table.routes.establish(FROM_A, A)  # nobody asked A
    assert table.told() == {}
    table.routes.establish(FROM_A, C)
    assert table.told() == {A: [Established(FROM_A)]}


def test_what_is_covered_waits_for_the_answer_to_its_cover() -> None:
    table = Table()
    table.routes.add(HERE, WIDE, None)
    table.routes.add(key(US, 2), NARROW, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    assert table.routes.established_here() == [(HERE, True), (key(US, 2), True)]
    assert table.counters.total("announcements_withheld") == 3


def test_what_comes_under_an_established_cover_is_established_at_once() -> None:
    table = Table()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    table.routes.established_here()
    table.told()
    table.routes.add(key(US, 2), NARROW, None)
    assert table.routes.established_here() == [(key(US, 2), True)]
    assert table.told() == {}


def test_a_subscription_overtaken_by_a_wider_one_is_established_with_it() -> None:
    table = Table()
    table.routes.add(HERE, NARROW, None)
    table.routes.add(key(US, 2), WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)  # answered before it was withdrawn: too late to mean anything
    assert table.routes.established_here() == []
    for neighbour in (A, B, C):
        table.routes.establish(key(US, 2), neighbour)
    assert sorted(table.routes.established_here()) == [(HERE, True), (key(US, 2), True)]


def test_an_answer_to_nothing_known_changes_nothing() -> None:
    table = Table()
    table.routes.establish(key(B, 99), B)
    assert table.told() == {}


# ---- removing ----------------------------------------------------------------------------------------------------


def test_removing_withdraws_everywhere_and_leaves_nothing() -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    assert table.routes.remove(FROM_A, A)
    assert table.told() == each("BC", [Withdraw(FROM_A)])
    assert len(table.routes) == 0
    assert table.matcher._topics == {}


@pytest.mark.parametrize("source", [B, None])
def test_only_where_it_came_from_can_remove_it(source: GatewayId | None) -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    assert not table.routes.remove(FROM_A, source)
    assert table.told() == {}
    assert len(table.routes) == 1


def test_removing_what_is_not_known_says_so() -> None:
    assert not Table().routes.remove(FROM_A, A)


def test_removing_what_is_waited_for_leaves_nobody_waiting() -> None:
    table = Table()
    table.routes.add(HERE, WIDE, None)
    table.routes.remove(HERE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    assert table.routes.established_here() == []


# ---- keys that are used twice ------------------------------------------------------------------------------------


def test_the_same_key_from_another_side_is_refused() -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    table.routes.add(FROM_A, WIDE, B)
    assert table.told() == {}
    assert table.routes.source_of(FROM_A) == A
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_the_same_key_for_another_wish_is_refused() -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.add(FROM_A, NARROW, A)
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_a_neighbour_that_took_one_of_our_own_keys_makes_way() -> None:
    table = Table()
    table.routes.add(HERE, NARROW, A)
    table.told()
    table.routes.add(HERE, WIDE, None)
    assert table.routes.source_of(HERE) is None
    assert table.told()[A] == [announce(HERE, WIDE)]
    assert not table.routes.remove(HERE, A)
    assert table.counters.reasons("subscriptions_refused") == {"conflict": 1}


def test_announcements_past_the_bound_are_refused_but_not_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "ENTRIES_MAX", 2)
    table = Table()
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
    table = Table(opened=False)
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
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.routes.close_link(A)
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C)
    table.told()
    table.routes.open_link(A)
    assert table.told() == {A: [Established(FROM_A)]}


def test_an_announcement_named_again_is_answered_again_once_it_can_be() -> None:
    table = Table()
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
    table = Table(opened=False)
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
    table = Table()
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
    table = Table()
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
    table = Table()
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
    table = Table()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour)
    table.routes.established_here()
    table.routes.establish(HERE, A, complete=False)
    assert table.routes.standing_of(HERE) is True
    assert table.routes.established_here() == []


def test_what_comes_under_a_cover_that_is_partly_established_is_so_too() -> None:
    table = Table()
    table.routes.add(HERE, WIDE, None)
    for neighbour in (A, B, C):
        table.routes.establish(HERE, neighbour, complete=neighbour != C)
    assert table.routes.established_here() == [(HERE, False)]
    table.routes.add(key(US, 2), NARROW, None)
    assert table.routes.established_here() == [(key(US, 2), False)]
    table.routes.establish(HERE, C)
    assert table.routes.established_here() == [(HERE, True), (key(US, 2), True)]


def test_an_answer_that_is_not_complete_is_forgotten_with_its_conversation() -> None:
    table = Table()
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
    table = Table()
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
    table = Table()
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
    table = Table()
    table.routes.add(FROM_A, WIDE, A)
    table.told()
    table.routes.doubt(A)
    restarted = SubscriptionKey(A, 2, 1)
    table.routes.add(restarted, WIDE, A)
    assert table.told() == {}  # withheld: the old one still stands for it
    table.routes.sweep(A)
    assert table.told() == each("BC", [announce(restarted, WIDE), Withdraw(FROM_A)])


# ---- anchors -----------------------------------------------------------------------------------------------------

FAR, NEAR = GatewayId("FAR"), GatewayId("NEAR")


class Map(TreeOverlay):
    """A tree that sees further: what a neighbour names is kept as named, unless it is too far; and so announced."""

    def __init__(self, gateway: GatewayId, neighbours: list[GatewayId]) -> None:
        super().__init__(gateway, neighbours)
        self.too_far: set[GatewayId] = set()

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        return neighbour if anchor in self.too_far else anchor

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        assert anchor is not None
        return US if target == C else anchor

    def handle(self, event: OverlayEvent, now: float) -> list[OverlayEffect]:
        raise AssertionError("the table does not tell it anything")


class Woven(Table):
    """Routes under an overlay that weaves."""

    def __init__(self) -> None:
        super().__init__(opened=False)
        neighbours = [A, B, C]
        journal = Journal(self.counters)
        self.map = Map(US, neighbours)
        self.routes = Routes(
            neighbours, self.matcher, GuardedOverlay(US, self.map, neighbours, journal), self.outbox, journal
        )
        for neighbour in neighbours:
            self.routes.open_link(neighbour)
        self.told()

    def all_established(self) -> "Woven":
        for known in list(self.routes._entries):
            for neighbour in (A, B, C):
                self.routes.establish(known, neighbour)
        self.told()
        return self


def anchored(which: SubscriptionKey, wish: Subscription, anchor: GatewayId | None) -> Announce:
    return Announce(which, wish.topics, str(wish.where), anchor)


def test_an_anchor_that_a_neighbour_names_is_kept_and_passed_on_where_it_is_near_enough() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, FAR)
    assert table.routes.anchor_of(FROM_A) == FAR
    assert table.routes.source_of(FROM_A) == A
    assert table.told() == {B: [anchored(FROM_A, WIDE, FAR)], C: [anchored(FROM_A, WIDE, None)]}


def test_under_an_overlay_that_does_not_weave_the_neighbour_is_the_anchor() -> None:
    table = Table()
    table.routes.add(FROM_A, WIDE, A, FAR)
    assert table.routes.anchor_of(FROM_A) == A
    assert table.told() == each("BC", [anchored(FROM_A, WIDE, None)])


def test_covering_is_among_identical_anchors_only() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.told()
    table.routes.add(key(A, 2), NARROW, A, NEAR)
    assert table.told() == {B: [anchored(key(A, 2), NARROW, NEAR)]}  # to C both have the same anchor: us
    table.routes.add(key(A, 3), NARROW, A, FAR)
    assert table.told() == {}


def test_an_announcement_with_another_anchor_replaces_the_one_before_and_is_answered_again() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.all_established()
    table.routes.add(FROM_A, WIDE, A, NEAR)
    assert table.routes.anchor_of(FROM_A) == NEAR
    assert table.told() == {A: [Established(FROM_A)], B: [anchored(FROM_A, WIDE, NEAR)]}
    table.routes.add(FROM_A, WIDE, A)
    assert table.routes.anchor_of(FROM_A) == A
    assert table.told() == {A: [Established(FROM_A)], B: [anchored(FROM_A, WIDE, A)]}
    table.routes.add(FROM_A, WIDE, A)
    assert table.told() == {A: [Established(FROM_A)]}


def test_another_anchor_does_not_answer_what_nobody_has_answered() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.told()
    table.routes.add(FROM_A, WIDE, A, NEAR)
    assert table.told() == {B: [anchored(FROM_A, WIDE, NEAR)]}
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C)
    assert table.told() == {A: [Established(FROM_A)]}


def test_when_the_map_changes_anchors_follow_and_return() -> None:
    table = Woven()
    table.routes.add(HERE, OTHER, None)
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.told()
    table.routes.anchor_again()
    assert table.told() == {}
    table.map.too_far.add(FAR)
    table.routes.anchor_again()
    assert table.routes.anchor_of(FROM_A) == A
    assert table.told() == {B: [anchored(FROM_A, WIDE, A)]}
    table.map.too_far.clear()
    table.routes.anchor_again()
    assert table.routes.anchor_of(FROM_A) == FAR
    assert table.told() == {B: [anchored(FROM_A, WIDE, FAR)]}
    assert table.routes.anchor_of(HERE) is None


def test_one_that_moves_under_an_established_cover_is_established() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, A)
    table.all_established()
    table.routes.add(key(A, 2), NARROW, A, FAR)
    assert table.told() == {B: [anchored(key(A, 2), NARROW, FAR)]}  # under the first to C, which has answered
    table.map.too_far.add(FAR)
    table.routes.anchor_again()
    assert table.told() == {A: [Established(key(A, 2))], B: [Withdraw(key(A, 2))]}


def test_when_its_cover_moves_away_one_that_waits_is_announced_and_waits_on() -> None:
    table = Woven()
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.routes.add(key(A, 2), NARROW, A, FAR)
    table.told()
    table.routes.add(FROM_A, WIDE, A, NEAR)
    assert table.told() == {B: [anchored(key(A, 2), NARROW, FAR), anchored(FROM_A, WIDE, NEAR)]}
    table.routes.establish(FROM_A, B)
    table.routes.establish(FROM_A, C)
    assert table.told() == {A: [Established(FROM_A)]}
    table.routes.establish(key(A, 2), B)
    assert table.told() == {A: [Established(key(A, 2))]}


def test_an_overlay_that_changes_its_mind_about_where_subscriptions_travel_does_no_harm_to_anchors() -> None:
    table = Woven()
    table.routes._overlay.spread = lambda source: [B]  # type: ignore[method-assign]
    table.routes.add(FROM_A, WIDE, A, FAR)
    table.told()
    table.routes._overlay.spread = lambda source: [B, C]  # type: ignore[method-assign]
    table.map.too_far.add(FAR)
    table.routes.anchor_again()
    assert {name: list(said) for name, said in table.outbox.drain().items() if said} == {B: [anchored(FROM_A, WIDE, A)]}

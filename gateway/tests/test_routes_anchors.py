"""The routing table under an overlay that weaves: anchors, kept, passed on, and changed."""

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import OverlayEffect, OverlayEvent
from mqloom.gateway.journal import Journal
from mqloom.gateway.routes import Routes
from mqloom.lab.gate import US, A, B, key
from mqloom.lab.woven import C, RouteTable, each
from mqloom.plugins.tree_overlay import TreeOverlay

WIDE, NARROW, OTHER = (Subscription.parse("a/#", where) for where in ("", "x > 1", "y > 1"))
HERE, FROM_A = key(US, 1), key(A, 1)
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


class Woven(RouteTable):
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
    table = RouteTable()
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

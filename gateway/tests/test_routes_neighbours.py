"""The routing table while neighbours come and go: it ends where one would be that never knew others."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Message, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.routes import Routes
from mqloom.lab.gate import US, A, B, key
from mqloom.lab.woven import C, announce
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

D = GatewayId("D")
EVERYBODY = (A, B, C, D)
WISHES = [Subscription.parse(*each) for each in (("#", ""), ("a/#", ""), ("a/#", "x > 1"), ("a/#", "x > 3"), ("b", ""))]
WIDE, OTHER = WISHES[1], WISHES[4]


class Table:
    """Routes whose overlay is told of neighbours as a node tells it."""

    def __init__(self, *neighbours: GatewayId) -> None:
        self.neighbours = list(neighbours)
        journal = Journal(Counters())
        self.outbox = Outbox()
        self.tree = TreeOverlay(US, neighbours)
        self.overlay = GuardedOverlay(US, self.tree, neighbours, journal)
        self.routes = Routes(neighbours, ScanMatcher(), self.overlay, self.outbox, journal)
        for neighbour in neighbours:
            self.routes.open_link(neighbour)
        self.known: dict[SubscriptionKey, tuple[Subscription, GatewayId | None]] = {}
        self.told()

    def told(self) -> dict[str, list[Message]]:
        self.routes.check()
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}

    def add(self, which: SubscriptionKey, wish: Subscription, source: GatewayId | None) -> None:
        if which not in self.known:
            self.known[which] = wish, source
            self.routes.add(which, wish, source)

    def remove(self, which: SubscriptionKey) -> None:
        if which in self.known:
            self.routes.remove(which, self.known.pop(which)[1])

    def come(self, neighbour: GatewayId) -> None:
        self.neighbours.append(neighbour)
        self.tree.handle(self.overlay.set_neighbours(self.neighbours), 0.0)
        self.routes.add_neighbour(neighbour)
        self.routes.open_link(neighbour)

    def go(self, neighbour: GatewayId) -> None:
        self.neighbours.remove(neighbour)
        self.routes.drop_neighbour(neighbour)
        self.tree.handle(self.overlay.set_neighbours(self.neighbours), 0.0)
        self.known = {which: known for which, known in self.known.items() if known[1] != neighbour}

    def announced(self) -> dict[str, set[tuple[str, str]]]:
        """Return what each neighbour would be told if its link began anew, whichever key stands for it."""
        self.told()
        for neighbour in self.neighbours:
            self.routes.close_link(neighbour)
            self.routes.open_link(neighbour)
        told = self.told()
        return {
            neighbour: {(each.topics, each.where) for each in told.get(neighbour, ()) if isinstance(each, Announce)}
            for neighbour in self.neighbours
        }


actions = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 6), st.sampled_from(WISHES), st.sampled_from(EVERYBODY) | st.none()),
    st.tuples(st.just("remove"), st.integers(1, 6), st.none(), st.sampled_from(EVERYBODY) | st.none()),
    st.tuples(st.just("turn"), st.just(0), st.none(), st.sampled_from(EVERYBODY)),
)


@settings(deadline=None)
@given(st.lists(actions, max_size=30))
def test_after_any_sequence_the_table_announces_what_one_built_from_nothing_does(
    script: list[tuple[str, int, Subscription | None, GatewayId | None]],
) -> None:
    table = Table(A, B)
    for what, number, wish, who in script:
        which = key(US if who is None else who, number)
        if what == "turn" and who is not None:
            (table.go if who in table.neighbours else table.come)(who)
        elif wish is not None and (who is None or who in table.neighbours):
            table.add(which, wish, who)
        elif what == "remove":
            table.remove(which)
        table.told()
    fresh = Table(*table.neighbours)
    for which, (known, source) in table.known.items():
        fresh.add(which, known, source)
    assert table.announced() == fresh.announced()
    assert len(table.routes) == len(fresh.routes) == len(table.known)


def test_one_that_comes_is_told_everything_and_what_is_established_stays_so() -> None:
    table = Table(A)
    table.add(key(US, 1), WIDE, None)
    table.routes.establish(key(US, 1), A)
    assert table.routes.established_here() == [(key(US, 1), True)]
    table.told()
    table.come(B)
    assert table.told() == {B: [announce(key(US, 1), WIDE)]}
    assert table.routes.standing_of(key(US, 1)) is True
    table.add(key(US, 2), OTHER, None)
    table.routes.establish(key(US, 2), A)
    assert table.routes.standing_of(key(US, 2)) is None
    table.routes.establish(key(US, 2), B)
    assert table.routes.standing_of(key(US, 2)) is True


def test_one_that_goes_takes_its_wishes_along_and_is_not_waited_for() -> None:
    table = Table(A, B, C)
    table.add(key(US, 1), WIDE, None)
    table.add(key(B, 1), OTHER, B)
    table.add(key(C, 1), Subscription.parse("c", ""), C)
    table.routes.establish(key(US, 1), A)
    table.routes.establish(key(US, 1), C)
    table.routes.establish(key(C, 1), A)
    table.told()
    table.go(B)
    told = table.told()
    assert told[C] == [Withdraw(key(B, 1)), Established(key(C, 1))]
    assert set(told) <= {A, C}
    assert table.routes.established_here() == [(key(US, 1), True)]
    assert key(B, 1) not in table.routes


def test_a_neighbour_to_be_is_told_what_all_but_its_own_side_want() -> None:
    """It is on the side of the old one: what comes from there is no news."""
    table = Table(A, B)
    table.add(key(A, 1), WIDE, A)
    table.add(key(B, 1), OTHER, B)
    table.told()
    table.overlay.stand_in, table.overlay.joining = {C: A}, C
    table.routes.add_neighbour(C)
    table.routes.open_link(C)
    assert table.told() == {C: [announce(key(B, 1), OTHER)]}
    table.add(key(US, 2), WISHES[0], None)
    assert set(table.told()) == {A, B, C}
    table.add(key(C, 3), WISHES[0], C)  # the same as ours: it goes to B alone, and there ours covers it
    assert table.told() == {}
    table.remove(key(US, 2))
    assert announce(key(C, 3), WISHES[0]) in table.told()[B]
    table.routes.drop_neighbour(C)
    table.overlay.stand_in, table.overlay.joining = {}, None
    table.routes.check()
    assert key(C, 3) not in table.routes

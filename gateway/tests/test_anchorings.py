"""Anchors, asked for once for all subscriptions that came alike: a table that followed the map is one built anew."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Message, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway.anchorings import Anchorings
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.lab.gate import US, A, B, key
from mqloom.lab.overlay_table import Links, TableOnMap, neighbours_in, ways_from
from mqloom.plugins.tree_overlay import TreeOverlay

FAR, FARTHER = GatewayId("FAR"), GatewayId("FARTHER")
ROOT = GatewayId("g0")
WISHES = [Subscription.parse("a/#", where) for where in ("", "x > 1", "x > 3", "y > 1")]


class Counting(TreeOverlay):
    """Keeps what is named as it is named, passes it on as `passed` says, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(US, [A, B])
        self.asked = 0
        self.passed: dict[GatewayId, GatewayId] = {}

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        self.asked += 1
        return anchor

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        self.asked += 1
        assert anchor is not None
        return self.passed.get(anchor, anchor)


def anchorings(overlay: TreeOverlay) -> Anchorings:
    return Anchorings(GuardedOverlay(US, overlay, [A, B], Journal(Counters())))


def test_what_came_alike_is_asked_for_once() -> None:
    overlay = Counting()
    known = anchorings(overlay)
    for number in range(100):
        anchoring = known.join(key(A, number), A, FAR if number % 2 else FARTHER)
        known.announced(anchoring, B)
    assert len(known) == 2
    assert overlay.asked == 4
    assert list(known.ask_again()) == []
    assert overlay.asked == 8


def test_only_those_with_another_answer_are_told_of_again() -> None:
    overlay = Counting()
    known = anchorings(overlay)
    near, far = (known.join(key(A, number), A, named) for number, named in enumerate((FAR, FARTHER)))
    for each in (near, far):
        known.announced(each, B)
    overlay.passed[FARTHER] = A
    assert list(known.ask_again()) == [far]
    assert (far.anchor, far.announced) == (FARTHER, {B: A})
    assert list(known.ask_again()) == []


def test_without_subscriptions_nothing_is_kept() -> None:
    known = anchorings(Counting())
    anchoring = known.join(key(A, 1), A, FAR)
    known.announced(anchoring, B)
    known.forget(B)
    assert anchoring.announced == {}
    known.leave(key(A, 1), anchoring)
    known.check()
    assert len(known) == 0


def test_our_own_are_here_and_no_overlay_is_asked() -> None:
    overlay = Counting()
    known = anchorings(overlay)
    anchoring = known.join(key(US, 1), None, None)
    assert anchoring.anchor is known.announced(anchoring, B) is None
    assert list(known.ask_again()) == []
    assert overlay.asked == 0


# ---- followed, and built anew ------------------------------------------------------------------------------------


class Followed:
    """A table that follows a tree, and what its neighbours have been told."""

    def __init__(self, links: Links, delta: int) -> None:
        self.links = list(links)
        self.delta = delta
        self.table = TableOnMap(ROOT, links, delta)
        self.wishes: dict[SubscriptionKey, tuple[Subscription, GatewayId]] = {}
        self.told: dict[GatewayId, dict[SubscriptionKey, tuple[str, str, GatewayId | None]]] = {}

    def announce(self, which: SubscriptionKey, wish: Subscription, subscriber: GatewayId) -> None:
        """Take in a wish, or the same by another anchor."""
        self.wishes[which] = wish, subscriber
        self.table.announce(which, wish, subscriber)
        self.note()

    def withdraw(self, which: SubscriptionKey) -> None:
        """Forget a wish."""
        del self.wishes[which]
        assert self.table.routes.remove(which, self.table.routes.source_of(which))
        self.note()

    def tell(self, links: Links) -> None:
        """Let the tree be another; neighbours announce anew what is behind them now, or by another anchor."""
        ways = ways_from(ROOT, links)
        wishes = dict(self.wishes)
        for which, (_, subscriber) in wishes.items():
            source = self.table.routes.source_of(which)
            if source is not None and ways[subscriber][0] != source:
                self.withdraw(which)
        self.links = list(links)
        self.table.tell(links)
        self.note()
        for which, (wish, subscriber) in wishes.items():
            self.announce(which, wish, subscriber)

    def note(self) -> None:
        """Note what neighbours are told, as they would."""
        self.table.routes.check()
        for neighbour, messages in self.table.drain().items():
            for message in messages:
                self.obey(neighbour, message)

    def obey(self, neighbour: GatewayId, message: Message) -> None:
        told = self.told.setdefault(neighbour, {})
        if isinstance(message, Announce):
            told[message.key] = str(message.topics), message.where, message.anchor
        elif isinstance(message, Withdraw):
            del told[message.key]

    def anchors(self) -> dict[SubscriptionKey, GatewayId | None]:
        return {which: self.table.routes.anchor_of(which) for which in self.wishes}

    def sent(self) -> dict[GatewayId, set[tuple[str, str, GatewayId | None]]]:
        """What each neighbour has been told; of equal wishes it does not matter which one stands for all."""
        return {neighbour: set(told.values()) for neighbour, told in self.told.items() if told}

    def anew(self) -> "Followed":
        """Return a table that never knew another tree."""
        other = Followed(self.links, self.delta)
        for which, (wish, subscriber) in self.wishes.items():
            other.announce(which, wish, subscriber)
        return other


def grown(count: int, randomness: random.Random) -> Links:
    return [(GatewayId(f"g{randomness.randrange(each)}"), GatewayId(f"g{each}")) for each in range(1, count)]


def changed(links: Links, number: int, randomness: random.Random) -> Links:
    """Let a leaf go, or hang somewhere else, or another come; the root's own links stay, and so do all subscribers."""
    near = neighbours_in(links)
    leaves = [each for each in near if len(near[each]) == 1 and ROOT not in (each, *near[each])]
    new = (randomness.choice([each for each in near if each != ROOT]), GatewayId(f"n{number}"))
    if not leaves or randomness.random() < 0.3:
        return [*links, new]
    leaf = randomness.choice(leaves)
    rest = [link for link in links if leaf not in link]
    others = [each for each in near if each not in (ROOT, leaf)]
    return rest if leaf.startswith("n") else [*rest, (randomness.choice(others), leaf)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 15), st.integers(2, 4))
def test_a_table_that_followed_the_map_is_one_built_from_nothing(seed: int, count: int, delta: int) -> None:
    randomness = random.Random(seed)
    followed = Followed(grown(count, randomness), delta)
    for number in range(40):
        step = randomness.random()
        if step < 0.5:
            subscriber = randomness.choice([ROOT, *ways_from(ROOT, followed.links)])
            if subscriber.startswith("g"):  # whoever comes new may go again
                followed.announce(key(subscriber, number), randomness.choice(WISHES), subscriber)
        elif step < 0.6 and followed.wishes:
            followed.withdraw(randomness.choice(list(followed.wishes)))
        else:
            followed.tell(changed(followed.links, number, randomness))
    anew = followed.anew()
    assert followed.anchors() == anew.anchors()
    assert followed.sent() == anew.sent()

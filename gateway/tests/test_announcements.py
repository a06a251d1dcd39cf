"""The covering set that a neighbour is told, against a model of that neighbour's table."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.gateway.announcements import Announcements

WISHES = [
    Subscription.parse(topics, where)
    for topics, where in [
        ("#", ""),
        ("a/#", ""),
        ("a/+", ""),
        ("a/b", ""),
        ("a/#", "x > 1"),
        ("a/#", "x > 2"),
        ("a/+", "x > 2"),
        ("a/b", "x BETWEEN 3 AND 5"),
        ("a/b", "x = 3"),
        ("a/b", "x IN (3)"),
        ("a/b", "x IN (3, 4)"),
        ("a/b", "x = 4 OR x = 3"),
        ("a/b", "x = 3 AND x = 4"),
        ("+/b", "s = 'abc'"),
        ("+/b", "s LIKE 'ab%'"),
        ("+/b", "s LIKE '%b%' OR x > 2"),
        ("+/b", "NOT s LIKE 'ab%'"),
        ("c", "x IS NULL"),
    ]
]
VALUES: list[object] = [None, 1, 2, 3, 4, 5, 6]
TEXTS: list[object] = [None, "abc", "abd", "b"]
SAMPLES: list[tuple[str, dict[str, object]]] = [
    (topic, {name: value for name, value in (("x", x), ("s", s)) if value is not None})
    for topic, x, s in itertools.product(["a", "a/b", "a/c", "a/b/c", "c", "c/b"], VALUES, TEXTS)
]


def wanted(subscription: Subscription) -> frozenset[int]:
    """Which of the samples a subscription wants: the obviously right way."""
    return frozenset(
        index
        for index, (topic, attributes) in enumerate(SAMPLES)
        if topic_matches(subscription.topics, topic) and subscription.where.evaluate(attributes) is True
    )


WANTED = {wish: wanted(wish) for wish in WISHES}


def key(number: int) -> SubscriptionKey:
    return SubscriptionKey(GatewayId("A"), 1, number)


ANCHORS = [None, GatewayId("N"), GatewayId("M")]
Anchored = tuple[Subscription, GatewayId | None]


class Neighbour:
    """A table that follows what it is told, and says at every moment whether all wishes are covered by it.

    A wish is covered only by what has the same anchor.
    """

    def __init__(self) -> None:
        self.announcements = Announcements()
        self.wishes: dict[SubscriptionKey, Anchored] = {}
        self.table: dict[SubscriptionKey, Anchored] = {}
        self.answered: set[SubscriptionKey] = set()
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        self.table = {}
        self.answered = set()
        for message in self.announcements.open():
            self.obey(message)
        self.judge()

    def close(self) -> None:
        self.is_open = False
        self.announcements.close()
        assert not any(self.announcements.is_established(known) for known in self.wishes)

    def add(self, number: int, wish: Subscription, anchor: GatewayId | None = None) -> None:
        assert key(number) not in self.announcements
        messages = self.announcements.add(key(number), wish, anchor)
        before = dict(self.wishes)
        self.follow(messages, before)
        self.wishes[key(number)] = wish, anchor
        self.judge()

    def remove(self, which: SubscriptionKey) -> None:
        del self.wishes[which]
        self.follow(self.announcements.remove(which), self.wishes)
        self.judge()

    def move(self, which: SubscriptionKey, anchor: GatewayId | None) -> None:
        """Until the last message the one that moves may be covered by its old anchor or by its new one."""
        wish, before = self.wishes.pop(which)
        if anchor != before:
            messages = self.announcements.move(which, anchor)
            for message in messages:
                self.follow([message], self.wishes)
                assert any(WANTED[wish] <= self.covered_by(each) for each in (before, anchor))
        self.wishes[which] = wish, anchor
        assert self.announcements.anchor_of(which) == anchor
        self.judge()

    def follow(self, messages: Sequence[Announce | Withdraw], wishes: dict[SubscriptionKey, Anchored]) -> None:
        assert self.is_open or not messages
        for message in messages:
            self.obey(message)
            self.assert_covered(wishes)

    def obey(self, message: Announce | Withdraw) -> None:
        if isinstance(message, Announce):
            wish = Subscription.parse(message.topics, message.where)
            known = self.table.get(message.key)
            assert known is None or (known[0] == wish and known[1] != message.anchor)
            self.table[message.key] = wish, message.anchor
        else:
            del self.table[message.key]
            self.answered.discard(message.key)

    def establish(self, which: SubscriptionKey) -> None:
        served = self.announcements.establish(which)
        if which not in self.table or not self.is_open or which in self.answered:
            assert served == []
            return
        self.answered.add(which)
        assert served[0] == which
        assert all(self.announcements.is_established(each) for each in served)
        assert all(WANTED[self.wishes[each][0]] <= WANTED[self.wishes[which][0]] for each in served)
        assert all(self.wishes[each][1] == self.wishes[which][1] for each in served)

    def covered_by(self, anchor: GatewayId | None) -> frozenset[int]:
        same = (WANTED[wish] for wish, other in self.table.values() if other == anchor)
        return frozenset(itertools.chain.from_iterable(same))

    def assert_covered(self, wishes: dict[SubscriptionKey, Anchored]) -> None:
        for wish, anchor in wishes.values():
            assert WANTED[wish] <= self.covered_by(anchor)

    def judge(self) -> None:
        self.announcements.check()
        assert len(self.announcements) == len(self.wishes)
        if not self.is_open:
            return
        assert set(self.table) <= set(self.wishes)
        assert all(self.table[known] == self.wishes[known] for known in self.table)
        assert self.announcements.sent == len(self.table)
        assert self.announcements.withheld == len(self.wishes) - len(self.table)
        for wish, anchor in self.wishes.values():
            assert any(entry.covers(wish) for entry, other in self.table.values() if other == anchor)
        for (one, anchor), (other, another) in itertools.permutations(self.table.values(), 2):
            assert anchor != another or not one.covers(other)
        for known in self.wishes:
            assert self.announcements.is_withheld(known) == (known not in self.table)
            if known in self.table:
                assert self.announcements.is_established(known) == (known in self.answered)


steps = st.tuples(
    st.sampled_from(["add", "add", "add", "remove", "move", "move", "open", "close", "establish"]),
    st.integers(0, 40),
    st.sampled_from(WISHES),
    st.sampled_from(ANCHORS),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=50))
def test_at_every_moment_the_neighbours_table_covers_every_wish_with_its_anchor(
    script: list[tuple[str, int, Subscription, GatewayId | None]],
) -> None:
    neighbour = Neighbour()
    for number, (kind, which, wish, anchor) in enumerate(script):
        known = list(neighbour.wishes)
        if kind == "add":
            neighbour.add(number, wish, anchor)
        elif kind == "remove" and known:
            neighbour.remove(known[which % len(known)])
        elif kind == "move" and known:
            neighbour.move(known[which % len(known)], anchor)
        elif kind == "open" and not neighbour.is_open:
            neighbour.open()
        elif kind == "close" and neighbour.is_open:
            neighbour.close()
        elif kind == "establish":
            neighbour.establish(known[which % len(known)] if known else key(which))
    if not neighbour.is_open:
        neighbour.open()
    for known_key in list(neighbour.wishes):
        neighbour.remove(known_key)
    assert neighbour.table == {}


@given(st.permutations(WISHES))
def test_opening_tells_the_covering_set_only(wishes: list[Subscription]) -> None:
    neighbour = Neighbour()
    for number, wish in enumerate(wishes):
        neighbour.add(number, wish)
    neighbour.open()
    assert [str(entry.topics) for entry, _ in neighbour.table.values()] == ["#"]


# ---- scripts -----------------------------------------------------------------------------------------------------

WIDE, NARROW, OTHER = (Subscription.parse("a/#", where) for where in ("", "x > 1", "y > 1"))


def announce(number: int, wish: Subscription) -> Announce:
    return Announce(key(number), wish.topics, str(wish.where))


def opened(*wishes: Subscription) -> Announcements:
    announcements = Announcements()
    announcements.open()
    for number, wish in enumerate(wishes):
        announcements.add(key(number), wish)
    return announcements


def test_while_closed_nothing_is_told() -> None:
    announcements = Announcements()
    assert announcements.add(key(0), WIDE) == []
    assert announcements.add(key(1), NARROW) == []
    assert announcements.remove(key(0)) == []
    assert announcements.open() == [announce(1, NARROW)]


def test_what_is_covered_is_withheld() -> None:
    announcements = opened(WIDE)
    assert announcements.add(key(1), NARROW) == []
    assert announcements.is_withheld(key(1))
    assert announcements.remove(key(1)) == []


def test_what_covers_is_announced_before_the_covered_is_withdrawn() -> None:
    announcements = opened(NARROW, OTHER)
    assert announcements.add(key(2), WIDE) == [announce(2, WIDE), Withdraw(key(0)), Withdraw(key(1))]


def test_orphans_are_announced_before_their_cover_is_withdrawn() -> None:
    announcements = opened(WIDE, NARROW, OTHER)
    assert announcements.remove(key(0)) == [announce(1, NARROW), announce(2, OTHER), Withdraw(key(0))]


def test_an_orphan_that_another_covers_is_withheld_again() -> None:
    announcements = opened(WIDE, WIDE)
    assert announcements.remove(key(0)) == [announce(1, WIDE), Withdraw(key(0))]


def test_an_equal_wish_is_withheld() -> None:
    announcements = opened(WIDE)
    assert announcements.add(key(1), Subscription.parse("a/#")) == []


def test_removing_what_is_not_known_tells_nothing() -> None:
    assert opened(WIDE).remove(key(9)) == []


def test_one_answer_serves_everything_withheld_under_it() -> None:
    announcements = opened(WIDE, NARROW, OTHER)
    assert announcements.establish(key(0)) == [key(0), key(1), key(2)]
    assert announcements.establish(key(0)) == []
    assert announcements.is_established(key(2))


def test_a_wish_that_comes_under_an_answered_one_is_established_at_once() -> None:
    announcements = opened(WIDE)
    announcements.establish(key(0))
    announcements.add(key(1), NARROW)
    assert announcements.is_established(key(1))


@pytest.mark.parametrize("which", [1, 9])
def test_an_answer_to_what_is_not_announced_serves_nobody(which: int) -> None:
    announcements = opened(WIDE, NARROW)
    assert announcements.establish(key(which)) == []


def test_after_a_break_every_answer_is_waited_for_again() -> None:
    announcements = opened(WIDE, NARROW)
    announcements.establish(key(0))
    announcements.close()
    assert announcements.establish(key(0)) == []
    assert not announcements.is_established(key(0))
    assert announcements.open() == [announce(0, WIDE)]
    assert announcements.establish(key(0)) == [key(0), key(1)]


def test_one_that_moves_leaves_no_moment_in_which_those_under_it_are_not_announced() -> None:
    announcements = opened(WIDE, NARROW)
    announcements.establish(key(0))
    moved = Announce(key(0), WIDE.topics, "", GatewayId("N"))
    assert announcements.move(key(0), GatewayId("N")) == [announce(1, NARROW), moved]
    assert announcements.is_established(key(0))  # it stays announced
    assert not announcements.is_established(key(1))
    assert announcements.move(key(1), GatewayId("N")) == [Withdraw(key(1))]
    assert announcements.is_established(key(1))


def test_one_that_moves_stays_partly_established() -> None:
    announcements = opened(WIDE)
    announcements.establish_partly(key(0))
    announcements.move(key(0), GatewayId("N"))
    assert announcements.is_partly_established(key(0))
    announcements.establish(key(0))
    assert announcements.is_established(key(0))

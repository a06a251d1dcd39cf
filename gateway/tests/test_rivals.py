"""Subscriptions in networks with cycles: what goes round comes to an end, and a cycle that is cut leaves no trace."""

import random
from collections.abc import Collection

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.limits import HOPS_MAX
from mqloom.core.messages import Announce, Established, Message, Synced, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway import rivals as rivals_module
from mqloom.gateway.aliases import has_given
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.rivals import Rival, Rivals
from mqloom.gateway.routes import HOPS_FEW, Routes
from mqloom.lab.gate import US, A, B, key
from mqloom.lab.woven import C, RouteTable
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

WIDE, NARROW, OTHER = (Subscription.parse("a/#", where) for where in ("", "x > 1", "y > 1"))
FAR = key(GatewayId("FAR"), 1)
Pair = tuple[GatewayId, GatewayId]


def gateway_at(index: int) -> GatewayId:
    return GatewayId(f"G{index}")


class Table:
    """The routes of one gateway."""

    def __init__(self, name: GatewayId, neighbours: list[GatewayId], peers: Collection[GatewayId] = ()) -> None:
        self.name = name
        self.neighbours = neighbours
        self.counters = Counters()
        journal = Journal(self.counters)
        self.outbox = Outbox()
        self.tree = TreeOverlay(name, neighbours)
        self.overlay = GuardedOverlay(name, self.tree, neighbours, journal)
        self.routes = Routes(neighbours, ScanMatcher(), self.overlay, self.outbox, journal, peers)

    def obey(self, message: Message, sender: GatewayId) -> None:
        """Do what a node does with a message about wishes."""
        match message:
            case Announce() if not has_given(self.name, message.key):
                wish = Subscription.parse(message.topics, message.where)
                self.routes.add(message.key, wish, sender, message.anchor, message.hops + 1)
            case Withdraw():
                self.routes.remove(message.key, sender)
            case Established():
                self.routes.establish(message.key, sender, complete=message.complete)
            case Synced():
                self.routes.sweep(sender)

    def drop(self, neighbour: GatewayId) -> None:
        self.neighbours.remove(neighbour)
        self.routes.drop_neighbour(neighbour)
        self.tree.handle(self.overlay.set_neighbours(self.neighbours), 0.0)


class Network:
    """Tables joined by links that are in order; which link carries next is by chance."""

    def __init__(self, links: list[Pair], count: int, randomness: random.Random) -> None:
        self.randomness = randomness
        self.links = links
        self.channels: dict[Pair, list[Message]] = {pair: [] for one, two in links for pair in ((one, two), (two, one))}
        self.names = {gateway_at(index) for index in range(count)}
        self.tables = {name: self.table(name) for name in sorted(self.names)}
        self.wishes: dict[SubscriptionKey, Subscription] = {}
        self.numbers = 0
        for table in self.tables.values():
            for neighbour in table.neighbours:
                table.routes.open_link(neighbour)

    def table(self, name: GatewayId) -> Table:
        return Table(name, self.around(name), self.names - {name})

    def around(self, name: GatewayId) -> list[GatewayId]:
        return [other for link in self.links for other in link if name in link and other != name]

    def post(self, name: GatewayId) -> None:
        self.tables[name].routes.check()
        for neighbour, messages in self.tables[name].outbox.drain().items():
            self.channels[name, GatewayId(neighbour)] += messages

    def carry(self) -> bool:
        loaded = [link for link, messages in self.channels.items() if messages]
        if not loaded:
            return False
        sender, receiver = self.randomness.choice(loaded)
        self.tables[receiver].obey(self.channels[sender, receiver].pop(0), sender)
        self.post(receiver)
        return True

    def carry_all(self, most: int) -> int:
        for carried in range(most):
            if not self.carry():
                return carried
        raise AssertionError(f"something goes round after {most} messages")

    def change(self) -> None:
        """Let somebody subscribe, or unsubscribe."""
        mine = sorted(self.wishes)
        if mine and self.randomness.random() < 0.4:
            ended = self.randomness.choice(mine)
            del self.wishes[ended]
            self.tables[ended.gateway].routes.remove(ended, None)
            self.post(ended.gateway)
            return
        self.numbers += 1
        begun = key(self.randomness.choice(sorted(self.tables)), self.numbers)
        self.wishes[begun] = self.randomness.choice([WIDE, NARROW, OTHER])
        self.tables[begun.gateway].routes.add(begun, self.wishes[begun], None)
        self.post(begun.gateway)

    def cut(self, link: Pair, *, restarting: bool) -> None:
        """Take a link away: both ends part from each other, or they begin anew with another configuration."""
        one, two = link
        self.links.remove(link)
        for pair in ((one, two), (two, one)):
            del self.channels[pair]
        for name, other in ((one, two), (two, one)):
            if restarting:
                self.restart(name)
            else:
                self.tables[name].drop(other)
                self.post(name)

    def restart(self, name: GatewayId) -> None:
        """Let a gateway begin anew; whatever is on its way to it or from it is lost."""
        self.tables[name] = self.table(name)
        for begun, wish in self.wishes.items():
            if begun.gateway == name:
                self.tables[name].routes.add(begun, wish, None)
        for neighbour in self.around(name):
            self.channels[name, neighbour].clear()
            self.channels[neighbour, name].clear()
            routes = self.tables[neighbour].routes
            routes.close_link(name)
            routes.doubt(name)
            routes.open_link(name)
            self.tables[name].routes.open_link(neighbour)
            self.post(neighbour)
        self.post(name)

    def sync(self) -> None:
        """Let everybody say that it has said everything."""
        for name, table in self.tables.items():
            for neighbour in table.neighbours:
                table.routes.say_synced(neighbour)
            self.post(name)

    def assert_right(self) -> None:
        """On a tree every wish is known everywhere from the side of its gateway, or one that covers it is."""
        for name, table in self.tables.items():
            for neighbour in table.neighbours:
                behind = self.behind(name, neighbour)
                wanted = [wish for each, wish in self.wishes.items() if each.gateway in behind]
                known = [each for each in table.routes._entries.values() if each.source == neighbour]
                assert all(each.subscription in wanted for each in known), (name, neighbour)
                assert all(any(each.subscription.covers(wish) for each in known) for wish in wanted), (name, neighbour)
            assert len(table.routes._rivals) == 0

    def behind(self, name: GatewayId, neighbour: GatewayId) -> set[GatewayId]:
        found, edge = {neighbour}, [neighbour]
        while edge:
            news = {other for each in edge for other in self.around(each)} - found - {name}
            found |= news
            edge = sorted(news)
        return found


@settings(max_examples=60, deadline=None)
@example(count=7, more=3, seed=1807288009, restarting=False)  # was 315,000 messages when each could cross 64 links
@given(count=st.integers(3, 7), more=st.integers(1, 3), seed=st.integers(0, 2**32), restarting=st.booleans())
def test_in_any_network_all_comes_to_rest_and_the_tables_are_right_when_cycles_are_cut(
    count: int, more: int, seed: int, restarting: bool
) -> None:
    note(f"seed {seed}")
    randomness = random.Random(seed)
    tree = [(gateway_at(randomness.randrange(index)), gateway_at(index)) for index in range(1, count)]
    missing = [
        pair
        for one in range(count)
        for two in range(one + 1, count)
        if (pair := (gateway_at(one), gateway_at(two))) not in tree
    ]
    network = Network([*tree, *(extra := randomness.sample(missing, min(more, len(missing))))], count, randomness)
    for _ in range(12):
        network.change()
        for _ in range(randomness.randrange(8)):
            network.carry()
    most = 12 * HOPS_FEW * 8 * len(network.links) * (1 + len(extra))
    network.carry_all(most)
    for link in extra:
        network.cut(link, restarting=restarting)
    network.carry_all(most)
    network.sync()
    network.carry_all(most)
    network.assert_right()


def test_what_has_ended_on_its_way_round_a_ring_with_a_gateway_beside_it_goes_round_no_more() -> None:
    """The ring is 0, 1, 2; 3 stands beside 0. Its end follows its beginning, and nobody there has given the key."""
    links = [(0, 1), (1, 2), (2, 0), (3, 0)]
    network = Network([(gateway_at(one), gateway_at(two)) for one, two in links], 4, random.Random(0))
    begun = key(gateway_at(3), 1)

    def hand(sender: int, receiver: int) -> None:
        pair = gateway_at(sender), gateway_at(receiver)
        network.tables[pair[1]].obey(network.channels[pair].pop(0), pair[0])
        network.post(pair[1])

    network.tables[begun.gateway].routes.add(begun, WIDE, None)
    network.post(begun.gateway)
    hand(3, 0)
    hand(0, 1)
    hand(1, 2)  # and 2 tells 0, who knows it from 3 as yet
    network.tables[begun.gateway].routes.remove(begun, None)
    network.post(begun.gateway)
    hand(3, 0)
    hand(2, 0)  # now it does not, and tells 1
    network.carry_all(20 * HOPS_MAX)
    assert all(begun not in table.routes for table in network.tables.values())


# ---- one table ---------------------------------------------------------------------------------------------------


def test_the_nearest_rival_counts_when_the_first_is_taken_back() -> None:
    table = RouteTable()
    table.routes.add(FAR, WIDE, A, None, 2)
    table.routes.add(FAR, WIDE, B, None, 9)
    table.routes.add(FAR, WIDE, C, None, 3)
    table.told()
    assert table.routes.remove(FAR, A)
    assert table.routes.source_of(FAR) == C
    told = table.told()
    assert told[C] == [Withdraw(FAR)]
    assert told[A] == [Announce(FAR, "a/#", "", hops=3)]
    assert told[B] == [Withdraw(FAR), Announce(FAR, "a/#", "", hops=3)]


def test_a_rival_that_is_taken_back_counts_no_more() -> None:
    table = RouteTable()
    table.routes.add(FAR, WIDE, A)
    table.routes.add(FAR, WIDE, B)
    assert not table.routes.remove(FAR, B)
    table.routes.remove(FAR, A)
    assert FAR not in table.routes


def test_a_rival_that_is_not_named_again_goes_with_its_neighbours_last_word() -> None:
    table = RouteTable()
    for number in (1, 2):
        table.routes.add(key(A, number), WIDE, A)
        table.routes.add(key(A, number), WIDE, B)
    table.routes.doubt(B)
    table.routes.add(key(A, 2), WIDE, B)
    table.routes.sweep(B)
    for number in (1, 2):
        table.routes.remove(key(A, number), A)
    assert (key(A, 1) in table.routes, key(A, 2) in table.routes) == (False, True)


def test_rivals_of_a_key_of_our_own_are_forgotten() -> None:
    table = RouteTable()
    ours = key(US, 1)
    table.routes.add(ours, NARROW, A)
    table.routes.add(ours, NARROW, B)
    table.routes.add(ours, WIDE, None)
    table.routes.remove(ours, None)
    assert ours not in table.routes


def test_what_has_crossed_too_many_links_is_refused_and_counted() -> None:
    table = RouteTable()
    assert table.routes.add(FAR, WIDE, A, None, HOPS_MAX)
    assert not table.routes.add(key(A, 2), WIDE, A, None, HOPS_MAX + 1)
    assert table.counters.reasons("subscriptions_refused") == {"hops": 1}


def test_in_a_small_federation_fewer_links_are_too_many_and_more_when_it_has_grown() -> None:
    peers = {A, B}
    table = Table(US, [A, B], peers)
    assert table.routes.add(FAR, WIDE, A, None, HOPS_FEW)
    assert not table.routes.add(key(A, 2), WIDE, A, None, HOPS_FEW + 1)
    peers |= {gateway_at(index) for index in range(HOPS_FEW)}
    assert table.routes.add(key(A, 2), WIDE, A, None, HOPS_FEW + 1)


def test_no_more_rivals_than_the_bound_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals_module, "RIVALS_MAX", 2)
    rivals = Rivals()
    for neighbour in (A, B, C, A):
        rivals.keep(FAR, neighbour, Rival(WIDE, None, 1))
    assert list(rivals) == [(FAR, B), (FAR, A)]
    rivals.sweep(A, all_of_them=True)
    rivals.drop_all(FAR)
    assert len(rivals) == 0

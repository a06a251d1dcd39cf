"""Where gateways stand when the configuration has changed since links were moved: both ends come to the same."""

import random
from collections.abc import Iterable, Sequence

from hypothesis import given, note
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.records import Place, PlaceLink, decode_place, encode_place
from mqloom.gateway.journal import Journal
from mqloom.gateway.places import Places

Pair = frozenset[GatewayId]
A, B, J, M, N = (GatewayId(name) for name in "ABJMN")


def pair(one: GatewayId, other: GatewayId) -> Pair:
    return frozenset((one, other))


def pairs(*names: str) -> frozenset[Pair]:
    return frozenset(pair(GatewayId(name[0]), GatewayId(name[1])) for name in names)


def is_tree(links: Iterable[Pair], gateways: Iterable[GatewayId]) -> bool:
    links, left = set(links), set(gateways)
    if len(links) != len(left) - 1:
        return False
    frontier = [next(iter(left))]
    while frontier:
        here = frontier.pop()
        left.discard(here)
        beyond = {other for link in links if here in link for other in link - {here}}
        frontier += beyond & left
    return not left


class Network:
    """Gateways that move, and are started anew with other configurations; and what is meant to come of it."""

    def __init__(self, *links: str) -> None:
        self.counters = Counters()
        self.configuration = pairs(*links)
        self.gateways: dict[GatewayId, Places] = {}
        self.records: dict[GatewayId, bytes] = {}
        self.meant = {link: link for link in self.configuration}
        """For each link of the configuration, the one that stands for it."""
        self.start(*sorted({each for link in self.configuration for each in link}))

    def start(self, *gateways: GatewayId) -> None:
        """Start some anew, each with its record and the configuration."""
        everybody = {each for link in self.configuration for each in link}
        for us in gateways:
            near = sorted(other for link in self.configuration if us in link for other in link - {us})
            network = [(min(link), max(link)) for link in self.configuration]
            places = Places(us, near, Journal(self.counters), network)
            if us in self.records:
                places.read(self.records[us], everybody - {us})
            self.gateways[us] = places
            self.keep(us)

    def keep(self, *gateways: GatewayId) -> None:
        for each in gateways:
            self.records[each] = self.gateways[each].record().payload

    def move(self, mover: GatewayId, old: GatewayId, new: GatewayId) -> None:
        """Let a gateway leave a neighbour for another one, as `Moves` does."""
        places = self.gateways[mover]
        number = max(each.number for each in self.gateways.values()) + 1
        link = PlaceLink(new, number, True, places.stands_for(old))
        self.gateways[new].add(PlaceLink(mover, number, False, link.instead_of))
        places.swap(old, link)
        self.gateways[old].remove(mover)
        self.keep(mover, new, old)
        [stands] = [configured for configured, now in self.meant.items() if now == pair(mover, old)]
        self.meant[stands] = pair(mover, new)

    def change(self, links: Iterable[Pair]) -> dict[Pair, Pair]:
        """Return what would be meant by another configuration."""
        links = frozenset(links)
        everybody = {each for link in links for each in link}
        meant = {one: now for one, now in self.meant.items() if one in links and now <= everybody}
        added = links - self.configuration
        return {one: now for one, now in meant.items() if now not in added} | {link: link for link in added}

    def configure(self, links: Iterable[Pair], idle: Sequence[GatewayId] = ()) -> None:
        """Have another configuration, and start everybody anew but those who are not concerned, and idle."""
        links = frozenset(links)
        before, after = set(self.meant.values()), self.change(links)
        changed = (before ^ set(after.values())) | (self.configuration ^ links)
        self.configuration, self.meant = links, after
        everybody = {each for link in links for each in link}
        for gone in self.gateways.keys() - everybody:
            del self.gateways[gone], self.records[gone]
        concerned = {each for link in changed for each in link}
        self.start(*sorted(each for each in everybody if each in concerned or each not in idle))

    def found(self) -> dict[GatewayId, set[GatewayId]]:
        return {gateway: set(places.links) for gateway, places in self.gateways.items()}

    def check(self) -> None:
        """Each gateway has the neighbours that it is meant to have; so both ends of every link agree."""
        for gateway, neighbours in self.found().items():
            meant = {other for link in self.meant.values() if gateway in link for other in link - {gateway}}
            assert neighbours == meant, gateway
        assert is_tree(self.meant.values(), self.gateways)


# ---- any sequence --------------------------------------------------------------------------------------------------


def path(links: Iterable[Pair], start: GatewayId, end: GatewayId) -> list[GatewayId]:
    links = list(links)
    ways = {start: [start]}
    frontier = [start]
    for here in frontier:
        for link in links:
            for other in link - {here} if here in link else ():
                if other not in ways:
                    ways[other] = [*ways[here], other]
                    frontier.append(other)
    return ways[end]


def another(network: Network, number: int, randomness: random.Random) -> frozenset[Pair]:
    """Return a configuration that an operator may write next."""
    links, gateways = network.configuration, sorted(network.gateways)
    match randomness.choice(("join", "join", "leave", "rewire", "as it is")):
        case "join":
            return links | {pair(randomness.choice(gateways), GatewayId(f"J{number}"))}
        case "leave":
            gone = randomness.choice(gateways)
            near = sorted(other for link in links if gone in link for other in link - {gone})
            first = randomness.choice(near)
            rest = {pair(first, other) for other in near if other != first}
            return frozenset(link for link in links if gone not in link) | rest
        case "rewire":
            gone_link = randomness.choice(sorted(links, key=sorted))
            one, other = randomness.sample(gateways, 2)
            return (links - {gone_link}) | {pair(one, other)}
        case _:
            return frozenset(network.meant.values())


@given(st.integers(0, 2**32), st.integers(1, 25))
def test_whatever_is_moved_and_configured_all_have_the_neighbours_that_are_meant(seed: int, steps: int) -> None:
    note(f"seed {seed}")
    randomness = random.Random(seed)
    network = Network("AB", "BC", "CD", "BE")
    for number in range(steps):
        gateways = sorted(network.gateways)
        if randomness.random() < 0.5 and len(gateways) > 2:
            mover, new = randomness.sample(gateways, 2)
            way = path(network.meant.values(), mover, new)
            if len(way) > 2:
                network.move(mover, way[1], new)
        else:
            links = another(network, number, randomness)
            everybody = {each for link in links for each in link}
            if len(everybody) > 1 and is_tree(links, everybody) and is_tree(network.change(links).values(), everybody):
                network.configure(links, randomness.sample(gateways, randomness.randrange(len(gateways))))
        network.check()
    network.start(*sorted(network.gateways))
    network.check()


# ---- one by one ----------------------------------------------------------------------------------------------------


def moved() -> Network:
    """A has moved from N to B."""
    network = Network("AN", "NB")
    network.move(A, N, B)
    return network


def test_one_joins_a_gateway_that_has_moved() -> None:
    network = moved()
    network.configure(pairs("AN", "NB", "AJ"))
    assert network.found() == {A: {B, J}, B: {N, A}, N: {B}, J: {A}}
    assert network.counters.reasons("places_refused") == {}


def test_one_leaves_that_had_moved_and_the_other_end_has_no_park_for_it() -> None:
    network = moved()
    network.configure(pairs("NB"))
    assert network.found() == {B: {N}, N: {B}}
    assert network.gateways[B].left() == [A]
    assert network.gateways[B].has_parted(A)  # if it still runs, it is told


def test_one_in_the_middle_leaves_when_those_behind_it_have_moved() -> None:
    network = moved()
    network.configure(pairs("AB"))
    assert network.found() == {A: {B}, B: {A}}
    assert network.gateways[A].links[B] == PlaceLink(B, 1, True, (A, B))
    network.configure(pairs("AB", "BJ"))
    assert network.found() == {A: {B}, B: {A, J}, J: {B}}


def test_a_moved_link_ends_with_that_of_the_configuration_for_which_it_stands() -> None:
    network = moved()
    network.configure(pairs("AJ", "JN", "NB"))
    assert network.found() == {A: {J}, J: {A, N}, N: {J, B}, B: {N}}
    assert network.gateways[A].parted_from(B, 0.0) == 2  # who is not started anew is told


def test_a_link_that_two_gateways_have_moved_ends_with_that_for_which_it_stands() -> None:
    network = Network("MA", "AN", "NB")
    network.move(A, N, B)
    network.move(B, A, M)
    assert network.gateways[B].links[M].instead_of == (A, N)
    network.configure(pairs("MA", "AJ", "JN", "NB"))
    assert network.found() == {M: {A}, A: {M, J}, J: {A, N}, N: {J, B}, B: {N}}


def test_one_link_for_two_of_the_configuration_is_said() -> None:
    network = moved()
    network.configure(pairs("AN", "AB"))
    assert network.found()[A] == {B}
    assert network.counters.reasons("places_refused")["configuration"] >= 2


def test_one_that_comes_back_after_it_was_away_while_others_were_configured_has_neighbours() -> None:
    """J was told that it is no neighbour any more, and then it is to be one again, by the configuration of before."""
    network = Network("AB", "AJ")
    network.gateways[J].remove(A)
    network.keep(J)
    network.start(J)
    assert network.found()[J] == {A}
    assert network.counters.reasons("places_refused") == {"configuration": 1}


def test_a_link_of_an_earlier_version_stays_as_long_as_its_other_end_is_there() -> None:
    """It is not known what it stands for."""
    record = encode_place(Place(number=1, configured=(N,), links=(PlaceLink(B, 1, True),)))
    counters = Counters()
    places = Places(A, (N, J), Journal(counters), [(A, N), (N, B), (A, J)])
    assert not places.read(record, (B, J, N))
    assert set(places.links) == {B, J}
    places = Places(A, (N, J), Journal(counters), [(A, N), (A, J)])
    assert not places.read(record, (J, N))
    assert set(places.links) == {J}


def test_what_has_changed_is_kept_and_read_once() -> None:
    network = moved()
    network.configure(pairs("AN", "NB", "AJ"))
    kept = decode_place(network.records[A])
    assert set(kept.configured) == {N, J}
    places = Places(A, (J, N), Journal(Counters()), [(A, N), (N, B), (A, J)])
    assert places.read(network.records[A], (B, J, N))


def test_without_the_links_of_others_a_moved_one_stays() -> None:
    record = encode_place(Place(number=2, configured=(B,), links=(PlaceLink(B), PlaceLink(J, 2, False, (A, N)))))
    for network, links in ((None, {B, J}), ([(A, N)], {B, J}), ([(A, B)], {B})):
        places = Places(GatewayId("X"), (B,), Journal(Counters()), network)
        places.read(record, (A, B, J, N))
        assert set(places.links) == links

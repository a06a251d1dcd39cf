"""How much of covering's use more links cost (paper 001, section 7, Figure 12).

500 brokers in a random tree of degree 3, 10,000 subscriptions with covering relations, 20 at each broker
(`mqloom.lab.covering_workload`), delta 4, fanout 5 to 25. A broker of the paper keeps subscriptions by the link that
stands for their anchor, computes the covering set of each link's subscriptions, and forwards a publication over a link
if one of the set matches. The more links there are, the fewer subscriptions meet another that covers them. Counted are
the subscriptions in all covering sets of a broker, and the predicates that it evaluates for a publication, one
subscription after the other until one matches, its predicates until one fails; the mean of 20 brokers drawn at random.

Anchors are put in the place of links by the overlay's own maps, and covering sets are those of the core's `Poset`, by
which gateways decide what to announce. Chosen, where the paper is silent: the distribution of the subscriptions, so
that about 4% match a publication, as in the paper, and those that name most are most frequent. Which links there are
is tried in two ways: those that weaving has opened after three periods of publications ("woven"), and as many as the
fanout allows, to gateways of the map drawn at random ("random"). With 4% of so many subscriptions 4 of 10 brokers want
a publication, and weaving opens few links. All figures are shares of those with fanout 5. With fanout 10 they must be
more than with 5, predicates by more than covering sets, and not much more than the paper's (`LIMITS`).

The bound is that of a link to every gateway on the map. It is what a gateway of MQLoom has at any fanout: its table
does not follow the links (`publiy-cost`), and covers only among subscriptions with the same anchor. Its matcher does
not try one subscription after the other, so their number is not its cost.

`--quick` is 150 brokers, 3,000 subscriptions, three fanouts, and the mean of 30 brokers.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.core.poset import Poset
from mqloom.lab.covering_workload import Content, Wish, draw_contents, draw_wishes, share_matched
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most
from mqloom.lab.overlay_hops import DELTA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import BEGIN_S
from mqloom.lab.overlay_workload import Links, random_tree
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.overlay.working_map import WorkingMap

SUBSCRIPTIONS_EACH: Final = 20
FANOUTS: Final = (5, 10, 15, 20, 25)
QUICK_FANOUTS: Final = (5, 10, 25)
UNLIMITED: Final = 10_000
PUBLICATIONS: Final = 100
PRINTED: Final = {10: (1.12, 1.34)}
"""By fanout: covering sets and evaluated predicates, as shares of those with fanout 5."""


LEARN_S: Final = 61.0
LEARN_PER_S: Final = 2.0
"""What is published before woven links are looked at: three periods of weaving."""


class Cost(NamedTuple):
    """Subscriptions in covering sets, and predicates evaluated for a publication."""

    covering: float
    evaluated: float

    def over(self, base: "Cost") -> "Cost":
        """Return both as shares."""
        return Cost(self.covering / base.covering, self.evaluated / base.evaluated)


LIMITS: Final = {
    "random": (Cost(1.05, 1.1), Cost(1.5, 1.8)),
    "woven": (Cost(1.0, 1.0), Cost(1.5, 1.8)),
}
"""The least and the most that both may be with fanout 10, as shares of those with fanout 5. Of woven links brokers have
few, and which ones differs much from seed to seed."""


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    brokers, sample, fanouts = (150, 30, QUICK_FANOUTS) if quick else (500, 20, FANOUTS)
    randomness = random.Random(f"{seed} covering")  # noqa: S311 - an experiment, not a secret
    names = [GatewayId(f"g{number}") for number in range(brokers)]
    links = random_tree(names, randomness)
    wishes = {name: draw_wishes(SUBSCRIPTIONS_EACH, randomness) for name in names}
    contents = draw_contents(PUBLICATIONS, randomness)
    sampled = randomness.sample(names, sample)
    maps = {us: map_around(us, links) for us in sampled}
    orders = {us: _shuffled(master, randomness) for us, master in maps.items()}
    soft: dict[str, dict[int, Mapping[GatewayId, Sequence[GatewayId]]]] = {
        "random": {
            fanout: {us: _drawn(maps[us], order, fanout) for us, order in orders.items()}
            for fanout in (*fanouts, UNLIMITED)
        },
        "woven": {fanout: _woven(links, wishes, contents, fanout, seed) for fanout in fanouts},
    }
    means: dict[str, dict[int, Cost]] = {}
    for done, (kind, by_fanout) in enumerate(soft.items()):
        means[kind] = {}
        for fanout, linked in by_fanout.items():
            tell((done + len(means[kind]) / len(by_fanout)) / len(soft), f"{kind} links, fanout {fanout}")
            means[kind][fanout] = _mean(
                [
                    cost(WorkingMap(master, linked[us]), anchors_of(master, links), wishes, contents)
                    for us, master in maps.items()
                ]
            )
    shares = {
        kind: {fanout: each.over(found[fanouts[0]]) for fanout, each in found.items()} for kind, found in means.items()
    }
    everything = [each for mine in wishes.values() for each in mine]
    rows = [
        Row(name="subscriptions", ours=len(everything), paper=10_000),
        Row(name="share that match a publication", ours=share_matched(everything, contents), paper=0.04),
    ]
    for kind, found in means.items():
        rows.append(Row(name=f"{kind} links, fanout 5: covering sets of a broker", ours=found[fanouts[0]].covering))
        rows.append(Row(name=f"{kind} links, fanout 5: predicates for a publication", ours=found[fanouts[0]].evaluated))
        rows += _rows(kind, shares[kind], fanouts, means["random"][UNLIMITED].over(found[fanouts[0]]), LIMITS[kind])
    return Report(rows=tuple(rows), picture=_picture(shares, fanouts))


def _drawn(master: MasterMap, order: Sequence[GatewayId], fanout: int) -> Sequence[GatewayId]:
    """Return the soft links of a broker that has as many as its fanout allows."""
    return order[: max(fanout - master.primary.bit_count(), 0)]


def _shuffled(master: MasterMap, randomness: random.Random) -> list[GatewayId]:
    others = master.names(~master.primary & ((1 << len(master)) - 1))
    randomness.shuffle(others)
    return others


def _woven(
    links: Links, wishes: Mapping[GatewayId, Sequence[Wish]], contents: Sequence[Content], fanout: int, seed: int
) -> dict[GatewayId, list[GatewayId]]:
    """Return the soft links that weaving has opened after some periods, of all brokers."""
    randomness = random.Random(f"{seed} covering publications")  # noqa: S311 - an experiment, not a secret
    names = list(wishes)
    wanting = [
        frozenset(name for name in names if any(wish.evaluated(each)[1] for wish in wishes[name])) for each in contents
    ]
    settings: dict[str, object] = {"strategy": "S2", "delta": DELTA, "fanout": fanout}
    net = OverlayNet(links, dict.fromkeys(names, settings))
    net.start()
    for number in range(round(LEARN_S * LEARN_PER_S)):
        net.run(BEGIN_S + number / LEARN_PER_S)
        net.publish(randomness.choice(names), randomness.choice(wanting))
    net.run(BEGIN_S + LEARN_S)
    return {
        name: [each.gateway for each in overlay.links() if each.kind == "soft" and each.up]
        for name, overlay in net.overlays.items()
    }


def map_around(us: GatewayId, links: Links) -> MasterMap:
    """Return the map of a gateway that knows the tree within delta hops."""
    near = _near(links)
    trees: dict[GatewayId, list[tuple[GatewayId, int]]] = {}
    for neighbour in near[us]:
        members, depths = [(neighbour, us)], [0]
        tree: list[tuple[GatewayId, int]] = []
        for place, (here, before) in enumerate(members):
            for other in near[here]:
                if other != before and depths[place] + 2 <= DELTA:
                    members.append((other, here))
                    depths.append(depths[place] + 1)
                    tree.append((other, place))
        trees[neighbour] = tree
    return MasterMap(us, near[us], trees)


def anchors_of(master: MasterMap, links: Links) -> dict[GatewayId, int]:
    """Return the anchor of each other gateway's subscriptions, by its number: itself, or the last on the map."""
    near = _near(links)
    anchors: dict[GatewayId, int] = {}
    order = [(neighbour, master.us) for neighbour in near[master.us]]
    for here, before in order:
        anchors[here] = master.numbers[here] if here in master.numbers else anchors[before]
        order.extend((other, here) for other in near[here] if other != before)
    return anchors


def cost(
    working: WorkingMap,
    anchors: Mapping[GatewayId, int],
    wishes: Mapping[GatewayId, Sequence[Wish]],
    contents: Sequence[Content],
) -> Cost:
    """Return what a gateway with these links has to keep and to do."""
    by_link: dict[int, dict[Wish, None]] = {}
    for gateway, number in anchors.items():
        by_link.setdefault(working.substitute(number), {}).update(dict.fromkeys(wishes[gateway]))
    sets = [covering_set(list(each)) for each in by_link.values()]
    evaluated = sum(_evaluated(each, content) for each in sets for content in contents)
    return Cost(sum(map(len, sets)), evaluated / len(contents))


def covering_set(wishes: Sequence[Wish]) -> list[Wish]:
    """Return those that no other covers."""
    poset = Poset[int]()
    for number, wish in enumerate(wishes):
        poset.add(number, wish.subscription)
    return [wishes[number] for number in poset.covering_set()]


def _evaluated(wishes: Sequence[Wish], content: Content) -> int:
    """Return how many predicates are evaluated until one subscription matches."""
    total = 0
    for wish in wishes:
        count, is_wanted = wish.evaluated(content)
        total += count
        if is_wanted:
            break
    return total


def _near(links: Links) -> dict[GatewayId, list[GatewayId]]:
    near: dict[GatewayId, list[GatewayId]] = {}
    for one, other in links:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    return near


def _mean(costs: Sequence[Cost]) -> Cost:
    return Cost(*(sum(each) / len(costs) for each in zip(*costs, strict=True)))


def _rows(
    kind: str, shares: Mapping[int, Cost], fanouts: Sequence[int], most: Cost, limits: tuple[Cost, Cost]
) -> list[Row]:
    rows = []
    for fanout in fanouts[1:]:
        printed = PRINTED.get(fanout, (None, None))
        ours = shares[fanout]
        name = f"{kind} links, fanout {fanout}"
        rows.append(Row(name=f"{name}: covering sets", ours=ours.covering, paper=printed[0], bound=most.covering))
        rows.append(Row(name=f"{name}: predicates", ours=ours.evaluated, paper=printed[1], bound=most.evaluated))
    ten, last = shares[10], shares[fanouts[-1]]
    name = f"{kind} links, fanout 5 to 10"
    rows.append(at_least(f"{name}: covering sets, at least", ten.covering, limits[0].covering, paper=1.12))
    rows.append(at_most(f"{name}: covering sets, at most", ten.covering, limits[1].covering, paper=1.12))
    rows.append(at_least(f"{name}: predicates, at least", ten.evaluated, limits[0].evaluated, paper=1.34))
    rows.append(at_most(f"{name}: predicates, at most", ten.evaluated, limits[1].evaluated, paper=1.34))
    rows.append(at_least(f"{name}: predicates over covering sets", ten.evaluated / ten.covering, 1.0, paper=1.2))
    rows.append(
        at_least(f"{kind} links: covering sets grow on to the largest fanout", last.covering / ten.covering, 1.0)
    )
    rows.append(
        at_least(f"{kind} links: predicates grow on to the largest fanout", last.evaluated / ten.evaluated, 1.0)
    )
    return rows


def _picture(shares: Mapping[str, Mapping[int, Cost]], fanouts: Sequence[int]) -> Picture:
    most = shares["random"][UNLIMITED]
    drawn = [
        Curve(f"{name}, {kind} links", tuple((float(fanout), 100 * found[fanout][place]) for fanout in fanouts))
        for kind, found in shares.items()
        for place, name in enumerate(("covering sets", "predicates"))
    ]
    bounds = [
        Curve(f"{name}, all links", tuple((float(fanout), 100 * most[place]) for fanout in fanouts), "bound")
        for place, name in enumerate(("covering sets", "predicates"))
    ]
    return Picture(x_label="fanout", panels=(Panel("% of fanout 5", (*drawn, *bounds)),))


experiment: Final = Experiment(
    name="publiy-covering",
    summary="more links leave less for covering to spare",
    source="paper 001, section 7, Figure 12",
    run=run,
)

"""How much of covering's use more links cost (paper 001, section 7, Figure 12).

500 brokers in a random tree of degree 3, 10,000 subscriptions with covering relations, 20 at each broker
(`mqloom.lab.covering_workload`), delta 4, fanout 5 to 25. A broker of the paper keeps subscriptions by the link that
stands for their anchor, computes the covering set of each link's subscriptions, and forwards a publication over a link
if one of the set matches. The more links there are, the fewer subscriptions meet another that covers them. Counted are
the subscriptions in all covering sets of a broker, and the predicates that it evaluates for a publication, one
subscription after the other until one matches, its predicates until one fails; the mean of 20 brokers drawn at random.

Anchors are put in the place of links by the overlay's own maps, and covering sets are those of the core's `Poset`, by
which gateways decide what to announce. Chosen, where the paper is silent: the distribution of the subscriptions, so
that about 4% match a publication, as in the paper, and those that name most are most frequent; a broker has as many
links as its fanout allows, the soft ones to gateways of its map drawn at random. (With 4% of so many subscriptions half
of the brokers want a publication, and weaving would open few links.) All figures are shares of those with fanout 5.

The bound is that of a link to every gateway on the map. It is what a gateway of MQLoom has at any fanout: its table
does not follow the links (`publiy-cost`), and covers only among subscriptions with the same anchor. Its matcher does
not try one subscription after the other, so their number is not its cost.

`--quick` is 150 brokers, 3,000 subscriptions, three fanouts, and the mean of five brokers.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.core.poset import Poset
from mqloom.lab.covering_workload import Content, Wish, draw_contents, draw_wishes, share_matched
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, exactly
from mqloom.lab.overlay_hops import DELTA
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


class Cost(NamedTuple):
    """Subscriptions in covering sets, and predicates evaluated for a publication."""

    covering: float
    evaluated: float

    def over(self, base: "Cost") -> "Cost":
        """Return both as shares."""
        return Cost(self.covering / base.covering, self.evaluated / base.evaluated)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    brokers, sample, fanouts = (150, 5, QUICK_FANOUTS) if quick else (500, 20, FANOUTS)
    randomness = random.Random(f"{seed} covering")  # noqa: S311 - an experiment, not a secret
    names = [GatewayId(f"g{number}") for number in range(brokers)]
    links = random_tree(names, randomness)
    wishes = {name: draw_wishes(SUBSCRIPTIONS_EACH, randomness) for name in names}
    contents = draw_contents(PUBLICATIONS, randomness)
    costs: dict[int, list[Cost]] = {fanout: [] for fanout in (*fanouts, UNLIMITED)}
    for done, us in enumerate(randomness.sample(names, sample)):
        master = map_around(us, links)
        anchors = anchors_of(master, links)
        others = master.names(~master.primary & ((1 << len(master)) - 1))
        randomness.shuffle(others)
        for fanout, found in costs.items():
            tell(done / sample, f"broker {done + 1}, fanout {fanout}")
            soft = others[: max(fanout - master.primary.bit_count(), 0)]
            found.append(cost(WorkingMap(master, soft), anchors, wishes, contents))
    means = {fanout: _mean(found) for fanout, found in costs.items()}
    shares = {fanout: means[fanout].over(means[fanouts[0]]) for fanout in means}
    everything = [each for mine in wishes.values() for each in mine]
    rows = [
        Row(name="subscriptions", ours=len(everything), paper=10_000),
        Row(name="share that match a publication", ours=share_matched(everything, contents), paper=0.04),
        Row(name="fanout 5: covering sets of a broker", ours=means[fanouts[0]].covering),
        Row(name="fanout 5: predicates for a publication", ours=means[fanouts[0]].evaluated),
        *_rows(shares, fanouts),
    ]
    return Report(rows=tuple(rows), picture=_picture(shares, fanouts))


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


def _rows(shares: Mapping[int, Cost], fanouts: Sequence[int]) -> list[Row]:
    most = shares[UNLIMITED]
    rows = []
    for fanout in fanouts[1:]:
        printed = PRINTED.get(fanout, (None, None))
        ours = shares[fanout]
        rows.append(
            Row(name=f"fanout {fanout}: covering sets", ours=ours.covering, paper=printed[0], bound=most.covering)
        )
        rows.append(
            Row(name=f"fanout {fanout}: predicates", ours=ours.evaluated, paper=printed[1], bound=most.evaluated)
        )
    ten = shares[10]
    rows.append(at_least("fanout 5 to 10: covering sets", ten.covering, 1.05, paper=1.12, bound=most.covering))
    rows.append(at_least("fanout 5 to 10: predicates", ten.evaluated, 1.1, paper=1.34, bound=most.evaluated))
    rows.append(at_least("predicates grow more than covering sets", ten.evaluated / ten.covering, 1.0, paper=1.2))
    order = [shares[fanout] for fanout in fanouts]
    falls = sum(
        after.covering < before.covering or after.evaluated < before.evaluated for before, after in pairwise(order)
    )
    rows.append(exactly("steps of the fanout at which either falls", falls, 0))
    return rows


def _picture(shares: Mapping[int, Cost], fanouts: Sequence[int]) -> Picture:
    most = shares[UNLIMITED]
    drawn = [
        Curve(name, tuple((float(fanout), 100 * shares[fanout][place]) for fanout in fanouts))
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

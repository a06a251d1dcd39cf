"""Delta-moves while publications flow: a gateway leaves a neighbour for another one, and then something crashes, too.

Many runs. In each a random tree of 3 to 8 gateways, links of 1 to 100 ms a way and as much again by chance, and soft
links that come and go; at every gateway somebody publishes, and somebody subscribes, to all or to a part, and some of
these leave. A gateway is ordered to move to another one on its map, two to five hops away, and publications go on all
the time, every few milliseconds.

Each run is made twice. First nothing goes wrong: then the order must be carried out, and it is seen when each step of
the move began (`gateway.moves` has what they are). Then once more, until in the middle of one of the steps, each as
likely as any other however short it is, something goes wrong: a gateway crashes, mostly one on the path, or a link is
cut, or a broker restarts, or a gateway is cut off from its own broker, and is mended up to 8 s later. Then the network
may be the old one or the new one, but must be a tree.

Lost, and delivered twice: pairs of a publication and a subscriber that stays, of all publications, those before and
after the move among them. For those who leave the checkers of every storm look: what they find is counted at rest.
Held: from when a gateway holds what is for its old neighbour until it lets it go, to the one or the other. Its bound is
what holding lasts at most, unless the gateway's own broker is away just then.

The paper promises that nothing is lost and nothing delivered twice, and has no figures of its move.
"""

import gc
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from msgspec import structs

from mqloom.core.limits import HOLD_S
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.lab import checkers, faults
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most, exactly, thinned
from mqloom.lab.node_builders import weaving_settings
from mqloom.lab.plan import TOPOLOGIES, FaultPlan, MovePlan, Plan, PublicationPlan, SubscriberPlan, links_of
from mqloom.lab.world import World

ORDER_S: Final = 10.0
"""When the order is given: all subscriptions count by then, and soft links are open."""

BEFORE_S: Final = 0.5
"""How long before the order publications begin."""

PUBLICATIONS: Final = 400

LATENCIES_S: Final = (0.001, 0.01, 0.05, 0.1)

SYMBOLS: Final = ("a", "b", "c", "d")

FAULTS: Final = ("gateway-crash", "gateway-crash", "gateway-crash", "link-cut", "broker-restart", "own-cut")

LAST_S: Final = (0.01, 0.5, 3.0, 8.0)
"""What goes wrong lasts up to one of these."""

RUNS_FULL: Final = 100
RUNS_QUICK: Final = 6


@dataclass(slots=True)
class Outcome:
    """What came of one run."""

    plan: Plan
    deliveries: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: list[str] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)
    """When each step began; the last is `moved` or `stayed`, and missing if the gateway that moves crashed."""
    has_moved: bool = False
    """Whether the order ended in the new network."""
    delays: list[tuple[float, float]] = field(default_factory=list)
    """For each delivery when it was published, since the order, and how long it took."""

    @property
    def took_s(self) -> float:
        """How long the move took until everybody was told."""
        return self.steps[-1][0] - self.steps[0][0] if self.steps else 0.0

    @property
    def held_s(self) -> float:
        """How long publications were held, at most."""
        starts = [index for index, (_, step) in enumerate(self.steps) if step == "holding"]
        ends = (self._released_at(index) for index in starts)
        return max((end - self.steps[index][0] for index, end in zip(starts, ends, strict=True)), default=0.0)

    def _released_at(self, index: int) -> float:
        """Return when what was held from a step on was let go; a crash leaves it with whoever sent it."""
        later = self.steps[index + 1 :]
        return next((at for at, step in later if step != "keeping"), later[-1][0] if later else self.steps[index][0])


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it; the small version is of few runs."""
    runs = RUNS_QUICK if quick else RUNS_FULL
    calm: list[Outcome] = []
    shaken: list[Outcome] = []
    collecting = gc.isenabled()
    gc.disable()  # a world is a tangle of references, and is gone as a whole
    try:
        for number in range(runs):
            plan = draw(f"{seed} {number}")
            calm.append(carry_out(plan))
            shaken.append(carry_out(shake(plan, calm[-1].steps)))
            gc.collect()
            tell((number + 1) / runs, f"{number + 1:,} of {runs:,} runs, each with and without a crash")
    finally:
        if collecting:
            gc.enable()
    return _report(calm, shaken)


# ---- drawing -------------------------------------------------------------------------------------------------------


def draw(name: str) -> Plan:
    """Return a plan with a move, and nothing that goes wrong."""
    randomness = random.Random(f"{name} move")  # noqa: S311 - a simulation, not a secret
    gateways = tuple(f"G{index}" for index in range(randomness.randint(3, 8)))
    topology = randomness.choice(TOPOLOGIES)
    latency_s = randomness.choice(LATENCIES_S)
    plan = Plan(
        seed=randomness.getrandbits(32),
        topology=topology,
        gateways=gateways,
        links=links_of(topology, gateways, randomness),
        publishers={f"pub-{gateway}": gateway for gateway in gateways},
        subscribers=tuple(
            SubscriberPlan(
                name=f"sub-{gateway}",
                gateway=gateway,
                wishes={"w": _wish(randomness)},
                closes_at=randomness.choice((None, None, None, ORDER_S + randomness.random() * 25 * latency_s)),
            )
            for gateway in gateways
        ),
        publications=tuple(_publications(gateways, latency_s, randomness)),
        link_latency_s=latency_s,
        is_restless=True,
    )
    return structs.replace(plan, moves=(_move(plan, randomness),))


def _wish(randomness: random.Random) -> tuple[str, str]:
    where = randomness.choice(("", "", f"volume > {randomness.randrange(80)}", f"NOT symbol = '{SYMBOLS[0]}'"))
    return randomness.choice(("stocks/#", "stocks/#", f"stocks/{randomness.choice(SYMBOLS)}")), where


def _publications(gateways: Sequence[str], latency_s: float, randomness: random.Random) -> Iterator[PublicationPlan]:
    """Yield publications by everybody, until well after a move that takes as long as it should."""
    length_s = BEFORE_S + 1.0 + 40 * latency_s
    for number in range(PUBLICATIONS):
        symbol = randomness.choice(SYMBOLS)
        yield PublicationPlan(
            at=round(ORDER_S - BEFORE_S + number * length_s / PUBLICATIONS, 4),
            publisher=f"pub-{randomness.choice(gateways)}",
            number=number,
            topic=f"stocks/{symbol}",
            attributes={"symbol": symbol, "volume": randomness.randrange(100)},
        )


def _move(plan: Plan, randomness: random.Random) -> MovePlan:
    """Return a move to somebody on the map, over two hops or more."""
    reach = int(str(weaving_settings(plan, plan.gateways[0])["delta"]))
    ways = [_way(plan, one, other) for one in plan.gateways for other in plan.gateways]
    length = randomness.choice(sorted({len(way) for way in ways if 3 <= len(way) <= reach + 1}))
    way = randomness.choice([way for way in ways if len(way) == length])
    return MovePlan(at=ORDER_S, gateway=way[0], to=way[-1])


def _way(plan: Plan, one: str, other: str) -> list[str]:
    """Return the primary way between two gateways, with both."""
    ways = [[one]]
    while ways[0][-1] != other:
        way = ways.pop(0)
        ways += [[*way, each] for each in plan.neighbours[way[-1]] if each not in way]
    return ways[0]


def shake(plan: Plan, steps: Sequence[tuple[float, str]]) -> Plan:
    """Return a plan in which something goes wrong in the middle of one of the steps that were seen."""
    randomness = plan.randomness("fault")
    index = randomness.randrange(max(1, len(steps) - 1))
    at = randomness.uniform(steps[index][0], steps[min(index + 1, len(steps) - 1)][0])
    kind = randomness.choice(FAULTS)
    (move,) = plan.moves
    path = _way(plan, move.gateway, move.to)
    gateway = randomness.choice((*path, *path, randomness.choice(plan.gateways)))
    others = [*plan.neighbours[gateway], *(each for each in (path[0], path[-1]) if each != gateway)]
    target = (gateway, randomness.choice(others)) if kind == "link-cut" else (gateway,)
    lasts_s = randomness.choice(LAST_S) * randomness.random()
    return structs.replace(plan, faults=(FaultPlan(kind=kind, at=at, lasts_s=round(lasts_s, 3), target=target),))


# ---- running -------------------------------------------------------------------------------------------------------


def carry_out(plan: Plan) -> Outcome:
    """Run a plan to its end, and see what came of it."""
    world = World(plan)
    mended_at = faults.schedule(world)
    world.run(max(mended_at, plan.publications[-1].at) + 1.0)
    world.settle()
    outcome = Outcome(plan, wrong=[*checkers.at_rest(world), *checkers.judge(world).findings])
    (move,) = plan.moves
    outcome.steps = [(at, answer.step or answer.answer) for at, answer in world.gateways[move.gateway].answers]
    node = world.gateways[move.gateway].node
    outcome.has_moved = node is not None and move.to in node.link_states()
    _count(world, outcome)
    return outcome


def _count(world: World, outcome: Outcome) -> None:
    """Compare what came with what was published, for those who were there all the time."""
    for plan in world.plan.subscribers:
        subscriber = world.subscribers[plan.name]
        if plan.closes_at is not None:
            continue
        (wish,) = subscriber.life.wishes.values()
        subscription = Subscription.parse(wish.topics, wish.where)
        times = dict.fromkeys(world.sent, 0)
        for at, number, _ in subscriber.life.delivered:
            times[number] += 1
            sent = world.sent[number]
            outcome.delays.append((sent.at - ORDER_S, at - sent.at))
        for number, sent in world.sent.items():
            is_wanted = topic_matches(subscription.topics, sent.topic) and subscription.where.matches(sent.attributes)
            wanted = len(sent.entries) if is_wanted else 0
            outcome.deliveries += times[number]
            outcome.lost += max(0, wanted - times[number])
            outcome.duplicated += max(0, times[number] - wanted)
    outcome.delays.sort()


# ---- what came out -------------------------------------------------------------------------------------------------


def _report(calm: Sequence[Outcome], shaken: Sequence[Outcome]) -> Report:
    both = (*calm, *shaken)
    wrong = [f"{each.plan.seed}: {text}" for each in both for text in each.wrong]
    held_s = max(each.held_s for each in calm)
    rows = (
        Row(name="runs, each with and without a crash", ours=len(calm)),
        Row(name="deliveries", ours=sum(each.deliveries for each in both)),
        exactly("lost", sum(each.lost for each in calm), 0, paper=0),
        exactly("delivered twice", sum(each.duplicated for each in calm), 0, paper=0),
        exactly("lost, with a crash", sum(each.lost for each in shaken), 0),
        exactly("delivered twice, with a crash", sum(each.duplicated for each in shaken), 0),
        exactly("at rest: no tree, or not as it should be", len(wrong), 0),
        exactly("orders that ended in the new network", _share(calm), 1.0, bound=1.0),
        Row(name="orders that did so, with a crash", ours=_share(shaken), bound=1.0),
        Row(name="a move took, half of them at most", ours=median(each.took_s for each in calm), unit="s"),
        Row(name="a move took, at most", ours=max(each.took_s for each in calm), unit="s"),
        at_most("publications were held, at most", held_s, HOLD_S, bound=HOLD_S, unit="s"),
        Row(name="held at most, with a crash", ours=max(each.held_s for each in shaken), unit="s"),
    )
    return Report(rows=rows, picture=_picture(calm[0], shaken[0]), notes=tuple(wrong[:5]))


def _share(outcomes: Sequence[Outcome]) -> float:
    return round(sum(each.has_moved for each in outcomes) / len(outcomes), 3)


def _picture(calm: Outcome, shaken: Outcome) -> Picture:
    """Draw the first run: how long deliveries took that were published before, during and after the move."""
    steps = [(at - ORDER_S, step) for at, step in calm.steps]
    moving = (steps[0][0], steps[-1][0], "moving")
    holding = next((at for at, step in steps if step == "holding"), steps[0][0])
    leaving = next((at for at, step in steps if step == "leaving"), holding)
    return Picture(
        x_label="published, seconds since the order",
        panels=(
            Panel("delay, s", (Curve("nothing goes wrong", thinned(calm.delays)),)),
            Panel("delay, s", (Curve("with a crash", thinned(shaken.delays)),), logarithmic=True),
        ),
        spans=(moving, (holding, leaving, "holding")),
    )


experiment: Final = Experiment(
    name="publiy-move",
    summary="a gateway moves to another neighbour while publications flow, and something crashes",
    source="paper 001, section 6: nothing is lost, nothing delivered twice",
    run=run,
)

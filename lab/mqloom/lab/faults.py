"""What can go wrong, by name: each kind begins and ends at times that a seed decides, and all are mended in the end.

A crash takes away what a process had in memory. A cut loses what is under way, and both ends notice later, each after
its own time. A broker that restarts breaks its connections, and keeps everything or (`broker-loses-store`) nothing.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqloom.lab.network import Path
from mqloom.lab.node_builders import build_node
from mqloom.lab.plan import FaultPlan, Plan
from mqloom.lab.plan_checks import check_faults
from mqloom.lab.traveller_model import TravellerModel
from mqloom.lab.world import World

Begin = Callable[[World, FaultPlan, random.Random], Callable[[], None]]
"""Lets a fault begin, and returns what ends it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: what it is, whom it befalls, how often it is drawn, and how long it lasts at most."""

    text: str
    befalls: str
    weight: int
    lasts_s: float
    begin: Begin


def _notice(randomness: random.Random) -> Callable[[], float]:
    """Return how long an end takes to notice a broken connection: mostly little, sometimes long."""
    return lambda: randomness.choice((0.0, 0.02, 0.02, 0.5, 2.0, 10.0)) * randomness.random()


def _nothing() -> None:
    pass


def _crash_gateway(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    gateway = world.gateways[fault.target[0]]
    if not gateway.is_running:
        return _nothing
    gateway.crash(_notice(randomness))
    return gateway.start


def _cut(paths: Sequence[Path], randomness: random.Random) -> Callable[[], None]:
    for path in paths:
        path.cut(_notice(randomness))

    def heal() -> None:
        for path in paths:
            path.heal()

    return heal


def _both_ways(world: World, fault: FaultPlan) -> list[Path]:
    one, other = fault.target
    return [world.link_path(one, other), world.link_path(other, one)]


def _cut_link(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _cut(_both_ways(world, fault), randomness)


def _cut_one_way(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _cut(_both_ways(world, fault)[:1], randomness)


def _cut_from_broker(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _cut([world.paths[f"{fault.target[0]}~"]], randomness)


def _restart(with_store: bool, world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    broker = world.brokers[fault.target[0]]
    if not broker.is_up:
        return _nothing
    broker.stop(_notice(randomness))
    return partial(broker.start, with_store=with_store)


def _change(world: World, fault: FaultPlan, **changes: float) -> Callable[[], None]:
    paths = _both_ways(world, fault)
    for path in paths:
        for name, value in changes.items():
            setattr(path.quality, name, value)

    def heal() -> None:
        for path in paths:
            for name in changes:
                setattr(path.quality, name, getattr(path.usual, name))

    return heal


def _slow(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _change(world, fault, latency_s=0.2 + randomness.random(), jitter_s=0.2, bytes_s=20_000.0)


def _duplicate(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _change(world, fault, duplicated=0.3, delay_s=randomness.choice((0.01, 0.5, 3.0)))


def _delay(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    return _change(world, fault, delayed=0.2, delay_s=randomness.choice((0.01, 0.5, 3.0)))


def _vanish(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    subscriber = world.subscribers[fault.target[0]]
    subscriber.vanish(_notice(randomness)())
    return subscriber.come_back


def _kill(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    subscriber = world.subscribers[fault.target[0]]
    if not isinstance(subscriber, TravellerModel):
        return _nothing
    subscriber.kill(_notice(randomness)())
    return subscriber.start_again


def _want_nothing(world: World, fault: FaultPlan, randomness: random.Random) -> Callable[[], None]:
    subscriber = world.subscribers[fault.target[0]]
    if isinstance(subscriber, TravellerModel):
        subscriber.want_nothing()
    return _nothing


KINDS: Final[dict[str, Kind]] = {
    "gateway-crash": Kind("a gateway ends and starts anew", "gateway", 6, 20.0, _crash_gateway),
    "link-cut": Kind("two gateways reach neither the other's broker", "link", 6, 20.0, _cut_link),
    "link-cut-one-way": Kind("a gateway does not reach a neighbour's broker", "link", 3, 15.0, _cut_one_way),
    "link-down-for-an-hour": Kind("as link-cut, for an hour", "link", 1, 3_600.0, _cut_link),
    "own-cut": Kind("a gateway does not reach its own broker", "gateway", 3, 15.0, _cut_from_broker),
    "broker-restart": Kind("a broker restarts with its store", "gateway", 3, 10.0, partial(_restart, True)),
    "broker-loses-store": Kind("a broker restarts without its store", "gateway", 1, 10.0, partial(_restart, False)),
    "slow-link": Kind("a link has much latency and little bandwidth", "link", 2, 15.0, _slow),
    "frames-duplicated": Kind("frames come twice, later", "link", 2, 15.0, _duplicate),
    "frames-delayed": Kind("frames come late, out of order", "link", 2, 15.0, _delay),
    "client-vanishes": Kind("a subscriber is away for a while", "subscriber", 3, 30.0, _vanish),
    "publisher-cut": Kind("a publisher does not reach its broker", "publisher", 2, 10.0, _cut_from_broker),
    "client-killed": Kind("a subscriber that travels ends and starts anew", "traveller", 0, 20.0, _kill),
    "client-wants-nothing": Kind("a subscriber that travels unsubscribes for good", "traveller", 0, 0.0, _want_nothing),
}
"""Every kind of fault."""


def draw(
    plan: Plan, randomness: random.Random, count: int, kinds: Sequence[str], moments: Sequence[float]
) -> tuple[FaultPlan, ...]:
    """Return faults for a plan, of these kinds; they may overlap.

    Most are near one of the moments: what goes wrong by itself is soon found, what does together is not.
    """
    faults = []
    targets: dict[str, list[tuple[str, ...]]] = {
        "gateway": [(gateway,) for gateway in plan.gateways],
        "link": [pair for one, other in plan.links for pair in ((one, other), (other, one))],
        "subscriber": [(subscriber.name,) for subscriber in plan.subscribers],
        "publisher": [(publisher,) for publisher in plan.publishers],
        "traveller": [(each.name,) for each in plan.subscribers if each.travels],
    }
    usable = [kind for kind in kinds if targets[KINDS[kind].befalls]]
    for _ in range(count if usable else 0):
        name = randomness.choices(usable, [KINDS[kind].weight for kind in usable])[0]
        kind = KINDS[name]
        longest = kind.lasts_s * randomness.choice((0.01, 0.1, 0.3, 1.0))
        lasts_s = kind.lasts_s if name == "link-down-for-an-hour" else longest * randomness.random()
        near = randomness.choice((0.5, 0.5, 2.0, 8.0, plan.length_s))
        at = max(3.0, randomness.choice(moments) + randomness.uniform(-near, near))
        target = randomness.choice(targets[kind.befalls])
        faults.append(FaultPlan(kind=name, at=round(at, 3), lasts_s=round(lasts_s, 3), target=target))
    return tuple(sorted(faults, key=lambda fault: (fault.at, fault.kind, fault.target)))


def draw_soft(plan: Plan, randomness: random.Random, count: int, moments: Sequence[float]) -> tuple[FaultPlan, ...]:
    """Return faults of soft links: the kinds that befall links, for any two gateways that have none."""
    linked = {pair for one, other in plan.links for pair in ((one, other), (other, one))}
    pairs = [(one, other) for one in plan.gateways for other in plan.gateways if one != other]
    pairs = [pair for pair in pairs if pair not in linked]
    kinds = [name for name, kind in KINDS.items() if kind.befalls == "link"]
    faults = []
    for _ in range(count if pairs else 0):
        kind = randomness.choice(kinds)
        lasts_s = min(20.0, KINDS[kind].lasts_s) * randomness.choice((0.01, 0.1, 1.0)) * randomness.random()
        at = max(3.0, randomness.choice(moments) + randomness.uniform(-2.0, 2.0))
        target = randomness.choice(pairs)
        faults.append(FaultPlan(kind=kind, at=round(at, 3), lasts_s=round(lasts_s, 3), target=target))
    return tuple(faults)


def schedule(world: World) -> float:
    """Let a world's faults happen; return when the last of them is mended. Raises PlanError for what cannot happen."""
    befalls = {name: kind.befalls for name, kind in KINDS.items()}
    check_faults(world.plan, befalls, any_pair=world.options.build is not build_node)  # others may have soft links
    world.has_faults_scheduled = True
    for fault in world.plan.faults:
        randomness = world.plan.randomness(f"fault {fault.kind} {fault.at} {fault.target}")
        world.clock.at(fault.at, partial(_happen, world, fault, randomness))
    return max((fault.at + fault.lasts_s for fault in world.plan.faults), default=0.0)


def _happen(world: World, fault: FaultPlan, randomness: random.Random) -> None:
    world.tell("FAULT", f"{fault.kind} {' '.join(fault.target)}, for {fault.lasts_s:g} s")
    end = KINDS[fault.kind].begin(world, fault, randomness)

    def mend() -> None:
        world.tell("FAULT", f"{fault.kind} {' '.join(fault.target)} is over")
        end()

    world.clock.at(fault.at + fault.lasts_s, mend)

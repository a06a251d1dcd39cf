"""A client is moved, and at every moment of that somebody dies: each moment by itself, one after the other.

Storms draw when things go wrong. Here one run, always the same, is cut into its events: what a broker, a gateway or the
client reads, and what a timer brings. Behind each of them, in a run of its own, one of five fails, and is back soon.
Publications enter at both ends all the time, so that at every moment some are in every place where they can be. In the
end everything that is promised must have come once, and the client must have one session, where it is served.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from mqloom.lab import checkers
from mqloom.lab.plan import MigrationPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.traveller_model import TravellerModel
from mqloom.lab.world import Options, World

NAME: Final = "a client is moved, a fault at every moment"

OLD, MIDDLE, NEW = "A", "N", "B"
CLIENT: Final = "client"
ORDERED_AT: Final = 3.0
OVER_S: Final = 0.3
"""So long after the order the move is over, if nothing goes wrong."""

AWAY_S: Final = 0.7
"""How long who fails is away."""

QUICK_STRIDE: Final = 16
"""Without `--deep`, one moment of so many is tried."""

Fault = Callable[[World], Callable[[], None]]
"""Lets somebody fail, and returns what brings it back."""


class MomentsReport(Struct, kw_only=True):
    """What was tried, and the first that was wrong."""

    scope: str
    moments: int
    runs: int
    problem: str | None = None
    trace: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing was found."""
        return self.problem is None


def the_plan() -> Plan:
    """Return what happens if nothing goes wrong."""
    publications = tuple(
        PublicationPlan(
            at=round(2.5 + 0.01 * number, 3),
            publisher=f"at {(OLD, NEW)[number % 2]}",
            number=number,
            topic="stocks/a",
            attributes={"symbol": "a", "volume": 50},
        )
        for number in range(150)
    )
    return Plan(
        seed=1,
        gateways=(OLD, MIDDLE, NEW),
        links=((OLD, MIDDLE), (MIDDLE, NEW)),
        publishers={f"at {name}": name for name in (OLD, NEW)},
        subscribers=(SubscriberPlan(name=CLIENT, gateway=OLD, wishes={"w": ("stocks/#", "")}, travels=True),),
        publications=publications,
        length_s=6.0,
        link_latency_s=0.005,
        migrations=(MigrationPlan(at=ORDERED_AT, subscriber=CLIENT, to=NEW),),
    )


def _gateway(name: str) -> Fault:
    def fail(world: World) -> Callable[[], None]:
        world.gateways[name].crash(lambda: 0.02)
        return world.gateways[name].start

    return fail


def _broker(name: str) -> Fault:
    def fail(world: World) -> Callable[[], None]:
        world.brokers[name].stop(lambda: 0.02)
        return lambda: world.brokers[name].start(with_store=True)

    return fail


def _client(world: World) -> Callable[[], None]:
    model = client_of(world)
    model.kill(0.02)
    return model.start_again


FAULTS: Final[dict[str, Fault]] = {
    "the old gateway": _gateway(OLD),
    "the new gateway": _gateway(NEW),
    "the old broker": _broker(OLD),
    "the new broker": _broker(NEW),
    "the client": _client,
}


def client_of(world: World) -> TravellerModel:
    """Return the client that is moved."""
    model = world.subscribers[CLIENT]
    assert isinstance(model, TravellerModel)
    return model


def moments() -> range:
    """Return the numbers of all events from the order until the move is over."""
    world = World(the_plan())
    world.run(ORDERED_AT - 0.001)
    first = world.clock.events
    world.run(ORDERED_AT + OVER_S)
    return range(first, world.clock.events)


def run_moments(stride: int, tell: Callable[[str], None] = lambda _: None) -> MomentsReport:
    """Try every moment, or one of so many."""
    chosen = moments()[::stride]
    runs = 0
    for count, moment in enumerate(chosen, 1):
        for name, fault in FAULTS.items():
            runs += 1
            problem = next(_problems(_run(moment, fault)), None)
            if problem is not None:
                traced = _run(moment, fault, Options(traced=True))
                assert traced.trace is not None
                text = f"{name} fails behind event {moment}: {problem}"
                trace = tuple(traced.trace.lines)
                return MomentsReport(scope=NAME, moments=count, runs=runs, problem=text, trace=trace)
        if count % 10 == 0:
            tell(f"{NAME}: {count:,} of {len(chosen):,} moments")
    return MomentsReport(scope=NAME, moments=len(chosen), runs=runs)


def _run(moment: int, fault: Fault, options: Options | None = None) -> World:
    world = World(the_plan(), options)
    world.clock.run_events(moment)
    back = fault(world)
    world.clock.at(world.clock.now + AWAY_S, back)
    world.run(world.plan.length_s)
    world.settle()
    return world


def _problems(world: World) -> Iterator[str]:
    yield from checkers.at_rest(world)
    judgement = checkers.judge(world)
    yield from judgement.findings
    if judgement.delivered < judgement.expected:
        yield f"{judgement.delivered} deliveries of {judgement.expected} that were promised"
    sessions = [name for name, broker in world.brokers.items() if f"sub-{CLIENT}" in broker.sessions]
    served_at = client_of(world).core.home.gateway
    if sessions != [served_at]:
        yield f"it is served at {served_at}, and has sessions at {', '.join(sessions) or 'none'}"

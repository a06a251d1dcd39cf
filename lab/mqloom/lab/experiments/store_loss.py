"""What is lost with a broker's store: what that broker alone held, and nothing else.

A chain of three, A, B and C, with a subscriber at each that wants everything, and a publisher at A. The link between B
and C is down for half a minute, so that B's gateway parks on its own broker what C should get. Some time into that, B's
broker ends, and is back two seconds later: once with its store, and once, with the same seed, without.

With its store nothing may be lost. Without it there may be lost, of what had been taken over, only what was in that
store at the end: parked for C, or handed to B's gateway or subscriber and not yet acknowledged; and what the broker
then takes over for a subscriber that it no longer knows, until that subscribes again. The bound is exactly that, each
publication counted for every subscriber who waited for it. What else somebody misses is a mistake. The sooner the store
is lost after the link, the less is in it.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import structs

from mqloom.lab import checkers, faults
from mqloom.lab.arrivals import constant, poisson
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most, exactly
from mqloom.lab.plan import FaultPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import World

CUT_AT: Final = 20.0
CUT_S: Final = 30.0
DOWN_S: Final = 2.0
BEGIN_S: Final = 10.0
END_S: Final = 60.0

RATE: Final = 50.0
RATE_QUICK: Final = 10.0
AFTER_S: Final = (1.0, 3.0, 5.0, 7.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0, 27.0)
AFTER_QUICK_S: Final = (3.0, 20.0)
"""How long after the link the store goes, in each of the runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was in the store, who missed how many, and what is against all promises."""

    in_store: int
    expected: int
    delivered: int
    missed: dict[str, int]
    findings: int


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Lose the store at several times, each in a run of its own."""
    times, rate = (AFTER_QUICK_S, RATE_QUICK) if quick else (AFTER_S, RATE)
    kept: list[Outcome] = []
    lost: list[Outcome] = []
    for number, after_s in enumerate(times):
        tell(number / len(times), f"{after_s:g} s after the link, with its store")
        kept.append(_outcome(_plan(seed + number, rate, after_s, "broker-restart")))
        tell((number + 0.5) / len(times), f"{after_s:g} s after the link, without")
        lost.append(_outcome(_plan(seed + number, rate, after_s, "broker-loses-store")))
    return _report(times, kept, lost)


def _plan(seed: int, rate: float, after_s: float, fault: str) -> Plan:
    plan = Plan(
        seed=seed,
        topology="chain",
        gateways=("A", "B", "C"),
        links=(("A", "B"), ("B", "C")),
        publishers={"exchange": "A"},
        subscribers=tuple(
            SubscriberPlan(name=f"at-{name}", gateway=name, wishes={"all": ("stocks/#", "")}, starts_at=1.0)
            for name in ("A", "B", "C")
        ),
        publications=(),
        faults=(
            FaultPlan(kind="link-cut", at=CUT_AT, lasts_s=CUT_S, target=("B", "C")),
            FaultPlan(kind=fault, at=CUT_AT + after_s, lasts_s=DOWN_S, target=("B",)),
        ),
        length_s=END_S,
    )
    return structs.replace(plan, publications=_publications(plan, rate))


def _publications(plan: Plan, rate: float) -> tuple[PublicationPlan, ...]:
    times = poisson(constant(rate), plan.randomness("publications"))
    publications = []
    for number, at in enumerate(times):
        if BEGIN_S + at >= END_S:
            break
        publications.append(
            PublicationPlan(
                at=BEGIN_S + at, publisher="exchange", number=number, topic="stocks/YHOO", attributes={"symbol": "YHOO"}
            )
        )
    return tuple(publications)


def _outcome(plan: Plan) -> Outcome:
    world = World(plan)
    mended_at = faults.schedule(world)
    world.run(max(END_S, mended_at))
    world.settle()
    judgement = checkers.judge(world)
    findings = [*judgement.findings, *checkers.at_rest(world)]
    missed = {
        name: len(world.sent) - len({number for life in subscriber.lives for _, number, _ in life.delivered})
        for name, subscriber in world.subscribers.items()
    }
    losses = world.losses()
    in_store = len(losses.parked) + len(losses.for_client) + 3 * len(losses.publications)
    return Outcome(in_store, judgement.expected, judgement.delivered, missed, len(findings))


def _report(times: tuple[float, ...], kept: list[Outcome], lost: list[Outcome]) -> Report:
    in_store = sum(each.in_store for each in lost)
    missed = {name: sum(each.missed[name] for each in lost) for name in ("at-A", "at-B", "at-C")}
    rows = (
        Row(name="losses of the store", ours=len(lost)),
        Row(name="deliveries promised", ours=sum(each.expected for each in lost)),
        exactly("with its store: missed", sum(sum(each.missed.values()) for each in kept), 0),
        exactly("with its store: against the promise", sum(each.findings for each in kept), 0),
        exactly("without: missed at A", missed["at-A"], 0),
        Row(name="without: missed at B", ours=missed["at-B"]),
        Row(name="without: missed at C", ours=missed["at-C"]),
        at_most("without: missed by all", sum(missed.values()), in_store, bound=in_store),
        exactly("without: against the promise", sum(each.findings for each in lost), 0),
    )
    held = tuple((time, float(each.in_store)) for time, each in zip(times, lost, strict=True))
    gone = tuple((time, float(sum(each.missed.values()))) for time, each in zip(times, lost, strict=True))
    panel = Panel("publications", (Curve("missed", gone), Curve("in the store that was lost", held, "bound")))
    return Report(rows=rows, picture=Picture(x_label="seconds from the link's loss to the store's", panels=(panel,)))


experiment: Final = Experiment(
    name="store-loss",
    summary="a broker that loses its store loses what it alone held, and nothing else",
    source="our promise: this loss is bounded to that, and counted",
    run=run,
)

"""Storms: random federations, workloads and faults, each from its seed, under checkers that always run.

Run number i of a storm has the seed S + i; the same seed gives the same report to the byte. A run that fails is made
smaller while it still fails, and then told with its seed, a command that replays it, and a trace.
"""

import gc
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from mqloom.core.limits import FLUSH_DEADLINE_S
from mqloom.lab import checkers, faults
from mqloom.lab.client_model import LEASE_S
from mqloom.lab.plan import (
    TOPOLOGIES,
    ControlsPlan,
    FaultPlan,
    JoinPlan,
    MigrationPlan,
    MovePlan,
    Plan,
    PublicationPlan,
    SubscriberPlan,
    links_of,
)
from mqloom.lab.shrink import shrink
from mqloom.lab.world import Options, World

Tell = Callable[[str], None]

CHECK_EVERY_S: Final = 10.0
"""How often the invariants are looked at during a run."""

START_S: Final = 2.0
"""How long a federation has to come up before clients do."""

CRASH_S: Final = 20.0
"""How long a gateway is away at most."""

BALANCED: Final = 0.5
"""In which share of the runs with clients that move there are load agents which move them, too."""

SYMBOLS: Final = ("a", "b", "c", "d")


class RunReport(Struct, kw_only=True):
    """One run. Pairs are of a publication and a subscriber."""

    seed: int
    topology: str
    gateways: int
    subscribers: int
    publications: int
    faults: list[str]
    moves: int
    virtual_s: float
    hops: int
    expected: int
    delivered: int
    lost: int
    lost_with_subscription: int
    missed_when_leaving: int
    held_by_lost_stores: int
    has_agents: bool
    sessions: int
    """In which load agents moved clients, as far as they remember: in its last life each."""
    controls_spoilt: dict[str, int]
    """What load agents told each other and was lost, doubled and late, beside what faults did to it."""
    findings: list[str]


class StormReport(Struct, kw_only=True):
    """All runs of a storm, and their sums."""

    seed: int
    runs: int
    failed: int
    hops: int
    expected: int
    delivered: int
    lost: int
    held_by_lost_stores: int
    with_agents: int
    sessions: int
    controls_spoilt: dict[str, int]
    reports: list[RunReport]


# ---- drawing -------------------------------------------------------------------------------------------------------


def draw_plan(
    seed: int, kinds: Sequence[str] = tuple(faults.KINDS), *, migrations: bool = True, agents: bool = False
) -> Plan:
    """Return the plan of a run by its seed, with faults of these kinds only, and with clients that move or without.

    With `agents` there are such clients and load agents in any case, and nobody joins late.
    """
    randomness = random.Random(f"{seed} plan")  # noqa: S311 - a simulation, not a secret
    gateways = tuple(f"G{index}" for index in range(randomness.randint(2, 7)))
    topology = randomness.choice(TOPOLOGIES)
    length_s = float(randomness.randint(30, 120))
    moments = [randomness.uniform(5.0, length_s - 5.0) for _ in range(randomness.randint(1, 3))]
    publishers = {f"pub{index}": randomness.choice(gateways) for index in range(randomness.randint(1, 4))}
    subscribers = tuple(
        _subscriber(f"c{index}", gateways, length_s, randomness) for index in range(randomness.randint(1, 7))
    )
    plan = Plan(
        seed=seed,
        topology=topology,
        gateways=gateways,
        links=links_of(topology, gateways, randomness),
        publishers=publishers,
        subscribers=subscribers,
        publications=_publications(tuple(publishers), length_s, moments, randomness),
        faults=(),
        length_s=length_s,
        window=randomness.choice((5, 20, 20, 100)),
        link_latency_s=randomness.choice((0.001, 0.02, 0.1, 0.3)),
        everybody_leaves=randomness.random() < 0.5,
    )
    plan = structs.replace(plan, joins=() if agents else _joins(plan, moments))
    count = randomness.choice((0, 1, 2, 4, 8, 12, 16))
    drawn = faults.draw(plan, randomness, count, kinds, moments)
    weaving = random.Random(f"{seed} weaving")  # noqa: S311 - as above
    if weaving.random() < 0.5 or len(gateways) < 3:
        still = structs.replace(plan, faults=drawn)
        return _with_travellers(still, moments, agents) if migrations else still
    soft = faults.draw_soft(plan, weaving, weaving.choice((0, 1, 4)) if kinds else 0, moments)
    together = sorted((*drawn, *soft), key=lambda fault: (fault.at, fault.kind, fault.target))
    moving = structs.replace(plan, faults=tuple(together), is_restless=True, moves=_moves(plan, moments))
    still = _with_places(moving) if moving.moves else moving
    return _with_travellers(still, moments, agents) if migrations else still


def _joins(plan: Plan, moments: Sequence[float]) -> tuple[JoinPlan, ...]:
    """Return, in a quarter of the runs, one of those with a single link that joins near a moment."""
    randomness = random.Random(f"{plan.seed} joining")  # noqa: S311 - as above
    edges = [name for name, neighbours in plan.neighbours.items() if len(neighbours) == 1]
    if randomness.random() < 0.75 or len(plan.gateways) < 3:
        return ()
    at = max(START_S + 1, randomness.choice(moments) + randomness.uniform(-2.0, 2.0))
    return (JoinPlan(at=round(at, 3), gateway=randomness.choice(edges)),)


def _moves(plan: Plan, moments: Sequence[float]) -> tuple[MovePlan, ...]:
    """Return orders to move, in half of the runs, most near the moments; a gateway may refuse one, and says so."""
    randomness = random.Random(f"{plan.seed} moving")  # noqa: S311 - as above
    moves = []
    for _ in range(randomness.choice((0, 0, 0, 1, 2, 4))):
        near = randomness.choice((0.1, 0.5, 2.0, plan.length_s))
        at = max(START_S + 1, randomness.choice(moments) + randomness.uniform(-near, near))
        gateway = randomness.choice(plan.gateways)
        others = [each for each in plan.gateways if each != gateway and each not in plan.neighbours[gateway]]
        to = randomness.choice(others or plan.gateways)
        moves.append(MovePlan(at=round(at, 3), gateway=gateway, to=to))
    return tuple(sorted(moves, key=lambda move: move.at))


def _with_places(plan: Plan) -> Plan:
    """Return a plan in which no broker loses its store shortly before its gateway ends, so that nobody has its place.

    That is a loss that is not promised against: docs/soft-links.md says what an operator does then.
    """
    restarts = {(fault.target[0], fault.at) for fault in plan.faults if fault.kind == "gateway-crash"}
    restarts |= {(each, join.at) for join in plan.joins for each in (join.gateway, *plan.neighbours[join.gateway])}
    kept = [
        fault
        for fault in plan.faults
        if fault.kind != "broker-loses-store"
        or not any(
            name == fault.target[0]
            and at <= fault.at + fault.lasts_s + checkers.AFTERMATH_S
            and at + CRASH_S >= fault.at
            for name, at in restarts
        )
    ]
    return structs.replace(plan, faults=tuple(kept))


def _with_travellers(plan: Plan, moments: Sequence[float], agents: bool) -> Plan:
    """Return, in two runs of five or with agents, the plan with subscribers that are moved between brokers, and killed.

    There no broker loses its store, and no link is away for longer than a client that moves is patient.
    """
    randomness = random.Random(f"{plan.seed} travelling")  # noqa: S311 - as above
    if (randomness.random() < 0.6 and not agents) or plan.joins:
        return plan
    subscribers = tuple(structs.replace(each, travels=randomness.random() < 0.7) for each in plan.subscribers)
    names = [each.name for each in subscribers if each.travels]
    kept = [each for each in plan.faults if each.kind not in ("broker-loses-store", "link-down-for-an-hour")]
    migrations = []
    for _ in range(randomness.choice((1, 2, 4, 8)) if names else 0):
        near = randomness.choice((0.1, 0.5, 2.0, plan.length_s))
        at = max(START_S + 1, randomness.choice(moments) + randomness.uniform(-near, near))
        migration = MigrationPlan(
            at=round(at, 3), subscriber=randomness.choice(names), to=randomness.choice(plan.gateways)
        )
        migrations.append(migration)
        if plan.faults and randomness.random() < 0.3:
            killed_at = round(at + randomness.choice((0.01, 0.1, 1.0)) * randomness.random(), 3)
            lasts_s = round(randomness.choice((0.1, 3.0, 20.0)) * randomness.random(), 3)
            target = (migration.subscriber,)
            kept.append(FaultPlan(kind="client-killed", at=killed_at, lasts_s=lasts_s, target=target))
    unsubscribing = _unsubscribing(plan, [each for each in subscribers if each.travels], moments)
    if unsubscribing:  # who goes elsewhere while its broker is away, and is killed, is known to nobody there
        kept = [*(each for each in kept if each.kind != "client-killed"), *unsubscribing]
    return _with_agents(
        structs.replace(
            plan,
            subscribers=subscribers,
            faults=tuple(sorted(kept, key=lambda fault: (fault.at, fault.kind, fault.target))),
            migrations=tuple(sorted(migrations, key=lambda each: each.at)),
            everybody_leaves=plan.everybody_leaves or bool(unsubscribing),
        ),
        agents,
    )


def _unsubscribing(plan: Plan, travellers: Sequence[SubscriberPlan], moments: Sequence[float]) -> tuple[FaultPlan, ...]:
    """Return, in a third of such runs with faults, a broker that is away, and a client that unsubscribes for good."""
    randomness = random.Random(f"{plan.seed} unsubscribing")  # noqa: S311 - as above
    if not travellers or not plan.faults or randomness.random() >= 1 / 3:
        return ()
    client = randomness.choice(travellers)
    away = randomness.choice((client.gateway, randomness.choice(plan.gateways)))
    at = max(START_S + 1, randomness.choice(moments) + randomness.uniform(-0.5, 0.5))
    lasts_s = randomness.choice((5.0, 60.0, 60.0)) * randomness.random()
    then = at + lasts_s * randomness.choice((0.1, 1.0)) * randomness.random()
    return (
        FaultPlan(kind="broker-restart", at=round(at, 3), lasts_s=round(lasts_s, 3), target=(away,)),
        FaultPlan(kind="client-wants-nothing", at=round(then, 3), lasts_s=0.0, target=(client.name,)),
    )


def _with_agents(plan: Plan, agents: bool) -> Plan:
    """Return, in half of the runs or if asked for, the plan with load agents, and a crowd at a broker to be moved."""
    randomness = random.Random(f"{plan.seed} balancing")  # noqa: S311 - as above
    if randomness.random() >= BALANCED and not agents:
        return plan
    edges = [name for name, neighbours in plan.neighbours.items() if len(neighbours) == 1]
    crowded = randomness.choice(edges)
    crowd = [
        structs.replace(_subscriber(f"d{index}", (crowded,), plan.length_s, randomness), travels=True)
        for index in range(randomness.randint(2, 10))
    ]
    controls = ControlsPlan(
        lost=randomness.choice((0.0, 0.1, 0.4)),
        doubled=randomness.choice((0.0, 0.3)),
        late=randomness.choice((0.0, 0.1, 0.4)),
    )
    return structs.replace(plan, is_balanced=True, subscribers=(*plan.subscribers, *crowd), controls=controls)


def _subscriber(name: str, gateways: Sequence[str], length_s: float, randomness: random.Random) -> SubscriberPlan:
    starts_at = START_S + randomness.choice((0.0, 0.0, 0.5)) * randomness.random() * length_s
    closes_at = starts_at + randomness.random() * length_s if randomness.random() < 0.3 else None
    return SubscriberPlan(
        name=name,
        gateway=randomness.choice(gateways),
        wishes={f"w{index}": _wish(randomness) for index in range(randomness.choice((1, 1, 2, 3)))},
        starts_at=round(starts_at, 3),
        closes_at=None if closes_at is None else round(min(closes_at, length_s + 5), 3),
    )


def _wish(randomness: random.Random) -> tuple[str, str]:
    """Return a topic filter and a WHERE, drawn so that many cover each other."""
    symbol, volume = randomness.choice(SYMBOLS), 10 * randomness.randrange(8)
    topics = randomness.choice(("stocks/#", "stocks/#", "stocks/+", f"stocks/{symbol}"))
    where = randomness.choice(
        (
            "",
            f"volume > {volume}",
            f"volume BETWEEN {volume} AND {volume + 30}",
            f"symbol = '{symbol}'",
            f"symbol = '{symbol}' AND volume < {volume + 20}",
            f"symbol = '{symbol}' OR volume > {volume}",
            f"NOT symbol IN ('a', '{symbol}')",
        )
    )
    return topics, where


def _publications(
    publishers: Sequence[str], length_s: float, moments: Sequence[float], randomness: random.Random
) -> tuple[PublicationPlan, ...]:
    """Return publications spread over the run, most of them near the moments, some in bursts."""
    times = [moment + randomness.uniform(-0.5, 2.0) for moment in moments for _ in range(DENSE)]
    while len(times) < PUBLICATIONS and randomness.random() > 1 / PUBLICATIONS:
        at = randomness.uniform(START_S + 1, length_s)
        if randomness.random() < 0.7:
            at = randomness.choice(moments) + randomness.uniform(0.0, 10.0)
        burst = randomness.choice((1, 1, 1, 1, 1, 30))
        times += [at + 0.001 * index for index in range(burst)]
    publications = []
    for number, at in enumerate(sorted(times)):
        symbol = randomness.choice(SYMBOLS)
        publications.append(
            PublicationPlan(
                at=round(at, 4),
                publisher=randomness.choice(publishers),
                number=number,
                topic=f"stocks/{symbol}",
                attributes={"symbol": symbol, "volume": randomness.randrange(100)},
                qos=int(randomness.random() < 0.9),
            )
        )
    return tuple(publications)


PUBLICATIONS: Final = 300
"""Publications in a run, about."""

DENSE: Final = 40
"""Publications around each moment at which things go wrong."""

# ---- running -------------------------------------------------------------------------------------------------------


def run_plan(plan: Plan, options: Options | None = None) -> tuple[RunReport, World]:
    """Run a plan to its end under all checkers."""
    world = World(plan, options)
    mended_at = faults.schedule(world)
    findings: list[str] = []
    end = max(plan.length_s, mended_at) + 1
    while world.clock.now < end and not findings:
        step = CHECK_EVERY_S if world.clock.now < plan.length_s else 10 * CHECK_EVERY_S
        world.run(min(world.clock.now + step, end))
        findings += checkers.invariants(world)
    if not findings:
        findings += _rest(world)
    judgement = checkers.judge(world)
    findings += judgement.findings
    report = RunReport(
        seed=plan.seed,
        topology=plan.topology,
        gateways=len(plan.gateways),
        subscribers=len(plan.subscribers),
        publications=len(plan.publications),
        faults=[fault.kind for fault in plan.faults],
        moves=world.moves_made(),
        virtual_s=round(world.clock.now, 3),
        hops=world.traffic.hops,
        expected=judgement.expected,
        delivered=judgement.delivered,
        lost=judgement.lost,
        lost_with_subscription=judgement.lost_with_subscription,
        missed_when_leaving=judgement.missed_when_leaving,
        held_by_lost_stores=len(world.losses()),
        has_agents=plan.is_balanced,
        sessions=world.sessions_held(),
        controls_spoilt={} if world.balanced is None else dict(sorted(world.balanced.spoilt.items())),
        findings=findings,
    )
    return report, world


def _rest(world: World) -> list[str]:
    """Let everything come to rest; then, in some runs, let everybody leave, and look for what they left behind."""
    world.settle()
    findings = list(checkers.at_rest(world))
    if findings or not world.plan.everybody_leaves:
        return findings
    for subscriber in world.subscribers.values():
        subscriber.close()
    # A broker that lost its store may have lost the deletion of a record; then only the lease ends the subscription.
    lease_s = LEASE_S if any(fault.kind == "broker-loses-store" for fault in world.plan.faults) else 0.0
    world.run(world.clock.now + lease_s + 2 * FLUSH_DEADLINE_S)
    world.settle()
    return [*checkers.at_rest(world), *checkers.when_all_have_left(world)]


def run_seed(
    seed: int, kinds: Sequence[str] = tuple(faults.KINDS), *, migrations: bool = True, agents: bool = False
) -> RunReport:
    """Run the plan of a seed; seeds that failed before there were clients that move, without those."""
    report, _ = run_plan(draw_plan(seed, kinds, migrations=migrations, agents=agents))
    return report


def run_storm(
    seed: int,
    runs: int,
    tell: Tell,
    *,
    traces: Path | None = None,
    kinds: Sequence[str] = tuple(faults.KINDS),
    after_each: Callable[[RunReport], None] = lambda report: None,
    broken: str | None = None,
    agents: bool = False,
) -> StormReport:
    """Run the seeds from `seed` on; `tell` is given what a person should read, `traces` is where traces go.

    `broken` is what gateways were broken by, so that it can be told how to see a run again. `agents`: load agents in
    every run, not in some.
    """
    reports = []
    collecting = gc.isenabled()
    gc.disable()  # a world is a tangle of references, and is gone as a whole
    try:
        for number in range(seed, seed + runs):
            report = run_seed(number, kinds, agents=agents)
            reports.append(report)
            gc.collect()
            if report.findings:
                explain(number, tell, traces, kinds, broken, agents)
            after_each(report)
    finally:
        if collecting:
            gc.enable()
    storm = StormReport(
        seed=seed,
        runs=runs,
        failed=sum(bool(report.findings) for report in reports),
        hops=sum(report.hops for report in reports),
        expected=sum(report.expected for report in reports),
        delivered=sum(report.delivered for report in reports),
        lost=sum(report.lost for report in reports),
        held_by_lost_stores=sum(report.held_by_lost_stores for report in reports),
        with_agents=sum(report.has_agents for report in reports),
        sessions=sum(report.sessions for report in reports),
        controls_spoilt=dict(sum((Counter(report.controls_spoilt) for report in reports), Counter())),
        reports=reports,
    )
    tell(summary(storm))
    return storm


def summary(storm: StormReport) -> str:
    """Return a storm in a line."""
    held = storm.held_by_lost_stores
    lost = f"; stores that were lost held {_counted(held, 'message')}, so that {storm.lost:,} deliveries were missed"
    spoilt = ", ".join(f"{count:,} {what}" for what, count in sorted(storm.controls_spoilt.items()))
    moved = f"moved clients in {_counted(storm.sessions, 'session')} (their control publications: {spoilt or 'none'})"
    agents = f"; load agents in {_counted(storm.with_agents, 'run')} {moved}"
    return (
        f"{_counted(storm.runs, 'run')}, {storm.failed:,} failed: {storm.delivered:,} deliveries where "
        f"{storm.expected:,} were promised, {storm.hops:,} hops{lost if held else ''}"
        f"{agents if storm.with_agents else ''}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def replay_command(seed: int, broken: str | None = None, *, agents: bool = False) -> str:
    """Return what to type to see a run again."""
    more = (" --agents" if agents else "") + ("" if broken is None else f" --broken {broken}")
    return f"mqloom lab storm --runs 1 --seed {seed}{more}"


def explain(
    seed: int,
    tell: Tell,
    traces: Path | None,
    kinds: Sequence[str] = tuple(faults.KINDS),
    broken: str | None = None,
    agents: bool = False,
) -> None:
    """Tell how to replay a run that failed, what of it is enough to make it fail, and what happened in that."""
    plan = shrink(draw_plan(seed, kinds, agents=agents), lambda candidate: bool(run_plan(candidate)[0].findings))
    report, world = run_plan(plan, Options(traced=True))
    tell(f"seed {seed} failed; replay it with: {replay_command(seed, broken, agents=agents)}")
    tell(f"  enough: {plan.topology} of {len(plan.gateways)}, {_counted(len(plan.subscribers), 'subscriber')},")
    if plan.is_balanced:
        shares = structs.asdict(plan.controls).items()
        spoilt = "".join(f", {share:.0%} of control publications {what}" for what, share in shares if share)
        tell(f"  load agents{spoilt},")
    publications = _counted(len(plan.publications), "publication")
    tell(f"  {publications}, faults: {', '.join(map(_fault, plan.faults)) or 'none'}")
    for finding in report.findings:
        tell(f"  {finding}")
    if traces is not None and world.trace is not None:
        traces.mkdir(parents=True, exist_ok=True)
        path = traces / f"storm-{seed}.txt"
        path.write_text("\n".join([repr(plan), *report.findings, "", *world.trace.lines]) + "\n")
        tell(f"  trace: {path}")


def _fault(fault: FaultPlan) -> str:
    return f"{fault.kind} {' '.join(fault.target)} at {fault.at:g} for {fault.lasts_s:g} s"


def replay(seed: int, kinds: Sequence[str] = tuple(faults.KINDS)) -> tuple[RunReport, list[str]]:
    """Run a seed once more; return its report and its trace."""
    report, world = run_plan(draw_plan(seed, kinds), Options(traced=True))
    assert world.trace is not None
    return report, world.trace.lines

"""Telemetry of paper 000's model: the production's load agents on simulated brokers, and what they tell.

Two truths can be planted. A broker where nearly everybody has joined while nobody balances; and a broker whose line
others use too, who come and go with the subscribers: whatever load agents predict for its output, more comes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.core.telemetry import GroupRecord, LinkRecord, LoadRecord, MigrationRecord, Record, ServiceRecord
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments.padres_estimate import loads_after
from mqloom.lab.padres_outcome import Outcome, Session, outcome_of
from mqloom.lab.padres_play import world_of
from mqloom.lab.padres_setups import HOMOGENEOUS, Setup
from mqloom.lab.padres_workload import Stay
from mqloom.lab.padres_world import PadresWorld
from mqloom.lab.planted_weeks import START_AT

UNKNOWN: Final = float("nan")

UNEVEN: Final = replace(HOMOGENEOUS, name="uneven", subscribers=240, change_at=None, length_s=1_800.0, zero_share=0.2)
COMING: Final = replace(HOMOGENEOUS, name="coming", subscribers=400, change_at=None, length_s=3_000.0)

IDLE: Final = {"local_ratio": 1_000.0, "local_delay": 1_000.0, "overload_low": 1.0, "overload_high": 1.0}
"""Settings with which load agents leave everything as it is, short of overload."""
BUSY: Final = {"local_ratio": 0.04, "stabilise_s": 20.0}
"""Settings with which they correct small differences, too, and often."""


def uneven(seed: int, heavy: GatewayId, share: float = 0.7) -> dict[GatewayId, list[Record]]:
    """Return telemetry of a federation in which nobody balances, and most subscribers are at one edge."""
    setup = UNEVEN
    others = [edge for edge in setup.edges if edge != heavy]
    first = round(share * setup.subscribers)
    stays = [
        Stay(1.0, float("inf"), heavy if number < first else others[number % len(others)])
        for number in range(setup.subscribers)
    ]
    world = world_of(setup, seed, IDLE, stays)
    world.run(tell_nobody)
    return telemetry_of(world)


def shared_line(seed: int, broker: GatewayId, factor: float = 1.6) -> dict[GatewayId, list[Record]]:
    """Return telemetry of a federation that balances, with a broker that has more output than its subscribers make.

    `factor` 1 plants nothing.
    """
    world = world_of(COMING, seed, BUSY, _coming(COMING))
    world.run(tell_nobody)
    found = telemetry_of(world)
    return {name: [_with_more(each, name, broker, factor) for each in records] for name, records in found.items()}


def _with_more(record: Record, name: GatewayId, broker: GatewayId, factor: float) -> Record:
    """Return a record with as much more output as it has, if it is about that broker and not a prediction."""
    if isinstance(record, LoadRecord) and name == broker:
        return structs.replace(record, output_ratio=record.output_ratio * factor)
    if isinstance(record, MigrationRecord) and broker == (name if record.is_offloading else record.partner):
        return structs.replace(record, observed_output=record.observed_output * factor)
    return record


def _coming(setup: Setup) -> list[Stay]:
    """Return subscribers who come to one edge after another: there is always something to balance."""
    edges = setup.edges
    each_s = setup.length_s / setup.subscribers
    return [
        Stay(number * each_s, float("inf"), edges[int(number * each_s // 200) % len(edges)])
        for number in range(setup.subscribers)
    ]


def telemetry_of(world: PadresWorld) -> dict[GatewayId, list[Record]]:
    """Return what gateways beside the model's brokers would have told, in the order of time."""
    outcome = outcome_of(world)
    found: dict[GatewayId, list[Record]] = {}
    for name, loads in outcome.loads.items():
        window_s = loads[0][0]
        records: list[Record] = []
        for at, load in loads:
            records += _load(load, window_s, START_AT + at, len(world.net.at.get(name, ())))
        records += _links(world, name, window_s)
        records += _groups(world, name)
        records += [record for session in outcome.sessions for record in _sides(outcome, session, name)]
        found[name] = sorted(records, key=lambda each: each.at)
    return found


def _load(load: Load, window_s: float, at: float, clients: int) -> list[Record]:
    return [
        LoadRecord(
            at=at,
            window_s=window_s,
            input_ratio=load.input_ratio,
            delay_s=load.delay_s,
            output_ratio=load.output_ratio,
            cpu_ratio=load.cpu_ratio,
            memory_ratio=load.memory_ratio,
            input_rate=load.input_rate,
            output_bytes_s=load.output_bytes_s,
            output_bytes_s_max=float(load.output_bytes_s_max),
            subscriptions=load.subscriptions,
            clients=clients,
            deliveries_s=load.deliveries_s,
        ),
        ServiceRecord(at, load.subscriptions, load.delay_s, round(load.input_rate * window_s)),
    ]


def _links(world: PadresWorld, name: GatewayId, window_s: float) -> list[Record]:
    """Return that the links of the tree stand; the model does not count what they carry."""
    near = [b if a == name else a for a, b in world.setup.links if name in (a, b)]
    return [LinkRecord(START_AT + window_s, window_s, peer, "primary", True, 0, 0, 0) for peer in near]


def _groups(world: PadresWorld, name: GatewayId) -> list[Record]:
    """Return who wants what at the end, and what they got of all that was published."""
    net, workload = world.net, world.net.workload
    members: dict[tuple[str, str], list[int]] = {}
    for subscriber in net.at.get(name, ()):
        subscription = net.subscription(subscriber)
        members.setdefault((subscription.topics, str(subscription.where)), []).append(subscriber)
    counts: dict[int, int] = dict.fromkeys((each[0] for each in members.values()), 0)
    for quote in workload.publishing.quotes[: net.published].tolist():
        for subscriber in workload.matching(quote).tolist():
            if subscriber in counts:
                counts[subscriber] += 1
    length_s, size = world.setup.length_s, world.setup.message_bytes
    return [
        GroupRecord(START_AT + length_s, length_s, topics, where, len(found), counts[found[0]], counts[found[0]] * size)
        for (topics, where), found in members.items()
    ]


def _sides(outcome: Outcome, session: Session, name: GatewayId) -> Sequence[Record]:
    """Return what the offloading broker tells of a session: what was predicted for both sides, and what came."""
    if session.source != name or session.choice is None or session.drained_at is None:
        return ()
    records = []
    for broker, predicted in ((session.source, session.choice.local), (session.target, session.choice.remote)):
        after = loads_after(outcome, session, broker)
        records.append(
            MigrationRecord(
                at=START_AT + session.drained_at + 30.0,
                session=f"{session.source}-{session.at:.0f}",
                metric="output",
                partner=session.target,
                asked=session.ordered,
                moved=session.ordered,
                predicted_input=predicted.input_ratio,
                predicted_delay_s=predicted.delay_s,
                predicted_output=predicted.output_ratio,
                observed_input=after.input_ratio if after else UNKNOWN,
                observed_delay_s=after.delay_s if after else UNKNOWN,
                observed_output=after.output_ratio if after else UNKNOWN,
                is_offloading=broker == session.source,
            )
        )
    return records

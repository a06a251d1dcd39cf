"""Clients that are moved between brokers: every fault at every step of a move, and all that is promised holds."""

import pytest
from msgspec import structs

from mqloom.lab.plan import FaultPlan, MigrationPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.storm import run_plan
from mqloom.lab.traveller_model import TravellerModel
from mqloom.lab.world import Options, World

OLD, MIDDLE, NEW = "G0", "G1", "G2"
ORDERED_AT = 6.0


def plan(*faults: FaultPlan, to: str = NEW) -> Plan:
    """Return a plan in which one client is moved from one end of a chain to the other, in the middle of traffic."""
    publications = tuple(
        PublicationPlan(
            at=round(4.0 + 0.01 * number, 3),
            publisher=f"at {(OLD, MIDDLE, NEW)[number % 3]}",
            number=number,
            topic="stocks/a",
            attributes={"symbol": "a", "volume": number % 100},
        )
        for number in range(600)
    )
    return Plan(
        seed=1,
        gateways=(OLD, MIDDLE, NEW),
        links=((OLD, MIDDLE), (MIDDLE, NEW)),
        publishers={f"at {name}": name for name in (OLD, MIDDLE, NEW)},
        subscribers=(
            SubscriberPlan(name="client", gateway=OLD, wishes={"w": ("stocks/#", "volume > 10")}, travels=True),
        ),
        publications=publications,
        faults=faults,
        length_s=15.0,
        migrations=(MigrationPlan(at=ORDERED_AT, subscriber="client", to=to),),
    )


STEPS = {
    "ordered": '{"order"',
    "answered": '"answer":"moving"',
    "written down where it goes": "@G0<sub-client <- mqloom/v1/G0/sub/client (qos 1 packet 4 retained)",
    "connected to the target": "@G2<sub-client <- Connect",
    "reading at the target": "@G2<sub-client <- mqloom/v1/G2/sub/client (qos 1 packet 1)",
    "written down where it comes from": "@G2<sub-client <- mqloom/v1/G2/sub/client (qos 1 packet 2 retained)",
    "established at the target": "is answered established w by G2",
    "leaving": "@G0<sub-client <- mqloom/v1/G0/sub/client (qos 1 packet 6 retained)",
    "ended at the old one": "is answered ended  by G0",
    "written down where it is": "@G0<sub-client <- mqloom/v1/G0/sub/client (qos 1 packet 7 retained)",
    "at home": "@G0<sub-client <- Connect(client_id='sub-client', clean=True",
}
"""The steps of a move, and by what each is told in the trace."""


@pytest.fixture(scope="module")
def times() -> dict[str, float]:
    """Give when each step comes in a run in which nothing goes wrong."""
    report, world = run_plan(plan(), Options(traced=True))
    assert report.findings == []
    assert world.trace is not None
    found = {}
    for name, text in STEPS.items():
        line = next(line for line in world.trace.lines if text in line and float(line.split()[0]) >= ORDERED_AT)
        found[name] = float(line.split()[0])
    assert list(found.values()) == sorted(found.values())
    return found


def traveller(world: World) -> TravellerModel:
    model = world.subscribers["client"]
    assert isinstance(model, TravellerModel)
    return model


def sessions(world: World) -> list[str]:
    """Return at whose brokers the client has a session."""
    return [name for name, broker in world.brokers.items() if "sub-client" in broker.sessions]


def test_it_is_moved_and_gets_everything_once() -> None:
    report, world = run_plan(plan())
    assert report.findings == []
    assert report.delivered == report.expected > 500
    assert [move[1:] for move in traveller(world).moved] == [(OLD, NEW)]
    assert sessions(world) == [NEW]
    assert traveller(world).core.home.gateway == NEW


FAULTS = {
    "the old gateway crashes": ("gateway-crash", OLD),
    "the new gateway crashes": ("gateway-crash", NEW),
    "the old broker restarts": ("broker-restart", OLD),
    "the new broker restarts": ("broker-restart", NEW),
    "the client is killed": ("client-killed", "client"),
}


@pytest.mark.parametrize("lasts_s", [0.5, pytest.param(8.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_fails_at_whichever_step_the_promise_holds_and_one_session_is_left(
    step: str, fault: str, lasts_s: float, times: dict[str, float]
) -> None:
    kind, target = FAULTS[fault]
    at = times[step] + 0.000_1
    report, world = run_plan(plan(FaultPlan(kind=kind, at=at, lasts_s=lasts_s, target=(target,))))
    assert report.findings == []
    assert report.delivered == report.expected > 500
    [left] = sessions(world)
    assert traveller(world).core.home.gateway == left
    assert len(traveller(world).core.legs) == 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("away", [OLD, NEW])
def test_one_that_wants_nothing_any_more_while_a_broker_is_away_leaves_nothing_behind(
    step: str, away: str, times: dict[str, float]
) -> None:
    at = times[step] + 0.000_1
    faults = (
        FaultPlan(kind="broker-restart", at=at, lasts_s=40.0, target=(away,)),
        FaultPlan(kind="client-wants-nothing", at=at + 1.0, lasts_s=0.0, target=("client",)),
    )
    report, world = run_plan(structs.replace(plan(*faults), everybody_leaves=True))
    assert report.findings == []
    assert traveller(world).is_over
    assert sessions(world) == []


def test_to_a_broker_that_is_not_there_it_does_not_go() -> None:
    faults = FaultPlan(kind="broker-restart", at=5.0, lasts_s=100.0, target=(NEW,))
    report, world = run_plan(plan(faults))
    assert report.findings == []
    assert traveller(world).moved == []
    assert [problem for _, problem in traveller(world).stayed] == [f"{NEW} has not served us in time"]
    assert sessions(world) == [OLD]


def test_if_its_broker_is_away_for_long_another_of_the_roster_serves_it() -> None:
    faults = FaultPlan(kind="broker-restart", at=7.0, lasts_s=200.0, target=(OLD,))
    report, world = run_plan(plan(faults, to=OLD))  # an order to where it is counts for nothing
    assert report.findings == []
    assert traveller(world).core.counts["refused: target"] == 1
    assert traveller(world).core.counts["failed over"] >= 1
    assert len(sessions(world)) == 1
    assert sessions(world) != [OLD]

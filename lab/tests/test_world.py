"""A world as a whole: what is lost with a store, what a crash does not lose, and how fast it all is."""

import msgspec
import pytest

from mqloom.lab.bench_hops import measure
from mqloom.lab.plan import FaultPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.storm import run_plan, run_storm


def chain(*faults: FaultPlan, publications: int = 100, window: int = 20) -> Plan:
    """Three gateways in a row, a publisher at the first, a subscriber at the last; ten publications a second."""
    return Plan(
        seed=1,
        topology="chain",
        gateways=("A", "B", "C"),
        links=(("A", "B"), ("B", "C")),
        publishers={"p": "A"},
        subscribers=(SubscriberPlan(name="c", gateway="C", wishes={"w": ("stocks/#", "")}, starts_at=2.0),),
        publications=tuple(
            PublicationPlan(at=5 + number / 10, publisher="p", number=number, topic="stocks/a", attributes={})
            for number in range(publications)
        ),
        faults=faults,
        length_s=20.0,
        window=window,
        everybody_leaves=True,
    )


@pytest.mark.parametrize("gateway", ["A", "B", "C"])
@pytest.mark.parametrize("kind", ["gateway-crash", "broker-restart", "own-cut"])
def test_nothing_is_lost_or_doubled_when_somebody_fails(kind: str, gateway: str) -> None:
    report, _ = run_plan(chain(FaultPlan(kind=kind, at=7.0, lasts_s=8.0, target=(gateway,))))
    assert report.findings == []
    assert report.expected == report.delivered == 100


def test_a_link_down_for_an_hour_loses_nothing() -> None:
    report, world = run_plan(chain(FaultPlan(kind="link-cut", at=7.0, lasts_s=3_600.0, target=("A", "B"))))
    assert report.findings == []
    assert report.expected == report.delivered == 100
    assert world.clock.now > 3_600


def test_a_broker_that_loses_its_store_loses_only_what_it_alone_held() -> None:
    away = FaultPlan(kind="client-vanishes", at=7.0, lasts_s=10.0, target=("c",))
    loss = FaultPlan(kind="broker-loses-store", at=10.0, lasts_s=0.5, target=("C",))
    report, world = run_plan(chain(away, loss))
    assert report.findings == []
    got = {number for _, number, _ in world.subscribers["c"].life.delivered}
    held = {number for number, _ in world.losses().for_client}
    assert got | held == set(range(100))
    assert len(got) == report.delivered == 100 - len(held)
    assert report.lost == 30  # what entered after 7 s and before the store was lost
    assert report.held_by_lost_stores == len(held)


def test_storms_of_lost_stores_say_how_much_was_lost() -> None:
    told: list[str] = []
    storm = run_storm(3, 3, told.append, kinds=("broker-loses-store",))
    assert storm.failed == 0
    assert storm.held_by_lost_stores > 0 or storm.lost == 0  # one that is held may be for several
    if storm.held_by_lost_stores:
        assert "stores that were lost held" in told[-1]


def test_a_queue_limit_makes_losses_that_are_found() -> None:
    plan = chain(FaultPlan(kind="client-vanishes", at=7.0, lasts_s=10.0, target=("c",)))
    report, world = run_plan(msgspec.structs.replace(plan, queue_max=5, everybody_leaves=False))
    assert sum(broker.dropped() for broker in world.brokers.values()) > 0
    assert any("missed" in finding for finding in report.findings)


def test_the_busy_plan_comes_to_rest_and_counts_its_hops() -> None:
    rate = measure(publications=300)
    assert rate.hops > 300 * 10
    assert rate.packets < 2 * rate.hops

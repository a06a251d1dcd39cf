from mqloom.lab.capacity import Capacity, Station
from mqloom.lab.clock import Clock
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import Options, World


def test_a_station_serves_in_order_each_for_its_time() -> None:
    clock, done = Clock(), []
    station = Station(clock, Capacity(message_s=1.0, bytes_s=100))
    for name, size in (("a", 100), ("b", 0), ("c", 50)):
        station.submit(1, size, lambda name=name: done.append((name, clock.now)))  # type: ignore[misc]
    assert station.delay_s == 4.5
    assert station.waiting == 3
    clock.run(10)
    assert done == [("a", 2.0), ("b", 3.0), ("c", 4.5)]
    assert (station.busy_s, station.served, station.waiting, station.held_bytes) == (4.5, 3, 0, 0)
    assert station.waited_s == 2.0 + 3.0


def test_a_full_memory_is_said_and_counted() -> None:
    station = Station(Clock(), Capacity(message_s=1.0, memory_bytes=100))
    station.submit(1, 80, lambda: None)
    assert station.has_room(20)
    assert not station.has_room(21)
    assert station.refused == 1


def delays(options: Options, every_s: float, count: int = 100) -> list[float]:
    """Return how long publications took from a publisher to a subscriber at a neighbour."""
    publications = tuple(
        PublicationPlan(at=5 + number * every_s, publisher="p", number=number, topic="stocks/a", attributes={})
        for number in range(count)
    )
    plan = Plan(
        seed=1,
        topology="chain",
        gateways=("A", "B"),
        links=(("A", "B"),),
        publishers={"p": "A"},
        subscribers=(SubscriberPlan(name="c", gateway="B", wishes={"w": ("stocks/#", "")}, starts_at=2.0),),
        publications=publications,
        faults=(),
        length_s=30.0,
        window=1_000,
    )
    world = World(plan, options)
    world.run(100)
    found = {number: at for at, number, _ in world.subscribers["c"].life.delivered}
    assert len(found) == count
    return [found[each.number] - each.at for each in publications]


def test_overload_shows_as_growing_delay_and_its_absence_as_none() -> None:
    free = delays(Options(), 0.01)
    assert max(free) < 0.1
    busy = Options(broker_intake=Capacity(message_s=0.005), gateway_intake=Capacity(message_s=0.002))
    assert max(delays(busy, 0.1)) < 0.1  # 10/s of some 60/s
    overloaded = delays(busy, 0.001)
    assert overloaded[-1] > overloaded[50] > overloaded[10] > 0.02


def test_a_thin_line_out_of_a_broker_delays_what_it_carries() -> None:
    thin = delays(Options(broker_output=Capacity(bytes_s=5_000)), 0.001)
    assert thin[-1] > 1.0

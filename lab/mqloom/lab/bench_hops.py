"""How fast the lab is: simulated hops a second of one core, on a busy federation of seven without faults."""

import gc
import random
import time
from typing import NamedTuple

from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan, links_of
from mqloom.lab.world import Options, World


class HopRate(NamedTuple):
    """Hops and MQTT packets that crossed connections, and the processor's seconds that it took."""

    hops: int
    packets: int
    cpu_s: float

    @property
    def hops_s(self) -> float:
        """Hops a second."""
        return self.hops / self.cpu_s


def busy_plan(publications: int, rate_s: float = 5_000.0) -> Plan:
    """Return a plan in which four publishers share a rate, and one subscriber at each gateway wants a part of it."""
    gateways = tuple(f"G{index}" for index in range(7))
    return Plan(
        seed=1,
        topology="star",
        gateways=gateways,
        links=links_of("star", gateways, random.Random(1)),  # noqa: S311 - not a secret
        publishers={f"pub{index}": gateways[index] for index in range(4)},
        subscribers=tuple(
            SubscriberPlan(
                name=f"c{index}", gateway=gateway, wishes={"w": ("stocks/#", f"volume > {10 * index}")}, starts_at=1.0
            )
            for index, gateway in enumerate(gateways)
        ),
        publications=tuple(
            PublicationPlan(
                at=5 + number / rate_s,
                publisher=f"pub{number % 4}",
                number=number,
                topic="stocks/a",
                attributes={"symbol": "a", "volume": number * 37 % 100},
            )
            for number in range(publications)
        ),
        faults=(),
        length_s=5 + publications / rate_s,
        window=100,
    )


def measure(publications: int = 5_000, tick_s: float = 0.001) -> HopRate:
    """Run the busy plan; a tick of a millisecond lets messages come together, as a busy event loop does."""
    world = World(busy_plan(publications), Options(tick_s=tick_s))
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        world.run(world.plan.length_s)
        settled = world.settle()
        cpu_s = time.process_time() - before
    finally:
        gc.enable()
    assert settled, next(world.unsettled())
    return HopRate(world.traffic.hops, world.traffic.packets, cpu_s)

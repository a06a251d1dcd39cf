"""The demonstration: five embedded brokers in a tree, and the count of what arrived against what should have."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.lab.demo_federation import configuration, running_federation
from mqloom.lab.demo_trading import Trading
from mqloom.lab.stocks import SYMBOLS, Market, interest

LINKS = (("HUB", "WEST"), ("HUB", "EAST"), ("WEST", "COAST"), ("EAST", "ISLAND"))
BROKERS = ("HUB", "WEST", "EAST", "COAST", "ISLAND")
PUBLISHERS_AT = ("COAST", "HUB", "ISLAND")
SUBSCRIBERS = 20
COMPANIES = SYMBOLS[:24]
"""Few enough that twenty subscribers are not left waiting for a quote."""
RATE = 40.0
"""Quotes a second where nobody says."""
UPLINK_PER_S = 10.0
"""For SH, how many copies a gateway can send, as it is told: at the usual rate some are busy with that, others not."""
WEAVE_S = 4.0
"""How often soft links are judged; the first are opened after two periods, so the first quotes have the tree alone."""


@dataclass(slots=True)
class BrokerFigures:
    """One row of the table."""

    id: str
    subscriptions: int
    taken_in: int
    received: int
    matched: int
    forwarded: int
    relayed: int
    delivered: int


@dataclass(slots=True, kw_only=True)
class Demo(Trading):
    """A running demonstration, and its figures."""

    gateways: dict[GatewayId, GatewayDriver]
    part: int = 0
    """After so many quotes each, what was relayed is noted; 0: never."""
    parts: list[int] = field(default_factory=list)
    """How many publications had been relayed at the end of each part."""

    def publish_one(self, now: float) -> bool:
        """Let the next publisher publish the next quote."""
        is_taken = Trading.publish_one(self, now)
        if is_taken and self.part and len(self.quotes) % self.part == 0:
            self.parts.append(self.relayed())
        return is_taken

    def rows(self) -> list[BrokerFigures]:
        """Return the table's rows."""
        rows = []
        for gateway, driver in self.gateways.items():
            own, _ = driver.node.subscription_counts()
            total = driver.node.counters.total
            rows.append(
                BrokerFigures(
                    id=gateway,
                    subscriptions=own,
                    taken_in=total("publications_in"),
                    received=total("publications_received"),
                    matched=total("publications_matched"),
                    forwarded=total("publications_forwarded"),
                    relayed=total("publications_relayed"),
                    delivered=total("deliveries"),
                )
            )
        return rows

    def forwarded(self) -> int:
        """How many publications crossed links, each link counted."""
        return sum(row.forwarded for row in self.rows())

    def relayed(self) -> int:
        """How many were pure forwards: received by gateways where nobody wanted them."""
        return sum(row.relayed for row in self.rows())

    def compared(self) -> tuple[int, int] | None:
        """How many of those there were in the first part and in the last that is over; None before there are two."""
        return (self.parts[0], self.parts[-1] - self.parts[-2]) if len(self.parts) > 1 else None

    def softly(self) -> int:
        """How many publications went over soft links, among those that crossed links."""
        return sum(driver.node.counters.total("publications_softly") for driver in self.gateways.values())

    def flooded(self) -> int:
        """How many would have if every publication went to every broker: each link of the tree once."""
        return len(self.quotes) * len(LINKS)

    def verdict(self) -> dict[str, object]:
        """Return what has arrived, and what went over links."""
        compared = self.compared()
        return Trading.verdict(self) | {
            "forwarded": self.forwarded(),
            "flooded": self.flooded(),
            "relayed": self.relayed(),
            "softly": self.softly(),
            "part": self.part,
            "relayed_first": compared[0] if compared else None,
            "relayed_last": compared[1] if compared else None,
        }


@contextlib.asynccontextmanager
async def running_demo(
    seed: int, tell: Callable[[str], None], strategy: str = "S0", part: int = 0, spool: Path | None = None
) -> AsyncIterator[Demo]:
    """Start everything, in the order in which an operator would; end it in the reverse order."""
    hints = (
        "while it runs, their links are shown by: mqloom overlay show -c {path}",
        "and the clients of a broker sent to the others by: mqloom drain HUB -c {path}",
    )
    randomness = random.Random(seed)  # noqa: S311 - a workload, not a secret
    async with contextlib.AsyncExitStack() as stack:
        federation = await stack.enter_async_context(running_federation(_federation(strategy), tell, hints, spool))
        tell(f"waiting until {SUBSCRIBERS} content subscriptions are established everywhere")
        places = [GatewayId(BROKERS[index % len(BROKERS)]) for index in range(SUBSCRIBERS)]
        wishes = [(place, interest(randomness, COMPANIES)) for place in places]
        subscribers = await stack.enter_async_context(federation.subscribers(wishes))
        publishers = await stack.enter_async_context(federation.publishers(PUBLISHERS_AT))
        yield Demo(
            gateways=federation.gateways,
            subscribers=subscribers,
            publishers=publishers,
            market=Market(randomness, COMPANIES),
            part=part,
        )


def _federation(strategy: str) -> str:
    more = ["[plugins.settings.tree_overlay]", f'strategy = "{strategy}"', f"weave_s = {WEAVE_S}"]
    if strategy == "SH":
        more.append(f"uplink_per_s = {UPLINK_PER_S}")
    return configuration(BROKERS, LINKS, more=more)

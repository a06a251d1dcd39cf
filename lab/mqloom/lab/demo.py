"""The demonstration: five embedded brokers in a tree, and the count of what arrived against what should have.

What should have arrived is worked out by trying every quote against every subscription in plain Python, without the
filter language, matchers and routes that are being shown.
"""

import asyncio
import contextlib
import random
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import ORDER_KIND, new_key, order_keys_in, write_keys
from mqloom.gateway.links import LinkState
from mqloom.lab.demo_parts import DemoPublisher, DemoSubscriber, wait_for
from mqloom.lab.stocks import SYMBOLS, Market, interest

LINKS = (("HUB", "WEST"), ("HUB", "EAST"), ("WEST", "COAST"), ("EAST", "ISLAND"))
BROKERS = ("HUB", "WEST", "EAST", "COAST", "ISLAND")
PUBLISHERS_AT = ("COAST", "HUB", "ISLAND")
SUBSCRIBERS = 20
COMPANIES = SYMBOLS[:24]
"""Few enough that twenty subscribers are not left waiting for a quote."""
KEYS = "federation.keys"
"""Drawn for one run: gateways trust each other, and may move clients, as they should anywhere."""
SETTLE_S = 10.0
"""How long after the last quote deliveries are waited for."""
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


@dataclass(slots=True)
class Demo:
    """A running demonstration, and its figures."""

    gateways: dict[GatewayId, GatewayDriver]
    subscribers: list[DemoSubscriber]
    publishers: list[DemoPublisher]
    market: Market
    part: int = 0
    """After so many quotes each, what was relayed is noted; 0: never."""
    parts: list[int] = field(default_factory=list)
    """How many publications had been relayed at the end of each part."""
    quotes: dict[int, tuple[dict[str, object], float]] = field(default_factory=dict)

    def publish_one(self, now: float) -> None:
        """Let the next publisher publish the next quote."""
        number = len(self.quotes)
        quote = self.market.quote(number)
        if self.publishers[number % len(self.publishers)].publish(quote):
            self.quotes[number] = (quote, now)
            if self.part and len(self.quotes) % self.part == 0:
                self.parts.append(self.relayed())

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
        """Try every quote against every subscription, and compare with what arrived."""
        expected = delivered = lost = duplicated = unasked = 0
        delays_ms = []
        for subscriber in self.subscribers:
            wanted = {number for number, (quote, _) in self.quotes.items() if subscriber.interest.wants(quote)}
            got = set(subscriber.received)
            expected += len(wanted)
            delivered += len(wanted & got)
            lost += len(wanted - got)
            unasked += len(got - wanted)
            duplicated += sum(subscriber.received.values()) - len(got)
            delays_ms += [(subscriber.received_at[number] - self.quotes[number][1]) * 1000 for number in wanted & got]
        delays_ms.sort()
        compared = self.compared()
        return {
            "published": len(self.quotes),
            "expected": expected,
            "delivered": delivered,
            "lost": lost,
            "duplicated": duplicated,
            "unasked": unasked,
            "forwarded": self.forwarded(),
            "flooded": self.flooded(),
            "relayed": self.relayed(),
            "softly": self.softly(),
            "part": self.part,
            "relayed_first": compared[0] if compared else None,
            "relayed_last": compared[1] if compared else None,
            "delay_ms_p50": round(delays_ms[len(delays_ms) // 2], 1) if delays_ms else None,
            "delay_ms_p99": round(delays_ms[len(delays_ms) * 99 // 100], 1) if delays_ms else None,
        }

    def is_settled(self) -> bool:
        """Whether everything expected has arrived."""
        verdict = self.verdict()
        return verdict["lost"] == 0


@contextlib.asynccontextmanager
async def running_demo(
    seed: int, tell: Callable[[str], None], strategy: str = "S0", part: int = 0
) -> AsyncIterator[Demo]:
    """Start everything, in the order in which an operator would; end it in the reverse order."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqloom-demo-")))
        path = folder / "federation.toml"
        path.write_text(_federation(strategy), encoding="utf-8")
        write_keys(folder / KEYS, [new_key("sending"), new_key("sending", ORDER_KIND)], is_new=True)
        keys = order_keys_in(folder / KEYS)
        assert keys is not None
        federation = load_federation(path)
        tell("starting five embedded brokers and their gateways")
        tell(f"while it runs, their links are shown by: mqloom overlay show -c {path}")
        tell(f"and the clients of a broker sent to the others by: mqloom drain HUB -c {path}")
        gateways = {GatewayId(name): build_driver(federation, GatewayId(name)) for name in BROKERS}
        await stack.enter_async_context(_running(list(gateways.values())))
        tell("waiting for the links between them")
        await wait_for(
            lambda: all(
                state is LinkState.UP for driver in gateways.values() for state in driver.node.link_states().values()
            ),
            "every link is up",
            30,
        )
        addresses = {broker.id: BrokerAddress(broker.host, broker.port) for broker in federation.configuration.brokers}
        randomness = random.Random(seed)  # noqa: S311 - a workload, not a secret
        subscribers = []
        for index in range(SUBSCRIBERS):
            gateway = GatewayId(BROKERS[index % len(BROKERS)])
            wanted = interest(randomness, COMPANIES)
            name = f"subscriber-{index}"
            subscribers.append(DemoSubscriber(name, gateway, addresses[gateway], wanted, keys.public))
        stack.push_async_callback(_close_all, subscribers)
        tell(f"waiting until {SUBSCRIBERS} content subscriptions are established everywhere")
        await wait_for(lambda: all(each.is_served for each in subscribers), "every subscription is established", 30)
        publishers = []
        for name in PUBLISHERS_AT:
            publisher = DemoPublisher(f"publisher-{name}", addresses[GatewayId(name)])
            await publisher.open()
            stack.push_async_callback(publisher.close)
            publishers.append(publisher)
        yield Demo(gateways, subscribers, publishers, Market(randomness, COMPANIES), part)


@contextlib.asynccontextmanager
async def _running(drivers: Sequence[GatewayDriver]) -> AsyncIterator[None]:
    """Run gateways side by side; one that ends by itself ends all, with its error."""
    try:
        async with asyncio.TaskGroup() as group:
            for driver in drivers:
                group.create_task(driver.run())
            try:
                await asyncio.gather(*(wait_until_ready(driver, 30) for driver in drivers))
                yield
            finally:
                for driver in drivers:
                    driver.stop()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the first is the cause, the others were ended because of it


async def _close_all(subscribers: Sequence[DemoSubscriber]) -> None:
    await asyncio.gather(*(subscriber.close() for subscriber in subscribers))


def _federation(strategy: str) -> str:
    """Return the configuration of the demonstration, on ports that are free now."""
    lines = ["[federation]", 'name = "demo"', 'data = ["stocks/#"]', f'key_file = "{KEYS}"']
    for broker, port in zip(BROKERS, _free_ports(len(BROKERS)), strict=True):
        lines += ["[[brokers]]", f'id = "{broker}"', f"port = {port}", 'adapter = "amqtt"']
    for one, other in LINKS:
        lines += ["[[links]]", f'between = ["{one}", "{other}"]']
    lines += ["[plugins.settings.tree_overlay]", f'strategy = "{strategy}"', f"weave_s = {WEAVE_S}"]
    if strategy == "SH":
        lines.append(f"uplink_per_s = {UPLINK_PER_S}")
    return "\n".join(lines)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]

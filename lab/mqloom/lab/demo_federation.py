"""Embedded brokers with their gateways in one event loop, as demonstrations have them."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.core.signatures import PublicKey
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import NAMES, new_key, order_keys_in, write_keys
from mqloom.gateway.links import LinkState
from mqloom.lab.demo_collecting import collecting
from mqloom.lab.demo_parts import DemoPublisher, DemoSubscriber, wait_for
from mqloom.lab.ports import free_ports
from mqloom.lab.stocks import Interest

KEYS = "federation.keys"
"""Drawn for one run: gateways trust each other, and may move clients, as they should anywhere."""
START_S = 30.0
"""How long each step of the start may take."""


@dataclass(slots=True, frozen=True)
class DemoFederation:
    """A federation that runs, and how clients come in."""

    path: Path
    gateways: dict[GatewayId, GatewayDriver]
    addresses: dict[GatewayId, BrokerAddress]
    keys: Sequence[PublicKey]

    @contextlib.asynccontextmanager
    async def subscribers(self, wishes: Sequence[tuple[GatewayId, Interest]]) -> AsyncIterator[list[DemoSubscriber]]:
        """Let subscribers join where they are said to, and begin when they are served."""
        subscribers = [
            DemoSubscriber(f"subscriber-{index}", gateway, self.addresses[gateway], wanted, self.keys)
            for index, (gateway, wanted) in enumerate(wishes)
        ]
        try:
            await wait_for(lambda: all(each.is_served for each in subscribers), "all are established", START_S)
            yield subscribers
        finally:
            await asyncio.gather(*(subscriber.close() for subscriber in subscribers))

    @contextlib.asynccontextmanager
    async def publishers(self, places: Sequence[str]) -> AsyncIterator[list[DemoPublisher]]:
        """Let a publisher join at each of these places."""
        async with contextlib.AsyncExitStack() as stack:
            publishers = []
            for number, name in enumerate(places, 1):
                publisher = DemoPublisher(f"publisher-{number}-{name}", self.addresses[GatewayId(name)])
                await publisher.open()
                stack.push_async_callback(publisher.close)
                publishers.append(publisher)
            yield publishers


@contextlib.asynccontextmanager
async def running_federation(
    configuration: str, tell: Callable[[str], None], hints: Sequence[str] = (), spool: Path | None = None
) -> AsyncIterator[DemoFederation]:
    """Run a federation from its text, and begin when all links are up; hints are told with its file for `{path}`.

    With a spool, a collector gathers its telemetry there.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqloom-demo-")))
        path = folder / "federation.toml"
        write_keys(folder / KEYS, [new_key("sending", kind) for kind in NAMES], is_new=True)
        telemetry = stack.enter_context(collecting(spool, folder / KEYS, tell))
        path.write_text("\n".join([configuration, *telemetry]), encoding="utf-8")
        keys = order_keys_in(folder / KEYS)
        assert keys is not None
        federation = load_federation(path)
        tell("starting five embedded brokers and their gateways")
        for hint in hints:
            tell(hint.format(path=path))
        gateways = {broker.id: build_driver(federation, broker.id) for broker in federation.configuration.brokers}
        await stack.enter_async_context(_running(list(gateways.values())))
        tell("waiting for the links between them")
        await wait_for(
            lambda: all(
                state is LinkState.UP for driver in gateways.values() for state in driver.node.link_states().values()
            ),
            "every link is up",
            START_S,
        )
        addresses = {broker.id: BrokerAddress(broker.host, broker.port) for broker in federation.configuration.brokers}
        yield DemoFederation(path, gateways, addresses, keys.public)


@contextlib.asynccontextmanager
async def _running(drivers: Sequence[GatewayDriver]) -> AsyncIterator[None]:
    """Run gateways side by side; one that ends by itself ends all, with its error."""
    try:
        async with asyncio.TaskGroup() as group:
            for driver in drivers:
                group.create_task(driver.run())
            try:
                await asyncio.gather(*(wait_until_ready(driver, START_S) for driver in drivers))
                yield
            finally:
                for driver in drivers:
                    driver.stop()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the first is the cause, the others were ended because of it


def configuration(
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
    *,
    of_federation: Sequence[str] = (),
    of_broker: Callable[[str], Sequence[str]] = lambda broker: (),
    more: Sequence[str] = (),
) -> str:
    """Return the text of a federation of embedded brokers, on ports that are free now."""
    lines = ["[federation]", 'name = "demo"', 'data = ["stocks/#"]', f'key_file = "{KEYS}"', *of_federation]
    for broker, port in zip(brokers, free_ports(len(brokers)), strict=True):
        lines += ["[[brokers]]", f'id = "{broker}"', f"port = {port}", 'adapter = "amqtt"', *of_broker(broker)]
    for one, other in links:
        lines += ["[[links]]", f'between = ["{one}", "{other}"]']
    return "\n".join([*lines, *more])

"""Gateways with their embedded brokers in a thread of their own, for whoever wants to run commands beside them."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.gateway.links import LinkState
from mqloom.lab.demo_parts import wait_for
from mqloom.lab.ports import free_ports

START_S = 20.0


def write_chain(path: Path, names: Sequence[str], more: str = "") -> dict[GatewayId, int]:
    """Write the configuration of embedded brokers in a chain, on ports that are free now; return the ports."""
    ports = free_ports(len(names))
    lines = ["[federation]", 'name = "chain"', 'data = ["stocks/#"]']
    for name, port in zip(names, ports, strict=True):
        lines += ["[[brokers]]", f'id = "{name}"', f"port = {port}", 'adapter = "amqtt"']
    for one, other in itertools.pairwise(names):
        lines += ["[[links]]", f'between = ["{one}", "{other}"]']
    path.write_text("\n".join([*lines, more]), encoding="utf-8")
    return dict(zip((GatewayId(name) for name in names), ports, strict=True))


@contextlib.contextmanager
def gateways_in_thread(path: Path, names: Sequence[str]) -> Iterator[Mapping[GatewayId, GatewayDriver]]:
    """Run these gateways of a federation until the end; begins when all links between them are up."""
    drivers: dict[GatewayId, GatewayDriver] = {}
    problems: list[Exception] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        drivers.update((GatewayId(name), build_driver(load_federation(path), GatewayId(name))) for name in names)
        tasks = [asyncio.create_task(driver.run()) for driver in drivers.values()]
        await wait_for(_are_linked, "every link is up", START_S)
        started.set()
        await asyncio.gather(*tasks)

    def _are_linked() -> bool:
        return all(
            driver.ready.is_set()
            and all(state is LinkState.UP for other, state in driver.node.link_states().items() if other in drivers)
            for driver in drivers.values()
        )

    def main() -> None:
        try:
            loop.run_until_complete(run())
        except Exception as error:
            problems.append(error)
        finally:
            started.set()
            loop.close()

    thread = threading.Thread(target=main)
    thread.start()
    try:
        started.wait()
        if not problems:
            yield drivers
    finally:
        if not loop.is_closed():
            for driver in drivers.values():
                loop.call_soon_threadsafe(driver.stop)
        thread.join()
    if problems:
        raise problems[0]

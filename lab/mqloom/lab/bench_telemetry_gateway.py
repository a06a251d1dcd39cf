"""A gateway as in production, but for one thing: it turns its telemetry off and on, and notes what each slice cost.

A program of its own: `python -m mqloom.lab.bench_telemetry_gateway FEDERATION BROKER FILE`. Slices are short, so that
what else a machine does is in both kinds alike.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.command_gateway import collect_seldom, configure_logging
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver

SLICE_S: Final = 0.25


async def alternate(driver: GatewayDriver, file: Path) -> None:
    """Turn telemetry off and on until cancelled; write a line for each slice."""
    is_on = True
    with file.open("w", encoding="ascii", buffering=1) as lines:
        while True:
            driver.telemetry.pause(is_paused=not is_on)
            began, waited_s = time.monotonic(), _waited_s()
            cpu_s, count = time.process_time(), _publications(driver)
            await asyncio.sleep(SLICE_S)
            figures = {
                "on": is_on,
                "took_s": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu_s,
                "waited_s": _waited_s() - waited_s,
                "publications": _publications(driver) - count,
            }
            lines.write(f"{json.dumps(figures)}\n")
            is_on = not is_on


def _waited_s() -> float:
    """Return how long our main thread has waited for a processor that others used; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _publications(driver: GatewayDriver) -> int:
    counters = driver.node.counters
    return counters.total("publications_in") + counters.total("publications_received")


async def _run(configuration: Path, gateway: GatewayId, file: Path) -> None:
    driver = Assembly(load_federation(configuration), gateway).driver
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, driver.stop)
    alternating = asyncio.create_task(alternate(driver, file))
    try:
        await driver.run()
    finally:
        alternating.cancel()
        await asyncio.gather(alternating, return_exceptions=True)


if __name__ == "__main__":
    configure_logging(verbose=False)
    collect_seldom()
    asyncio.run(_run(Path(sys.argv[1]), GatewayId(sys.argv[2]), Path(sys.argv[3])))

"""Run the gateway beside one broker of a federation."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.command_options import add_configuration
from mqloom.gateway.configuration_checks import load_federation


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--name", required=True, metavar="BROKER", help="the broker's id in the configuration")
    parser.add_argument("--verbose", action="store_true", help="log more than what matters to an operator")


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    configure_logging(verbose=arguments.verbose)
    asyncio.run(_run(arguments.configuration, GatewayId(arguments.name)))
    return 0


async def _run(path: Path, gateway: GatewayId) -> None:
    driver = build_driver(load_federation(path), gateway)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, driver.stop)
    await driver.run()


def configure_logging(*, verbose: bool) -> None:
    """Log to standard error, every line with the gateway's id; libraries only when something is wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(gateway)s %(message)s", defaults={"gateway": "-"})
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mqloom").setLevel(logging.DEBUG if verbose else logging.INFO)

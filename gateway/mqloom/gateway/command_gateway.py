"""Run the gateway beside one broker of a federation."""

import argparse
import asyncio
import logging
import signal
from collections.abc import Sequence
from pathlib import Path

from mqloom.core.errors import MQLoomError
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.command_options import add_configuration
from mqloom.gateway.configuration_checks import load_federation

logger = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--name", required=True, metavar="BROKER", help="the broker's id in the configuration")
    parser.add_argument("--verbose", action="store_true", help="log more than what matters to an operator")


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it; SIGHUP has it read its configuration again."""
    configure_logging(verbose=arguments.verbose)
    asyncio.run(_run(arguments.configuration, GatewayId(arguments.name)))
    return 0


async def _run(path: Path, gateway: GatewayId) -> None:
    assembly = Assembly(load_federation(path), gateway)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, assembly.driver.stop)
    wanted = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, wanted.set)
    reloads = asyncio.create_task(_reload_when_told(wanted, assembly, path, gateway))
    try:
        await assembly.driver.run()
    finally:
        reloads.cancel()
        await asyncio.gather(reloads, return_exceptions=True)


async def _reload_when_told(wanted: asyncio.Event, assembly: Assembly, path: Path, gateway: GatewayId) -> None:
    """Read the configuration again each time; told more than once meanwhile, once more."""
    while True:
        await wanted.wait()
        wanted.clear()
        await reload(assembly, path, gateway)


async def reload(assembly: Assembly, path: Path, gateway: GatewayId) -> None:
    """Read the configuration again beside the gateway's work, and let it hold; a mistake in it changes nothing."""
    log = logging.LoggerAdapter(logger, {"gateway": gateway})
    try:
        news, left = assembly.reload(await asyncio.to_thread(load_federation, path))
    except Exception as error:  # whatever is wrong with what somebody has just written must not end the gateway
        log.error("the configuration is not changed: %s", error, exc_info=not isinstance(error, MQLoomError))
        return
    for place in left:
        log.warning("%s is changed, but stays as it was until the gateway is started again", place)
    log.info("the configuration %s was read again, and holds; %s", path, _summary(news, left))


def _summary(news: Sequence[str], left: Sequence[str]) -> str:
    text = f"changed now: {'; '.join(news)}" if news else "nothing that holds at once is changed"
    return f"{text}; waiting for a new start: {'; '.join(left)}" if left else text


def configure_logging(*, verbose: bool) -> None:
    """Log to standard error, every line with the gateway's id; libraries only when something is wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(gateway)s %(message)s", defaults={"gateway": "-"})
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mqloom").setLevel(logging.DEBUG if verbose else logging.INFO)

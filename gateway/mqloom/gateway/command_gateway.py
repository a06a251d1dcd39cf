"""Run the gateway beside one broker of a federation."""

import argparse
import asyncio
import gc
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqloom.core.errors import MQLoomError
from mqloom.core.events import ConfigurationRead
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import RELOAD_EVERY_S
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.command_options import add_configuration
from mqloom.gateway.configuration_checks import load_federation

logger = logging.getLogger(__name__)

COLLECT_EVERY: Final = (20_000, 10, 10)
"""After how many more objects cycles are looked for among young ones; after how many times that among older ones; and
after how many of these among all. With Python's own hundreds of objects it took a fifth of a gateway's time to look
through publications under way, which are ten objects each, and in no cycle."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--name", required=True, metavar="BROKER", help="the broker's id in the configuration")
    parser.add_argument("--verbose", action="store_true", help="log more than what matters to an operator")


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it; SIGHUP has it read its configuration again."""
    configure_logging(verbose=arguments.verbose)
    collect_seldom()
    asyncio.run(_run(arguments.configuration, GatewayId(arguments.name)))
    return 0


def collect_seldom() -> None:
    """Have this process look for cycles seldom, and not in what is loaded by now: it stays."""
    gc.set_threshold(*COLLECT_EVERY)
    gc.collect()
    gc.freeze()


async def _run(path: Path, gateway: GatewayId) -> None:
    assembly = Assembly(load_federation(path), gateway)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, assembly.driver.stop)
    reloading = Reloading(assembly, path, gateway)
    loop.add_signal_handler(signal.SIGHUP, reloading.wanted.set)
    assembly.driver.on_reload = reloading.ordered
    reloads = asyncio.create_task(reloading.run())
    try:
        await assembly.driver.run()
    finally:
        reloads.cancel()
        await asyncio.gather(reloads, return_exceptions=True)


class Reloading:
    """Reads a gateway's configuration again when it is wanted: by SIGHUP, or ordered by operators."""

    def __init__(self, assembly: Assembly, path: Path, gateway: GatewayId) -> None:
        self._assembly = assembly
        self._path = path
        self._log = logging.LoggerAdapter(logger, {"gateway": gateway})
        self._operators: list[ClientId] = []
        self.wanted = asyncio.Event()

    def ordered(self, operator: ClientId) -> None:
        """An operator wants it, and is told what became of it."""
        self._operators.append(operator)
        self.wanted.set()

    async def run(self) -> None:
        """Read it each time; told more than once meanwhile, once more, after a pause."""
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            operators, self._operators = self._operators, []
            changed, waiting, problem = await self._read()
            for operator in operators:
                self._assembly.driver.reloaded(
                    ConfigurationRead(operator=operator, problem=problem, changed=changed, waiting=waiting)
                )
            await asyncio.sleep(RELOAD_EVERY_S)

    async def _read(self) -> tuple[tuple[str, ...], tuple[str, ...], str]:
        """Read it beside the gateway's work, and let it hold; a mistake in it changes nothing, and is the problem."""
        try:
            news, left = self._assembly.reload(await asyncio.to_thread(load_federation, self._path))
        except Exception as error:  # whatever is wrong with what somebody has just written must not end the gateway
            text = "the configuration is not changed: %s"
            self._log.error(text, error, exc_info=not isinstance(error, MQLoomError))
            return (), (), str(error) or repr(error)
        for place in left:
            self._log.warning("%s is changed, but stays as it was until the gateway is started again", place)
        self._log.info("the configuration %s was read again, and holds; %s", self._path, _summary(news, left))
        return tuple(news), tuple(left), ""


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

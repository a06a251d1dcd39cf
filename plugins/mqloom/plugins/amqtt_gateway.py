"""A plugin of amqtt's that runs a gateway inside the broker's own process.

In amqtt's configuration, beside its listeners and other plugins:

    plugins:
      mqloom.plugins.amqtt_gateway.Gateway:
        configuration: federation.toml
        name: north

The broker's `adapter` in federation.toml does not matter then. The gateway speaks to the broker as an ordinary client.
If it ends by a mistake of its own, that is logged, and the broker goes on without it.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqloom.core.errors import MQLoomError
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.gateway.interfaces import Learned
from mqloom.plugins.amqtt_interest import PlainSubscriptions

logger = logging.getLogger(__name__)


class _Inside:
    """The adapter of a broker in whose process we are: it runs, and tells what plain clients want."""

    def __init__(self, plugin: PlainSubscriptions) -> None:
        self._plugin = plugin

    async def start(self) -> None:
        """Nothing to do: the broker has started us."""

    async def stop(self) -> None:
        """Nothing to do."""

    def watch(self, gateway: GatewayId, learned: Learned) -> None:
        """Have it told what plain clients subscribe to."""
        self._plugin.tell = learned


class Gateway(PlainSubscriptions):
    """Runs one gateway as long as the broker runs."""

    @dataclass
    class Config:
        """The plugin's settings in amqtt's configuration."""

        configuration: str = "federation.toml"
        name: str = ""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._driver: GatewayDriver | None = None
        self._running: asyncio.Task[None] | None = None

    async def on_broker_post_start(self, **_: Any) -> None:
        """Start the gateway, which connects by itself; what is wrong with its configuration is logged."""
        try:
            federation = load_federation(Path(self.config.configuration))
            self._driver = build_driver(federation, GatewayId(self.config.name), adapter=_Inside(self))
        except MQLoomError as error:
            logger.error("no gateway runs beside this broker: %s", error)
            return
        self._running = asyncio.create_task(self._driver.run())
        self._running.add_done_callback(_tell_end)

    async def on_broker_pre_shutdown(self, **_: Any) -> None:
        """Let the gateway leave while the broker is still there."""
        if self._driver is not None and self._running is not None:
            self._driver.stop()
            await asyncio.wait([self._running])


def _tell_end(running: asyncio.Task[None]) -> None:
    if not running.cancelled() and running.exception() is not None:
        logger.error("the gateway beside this broker ended", exc_info=running.exception())

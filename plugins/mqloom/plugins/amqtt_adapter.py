"""Broker adapter `amqtt`: an MQTT broker inside the gateway's own process, for a start on a machine that has none.

amqtt is talked to as an ordinary client talks to it; its own plugins see messages but cannot hold them. We accept its
connections ourselves and close them: amqtt leaves the socket of a client open that went away without a word.
"""

import asyncio
import logging

from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAdapter, BrokerAddress, Learned

STOP_S_MAX = 2.0
"""How long connections may take to end when the broker stops; then they are cut."""

LISTENER = "default"

logger = logging.getLogger(__name__)


class AmqttAdapter:
    """An amqtt broker that lives as long as its gateway."""

    def __init__(self, address: BrokerAddress) -> None:
        from mqloom.plugins.amqtt_broker import MendedBroker  # noqa: PLC0415 - only whoever chooses this needs amqtt

        logging.getLogger("amqtt").setLevel(logging.ERROR)
        logging.getLogger("transitions").setLevel(logging.ERROR)
        self._address = address
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._broker = MendedBroker(
            {
                "listeners": {LISTENER: {"type": "external", "bind": "us"}},
                "plugins": {
                    "mqloom.plugins.amqtt_admission.Everybody": {},
                    "mqloom.plugins.amqtt_interest.PlainSubscriptions": {},
                },
            }
        )

    def watch(self, gateway: GatewayId, learned: Learned) -> None:
        """Tell what plain clients subscribe to: at the start nobody does, for this broker keeps nothing."""
        for plugin in self._broker.plugins_manager.plugins:
            if hasattr(plugin, "tell"):
                plugin.tell = learned

    async def start(self) -> None:
        """Start listening; raises BrokerError when the address is taken."""
        await self._broker.start()
        try:
            self._server = await asyncio.start_server(self._accept, self._address.host, self._address.port)
        except OSError as error:
            await self._broker.shutdown()
            problem = f"no embedded broker can listen here ({error.strerror}); is the port taken?"
            raise BrokerError(f"{self._address.host}:{self._address.port}", problem) from error

    async def stop(self) -> None:
        """Stop listening, and return when every connection is closed."""
        if self._server is None:
            return
        self._server.close()
        await self._broker.shutdown()
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=STOP_S_MAX)
            for connection in late:
                connection.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from amqtt.adapters import StreamReaderAdapter  # noqa: PLC0415 - as above

        from mqloom.plugins.amqtt_sending import CLOSE_S_MAX, BoundedWriter  # noqa: PLC0415 - as above

        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._broker.external_connected(StreamReaderAdapter(reader), BoundedWriter(writer), LISTENER)
        except Exception as error:  # amqtt's own mistake costs one connection, which its client opens again
            logger.warning("the embedded broker dropped a connection: %s: %s", type(error).__name__, error)
        finally:
            writer.close()
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, writer.transport.abort)
            self._connections.discard(task)


def _build(address: BrokerAddress) -> BrokerAdapter:
    try:
        return AmqttAdapter(address)
    except ModuleNotFoundError as error:
        problem = f"the adapter amqtt needs {error.name}: pip install 'mqloom[embedded]'"
        raise BrokerError(f"{address.host}:{address.port}", problem) from error


@hookimpl
def mqloom_adapter() -> AdapterKind:
    """Offer the adapter."""
    return AdapterKind(name="amqtt", build=_build)

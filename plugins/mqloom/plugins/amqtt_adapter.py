"""Broker adapter `amqtt`: an MQTT broker inside the gateway's own process, for a start on a machine that has none.

amqtt is talked to as an ordinary client talks to it; its own plugins see messages but cannot hold them.
"""

import logging

from mqloom.core.errors import ConnectionFailed
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAdapter, BrokerAddress


class AmqttAdapter:
    """An amqtt broker that lives as long as its gateway."""

    def __init__(self, address: BrokerAddress) -> None:
        from amqtt.broker import Broker  # noqa: PLC0415 - only whoever chooses this adapter needs amqtt installed

        logging.getLogger("amqtt").setLevel(logging.ERROR)
        logging.getLogger("transitions").setLevel(logging.ERROR)
        self._where = f"{address.host}:{address.port}"
        self._broker = Broker(
            {
                "listeners": {"default": {"type": "tcp", "bind": self._where, "max_connections": 0}},
                "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
            }
        )

    async def start(self) -> None:
        """Start listening; raises ConnectionFailed when the address is taken."""
        try:
            await self._broker.start()
        except Exception as error:
            problem = f"no embedded broker can listen here ({error}); is the port taken?"
            raise ConnectionFailed(self._where, problem) from error

    async def stop(self) -> None:
        """Stop listening, and end every session."""
        await self._broker.shutdown()


def _build(address: BrokerAddress) -> BrokerAdapter:
    try:
        return AmqttAdapter(address)
    except ModuleNotFoundError as error:
        problem = f"the adapter amqtt needs {error.name}: pip install 'mqloom[embedded]'"
        raise ConnectionFailed(f"{address.host}:{address.port}", problem) from error


@hookimpl
def mqloom_adapter() -> AdapterKind:
    """Offer the adapter."""
    return AdapterKind(name="amqtt", build=_build)

"""Broker adapter `mqtt`: any MQTT broker that runs already. There is nothing to start; the connection does the rest."""

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAddress


class MqttAdapter:
    """A broker that somebody else runs."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address

    async def start(self) -> None:
        """Nothing to do: the gateway connects, and goes on trying, by itself."""

    async def stop(self) -> None:
        """Nothing to do."""


@hookimpl
def mqloom_adapter() -> AdapterKind:
    """Offer the adapter."""
    return AdapterKind(name="mqtt", build=MqttAdapter)

"""The connections to other gateways' brokers."""

import asyncio
import logging

from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.peers import Peers
from mqloom.gateway.interfaces import BrokerAddress

NOBODY = BrokerAddress("127.0.0.1", 9)
FAR = GatewayId("far")


def test_a_link_that_is_closed_holds_nobody_back() -> None:
    async def run() -> None:
        told: list[str] = []
        peers = Peers(
            GatewayId("us"),
            lambda peer: NOBODY,
            lambda event: None,
            lambda peer, message: None,
            told.append,
            lambda: told.append("room"),
            logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "us"}),
            MQTT_CLIENTS["asyncio"],
        )
        peers.open(FAR)
        assert told == []
        peers.close(FAR)
        assert told == ["room"]  # it may have been crowded, and the intake paused for it
        peers.close(FAR)
        assert told == ["room"]
        await peers.close_all()

    asyncio.run(run())

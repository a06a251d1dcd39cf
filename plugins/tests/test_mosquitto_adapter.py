"""The adapter `mosquitto`, as far as it goes without a broker; integration_tests has the rest."""

import asyncio

from mqloom.gateway.interfaces import BrokerAddress, InterestAdapter
from mqloom.plugins import mosquitto_adapter, mqtt_adapter


def test_it_tells_what_clients_want_and_the_plain_one_does_not() -> None:
    async def look() -> None:
        address = BrokerAddress("127.0.0.1", 1)
        assert isinstance(mosquitto_adapter.mqloom_adapter().build(address), InterestAdapter)
        assert not isinstance(mqtt_adapter.mqloom_adapter().build(address), InterestAdapter)

    asyncio.run(look())


def test_when_nobody_watches_it_connects_to_nothing() -> None:
    async def look() -> None:
        adapter = mosquitto_adapter.MosquittoAdapter(BrokerAddress("127.0.0.1", 1))
        await adapter.start()
        await adapter.stop()

    asyncio.run(look())

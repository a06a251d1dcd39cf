"""The people of the demonstration: publishers of stock quotes and subscribers by content, as real MQTT clients."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import Wish
from mqloom.core.signatures import PublicKey
from mqloom.gateway.drivers.mqtt import ConnectionPlan
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.demo_travellers import DemoTraveller
from mqloom.lab.stocks import Interest, Quote

TOPICS = "stocks/#"
logger = logging.getLogger(__name__)


class DemoSubscriber:
    """A client with one content subscription; counts what it receives, by the quotes' ids. It can be moved."""

    def __init__(
        self, name: str, gateway: GatewayId, address: BrokerAddress, interest: Interest, keys: Sequence[PublicKey]
    ) -> None:
        self.interest = interest
        self.gateway = gateway
        self.received: Counter[int] = Counter()
        self.received_at: dict[int, float] = {}
        self._loop = asyncio.get_running_loop()
        wishes = {"quotes": Wish(topics=TOPICS, where=interest.where)}
        self._traveller = DemoTraveller(name, address, wishes, keys, self._delivered)

    @property
    def is_served(self) -> bool:
        """Whether its subscription is established, at one broker."""
        return self._traveller.is_served

    @property
    def at(self) -> GatewayId:
        """At whose broker it is now."""
        return self._traveller.at or self.gateway

    @property
    def moved(self) -> list[tuple[str, str]]:
        """From where to where it was moved, in order."""
        return self._traveller.moved

    async def close(self) -> None:
        """Take the subscription back, and leave."""
        await self._traveller.close()

    def _delivered(self, publication: Publication) -> None:
        number = json.loads(publication.payload)["id"]
        self.received[number] += 1
        self.received_at.setdefault(number, self._loop.time())


class DemoPublisher:
    """A plain MQTT client that publishes quotes, and knows nothing of federations."""

    def __init__(self, name: str, address: BrokerAddress) -> None:
        self._up = asyncio.Event()
        plan = ConnectionPlan(
            address=address,
            client_id=name,
            clean_session=True,
            subscriptions=[],
            on_messages=lambda batch: None,
            on_up=self._up.set,
            on_down=lambda problem: None,
        )
        self._connection = make_connection(plan, logging.LoggerAdapter(logger, {"gateway": name}))

    async def open(self) -> None:
        """Return when connected."""
        self._connection.open()
        await asyncio.wait_for(self._up.wait(), 10)

    def publish(self, quote: Quote) -> bool:
        """Publish one quote; whether it was taken."""
        return self._connection.publish(f"stocks/{quote['symbol']}", json.dumps(quote).encode(), 1)

    async def close(self) -> None:
        """Leave."""
        await self._connection.close()


async def wait_for(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Return when something is so; raises TimeoutError that says what was not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not condition():
        if loop.time() > deadline:
            raise TimeoutError(f"after {timeout_s:g} s still not so: {what}")
        await asyncio.sleep(0.02)

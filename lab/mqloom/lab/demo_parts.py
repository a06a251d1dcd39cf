"""The people of the demonstration: publishers of stock quotes and subscribers by content, as real MQTT clients."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable

from mqloom.client import vocabulary as client
from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Wish
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.stocks import Interest, Quote

TOPICS = "stocks/#"
logger = logging.getLogger(__name__)


class DemoSubscriber:
    """A client of one broker with one content subscription; counts what it receives, by the quotes' ids."""

    def __init__(self, name: str, gateway: GatewayId, address: BrokerAddress, interest: Interest) -> None:
        self.interest = interest
        self.gateway = gateway
        self.received: Counter[int] = Counter()
        self.received_at: dict[int, float] = {}
        self._loop = asyncio.get_running_loop()
        self._core = Subscriber(ClientId(name), {"quotes": Wish(topics=TOPICS, where=interest.where)}, gateway=gateway)
        self.established = asyncio.Event()
        self._finished = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        plan = ConnectionPlan(
            address=address,
            client_id=name,
            clean_session=True,
            # All of them at once: what the core asks for later is there already.
            subscriptions=[
                TopicSubscription(layout.control(gateway, ClientId(name)), 1),
                TopicSubscription(layout.out(gateway, ClientId(name)), 1),
                TopicSubscription(layout.status(gateway), 1),
            ],
            on_messages=self._received,
            on_up=lambda: self._handle(client.Connected()),
            on_down=lambda problem: self._handle(client.ConnectionLost(problem=problem)),
        )
        self._connection = make_connection(plan, logging.LoggerAdapter(logger, {"gateway": name}))

    def open(self) -> None:
        """Begin."""
        self._connection.open()

    async def close(self) -> None:
        """Take the subscription back, and leave."""
        self._handle(client.CloseRequested())
        await asyncio.wait_for(self._finished.wait(), 5)
        if self._timer is not None:
            self._timer.cancel()
        await self._connection.close()

    def _received(self, batch: list[Received]) -> None:
        for message in batch:
            if self._core.state is State.OFFLINE:
                # A retained status may overtake the broker's confirmation of our subscriptions.
                self._handle(client.Connected())
            self._handle(client.MessageReceived(topic=message.topic, payload=message.payload))

    def _handle(self, event: client.Event) -> None:
        if isinstance(event, client.Connected) and self._core.state is not State.OFFLINE:
            return
        for effect in self._core.handle(event, self._loop.time()):
            match effect:
                case client.Publish():
                    self._connection.publish(effect.topic, effect.payload, effect.qos, retain=effect.retain)
                case client.Deliver():
                    number = json.loads(effect.publication.payload)["id"]
                    self.received[number] += 1
                    self.received_at.setdefault(number, self._loop.time())
                case client.WakeAt():
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = self._loop.call_at(effect.at, self._handle, client.Woke())
                case client.Finished() | client.Failed():
                    self._finished.set()
        if self._core.state is State.SERVED:
            self.established.set()


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

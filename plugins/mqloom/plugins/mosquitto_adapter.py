"""Broker adapter `mosquitto`: a Mosquitto that runs already, and tells by its log what plain clients subscribe to.

It needs `log_dest topic`, and `log_type` subscribe, unsubscribe and notice. The log tells changes only: what clients
subscribed to while nobody listened is not known. So what is known is kept on the broker, retained, and read at the next
start; it is written again when we are connected anew, for the broker may have lost it. And the session by which we
listen is kept, in which Mosquitto holds lines of the log for 20 seconds.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from mqloom.core import layout
from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAddress
from mqloom.plugins.mosquitto_log import TOPICS, MosquittoLog
from mqloom.plugins.plain_clients import PlainClients

START_S_MAX: Final = 5.0
"""How long the start waits for what was kept; then the gateway starts without it, and it counts when it comes."""

KEEP_EVERY_S: Final = 1.0
"""The least time between two writings of what is known."""

logger = logging.getLogger(__name__)


class MosquittoAdapter:
    """A Mosquitto that somebody else runs."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address
        self._clients = PlainClients()
        self._reader = MosquittoLog(self._clients)
        self._gateway = GatewayId("")
        self._learned: Callable[[Collection[str]], None] | None = None
        self._told: tuple[str, ...] = ()
        self._kept = b""  # nothing also while the broker may have lost it
        self._has_read = asyncio.Event()
        self._connection: Connection | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._log = logging.LoggerAdapter(logger, {"gateway": "-"})

    def watch(self, gateway: GatewayId, learned: Callable[[Collection[str]], None]) -> None:
        """Tell what plain clients subscribe to."""
        self._gateway = gateway
        self._learned = learned
        self._log = logging.LoggerAdapter(logger, {"gateway": gateway})

    async def start(self) -> None:
        """Begin to listen; return when it is known what was kept, or START_S_MAX later."""
        if self._learned is None:
            return
        plan = ConnectionPlan(
            address=self._address,
            client_id=f"mqloom-{self._gateway}-interest",
            clean_session=False,
            subscriptions=[
                TopicSubscription(layout.interest(self._gateway), 1),
                TopicSubscription(layout.interest_read(self._gateway), 1),  # comes behind what is retained
                *(TopicSubscription(topics, 1) for topics in TOPICS),
            ],
            on_messages=self._received,
            on_up=self._up,
            on_down=lambda problem: None,
        )
        self._connection = make_connection(plan, self._log)
        self._connection.open()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_read.wait(), START_S_MAX)

    async def stop(self) -> None:
        """Keep what is known, and listen no more."""
        if self._connection is not None:
            self._keep()
            await self._connection.close()
            self._connection = None

    def _up(self) -> None:
        assert self._connection is not None
        self._connection.publish(layout.interest_read(self._gateway), b"", 1)
        if self._has_read.is_set():  # we are back: the broker may have lost its store, and what was kept with it
            self._kept = b""
            self._keep_soon()

    def _received(self, batch: Sequence[Received]) -> None:
        for each in batch:
            if each.topic in TOPICS:
                self._reader.heard(each.topic, each.payload.decode(errors="replace"))
            elif each.topic == layout.interest_read(self._gateway):
                self._has_read.set()
            elif each.topic == layout.interest(self._gateway) and each.retain and not self._has_read.is_set():
                self._restore(each.payload)
        filters = self._clients.filters
        if filters != self._told:
            self._told = filters
            assert self._learned is not None
            self._learned(filters)
        if self._has_read.is_set():
            self._keep_soon()

    def _keep_soon(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().call_later(KEEP_EVERY_S, self._keep)

    def _restore(self, data: bytes) -> None:
        try:
            self._clients.restore(data)
            self._kept = data
        except RecordError as error:
            topic = layout.interest(self._gateway)
            self._log.warning("what plain clients wanted, kept on %s, cannot be read: %s", topic, error)

    def _keep(self) -> None:
        """Write down what is known, if it has changed; not before what was kept is read."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        data = self._clients.encode()
        if self._connection is not None and self._has_read.is_set() and data != self._kept:
            self._kept = data
            self._connection.publish(layout.interest(self._gateway), data, 1, retain=True)


@hookimpl
def mqloom_adapter() -> AdapterKind:
    """Offer the adapter."""
    return AdapterKind(name="mosquitto", build=MosquittoAdapter)

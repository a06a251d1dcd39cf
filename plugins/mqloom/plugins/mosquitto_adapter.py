"""Broker adapter `mosquitto`: a Mosquitto that runs already, and tells by its log what plain clients subscribe to.

It needs `log_dest topic`, and `log_type` subscribe, unsubscribe and notice. The log tells changes only: what clients
subscribed to while nobody listened is not known. So what is known is kept on the broker, retained, and read at the next
start; it is written again when we are connected anew, for the broker may have lost it. And the session by which we
listen is kept, in which Mosquitto holds lines of the log for 20 seconds. What its uptime is we are told by the same
connection, behind these.

The broker's figures of itself come by a connection of their own: an access list that lets the gateway read the log and
not these must not cost it the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from mqloom.core import layout
from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAddress, BrokerFigures, Learned
from mqloom.plugins import mosquitto_figures
from mqloom.plugins.mosquitto_figures import MosquittoFigures
from mqloom.plugins.mosquitto_log import TOPICS, MosquittoLog
from mqloom.plugins.plain_clients import Overlooked, PlainClients

START_S_MAX: Final = 5.0
"""How long the start waits for what was kept; then the gateway starts without it, and it counts when it comes."""

KEEP_EVERY_S: Final = 1.0
"""The least time between two writings of what is known; and changes within it are told together."""

UPTIME: Final = "$SYS/broker/uptime"
"""Its payload begins with a number of seconds."""

logger = logging.getLogger(__name__)


class MosquittoAdapter:
    """A Mosquitto that somebody else runs."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address
        self._clients = PlainClients()
        self._reader = MosquittoLog(self._clients)
        self._gateway = GatewayId("")
        self._learned: Learned | None = None
        self._told: tuple[str, ...] = ()
        self._kept = b""  # the last record that was not too large
        self._is_written = False
        self._is_too_large = False
        self._overlooked = 0
        self._overlooked_log = Overlooked()
        self._has_read = asyncio.Event()
        self._connection: Connection | None = None
        self._figures = MosquittoFigures()
        self._figures_connection: Connection | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._log = logging.LoggerAdapter(logger, {"gateway": "-"})

    def watch(self, gateway: GatewayId, learned: Learned) -> None:
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
            client_id=self._address.session(f"mqloom-{self._gateway}-interest"),
            clean_session=False,
            subscriptions=[
                TopicSubscription(layout.interest(self._gateway), 1),
                TopicSubscription(layout.interest_read(self._gateway), 1),  # comes behind what is retained
                *(TopicSubscription(topics, 1) for topics in TOPICS),
                TopicSubscription(UPTIME, 0),  # of an earlier time it would only mislead: nothing of it may wait for us
            ],
            on_messages=self._received,
            on_up=self._up,
            on_down=lambda problem: None,
            on_broken=self._clients.lost,
        )
        self._connection = make_connection(plan, self._log)
        self._connection.open()
        self._figures_connection = make_connection(self._figures_plan(), self._log)
        self._figures_connection.open()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_read.wait(), START_S_MAX)

    def _figures_plan(self) -> ConnectionPlan:
        return ConnectionPlan(
            address=self._address,
            client_id=self._address.session(f"mqloom-{self._gateway}-figures"),
            clean_session=True,
            subscriptions=[TopicSubscription(topics, 0) for topics in mosquitto_figures.TOPICS],
            on_messages=self._told_figures,
            on_up=lambda: None,
            on_down=lambda problem: self._figures.forget(),
        )

    def _told_figures(self, batch: Sequence[Received]) -> None:
        for each in batch:
            self._figures.heard(each.topic, each.payload.decode(errors="replace"))

    def figures(self) -> BrokerFigures:
        """Return what the broker says of itself."""
        return self._figures.figures()

    async def stop(self) -> None:
        """Keep what is known, and listen no more."""
        if self._figures_connection is not None:
            await self._figures_connection.close()
        if self._connection is not None:
            self._keep()
            connection, self._connection = self._connection, None  # nothing is told from here on
            await connection.close()

    def _up(self) -> None:
        if self._connection is None:
            return
        self._connection.publish(layout.interest_read(self._gateway), b"", 1)
        if self._has_read.is_set():  # we are back: the broker may have lost its store, and what was kept with it
            self._is_written = False
            self._soon()

    def _received(self, batch: Sequence[Received]) -> None:
        if self._connection is None:
            return
        had_read = self._has_read.is_set()
        has_started = False
        for each in batch:
            if each.topic in TOPICS:
                self._reader.heard(each.topic, each.payload.decode(errors="replace"))
            elif each.topic == UPTIME:
                has_started = self._look_at(each.payload) or has_started
            elif each.topic == layout.interest_read(self._gateway):
                self._has_read.set()
            elif each.topic == layout.interest(self._gateway) and each.retain and not self._has_read.is_set():
                self._restore(each.payload)
        quiet = (layout.interest(self._gateway), UPTIME)  # what we have written ourselves, and no news of clients
        if had_read and not has_started and all(each.topic in quiet for each in batch):
            return
        # What was kept is told at once, and the first news of a while; further ones together.
        if self._keeping is None or self._has_read.is_set() != had_read:
            self._tell()
        self._soon()

    def _look_at(self, uptime: bytes) -> bool:
        """Take how long the broker has run; return whether it has started again since it said so before."""
        assert self._connection is not None
        number, _, _ = uptime.partition(b" ")
        # Lines of the log have waited for us if the broker has kept our session.
        is_complete = self._connection.is_resumed
        if not number.isdigit() or not self._clients.runs(int(number), is_complete=is_complete):
            return False
        self._log.info("the broker has started again: plain clients that had connected clean have left")
        return True

    def _soon(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().call_later(KEEP_EVERY_S, self._tell_and_keep)

    def _tell_and_keep(self) -> None:
        self._tell()
        self._keep()

    def _tell(self) -> None:
        filters, overlooked = self._clients.filters, self._clients.overlooked
        if (filters, overlooked) != (self._told, self._overlooked):
            self._told, self._overlooked = filters, overlooked
            assert self._learned is not None
            self._learned(filters, overlooked)
        self._overlooked_log.tell(self._log, overlooked, self._clients.overlooked_of)

    def _restore(self, data: bytes) -> None:
        try:
            self._clients.restore(data)
            self._kept = data
            self._is_written = True
        except RecordError as error:
            topic = layout.interest(self._gateway)
            self._log.warning("what plain clients wanted, kept on %s, cannot be read: %s", topic, error)

    def _keep(self) -> None:
        """Write down what is known, if it has changed; not before what was kept is read."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if self._connection is None or not self._has_read.is_set():
            return
        data = self._encoded()
        if data and not (self._is_written and data == self._kept):
            self._kept = data
            self._is_written = True
            self._connection.publish(layout.interest(self._gateway), data, 1, retain=True)

    def _encoded(self) -> bytes:
        """Return what is known, or if that is too much what was known when it was not."""
        try:
            data = self._clients.encode()
        except RecordError as error:
            if not self._is_too_large:
                topic = layout.interest(self._gateway)
                self._log.warning(
                    "what plain clients want is not written to %s: %s. What was kept before stays; name in `federate` "
                    "what must not be missed after the next start",
                    topic,
                    error,
                )
            self._is_too_large = True
            return self._kept
        self._is_too_large = False
        return data


@hookimpl
def mqloom_adapter() -> AdapterKind:
    """Offer the adapter."""
    return AdapterKind(name="mosquitto", build=MosquittoAdapter)

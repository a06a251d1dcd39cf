"""The connections of a gateway to the brokers of other gateways: of its neighbours, and of those it has soft links to.

On each it writes frames, and reads acknowledgements and the other's status: a last will says that a gateway is gone
although its broker is there.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from mqloom.core import layout
from mqloom.core.effects import SendFrame
from mqloom.core.events import AcksReceived, Event, LinkConnected, LinkLost
from mqloom.core.ids import GatewayId
from mqloom.core.records import Status
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MakeConnection
from mqloom.gateway.interfaces import BrokerAddress


class Peers:
    """All connections to other gateways' brokers; what happens there becomes events."""

    def __init__(
        self,
        gateway: GatewayId,
        address_of: Callable[[GatewayId], BrokerAddress | None],
        handle: Callable[[Event], None],
        read_status: Callable[[str, bytes], Status | None],
        on_drop: Callable[[str], None],
        on_room: Callable[[], None],
        log: logging.LoggerAdapter[logging.Logger],
        make_connection: MakeConnection,
    ) -> None:
        self._gateway = gateway
        self._make_connection = make_connection
        self._address_of = address_of
        self._handle = handle
        self._read_status = read_status
        self._on_drop = on_drop
        self._on_room = on_room
        self._log = log
        self._connections: dict[GatewayId, Connection] = {}
        self._alive: dict[GatewayId, bool] = {}
        self._epochs: dict[GatewayId, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, peer: GatewayId) -> None:
        """Connect to the broker of a gateway, and stay connected."""
        address = self._address_of(peer)
        if address is None:
            self._log.warning("no link to %s: its password is not set here, or a certificate cannot be read", peer)
            return
        self.close(peer)
        self._alive[peer], self._epochs[peer] = True, 0
        self._connections[peer] = self._make_connection(self._plan(peer, address), self._log)
        self._connections[peer].open()

    def close(self, peer: GatewayId) -> None:
        """Give up a connection, if there is one."""
        connection = self._connections.pop(peer, None)
        self._alive.pop(peer, None)
        if connection is not None:
            task = asyncio.create_task(connection.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._on_room()  # who is gone holds nobody back

    async def close_all(self) -> None:
        """Give up all connections; returns when they are closed."""
        for peer in list(self._connections):
            self.close(peer)
        await asyncio.gather(*self._closing)

    def send(self, effect: SendFrame) -> None:
        """Write a frame; to whom there is no connection nothing goes."""
        connection = self._connections.get(effect.neighbour)
        if connection is not None:
            topic = layout.link(effect.neighbour, self._gateway, urgent=effect.urgent)
            connection.publish(topic, effect.frame, 0)

    def speaks(self, peer: GatewayId) -> None:
        """A gateway has written to us: it is alive, whatever the status says."""
        if peer in self._alive:
            self._is(peer, alive=True)

    @property
    def are_crowded(self) -> bool:
        """Whether too much waits for one of the brokers."""
        return any(connection.is_crowded for connection in self._connections.values())

    def _plan(self, peer: GatewayId, address: BrokerAddress) -> ConnectionPlan:
        return ConnectionPlan(
            address=address,
            client_id=address.session(f"mqloom-{self._gateway}-to-{peer}"),
            clean_session=True,
            subscriptions=[
                TopicSubscription(layout.ack(peer, self._gateway), 0),
                TopicSubscription(layout.status(peer), 0),
            ],
            on_messages=partial(self._received, peer),
            on_up=partial(self._up, peer),
            on_down=partial(self._down, peer),
            has_few_topics=True,
            on_drop=self._on_drop,
            on_room=self._on_room,
        )

    def _received(self, peer: GatewayId, batch: Sequence[Received]) -> None:
        if peer not in self._connections:  # closed meanwhile
            return
        for message in batch:
            if message.topic == layout.status(peer):
                self._status(peer, message)
        acks = tuple(message.payload for message in batch if message.topic == layout.ack(peer, self._gateway))
        if acks:
            self._handle(AcksReceived(neighbour=peer, acks=acks))

    def _up(self, peer: GatewayId) -> None:
        if self._alive.get(peer):
            self._handle(LinkConnected(neighbour=peer))

    def _down(self, peer: GatewayId, problem: str) -> None:
        self._handle(LinkLost(neighbour=peer))

    def _status(self, peer: GatewayId, message: Received) -> None:
        status = self._read_status(message.topic, message.payload)
        if status is None:
            return
        # A last will counts only if it is of the run that we know, or of a later one.
        if status.gateway == peer and (status.alive or status.epoch >= self._epochs[peer]):
            self._epochs[peer] = status.epoch
            self._is(peer, alive=status.alive)

    def _is(self, peer: GatewayId, *, alive: bool) -> None:
        if alive != self._alive[peer]:
            self._alive[peer] = alive
            if self._connections[peer].is_up:
                self._handle(LinkConnected(neighbour=peer) if alive else LinkLost(neighbour=peer))

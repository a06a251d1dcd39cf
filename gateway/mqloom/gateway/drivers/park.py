"""The session in which our own broker keeps, for us, what waits for one neighbour.

It is connected only while something may come out of it; and, so that it exists, before anything is put in, and again
whenever the broker may have lost its store. What is put in meanwhile waits.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence

from mqloom.core import layout
from mqloom.core.events import Parked
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import ConnectionPlan, MqttConnection, Received
from mqloom.gateway.interfaces import BrokerAddress


class ParkDriver:
    """One neighbour's park. `open` and `close` take effect one after the other, in their order."""

    def __init__(
        self,
        address: BrokerAddress,
        gateway: GatewayId,
        neighbour: GatewayId,
        on_parked: Callable[[GatewayId, list[Parked]], None],
        log: logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._neighbour = neighbour
        self._topic = layout.park(gateway, neighbour)
        self._on_parked = on_parked
        self._log = log
        self._plan = ConnectionPlan(
            address=address,
            client_id=f"mqloom-{gateway}-park-{neighbour}",
            clean_session=False,
            subscriptions=[(self._topic, 1)],
            on_messages=self._received,
            on_up=self._up,
            on_down=lambda problem: None,
            acknowledges=False,
        )
        self._connection: MqttConnection | None = None
        self._is_wanted = True  # to begin with, until the session exists
        self._is_open = False
        self._exists = False
        self._has_dropped = False
        self._waiting: list[Callable[[], object]] = []
        self._numbers = itertools.count(1)
        self._tokens: dict[int, tuple[int, int]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._worker = asyncio.create_task(self._work())

    def create(self) -> None:
        """The broker may have lost the session: see to it that there is one."""
        if self._connection is None or not self._connection.is_up:  # else it is there, and subscribes after a break
            self._exists = False
            self._is_wanted = True
            self._changed.set()

    def put(self, publish: Callable[[], object]) -> None:
        """Have something published for the park, as soon as the broker keeps it."""
        if self._exists:
            publish()
        else:
            self._waiting.append(publish)

    def open(self) -> None:
        """Let what is parked come out."""
        self._is_open = self._is_wanted = True
        self._changed.set()

    def close(self) -> None:
        """Leave what is parked with the broker."""
        self._is_open = False
        self._is_wanted = not self._exists
        self._tokens.clear()
        self._changed.set()

    def acknowledge(self, receipts: Sequence[int]) -> None:
        """Tell the broker that it need not keep these any longer."""
        for receipt in receipts:
            token = self._tokens.pop(receipt, None)
            if token is not None and self._connection is not None:
                self._connection.acknowledge(token)

    async def stop(self) -> None:
        """End, whatever is going on."""
        self._is_open = False
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._connection is not None and (not self._is_wanted or (self._is_open and self._has_dropped)):
                connection, self._connection = self._connection, None
                self._tokens.clear()
                await connection.close()
            if self._is_wanted and self._connection is None:
                self._has_dropped = False
                self._connection = MqttConnection(self._plan, self._log)
                self._connection.open()

    def _up(self) -> None:
        self._exists = True
        waiting, self._waiting = self._waiting, []
        for publish in waiting:
            publish()
        if not self._is_open:
            self._is_wanted = False
            self._changed.set()

    def _received(self, batch: Sequence[Received]) -> None:
        if not self._is_open or self._has_dropped:
            self._has_dropped = True  # not acknowledged: it comes again when we come again
            return
        parked = []
        for message in batch:
            if message.topic != self._topic:  # some brokers replay retained messages that nobody asked for
                if message.qos and self._connection is not None:
                    self._connection.acknowledge(message.token)
                continue
            receipt = next(self._numbers)
            self._tokens[receipt] = message.token
            parked.append(Parked(data=message.payload, receipt=receipt))
        if parked:
            self._on_parked(self._neighbour, parked)

"""The session in which our own broker keeps, for us, what waits for one neighbour.

It is connected only while something may come out of it; and, so that it exists, before anything is put in.

When the connection breaks by which things are put in, the broker may be losing its store. It would then acknowledge
what is put into a session that it does not know, and keep nothing. So from then on (`doubt`) no acknowledgement counts,
until we write to the broker again (`create`) and have connected the session anew after that. Then everything that was
not surely kept is put in once more, in order.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mqloom.core import layout
from mqloom.core.events import Parked
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, Refused, Then, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MakeConnection
from mqloom.gateway.interfaces import BrokerAddress

Put = Callable[[Then, Refused], object]
"""Publishes a message, and has one function called when the broker has acknowledged it, the other if it refuses it."""


class ParkDriver:
    """One neighbour's park. `open` and `close` take effect one after the other, in their order."""

    def __init__(
        self,
        address: BrokerAddress,
        gateway: GatewayId,
        neighbour: GatewayId,
        on_parked: Callable[[GatewayId, list[Parked]], None],
        log: logging.LoggerAdapter[logging.Logger],
        make_connection: MakeConnection,
        after: asyncio.Task[None] | None = None,
    ) -> None:
        self._make_connection = make_connection
        self._after = after
        """An earlier park for this neighbour that is being discarded: ended first, whatever is left in it."""
        self._neighbour = neighbour
        self._topic = layout.park(gateway, neighbour)
        self._on_parked = on_parked
        self._log = log
        self._plan = ConnectionPlan(
            address=address,
            client_id=address.session(f"mqloom-{gateway}-park-{neighbour}"),
            clean_session=False,
            subscriptions=[TopicSubscription(self._topic, 1)],
            on_messages=self._received,
            on_up=self._up,
            on_down=lambda problem: None,
            acknowledges=False,
        )
        self._connection: Connection | None = None
        self._is_wanted = False
        self._is_open = False
        self._exists = False
        self._is_doubted = True
        self._is_stale = False
        self._has_dropped = False
        self._doubts = 0
        self._put_numbers = itertools.count(1)
        self._puts: dict[int, tuple[Put, Then, Refused]] = {}  # in order: what is not surely kept
        self._numbers = itertools.count(1)
        self._tokens: dict[int, tuple[int, int]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._worker = asyncio.create_task(self._work())

    def doubt(self) -> None:
        """We cannot write to the broker any more, and it may be losing the session."""
        self._exists = False
        self._is_doubted = True
        self._doubts += 1

    def create(self) -> None:
        """We can write to the broker (again): see to it that there is a session."""
        if self._exists:
            return
        self._is_doubted = False
        self._is_stale = self._connection is not None  # that may have been to the broker of before
        self._is_wanted = True
        self._changed.set()

    def put(self, publish: Put, then: Then, refused: Refused) -> None:
        """Have something published for the park; `then` is called when the broker surely keeps it."""
        number = next(self._put_numbers)
        self._puts[number] = publish, then, refused
        if self._exists:
            self._hand(number)

    def _hand(self, number: int) -> None:
        self._puts[number][0](partial(self._kept, number, self._doubts), partial(self._turned_down, number))

    def _kept(self, number: int, doubts: int) -> None:
        if doubts == self._doubts and number in self._puts:
            self._puts.pop(number)[1]()

    def _turned_down(self, number: int, reason: str) -> None:
        if number in self._puts:
            self._puts.pop(number)[2](reason)

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
        tokens = [self._tokens.pop(receipt, None) for receipt in receipts]
        if self._connection is not None:
            self._connection.acknowledge([token for token in tokens if token is not None])

    async def discard(self) -> None:
        """End, and let the broker forget the session with all that is in it: a clean one takes its place.

        What was not kept yet need not be any more.
        """
        await self.stop()
        puts, self._puts = self._puts, {}
        for _, then, _ in puts.values():
            then()
        is_up = asyncio.Event()
        plan = replace(self._plan, clean_session=True, subscriptions=[], on_up=is_up.set, on_messages=_ignore)
        connection = self._make_connection(plan, self._log)
        connection.open()
        try:
            await is_up.wait()
        finally:
            await connection.close()

    async def stop(self) -> None:
        """End, whatever is going on."""
        self._is_open = False
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def _work(self) -> None:
        if self._after is not None:
            self._after.cancel()
            await asyncio.gather(self._after, return_exceptions=True)
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._connection is not None and (
                not self._is_wanted or self._is_stale or (self._is_open and self._has_dropped)
            ):
                connection, self._connection = self._connection, None
                self._tokens.clear()
                await connection.close()
            if self._is_wanted and self._connection is None:
                self._has_dropped = self._is_stale = False
                self._connection = self._make_connection(self._plan, self._log)
                self._connection.open()

    def _up(self) -> None:
        if self._is_doubted or self._is_stale or self._exists:
            return
        self._exists = True
        for number in list(self._puts):
            self._hand(number)
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
                    self._connection.acknowledge([message.token])
                continue
            receipt = next(self._numbers)
            self._tokens[receipt] = message.token
            parked.append(Parked(data=message.payload, receipt=receipt))
        if parked:
            self._on_parked(self._neighbour, parked)


def _ignore(batch: Sequence[Received]) -> None:
    pass

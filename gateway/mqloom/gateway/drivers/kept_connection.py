"""What the connections of both MQTT clients have in common: how one stands, what waits for it, and who is told what.

What a client does for each message, and how it connects, is its own: see `asyncio_connection` and `paho_connection`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from mqloom.gateway.drivers.backlog import Backlog
from mqloom.gateway.drivers.mqtt import (
    HOPELESS,
    LEAVE_S_MAX,
    REFUSED,
    SHORT_S,
    ConnectionPlan,
    Refused,
    Then,
    Token,
    TopicSubscription,
)
from mqloom.gateway.drivers.protocols import Backoff, BrokerLimits, SpokenProtocol


class Outgoing(NamedTuple):
    """A QoS 1 message until its PUBACK."""

    topic: str
    payload: bytes
    retain: bool
    content_type: str
    user_properties: tuple[tuple[str, str], ...]
    then: Then | None
    refused: Refused | None


class KeptConnection(ABC):
    """See `mqtt.Connection`; everything here runs in the event loop."""

    def __init__(
        self,
        plan: ConnectionPlan,
        log: logging.LoggerAdapter[logging.Logger],
        on_less: Callable[[], None] | None = None,
    ) -> None:
        self._plan = plan
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._backlog = Backlog(plan, self.acknowledge, on_less)
        self._spoken = SpokenProtocol(plan.address)
        self._version = 0
        self._backoff = Backoff()
        self._limits = BrokerLimits()
        self._is_resumed = False
        self._is_told = True  # whether our session was kept
        self._is_closing = False
        self._is_closed = False
        self._is_up = False
        self._up_since = 0.0
        self._connections = 0
        self._waiting: deque[Outgoing] = deque()  # QoS 1, beyond the window
        self._pending: dict[int, Outgoing] = {}  # QoS 1, in flight, by packet id
        self._window = 0
        self._was_crowded = False
        self._refusals = 0
        self._gone = list(plan.former)
        self._pruning = 0  # the packet id of the last UNSUBSCRIBE: it has all of these
        self._running: asyncio.Task[None] | None = None

    @abstractmethod
    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Acknowledge QoS 1 messages in this order, but for those that came by an earlier connection."""

    @abstractmethod
    def _holds_much(self) -> bool:
        """Whether so much waits for the broker that more should be held back."""

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for a broker that is there that more should be held back."""
        is_crowded = self._is_up and self._holds_much()
        if is_crowded:  # whoever is told so waits for `on_room`, whatever it was that filled the queue
            self._was_crowded = True
        return is_crowded

    @property
    def is_up(self) -> bool:
        """Whether the broker has answered our subscriptions."""
        return self._is_up

    @property
    def is_resumed(self) -> bool:
        """Whether the broker had kept our session."""
        return self._is_resumed

    @property
    def protocol(self) -> int:
        """Which MQTT is spoken."""
        return self._version

    @property
    def _outstanding(self) -> int:
        return len(self._pending) + len(self._waiting)

    def in_order(self, function: Callable[[], None]) -> None:
        """Call a function when all messages are handed over that have come by now."""
        self._backlog.in_order(function)

    def pause(self) -> None:
        """Hand nothing over, and acknowledge nothing, until `resume`."""
        self._backlog.pause()

    def resume(self) -> None:
        """Hand over again what has come meanwhile."""
        self._backlog.resume()

    def _change(self, subscriptions: Sequence[TopicSubscription]) -> None:
        """Remember what is subscribed to from now on, and what is not any more, until the broker knows it."""
        kept = {each.topic for each in subscriptions}
        were = dict.fromkeys((*self._gone, *(each.topic for each in self._plan.subscriptions)))
        self._gone = [topic for topic in were if topic not in kept]
        self._plan = replace(self._plan, subscriptions=subscriptions)

    def _pruned(self, packet: int, refused: bool) -> None:
        """The broker answered an UNSUBSCRIBE; one that it refuses is sent again when we connect again."""
        if packet == self._pruning and not refused and not self._is_closing:
            self._gone = []
            self._plan.on_pruned()

    # ---- what happens --------------------------------------------------------------------------------------------

    def _drop(self, problem: str, then: Then | None) -> bool:
        """Tell that a message is not taken; always False."""
        self._plan.on_drop(problem)
        if then is not None and problem in HOPELESS:
            self._loop.call_soon(then)
        return False

    def _turned_down(self, outgoing: Outgoing, problem: str) -> None:
        """The broker acknowledged a message, and says that it does not take it; logged the 1st, 2nd, 4th... time."""
        self._plan.on_drop(REFUSED)
        self._refusals += 1
        if self._refusals & (self._refusals - 1) == 0:
            self._log.warning(
                "broker at %s: it does not take what we publish on %s: %s (%s so far); "
                "look at its access list, and at its limits",
                self._plan.where,
                outgoing.topic,
                problem,
                self._refusals,
            )
        if self._is_closing:
            return
        if outgoing.refused is not None:
            outgoing.refused(problem)
        elif outgoing.then is not None:
            outgoing.then()

    def _met(self, *, is_resumed: bool) -> None:
        """The broker has let us in; what was lost is so until somebody is told, however often we begin again."""
        self._is_resumed = is_resumed and (self._is_resumed or self._is_told)
        self._is_told = False

    def _rose(self) -> None:
        if not self._is_closing and not self._is_up:  # else the subscriptions were changed
            self._is_up = self._is_told = True
            self._up_since = self._loop.time()
            self._backoff.reset()
            self._plan.on_up()

    def _fell(self, problem: str) -> None:
        was_up, self._is_up = self._is_up, False
        if self._is_closing:
            return
        hint = ""
        if was_up and self._loop.time() - self._up_since < SHORT_S:
            hint = f" (if this goes on: is somebody else connected as {self._plan.client_id}?)"
        self._log.warning("broker at %s: %s; trying again%s", self._plan.where, problem, hint)
        if was_up:
            self._plan.on_down(problem)
            self._plan.on_room()  # who is away holds nobody back

    async def _take_leave(self) -> None:
        """Wait, for a bounded time, until what was handed over is acknowledged; what is not is told."""
        self._is_closing = True
        self._backlog.close()
        deadline = self._loop.time() + LEAVE_S_MAX
        while self._is_up and self._outstanding and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for _ in range(self._outstanding):
            self._plan.on_drop("closed")

    async def _stop_running(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

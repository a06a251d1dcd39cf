"""Subscribers that are moved between real brokers, many in one event loop: the production core, driven by asyncio.

As in the lab's model each leg is a connection of its own. A broker takes what comes by one connection in order, so that
a publication may go right behind a subscription. What is acknowledged is what the core has handled.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mqloom.client.legs import (
    HOME_LEG,
    CloseLeg,
    Forgotten,
    ForLeg,
    Migrated,
    OnLeg,
    OpenLeg,
    Stayed,
    TravelEffect,
    TravelEvent,
)
from mqloom.client.states import State
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Failed,
    Finished,
    MessageReceived,
    Publish,
    Subscribe,
    WakeAt,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import OrderDesk
from mqloom.core.publication import Publication
from mqloom.core.records import Wish
from mqloom.core.signatures import PublicKey
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, RetainedMessages, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress

logger = logging.getLogger(__name__)

FORGET_S = 10.0
"""How long a broker may take to forget a client that leaves for good."""


@dataclass(slots=True)
class _Line:
    """A leg's connection, and what is known of it."""

    address: BrokerAddress
    connection: Connection | None = None
    subscriptions: list[TopicSubscription] = field(default_factory=list)
    unacknowledged: int = 0
    is_closing: bool = False
    forgets: bool = False

    @property
    def is_up(self) -> bool:
        """Whether its broker is there."""
        return self.connection is not None and self.connection.is_up

    @property
    def is_quiet(self) -> bool:
        """Whether all that was to go by it has arrived, or cannot go."""
        return not self.is_up or not self.unacknowledged


class DemoTraveller:
    """One client, which begins at one broker; `on_deliver` is given each publication that it gets."""

    def __init__(
        self,
        name: str,
        address: BrokerAddress,
        wishes: Mapping[str, Wish],
        keys: Sequence[PublicKey],
        on_deliver: Callable[[Publication], None],
    ) -> None:
        self.name = name
        self.moved: list[tuple[str, str]] = []
        self.stayed: list[str] = []
        self.moves: list[tuple[float, float]] = []
        """When it was on its way: from the order to the end of the other connection, by the loop's clock."""
        self.overhead_bytes = 0
        """Topics and payloads of all that it sent, and of what came and was not given out."""
        self.is_over = asyncio.Event()
        self._on_deliver = on_deliver
        self._delivered = 0
        self._moving_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._lines: dict[int, _Line] = {}
        self._opening: deque[OpenLeg] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._log = logging.LoggerAdapter(logger, {"gateway": name})
        client, incarnation = ClientId(name), secrets.token_hex(8)
        self._core = Traveller(
            client,
            wishes,
            incarnation=incarnation,
            desk=OrderDesk(client=client, incarnation=incarnation, keys=keys),
        )
        self._connect(HOME_LEG, address)

    @property
    def at(self) -> GatewayId | None:
        """At whose broker it is served."""
        return self._core.home.gateway if self._core.legs else None

    @property
    def is_served(self) -> bool:
        """Whether its subscriptions are established, at one broker and no other."""
        return len(self._core.legs) == 1 and self._core.home.core.state is State.SERVED

    @property
    def counts(self) -> Counter[str]:
        """What its core has counted."""
        return self._core.counts

    async def close(self) -> None:
        """Take the subscriptions back, and leave."""
        self._happen(CloseRequested())
        await asyncio.wait_for(self.is_over.wait(), 10)
        if self._timer is not None:
            self._timer.cancel()
        for leg in list(self._lines):
            self._leave(leg, self._lines.pop(leg))
        await asyncio.gather(*self._leaving)

    # ---- inward --------------------------------------------------------------------------------------------------

    def _connect(self, leg: int, address: BrokerAddress) -> None:
        line = self._lines[leg] = _Line(address)
        plan = ConnectionPlan(
            address=address,
            client_id=self.name,
            clean_session=False,
            subscriptions=[],
            on_messages=partial(self._received, leg, line),
            on_up=partial(self._up, leg, line),
            on_down=partial(self._down, leg, line),
        )
        line.connection = make_connection(plan, self._log)
        line.connection.open()

    def _up(self, leg: int, line: _Line) -> None:
        if self._lines.get(leg) is line and line.connection is not None:
            self._happen(OnLeg(leg=leg, event=Connected(resumed=line.connection.is_resumed)))

    def _down(self, leg: int, line: _Line, problem: str) -> None:
        if self._lines.get(leg) is line and line.connection is not None:
            line.subscriptions.clear()
            line.connection.resubscribe([])  # the core asks for all of it again
            self._happen(OnLeg(leg=leg, event=ConnectionLost(problem=problem)))

    def _received(self, leg: int, line: _Line, messages: list[Received]) -> None:
        for each in messages:
            if self._lines.get(leg) is line:
                event = MessageReceived(topic=each.topic, payload=each.payload, qos=each.qos, retain=each.retain)
                delivered = self._delivered
                self._happen(OnLeg(leg=leg, event=event))
                if self._delivered == delivered:
                    self.overhead_bytes += len(each.topic) + len(each.payload)

    def _happen(self, event: TravelEvent) -> None:
        for effect in self._core.handle(event, self._loop.time(), time.time()):
            self._carry_out(effect)
        self._go_on()

    # ---- outward -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: TravelEffect) -> None:
        match effect:
            case Deliver():
                self._delivered += 1
                self._on_deliver(effect.publication)
            case ForLeg() | OpenLeg() | CloseLeg():
                self._carry_out_on_leg(effect)
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(effect.at, self._happen, Woke())
            case Migrated():
                self.moved.append((effect.source, effect.to))
            case Stayed():
                self.stayed.append(effect.problem)
            case Finished() | Failed():
                self.is_over.set()

    def _carry_out_on_leg(self, effect: ForLeg | OpenLeg | CloseLeg) -> None:
        line = self._lines.get(effect.leg)
        if isinstance(effect, OpenLeg):
            self._moving_since = self._loop.time()
            self._opening.append(effect)
        elif isinstance(effect, CloseLeg):
            if self._moving_since is not None:
                self.moves.append((self._moving_since, self._loop.time()))
                self._moving_since = None
            if line is not None:
                line.is_closing, line.forgets = True, effect.forget
        elif line is not None and isinstance(effect, ForLeg):
            self._send(line, effect.effect)

    def _send(self, line: _Line, effect: Subscribe | Publish) -> None:
        assert line.connection is not None
        if isinstance(effect, Subscribe):
            if line.is_up:
                known = [each._replace(retained=RetainedMessages.NEVER) for each in line.subscriptions]
                line.subscriptions = [*known, TopicSubscription(effect.topic, effect.qos)]
                line.connection.resubscribe(line.subscriptions)
            return
        self.overhead_bytes += len(effect.topic) + len(effect.payload)
        then = None
        if effect.qos:
            line.unacknowledged += 1
            then = partial(self._arrived, line)
        line.connection.publish(effect.topic, effect.payload, effect.qos, retain=effect.retain, then=then)

    def _arrived(self, line: _Line) -> None:
        line.unacknowledged -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Open and close connections, when what was written before is on its broker."""
        for leg, line in list(self._lines.items()):
            if line.is_closing and line.is_quiet:
                del self._lines[leg]
                self._leave(leg, line)
        while self._opening and all(line.is_quiet for line in self._lines.values()):
            effect = self._opening.popleft()
            if effect.leg in self._core.legs:
                self._connect(effect.leg, BrokerAddress(effect.broker.host, effect.broker.port))

    def _leave(self, leg: int, line: _Line) -> None:
        task = asyncio.create_task(self._end(leg, line))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _end(self, leg: int, line: _Line) -> None:
        """Disconnect; and let the broker forget us, by a session that is not to be kept."""
        assert line.connection is not None
        await line.connection.close()
        if not line.forgets:
            return
        is_in = asyncio.Event()
        plan = ConnectionPlan(
            address=line.address,
            client_id=self.name,
            clean_session=True,
            subscriptions=[],
            on_messages=lambda messages: None,
            on_up=is_in.set,
            on_down=lambda problem: None,
        )
        last = make_connection(plan, self._log)
        last.open()
        try:
            await asyncio.wait_for(is_in.wait(), FORGET_S)
        except TimeoutError:
            self._log.warning("%s does not forget %s", line.address, self.name)
        else:
            if not self.is_over.is_set():
                self._happen(OnLeg(leg=leg, event=Forgotten()))
        await last.close()

"""Drives a client's core from paho's loop: what paho hears becomes events, effects become packets and callbacks.

Whoever calls `request` (any thread) only leaves an event and wakes the loop. The loop's thread takes events one by one:
the core answers with effects, of which those for the broker are ordered at once, under a lock, and those for the
application are carried out after it, without one. So callbacks are called by the loop's thread alone, as paho does it,
and may call anything. Only `leave` gives the core an event from another thread, under the same lock.

A callback that raises stops the loop, as with paho. What it was called with counts as not delivered and not
acknowledged, and what stood behind it waits for the next turn of a loop.
"""

import logging
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion

from mqloom.client.federation import Federation
from mqloom.client.limits import LEASE_S, LEAVE_S, SESSION_LEASE_S
from mqloom.client.messages import message_of
from mqloom.client.receipts import Receipt, Receipts
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    MessageReceived,
    Note,
    Publish,
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    Woke,
)
from mqloom.client.wanted import REFUSED, Table
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.records import Wish

logger: Final = logging.getLogger("mqloom.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What has come to a client from the federation since it was made.

    `gaps` counts the times when publications may have passed it by: its broker had forgotten its session, or a gateway
    had ended a subscription that it still wants.
    """

    received: int
    duplicates: int
    gaps: int
    migrations: int


class Application(Protocol):
    """The client around this: paho's, with what the application set."""

    def order(self, effect: Subscribe | Publish) -> None:
        """Send something to the broker."""
        ...

    def publish_ours(self, effect: Publish) -> bool:
        """Send something to the broker, before all that was ordered."""
        ...

    def forget_orders(self) -> None:
        """Leave out what was ordered and not sent."""
        ...

    def wake(self) -> None:
        """Let the loop take a turn."""
        ...

    def deliver(self, message: MQTTMessage) -> None:
        """Call on_message, or the callbacks for its topic."""
        ...

    def acknowledge(self, packet: int) -> MQTTErrorCode:
        """Tell the broker that a message of QoS 1 has arrived."""
        ...

    def tell_established(self, wish: Wish, *, partly: bool) -> None:
        """Call on_established."""
        ...

    def tell_refused(self, wish: Wish, problem: str) -> None:
        """Call on_refused."""
        ...

    def pretend_suback(self, mid: int, codes: list[int]) -> None:
        """Call on_subscribe."""
        ...

    def pretend_unsuback(self, mid: int, count: int) -> None:
        """Call on_unsubscribe."""
        ...

    @property
    def protocol(self) -> MQTTProtocolVersion:
        """The version of MQTT."""
        ...


class Shim:
    """One client's part in a federation. `is_kept` tells whether its broker keeps its session."""

    def __init__(
        self, application: Application, settings: Federation, client_id: str, is_kept: Callable[[], bool]
    ) -> None:
        self.table = Table()
        self.acknowledges_itself = False
        self._application = application
        self._settings = settings
        self._client = ClientId(settings.client or client_id or f"client-{secrets.token_hex(4)}")
        if len(self._client) > ID_LENGTH_MAX:
            raise ValueError(
                f"the client id has more than {ID_LENGTH_MAX} characters: name a shorter Federation(client=)"
            )
        self._is_kept = is_kept
        self._lock = threading.RLock()
        self._core: Subscriber | None = None
        self._events: deque[Event] = deque()
        self._tidings: deque[Tell | Note | Unserved] = deque()
        self._receipts = Receipts()
        self._wake_at: float | None = None
        self._is_up = False
        self._is_busy = False
        self._received = 0
        self._counted: Counter[str] = Counter()

    # ---- for the application's calls, in any thread --------------------------------------------------------------

    @property
    def broker(self) -> str | None:
        """The name of the broker whose gateway serves us."""
        core = self._core
        return None if core is None else core.gateway

    def stats(self) -> Stats:
        """Return what has come so far."""
        core = self._core
        counts = self._counted + (Counter() if core is None else core.counts)
        return Stats(
            received=self._received,
            duplicates=counts["duplicates"],
            gaps=counts["gaps"],
            migrations=counts["migrations"],
        )

    def request(self, event: Event) -> None:
        """Leave an event for the loop."""
        self._events.append(event)
        self._application.wake()

    def acknowledge(self, number: int) -> MQTTErrorCode:
        """The application has taken a publication of QoS 1."""
        with self._lock:
            receipt = self._receipts.release(number)
        return MQTTErrorCode.MQTT_ERR_SUCCESS if receipt is None else self._acknowledge(receipt)

    def leave(self) -> None:
        """The application disconnects: with a session that is not kept, its subscriptions are over, as with paho.

        Should the loop be busy for longer than LEAVE_S, they are left to their lease.
        """
        if self._is_kept() or not self._lock.acquire(timeout=LEAVE_S):
            return
        try:
            core, self._core = self._core, None
            if core is None:
                return
            self._application.forget_orders()
            for effect in core.handle(CloseRequested(), time.monotonic()):
                if isinstance(effect, Publish):
                    self._application.publish_ours(effect)
            self._counted += core.counts
            self._wake_at = None
            self._is_up = False
            self._events.clear()
            self.table = Table()
            self._receipts = Receipts()
        finally:
            self._lock.release()

    # ---- for paho's loop -----------------------------------------------------------------------------------------

    def connected(self, *, resumed: bool) -> None:
        """Listener: the broker has accepted us."""
        self._events.append(Connected(resumed=resumed))

    def lost(self) -> None:
        """Listener: the connection is gone."""
        self._events.append(ConnectionLost())

    def received(self, message: MQTTMessage) -> None:
        """Listener: a message for us; when this has returned, paho may acknowledge it."""
        self.turn()
        event = MessageReceived(
            topic=message.topic, payload=bytes(message.payload), qos=message.qos, retain=message.retain
        )
        with self._lock:
            deliveries = self._take(event)
            receipt = self._receipts.arrived(event.payload, message.mid if message.qos == 1 else 0, deliveries)
        self._tell_all()
        while receipt.left:
            self._deliver(receipt, receipt.left[0])
            receipt.left.popleft()
        with self._lock:
            done = self._receipts.settled(receipt)
        if done is not None and self.acknowledges_itself:
            self._acknowledge(done)

    def barred(self, topic: str) -> None:
        """Listener: the broker does not let us subscribe to this topic."""
        problem = f"the broker does not let this client subscribe to {topic}: its access list must allow that"
        self._tidings.append(Unserved(names=tuple(self.table), problem=problem))

    def turn(self) -> None:
        """Listener: do whatever is due."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            self._tell_all()
            while (event := self._next_event()) is not None:
                with self._lock:
                    for late in self._take(event):  # only messages bring any
                        raise AssertionError(late)
                self._tell_all()
        finally:
            self._is_busy = False

    def patience(self, timeout: float) -> float:
        """Listener: how long the loop may wait."""
        if self._wake_at is None or timeout < 0:
            return timeout
        return min(timeout, max(0.0, self._wake_at - time.monotonic()))

    # ---- the core ------------------------------------------------------------------------------------------------

    def _next_event(self) -> Event | None:
        if self._events:
            return self._events.popleft()
        if self._wake_at is not None and time.monotonic() >= self._wake_at:
            self._wake_at = None
            return Woke()
        return None

    def _take(self, event: Event) -> list[Deliver]:
        """Give the core one event: order what is for the broker, keep what is to be told, return deliveries."""
        if isinstance(event, Connected | ConnectionLost):
            if self._is_up == isinstance(event, Connected):
                return []  # a connection that was never accepted is no loss
            self._is_up = not self._is_up
        if isinstance(event, ConnectionLost):
            self._application.forget_orders()
            self._receipts.lost()
        if isinstance(event, MessageReceived) and not self._is_up:
            return []  # we have left
        if self._core is None:
            self._core = self._new_core()
        deliveries = []
        for effect in self._core.handle(event, time.monotonic()):
            if isinstance(effect, Deliver):
                deliveries.append(effect)
            else:
                self._carry_out(effect)
        return deliveries

    def _new_core(self) -> Subscriber:
        lease_s = self._settings.lease_s
        if lease_s is None:
            lease_s = SESSION_LEASE_S if self._is_kept() else LEASE_S
        gateway = GatewayId(self._settings.gateway) if self._settings.gateway else None
        return Subscriber(self._client, {}, lease_s=lease_s, gateway=gateway, token=self._settings.token, lasting=True)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Subscribe() | Publish():
                self._application.order(effect)
            case WakeAt():
                self._wake_at = effect.at
            case Tell() | Note() | Unserved():
                self._tidings.append(effect)
            case _:
                raise AssertionError(f"{effect!r} of a core that lasts")

    # ---- the application -----------------------------------------------------------------------------------------

    def _deliver(self, receipt: Receipt, delivery: Deliver) -> None:
        qos = self.table.qos_for(delivery.names, delivery.publication.qos)
        number = self._receipts.next_number()
        if qos and self.acknowledges_itself:
            with self._lock:
                self._receipts.hold(receipt, number)
        protocol = self._application.protocol
        message = message_of(delivery.publication, qos=qos, number=number, protocol=protocol)
        self._received += 1
        try:
            self._application.deliver(message)
        except BaseException:
            self._received -= 1  # it comes again
            raise

    def _acknowledge(self, receipt: Receipt) -> MQTTErrorCode:
        if not receipt.packet:  # of QoS 0, or the broker will send it again
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return self._application.acknowledge(receipt.packet)

    def _tell_all(self) -> None:
        while self._tidings:
            self._tell(self._tidings.popleft())

    def _tell(self, effect: Tell | Note | Unserved) -> None:
        match effect:
            case Tell() if effect.answer.answer == "established":
                self._tell_established(effect.answer.name, partly=effect.answer.partly)
            case Tell() if effect.answer.answer == "ended":
                self.table.drop(effect.answer.name)
                for mid, codes in self.table.unsubscribing.answer(effect.answer.name, 0):
                    self._application.pretend_unsuback(mid, len(codes))
            case Tell():
                self._tell_refused(effect.answer.name, f"refused: {effect.answer.problem}")
            case Unserved():
                for name in effect.names:
                    self._tell_refused(name, effect.problem)
            case Note():
                logger.info("%s: %s", self._client, effect.text)

    def _tell_established(self, name: str, *, partly: bool) -> None:
        wanted = self.table.get(name)
        if wanted is None:
            return
        for mid, codes in self.table.subscribing.answer(name, wanted.qos):
            self._application.pretend_suback(mid, codes)
        self._application.tell_established(wanted.wish, partly=partly)

    def _tell_refused(self, name: str, problem: str) -> None:
        wanted = self.table.get(name)
        if wanted is None:
            return
        logger.error("%s: subscription to %r: %s", self._client, name, problem)
        for mid, codes in self.table.subscribing.answer(name, REFUSED):
            self._application.pretend_suback(mid, codes)
        self._application.tell_refused(wanted.wish, problem)

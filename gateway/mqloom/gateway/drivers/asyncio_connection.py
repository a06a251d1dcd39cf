"""A connection in the event loop itself: no thread, all messages of one read as one batch, and written in one go.

What paho's client and others do for each message is done here for each read. Why not on top of another asyncio client:
custody needs PUBACKs that we send, later and in receive order, and repeats marked as such; gmqtt, the fastest we found,
acknowledges by itself with 3.1.1, does not mark repeats, and gives up for good on a broker that refuses it once.

Reading stops while over half of what a driver may hold waits for the event loop, unless somebody has paused it: then
acknowledgements must still be read, and QoS 0 past the bound is dropped, and told.
"""

import asyncio
import logging
from collections.abc import Sequence

from mqloom.core.errors import TopicError
from mqloom.core.limits import (
    ANSWER_S_MAX,
    IN_FLIGHT_MAX,
    LINK_QUEUE_BYTES_MAX,
    LINK_QUEUE_MAX,
    PENDING_MAX,
    RECONNECT_S_MAX,
)
from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.kept_connection import KeptConnection, Outgoing
from mqloom.gateway.drivers.mqtt import (
    INVALID,
    LEAVE_S_MAX,
    ConnectionPlan,
    Received,
    Refused,
    Then,
    Token,
    TopicSubscription,
)
from mqloom.gateway.drivers.packets import Answer
from mqloom.gateway.drivers.protocols import absence, secure
from mqloom.gateway.drivers.session import Session


class AsyncioConnection(KeptConnection):
    """See `mqtt.Connection`."""

    def __init__(self, plan: ConnectionPlan, log: logging.LoggerAdapter[logging.Logger]) -> None:
        super().__init__(plan, log, self._read_on)
        self._opening: Session | None = None
        self._session: Session | None = None  # the same, once the broker has let us in
        self._packet = 0
        self._numbers: packets.TopicNumbers | None = None

    def open(self) -> None:
        """Begin to connect."""
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self._run_once()
            except Exception as error:  # whatever it is: nobody but us would try again
                self._fell(absence(self._plan.address, error))
            await asyncio.sleep(self._backoff.next_s())

    async def _run_once(self) -> None:
        session = await self._connect()
        try:
            problem = await asyncio.shield(session.ended)
        finally:
            session.leave()
        if not session.is_answered:
            self._spoken.doubt()
        self._broke(problem)

    async def _connect(self) -> Session:
        address = self._plan.address
        self._version = await self._spoken.find()
        self._connections += 1  # an acknowledgement of an earlier connection would hit another packet

        def build() -> Session:
            return Session(self._plan, self._version, self._connections, self)

        async with asyncio.timeout(ANSWER_S_MAX):
            _, session = await self._loop.create_connection(build, address.host, address.port, ssl=secure(address))
        self._opening = session
        return session

    async def close(self) -> None:
        """Wait, for a bounded time, until what was handed over is acknowledged; then disconnect."""
        await self._take_leave()
        self._session = None
        await self._stop_running()
        if self._opening is not None:
            await asyncio.wait([self._opening.ended], timeout=LEAVE_S_MAX)
            self._opening.end("closed")
        self._is_closed = True

    def _holds_much(self) -> bool:
        session = self._session
        return session is not None and (
            session.waiting > LINK_QUEUE_MAX // 2
            or self._outstanding > LINK_QUEUE_MAX // 2
            or session.waiting_bytes > LINK_QUEUE_BYTES_MAX // 2
        )

    # ---- outward -------------------------------------------------------------------------------------------------

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool = False,
        content_type: str = "",
        user_properties: tuple[tuple[str, str], ...] = (),
        then: Then | None = None,
        refused: Refused | None = None,
    ) -> bool:
        """Hand a message over."""
        session = self._session
        try:
            encoded = packets.topic_bytes(topic)
        except (TopicError, ValueError):
            return self._drop(INVALID, then)
        problem = self._problem(qos, then) or self._limits.problem(topic, payload, user_properties)
        if problem:
            return self._drop(problem, then)
        if qos:
            outgoing = Outgoing(topic, payload, retain, content_type, user_properties, then, refused)
            if self._waiting or len(self._pending) >= self._window:
                self._waiting.append(outgoing)
            else:
                self._send_first(outgoing)
        else:
            assert session is not None
            first = packets.PUBLISH | (retain and self._limits.has_retained)
            if self._numbers is not None and not content_type and not user_properties:
                session.send(self._numbers.publish(first, encoded, payload))
            else:
                properties = packets.publish_properties(self._version, content_type, user_properties)
                session.send(packets.publish(first, encoded, 0, properties, payload))
        return True

    def _problem(self, qos: int, then: Then | None) -> str:
        if self._is_closed:
            return "closed"
        session = self._session
        if qos:
            if then is not None:  # somebody waits for it, and would for ever; custody's windows are the bound
                return ""
            return "queue full" if self._outstanding >= (PENDING_MAX if self._is_up else LINK_QUEUE_MAX) else ""
        if session is None:
            return "not connected"
        is_full = session.waiting >= LINK_QUEUE_MAX or session.waiting_bytes >= LINK_QUEUE_BYTES_MAX
        return "queue full" if is_full else ""

    def _send_waiting(self) -> None:
        while self._waiting and len(self._pending) < self._window:
            outgoing = self._waiting.popleft()
            problem = self._limits.problem(outgoing.topic, outgoing.payload, outgoing.user_properties)
            if problem:
                self._drop(problem, outgoing.then)
            else:
                self._send_first(outgoing)

    def _send_first(self, outgoing: Outgoing) -> None:
        packet = self._next_packet()
        self._pending[packet] = outgoing
        self._send(packet, outgoing, again=False)

    def _next_packet(self) -> int:
        self._packet = self._packet % 65_535 + 1
        while self._packet in self._pending:
            self._packet = self._packet % 65_535 + 1
        return self._packet

    def _send(self, packet: int, outgoing: Outgoing, *, again: bool) -> None:
        assert self._session is not None
        first = packets.PUBLISH | again << 3 | 2 | (outgoing.retain and self._limits.has_retained)
        properties = packets.publish_properties(self._version, outgoing.content_type, outgoing.user_properties)
        topic = packets.topic_bytes(outgoing.topic)
        self._session.send(packets.publish(first, topic, packet, properties, outgoing.payload))

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Acknowledge QoS 1 messages in this order, but for those that came by an earlier connection."""
        present = self._connections
        pubacks = b"".join([packets.puback(packet) for connection, packet in tokens if connection == present])
        if pubacks and self._session is not None:
            self._session.write(pubacks)

    # ---- what the session tells -----------------------------------------------------------------------------------

    def answered(self, session: Session, answer: Answer) -> None:
        """The broker has let us in: subscribe, then send again what it may not have."""
        self._session = session
        self._limits = answer.limits
        self._met(is_resumed=answer.is_resumed)
        aliases = answer.limits.topic_aliases if self._plan.has_few_topics else 0
        self._numbers = packets.TopicNumbers(aliases) if aliases else None  # they count for one connection
        self._window = min(IN_FLIGHT_MAX, answer.limits.receive_maximum)
        if self._plan.subscriptions:
            self._subscribe(session)
        self._wait_again()
        for packet, outgoing in list(self._pending.items()):
            problem = self._limits.problem(outgoing.topic, outgoing.payload, outgoing.user_properties)
            if problem:
                del self._pending[packet]
                self._drop(problem, outgoing.then)
            else:
                self._send(packet, outgoing, again=True)
        self._send_waiting()
        if not self._plan.subscriptions:
            self._rose()

    def _wait_again(self) -> None:
        """Let what is past the window wait once more: a broker that has come back may allow less than before."""
        past = list(self._pending.items())[self._window :]
        for packet, outgoing in reversed(past):
            del self._pending[packet]
            self._waiting.appendleft(outgoing)

    def _subscribe(self, session: Session) -> None:
        session.write(packets.subscribe(self._next_packet(), self._plan.subscriptions, self._version))
        if self._gone:
            self._pruning = self._next_packet()
            session.write(packets.unsubscribe(self._pruning, self._gone, self._version))

    def subscribed(self, reasons: bytes) -> None:
        """The broker answered our subscriptions."""
        refused = [
            each.topic for each, reason in zip(self._plan.subscriptions, reasons, strict=False) if reason >= 0x80
        ]
        if not refused:
            self._rose()
            return
        # Ask again later: an operator may be mending the broker's access list right now.
        self._fell(f"it does not let us subscribe to {', '.join(refused)}")
        self._loop.call_later(RECONNECT_S_MAX, self._subscribe_again, self._connections)

    def _subscribe_again(self, connection: int) -> None:
        if self._session is not None and connection == self._connections and not self._is_up:
            self._subscribe(self._session)

    def unsubscribed(self, packet: int, reasons: bytes) -> None:
        """The broker answered that we do not want some topics any more."""
        self._pruned(packet, any(reason >= 0x80 for reason in reasons))

    def resubscribe(self, subscriptions: Sequence[TopicSubscription]) -> None:
        """Subscribe to these from now on, and to nothing else, without a break."""
        self._change(subscriptions)
        if self._session is not None:
            self._subscribe(self._session)

    def came(self, messages: list[Received]) -> None:
        """Messages have come."""
        if self._backlog.add(messages):
            self._loop.call_soon(self._backlog.hand_over)
        if self._session is not None and not self._backlog.is_paused and self._backlog.is_over(0.5):
            self._session.read(is_wanted=False)

    def _read_on(self) -> None:
        if self._session is not None and (self._backlog.is_paused or not self._backlog.is_over(0.25)):
            self._session.read(is_wanted=True)

    def acknowledged(self, acknowledgements: list[tuple[int, int]]) -> None:
        """The broker has these."""
        for packet, reason in acknowledgements:
            outgoing = self._pending.pop(packet, None)
            if outgoing is None:
                continue
            if reason >= 0x80:
                self._turned_down(outgoing, packets.reason_text(reason))
            elif outgoing.then is not None and not self._is_closing:
                outgoing.then()
        self._send_waiting()
        self._look_for_room()

    def drained(self) -> None:
        """Nothing waits for the network any more."""
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._was_crowded and self._session is not None:
            session = self._session
            is_room = max(self._outstanding, session.waiting) <= LINK_QUEUE_MAX // 4
            if is_room and session.waiting_bytes <= LINK_QUEUE_BYTES_MAX // 4:
                self._was_crowded = False
                self._plan.on_room()

    # ---- inward --------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Hand nothing over, and acknowledge nothing, until `resume`; but go on reading what is acknowledged to us."""
        super().pause()
        self._read_on()

    def _broke(self, problem: str) -> None:
        """A connection ended: what it had brought comes again, what was on its way out of QoS 0 does not."""
        self._session = None
        self._window = 0
        self._backlog.forget(self._connections)
        if not self._is_closing:
            self._plan.on_broken()
        self._fell(problem)

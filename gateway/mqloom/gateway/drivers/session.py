"""One TCP connection to a broker, from CONNECT to its end: packets in, packets out, and a pulse.

All packets of one read are gathered: messages first, then acknowledgements of ours, each as one batch. What is written
in one turn of the event loop leaves together. While the network takes no more, packets wait here: `waiting` says how
many messages, `waiting_bytes` how much all is. Acknowledgements are not counted: nobody could hold them back.
"""

import asyncio
from typing import Protocol

from mqloom.core.limits import ANSWER_S_MAX, WRITE_BYTES_MAX
from mqloom.core.tls import tls_problem
from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.mqtt import KEEPALIVE_S, SESSION_S, ConnectionPlan, Received
from mqloom.gateway.drivers.packets import Answer, PacketError


class Owner(Protocol):
    """Whom a session tells what happens."""

    def answered(self, session: "Session", answer: Answer) -> None:
        """The broker has answered our CONNECT."""

    def came(self, messages: list[Received]) -> None:
        """Messages have come."""

    def acknowledged(self, acknowledgements: list[tuple[int, int]]) -> None:
        """The broker acknowledged what we published: packet ids and reason codes."""

    def subscribed(self, reasons: bytes) -> None:
        """The broker answered our subscriptions."""

    def unsubscribed(self, packet: int, reasons: bytes) -> None:
        """The broker answered that we do not want some topics any more."""

    def drained(self) -> None:
        """Nothing waits for the network any more."""


class Session(asyncio.Protocol):
    """See above; `ended` is done with the problem when the connection is gone, whatever the reason."""

    def __init__(self, plan: ConnectionPlan, version: int, number: int, owner: Owner) -> None:
        self._plan = plan
        self._version = version
        self._number = number
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.is_answered = False
        self.version_is_refused = False
        self._problem = ""
        self._transport: asyncio.Transport | None = None
        self._splitter = packets.Splitter()
        self._out: list[bytes] = []
        self.waiting = 0
        self.waiting_bytes = 0
        self._is_scheduled = False
        self._is_writable = True
        self._is_reading = True
        self._keepalive_s = KEEPALIVE_S
        self._pulse: asyncio.TimerHandle | None = None
        self._heard = self._wrote = True
        self._silent = 0

    # ---- the event loop's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say CONNECT."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        transport.write(packets.connect(self._plan, self._version, KEEPALIVE_S, SESSION_S))
        self._pulse = self._loop.call_later(ANSWER_S_MAX, self.end, "it does not answer CONNECT")

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._heard = True
        messages: list[Received] = []
        acknowledgements: list[tuple[int, int]] = []
        version, number = self._version, self._number
        try:
            for first, body in self._splitter.feed(data):
                kind = first & 0xF0
                if kind == packets.PUBLISH:
                    messages.append(packets.read_publish(first, body, version, number))
                elif kind == packets.PUBACK:
                    acknowledgements.append(packets.read_puback(body))
                else:
                    self._read_other(kind, body)
        except PacketError as error:
            self.end(f"it sends what is no MQTT: {error}")
        if messages:
            self._owner.came(messages)
        if acknowledgements:  # behind the messages: a fence must not overtake them
            self._owner.acknowledged(acknowledgements)

    def _read_other(self, kind: int, body: bytes) -> None:
        if kind == packets.CONNACK:
            self._answered(packets.read_connack(body, self._version))
        elif kind == packets.SUBACK:
            self._owner.subscribed(packets.read_suback(body, self._version)[1])
        elif kind == packets.DISCONNECT:
            self.end(packets.reason_text(body[0]) if body else "it has ended the connection")
        elif kind == packets.UNSUBACK:
            self._owner.unsubscribed(*packets.read_unsuback(body, self._version))
        elif kind != packets.PINGRESP:
            raise PacketError(f"a packet of kind 0x{kind:02x}")

    def _answered(self, answer: Answer) -> None:
        self.version_is_refused = answer.code in (0x01, 0x84)
        self.is_answered = not self.version_is_refused
        if answer.code:
            self.end(f"the broker refuses us: {packets.reason_text(answer.code)}")
            return
        if answer.keepalive_s is not None:
            self._keepalive_s = answer.keepalive_s
        self._beat()
        self._owner.answered(self, answer)

    def pause_writing(self) -> None:
        """The network takes no more."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """The network takes more."""
        self._is_writable = True
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        if self._pulse is not None:
            self._pulse.cancel()
        self._out.clear()
        self.waiting = self.waiting_bytes = 0
        if not self.ended.done():
            problem = tls_problem(error) if isinstance(error, OSError) else ""
            problem = self._problem or problem or f"the connection was lost ({error or 'closed by the broker'})"
            self.ended.set_result(problem)

    # ---- what the owner does --------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Send a PUBLISH, together with what else is sent in this turn of the event loop."""
        self.waiting += 1
        self.write(message)

    def write(self, packet: bytes) -> None:
        """Send any other packet likewise."""
        self._out.append(packet)
        self.waiting_bytes += len(packet)
        if not self._is_scheduled and self._is_writable:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        transport = self._transport
        if transport is None or not self._out or not self._is_writable or transport.is_closing():
            return
        out, self._out = self._out, []
        self.waiting = self.waiting_bytes = 0
        self._wrote = True
        transport.write(b"".join(out) if len(out) > 1 else out[0])
        self._owner.drained()

    def read(self, *, is_wanted: bool) -> None:
        """Go on reading, or leave what comes with the broker."""
        if self._transport is None or is_wanted == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def leave(self) -> None:
        """Say farewell, and end; what was written before is sent first."""
        self._problem = self._problem or "closed"
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(self._out) + packets.FAREWELL)
        self._out.clear()
        self._transport.close()

    def end(self, problem: str) -> None:
        """End at once."""
        self._problem = self._problem or problem
        if self._transport is not None:
            self._transport.abort()

    def _beat(self) -> None:
        """Ask for a sign of life when there was none; end when there is none for too long."""
        if self._pulse is not None:
            self._pulse.cancel()
        if not self._keepalive_s:
            return
        # While we do not read ourselves the broker's silence says nothing.
        self._silent = 0 if self._heard or not self._is_reading else self._silent + 1
        if self._silent > 2:
            self.end("it does not answer any more")
            return
        if not self._heard or not self._wrote:
            self.write(packets.PING)
        self._heard = self._wrote = False
        self._pulse = self._loop.call_later(self._keepalive_s / 2, self._beat)

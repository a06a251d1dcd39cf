"""How the embedded broker sends to one client: in order, and again what the client has not acknowledged.

amqtt waits five seconds for each acknowledgement, or until the connection ends, and then forgets what it has sent. Here
everything passes through the queue of the session, in which amqtt keeps what comes for a client that is away. One task
for each connection takes it from there. What it has sent with QoS 1 or 2 stays in flight until it is acknowledged,
however long that takes, and begins the next connection of the session: by its packet id, marked as a repeat.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from amqtt.adapters import StreamWriterAdapter
from amqtt.broker import RetainedApplicationMessage
from amqtt.mqtt.constants import QOS_0, QOS_1, QOS_2
from amqtt.mqtt.disconnect import DisconnectPacket
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.publish import PublishPacket
from amqtt.mqtt.pubrec import PubrecPacket
from amqtt.mqtt.pubrel import PubrelPacket
from amqtt.session import OutgoingApplicationMessage

QOS: Final = (QOS_0, QOS_1, QOS_2)
"""All that there are; two bits can say one more."""

IN_FLIGHT_MAX: Final = 65_535
"""How much may be unacknowledged in one session, both ways together: there are no more packet ids.

What comes then waits in the session's queue, as it does for a client that is away.
"""

WAITING_MAX: Final = 10_000
"""Messages that wait in the queue of a session; past that those of QoS 0 are dropped. Others are not, as whoever has
sent them counts on the broker, nor are retained ones, of which a client gets no more than there are when it asks."""

BURST: Final = 64
"""Messages that one client is sent before all others have a turn."""

CLOSE_S_MAX: Final = 1.0
"""How long a client may take for what it has still been sent when its connection is closed; then that is cut."""

BODY_BYTES_MAX: Final = 268_435_455
"""How long a packet may be without its first bytes, which say that: more cannot be said in four bytes."""

logger = logging.getLogger(__name__)


class Drops:
    """Counts what the broker does not send, and logs it the 1st, 2nd, 4th... time: a flood must not fill the log."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def tell(self, what: str, client: object, why: object) -> None:
        """Count one of a kind."""
        self._counts[what] += 1
        count = self._counts[what]
        if count & (count - 1) == 0:
            logger.warning("the embedded broker %s (%d so far, this one of %.100r): %.300s", what, count, client, why)


class BoundedWriter(StreamWriterAdapter):  # type: ignore[misc]  # amqtt has no types that we could check against
    """What writes to a client; it does not wait long for one that takes nothing."""

    async def close(self) -> None:
        """Close the connection; amqtt waits until the client has taken all."""
        if not self.is_closed:
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._writer.transport.abort)
        await super().close()


class Sender(BrokerProtocolHandler):  # type: ignore[misc]  # amqtt has no types that we could check against
    """One connection of a client; until it is opened it keeps in the session's queue what comes."""

    def __init__(self, plugins_manager: Any, drops: Drops) -> None:
        super().__init__(plugins_manager)
        self._drops = drops
        self._sending: asyncio.Task[None] | None = None
        self._is_over = False
        self._wake = asyncio.Event()
        self._mark = object()
        self._sent = 0

    @property
    def is_open(self) -> bool:
        """Whether it has begun to send, and the connection is not over."""
        return self._sending is not None and not self._is_over

    async def start(self) -> None:
        """Begin to read; of a connection that is over already amqtt does not notice the end."""
        await super().start()
        if self._is_over:
            await self.handle_disconnect(None)

    def open(self) -> None:
        """Begin to send: first what was in flight, then what was kept, then what comes."""
        self._wake.set()
        if self._sending is None and not self._is_over:
            self._sending = asyncio.create_task(self._send_all())

    async def stop(self) -> None:
        """End the connection; what is in flight or kept stays with the session."""
        self._end()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await super().stop()

    async def handle_disconnect(self, disconnect: DisconnectPacket | None) -> None:
        """Send no more: the client has taken its leave, or (None) the connection is lost."""
        self._end()
        await super().handle_disconnect(disconnect)

    def _end(self) -> None:
        self._is_over = True
        self._wake.set()

    def mqtt_publish(
        self, topic: str, data: bytes, qos: int | None, retain: bool, ack_timeout: int | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Take a message, at once and not only when this is awaited; nobody need wait for the acknowledgement."""
        message = _Message(topic, data, qos, retain, self._mark)
        if qos != QOS_0 or self._is_room(retain):
            self.session.retained_messages.put_nowait(message)
            self._wake.set()
        return _taken(message)

    def _is_room(self, retain: bool) -> bool:
        if self._is_over:
            return False
        waiting = self.session.retained_messages.qsize()
        if retain or waiting < WAITING_MAX:
            return True
        self._drops.tell("drops what is of QoS 0", self.session.client_id, f"{waiting} messages wait for it")
        return False

    # ---- sending ---------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        try:
            await self._send_old()
            await self._send_new()
        except Exception as error:  # of whatever kind: the connection is of no use; the client comes back by another
            if not self._is_over:
                self._drops.tell("ends a connection", self.session.client_id, f"{type(error).__name__}: {error}")
            await self.handle_connection_closed()

    async def _send_old(self) -> None:
        for packet_id in list(self.session.inflight_in):  # not let go of: asked again, for the first may be lost
            if packet_id in self.session.inflight_in and not self._is_over:
                await self._send_packet(PubrecPacket.build(packet_id))
                await self._give_way()
        for message in list(self.session.inflight_out.values()):
            if message.packet_id in self.session.inflight_out and not self._is_over:
                await self._send_again(message)
                await self._give_way()

    async def _send_new(self) -> None:
        kept = self.session.retained_messages
        while not self._is_over:
            self._wake.clear()
            while not (kept.empty() or self._is_full() or self._is_over):
                await self._send(kept.get_nowait())
                await self._give_way()
            await self._wake.wait()

    async def _give_way(self) -> None:
        """Let others have their turn: to write waits for nothing but a client that is slow."""
        self._sent += 1
        if self._sent % BURST == 0:
            await asyncio.sleep(0)

    def _is_full(self) -> bool:
        return len(self.session.inflight_in) + len(self.session.inflight_out) >= IN_FLIGHT_MAX

    async def _send(self, kept: Any) -> None:
        # What amqtt itself has kept it calls retained, which it is not.
        retain = kept.retain and not isinstance(kept, RetainedApplicationMessage)
        message = OutgoingApplicationMessage(None, kept.topic, kept.qos, kept.data, retain)
        if message.qos == QOS_0 and kept.mark is not self._mark:
            return  # of an earlier connection, to which alone it was promised
        if message.qos != QOS_0:
            message.packet_id = self.session.next_packet_id
        try:
            packet = _packet(message)
        except Exception as error:  # of whatever kind: it cannot be sent later either, and would end each connection
            self._drops.tell("drops what cannot be sent", self.session.client_id, f"{type(error).__name__}: {error}")
            return
        if message.qos != QOS_0:
            self.session.inflight_out[message.packet_id] = message
        await self._send_packet(packet)

    async def _send_again(self, message: Any) -> None:
        if message.pubrec_packet is None:
            await self._send_packet(message.build_publish_packet(dup=True))
        else:
            await self._send_packet(PubrelPacket.build(message.packet_id))

    # ---- acknowledgements ------------------------------------------------------------------------------------------

    async def handle_puback(self, puback: PubackPacket) -> None:
        """Be done with a message of QoS 1."""
        self._finish(puback.packet_id, QOS_1)

    async def handle_pubrec(self, pubrec: PubrecPacket) -> None:
        """Let go of a message of QoS 2; one that is not known is let go of too, or the client would wait for ever."""
        message = self.session.inflight_out.get(pubrec.packet_id)
        if message is not None and message.qos == QOS_2:
            message.pubrec_packet = pubrec
        await self._send_packet(PubrelPacket.build(pubrec.packet_id))

    async def handle_pubcomp(self, pubcomp: PubcompPacket) -> None:
        """Be done with a message of QoS 2."""
        self._finish(pubcomp.packet_id, QOS_2)

    def _finish(self, packet_id: int, qos: int) -> None:
        message = self.session.inflight_out.get(packet_id)
        if message is not None and message.qos == qos:
            del self.session.inflight_out[packet_id]
            self._wake.set()

    # ---- what the client sends -------------------------------------------------------------------------------------

    async def handle_publish(self, publish_packet: PublishPacket) -> None:
        """Take what the client sends; of a QoS that there is not, end the connection (MQTT 3.1.1, 3.3.1.2)."""
        if publish_packet.qos in QOS:
            await super().handle_publish(publish_packet)
        else:
            self._drops.tell("ends a connection", self.session.client_id, f"there is no QoS {publish_packet.qos}")
            await self.handle_connection_closed()

    async def _handle_qos2_message_flow(self, message: Any) -> None:
        """Hold a message until the client lets go of it; amqtt has a task wait for that, and may not see it."""
        self.session.inflight_in[message.packet_id] = message
        await self._send_packet(PubrecPacket.build(message.packet_id))

    async def handle_pubrel(self, pubrel: PubrelPacket) -> None:
        """Take a message; one that is not known is taken already, and the client waits to hear that again."""
        message = self.session.inflight_in.pop(pubrel.packet_id, None)
        if message is not None:
            self.session.delivered_message_queue.put_nowait(message)
            self._wake.set()
        await self._send_packet(PubcompPacket.build(pubrel.packet_id))

    async def _retry_deliveries(self) -> None:
        """Wait for nothing before all else: what is to be sent again is, when this is opened."""


async def stop_all(senders: Iterable[Any]) -> None:
    """Stop them all at once, for each may take its time."""
    await asyncio.gather(*(sender.stop() for sender in senders), return_exceptions=True)


def lost() -> asyncio.Future[None]:
    """Return what tells amqtt that a connection has ended without a word."""
    end: asyncio.Future[None] = asyncio.Future()
    end.set_result(None)
    return end


class _Message(OutgoingApplicationMessage):  # type: ignore[misc]  # as above
    """A message that waits, and the connection for which it came."""

    __slots__ = ("mark",)

    def __init__(self, topic: str, data: bytes, qos: int | None, retain: bool, mark: object) -> None:
        super().__init__(None, topic, qos, data, retain)
        self.mark = mark


def _packet(message: Any) -> PublishPacket:
    """Return what is to be sent; raises, amqtt in many ways, if it cannot be encoded."""
    if message.qos not in QOS:
        raise ValueError(f"there is no QoS {message.qos}")
    packet = message.build_publish_packet()
    size = len(packet.variable_header.to_bytes()) + len(message.data)
    if size > BODY_BYTES_MAX:
        raise ValueError(f"{size} bytes are too long")
    return packet


async def _taken(message: Any) -> Any:
    return message

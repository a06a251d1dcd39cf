"""How the embedded broker sends to one client: in order, and again what the client has not acknowledged.

amqtt waits five seconds for each acknowledgement, or until the connection ends, and then forgets what it has sent. Here
everything passes through the queue of the session, in which amqtt keeps what comes for a client that is away. One task
for each connection takes it from there. What it has sent with QoS 1 or 2 stays in flight until it is acknowledged,
however long that takes, and begins the next connection of the session: by its packet id, marked as a repeat.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from amqtt.broker import RetainedApplicationMessage
from amqtt.mqtt.constants import QOS_0, QOS_1, QOS_2
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.pubrec import PubrecPacket
from amqtt.mqtt.pubrel import PubrelPacket
from amqtt.session import OutgoingApplicationMessage

IN_FLIGHT_MAX = 65_535
"""How much may be unacknowledged in one session, both ways together: there are no more packet ids.

What comes then waits in the session's queue, as it does for a client that is away; amqtt does not bound that.
"""


class Sender(BrokerProtocolHandler):  # type: ignore[misc]  # amqtt has no types that we could check against
    """One connection of a client; until it is opened it keeps in the session's queue what comes."""

    def __init__(self, plugins_manager: Any) -> None:
        super().__init__(plugins_manager)
        self._sending: asyncio.Task[None] | None = None
        self._has_stopped = False
        self._wake = asyncio.Event()
        self._repeats: list[asyncio.Task[None]] = []

    @property
    def is_open(self) -> bool:
        """Whether it has begun to send, and not stopped."""
        return self._sending is not None and not self._has_stopped

    def open(self) -> None:
        """Begin to send: first what was in flight, then what was kept, then what comes."""
        if self._sending is None and not self._has_stopped:
            self._sending = asyncio.create_task(self._send_all())

    async def stop(self) -> None:
        """End the connection; what is in flight or kept stays with the session."""
        self._has_stopped = True
        tasks = [*self._repeats, *([] if self._sending is None else [self._sending])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().stop()

    def mqtt_publish(
        self, topic: str, data: bytes, qos: int | None, retain: bool, ack_timeout: int | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Take a message, at once and not only when this is awaited; nobody need wait for the acknowledgement."""
        if qos == QOS_0 and self.is_open and self._is_full():
            sending: Coroutine[Any, Any, Any] = super().mqtt_publish(topic, data, qos, retain)
            return sending
        message = OutgoingApplicationMessage(None, topic, qos, data, retain)
        if qos != QOS_0 or not self._has_stopped:
            self.session.retained_messages.put_nowait(message)
            self._wake.set()
        return _taken(message)

    async def _retry_deliveries(self) -> None:
        """Ask again for the rest of what the client has sent with QoS 2; amqtt waits for it before all else."""
        messages = list(self.session.inflight_in.values())
        self._repeats = [asyncio.create_task(self._handle_message_flow(message)) for message in messages]

    # ---- sending ---------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        try:
            await self._send_old()
            await self._send_new()
        except Exception:  # of whatever kind: the connection is of no use, and the client comes back by another
            await self.handle_connection_closed()

    async def _send_old(self) -> None:
        for message in list(self.session.inflight_out.values()):
            if message.packet_id in self.session.inflight_out:
                await self._send_again(message)

    async def _send_new(self) -> None:
        kept = self.session.retained_messages
        while True:
            self._wake.clear()
            while not kept.empty() and not self._is_full():
                await self._send(kept.get_nowait())
            await self._wake.wait()

    def _is_full(self) -> bool:
        return len(self.session.inflight_in) + len(self.session.inflight_out) >= IN_FLIGHT_MAX

    async def _send(self, kept: Any) -> None:
        # What amqtt itself has kept it calls retained, which it is not.
        retain = kept.retain and not isinstance(kept, RetainedApplicationMessage)
        message = OutgoingApplicationMessage(None, kept.topic, kept.qos, kept.data, retain)
        if message.qos != QOS_0:
            message.packet_id = self.session.next_packet_id
            self.session.inflight_out[message.packet_id] = message
        await self._send_packet(message.build_publish_packet())

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


async def _taken(message: Any) -> Any:
    return message

"""The client for programs with asyncio: `async with` connects, `async for` receives, and the rest is awaited.

    async with Client("127.0.0.1", federation=True) as client:
        await client.subscribe("stocks/#", qos=1, where="volume > 300000")
        async for message in client:
            print(message.topic, message.payload)

paho's client runs in a thread of its own behind it, goes back to a broker that was lost, and hands over what comes. A
message of QoS 1 is acknowledged when the next one is asked for, or the connection is closed without an error: should
the body of the loop raise, or the program die in it, the broker has it still.

Brokers send only so many messages without an acknowledgement, and an answer of the gateway may wait behind them. So
`subscribe` and `unsubscribe` do not wait for it for longer than HELD_S while messages wait to be taken.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties

from mqloom.client.application import Stats
from mqloom.client.client import Client as PahoShapedClient
from mqloom.client.federation import Federation
from mqloom.client.limits import ACKNOWLEDGE_S, BACKLOG_MAX, CONNECT_S, HELD_S, RECONNECT_S_MAX
from mqloom.client.wanted import REFUSED
from mqloom.core.errors import BrokerError
from mqloom.core.records import Wish

Payload = str | bytes | bytearray | int | float | None
Sent = TypeVar("Sent")

EXCHANGED_S: Final = 0.005
"""How often it is looked whether one connection has been exchanged for another: it takes some milliseconds, or seconds
with a broker that does not answer."""


class Client:
    """A connection to one broker, gone back to when it is lost; a context manager, and an iterator over messages.

    `federation` is as for the other client. Entering raises BrokerError if the broker cannot be reached or refuses us;
    whatever ends it, cancelling too, no connection is left. One task at a time may iterate. Of messages of QoS 0 at
    most BACKLOG_MAX wait for it: more are dropped, and counted in `dropped`; those of QoS 1 the broker holds back by
    itself.
    """

    def __init__(  # noqa: PLR0913 - all but the address by name
        self,
        host: str = "127.0.0.1",
        port: int = 1883,
        *,
        client_id: str = "",
        clean_session: bool | None = None,
        protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv311,
        username: str = "",
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        keepalive_s: int = 60,
        connect_properties: Properties | None = None,
        federation: bool | Federation | None = None,
    ) -> None:
        self.dropped = 0
        self.on_migrated: Callable[[str, str], None] | None = None
        """Called, in the program's loop, with the names of the brokers that we came from and are at."""
        self._address = (host, port)
        self._keepalive_s = keepalive_s
        self._connect_properties = connect_properties
        self._client = PahoShapedClient(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session,
            protocol=protocol,
            manual_ack=True,
            federation=federation,
        )
        self._client.reconnect_delay_set(1, RECONNECT_S_MAX)
        if username:
            self._client.username_pw_set(username, password)
        if tls is not None:
            self._client.tls_set_context(tls)
        self._sending = asyncio.Lock()
        self._messages: deque[MQTTMessage] = deque()
        self._news = asyncio.Event()
        self._in_hand: MQTTMessage | None = None
        self._is_closed = False
        self._leaving: asyncio.Task[None] | None = None  # while it goes on, somebody must know of it
        self._again: asyncio.Task[None] | None = None
        self._calls: dict[tuple[str, int], asyncio.Future[list[int]]] = {}
        self._problems: dict[Wish, str] = {}
        self._local: dict[str, int] = {}

    # ---- the connection ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._accepted: asyncio.Future[str] = self._loop.create_future()
        self._is_closed = False
        self._listen()
        connecting = self._loop.run_in_executor(None, self._connect)
        try:
            await self._reach(connecting)
        except BaseException:  # cancelled, too: nobody calls __aexit__ then
            self._leaving = self._loop.create_task(self._give_up(connecting))
            await asyncio.shield(self._leaving)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._acknowledge()
        await self._leave()

    def _connect(self) -> None:
        self._client.connect(*self._address, self._keepalive_s, properties=self._connect_properties)

    async def _reach(self, connecting: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(connecting)
        except (OSError, ValueError) as error:
            raise BrokerError(self.address, f"cannot be reached ({error})") from error
        self._client.loop_start()
        try:
            problem = await asyncio.wait_for(self._accepted, CONNECT_S)
        except TimeoutError:
            problem = f"accepts connections, but says no MQTT within {CONNECT_S:g} s"
        if problem:
            raise BrokerError(self.address, problem)

    async def _give_up(self, connecting: asyncio.Future[None]) -> None:
        """Leave, but not before the thread that connects is done: what it opens then would be nobody's."""
        await asyncio.wait([connecting])
        await self._leave()

    async def _leave(self) -> None:
        self._is_closed = True
        self._news.set()
        try:
            await asyncio.shield(self._loop.run_in_executor(None, self._hang_up))
        finally:
            for call in self._calls.values():
                call.cancel()

    def _hang_up(self) -> None:
        self._client.disconnect()  # in a move this waits
        self._client.loop_stop()

    @property
    def address(self) -> str:
        """The broker's address, for people."""
        return f"{self._address[0]}:{self._address[1]}"

    @property
    def broker(self) -> str | None:
        """The name, in the federation, of the broker that serves us; None before its gateway was found."""
        return self._client.broker

    def stats(self) -> Stats:
        """Return how much has come from the federation; raises LocalError without one."""
        return self._client.stats()

    # ---- calls ---------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, qos: int = 1, *, where: str = "", local: bool = False) -> None:
        """Subscribe, and return when that counts: in a federation when it is established there.

        Raises FilterError or TopicError for a mistake, BrokerError if it is refused or the connection is lost. While
        messages wait to be taken it returns without an answer after HELD_S; a refusal is then in the log only.
        """
        result, mid = await self._send(lambda: self._client.subscribe(topic, qos, where=where, local=local))
        codes = await self._answer("subscribe", result, mid)
        if codes and codes[0] >= REFUSED:
            problem = self._problems.pop(Wish(topics=topic, where=where), "refused")
            raise BrokerError(self.address, f"subscription to {topic!r}: {problem}")
        if local or self._client.broker is None:
            self._local[topic] = qos

    async def unsubscribe(self, topic: str, *, where: str | None = None) -> None:
        """Unsubscribe, and return when nothing more will come; raises BrokerError if the connection is lost."""
        self._local.pop(topic, None)
        result, mid = await self._send(lambda: self._client.unsubscribe(topic, where=where))
        await self._answer("unsubscribe", result, mid)

    async def publish(
        self,
        topic: str,
        payload: Payload = None,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> None:
        """Publish, and return when the broker has acknowledged it; raises BrokerError if it does not in ACKNOWLEDGE_S.

        What was not acknowledged for a lost connection is sent again when that is back, even after the error. Calls
        send in the order in which they were made.
        """
        info = await self._send(lambda: self._client.publish(topic, payload, qos, retain, properties))
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            raise BrokerError(self.address, f"publication on {topic!r}: {info.rc.name}")
        if not qos:
            return  # else, without a connection too, it is sent or waits to be
        call = self._calls["publish", info.mid] = self._loop.create_future()
        try:
            await asyncio.wait_for(call, ACKNOWLEDGE_S)
        except TimeoutError:
            problem = f"publication on {topic!r}: not acknowledged within {ACKNOWLEDGE_S:g} s"
            raise BrokerError(self.address, problem) from None
        finally:
            self._calls.pop(("publish", info.mid), None)

    async def _send(self, call: Callable[[], Sent]) -> Sent:
        """Make a call that sends; what was called before goes before. The program's loop waits for no exchange."""
        async with self._sending:
            while not self._client.begin_sending():
                await asyncio.sleep(EXCHANGED_S)
            try:
                return call()
            finally:
                self._client.end_sending()

    async def _answer(self, kind: str, result: MQTTErrorCode, mid: int | None) -> list[int]:
        """Wait for the answer to a call; return its codes, or none if messages that wait are in its way."""
        if mid is None or result != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise BrokerError(self.address, f"{kind}: not connected, and connecting again; try later")
        call = self._calls[kind, mid] = self._loop.create_future()
        try:
            while not call.done():
                await asyncio.wait([call], timeout=HELD_S)
                if not call.done() and (self._messages or self._in_hand is not None):
                    return []
            codes: list[int] = call.result()
            return codes
        finally:
            self._calls.pop((kind, mid), None)

    # ---- messages ------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[MQTTMessage]:
        return self

    async def __anext__(self) -> MQTTMessage:
        self._acknowledge()
        while not self._messages:
            if self._is_closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        self._in_hand = self._messages.popleft()
        return self._in_hand

    def _acknowledge(self) -> None:
        message, self._in_hand = self._in_hand, None
        if message is not None and message.qos:
            self._client.ack(message.mid, message.qos)

    # ---- what paho's thread calls, and what that becomes in the program's loop -----------------------------------

    def _listen(self) -> None:
        client = self._client
        client.on_connect = self._later(self._on_connect)
        client.on_disconnect = self._later(self._on_disconnect)
        client.on_message = self._later(self._on_message)
        client.on_subscribe = self._later(
            lambda _c, _u, mid, codes, _p: self._settle("subscribe", mid, [code.value for code in codes])
        )
        client.on_unsubscribe = self._later(lambda _c, _u, mid, _r, _p: self._settle("unsubscribe", mid, []))
        client.on_publish = self._later(lambda _c, _u, mid, _r, _p: self._settle("publish", mid, []))
        client.on_migrated = self._later(self._on_migrated)
        client.on_refused = self._later(lambda _c, _u, wish, problem: self._problems.update({wish: problem}))

    def _later(self, handle: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(handle, *arguments)

        return call

    def _on_connect(self, _client: object, _data: object, flags: Any, reason: Any, _properties: object) -> None:
        if not self._accepted.done():
            self._accepted.set_result(f"refuses us: {reason}" if reason.is_failure else "")
        elif not reason.is_failure and not flags.session_present:
            self._again = self._loop.create_task(self._subscribe_again())

    async def _subscribe_again(self) -> None:
        for topic, qos in list(self._local.items()):
            await self._send(partial(self._client.subscribe, topic, qos, local=True))

    def _on_disconnect(self, _client: object, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        if not self._accepted.done():
            self._accepted.set_result(f"hangs up instead of answering ({reason})")

    def _on_migrated(self, _client: object, _data: object, source: str, to: str) -> None:
        if self.on_migrated is not None:
            self.on_migrated(source, to)

    def _on_message(self, _client: object, _data: object, message: MQTTMessage) -> None:
        if message.qos == 0 and len(self._messages) >= BACKLOG_MAX:
            self.dropped += 1
            return
        self._messages.append(message)
        self._news.set()

    def _settle(self, kind: str, mid: int, codes: list[int]) -> None:
        call = self._calls.get((kind, mid))
        if call is not None and not call.done():
            call.set_result(codes)

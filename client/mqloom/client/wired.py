"""A paho client with ears: it tells a listener what MQLoom's own topics bring, and keeps that traffic from callbacks.

Without a listener it is paho's client and nothing else. With one, everything happens in the thread that runs paho's
loop, be it by `loop_start`, `loop_forever`, `loop`, or a program's own with `loop_read`, `loop_write` and `loop_misc`:

    the broker accepted the connection     `connected`, before on_connect is called
    the broker does not take us            `turned_away`
    the connection is gone                 `lost`; and if the broker has named another, `referred`
    a message on one of MQLoom's topics    `received`; paho acknowledges it then, if that says so
    anything, or nothing for a second      `turn`: whatever is due is done; and between two packets `settle`

What MQLoom sends goes through `order`: effects leave in their order, and behind a Subscribe only when the broker has
confirmed it. Packet ids of these are ours: no callback of the application hears of them.

Of paho's client this uses what is not in its documentation: the handlers of packets, `_sock_close`, `_loop`, and the
pair of sockets by which its loop is woken. paho's own tests, run with this class, say whether they are what they were.
"""

import contextlib
import ssl
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from paho.mqtt import MQTTException
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import MQTTMessage, MQTTMessageInfo, PayloadType
from paho.mqtt.enums import MessageState, MQTTErrorCode, MQTTProtocolVersion, _ConnectionState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client.gate import Gate
from mqloom.client.goodbye import say_goodbye, write_out
from mqloom.client.legs import TURNED_AWAY
from mqloom.client.listener import Listener
from mqloom.client.vocabulary import Publish, Subscribe
from mqloom.core.layout import ROOT
from mqloom.core.references import REFERRING

OURS: Final = f"{ROOT}/"
"""What all of MQLoom's topics begin with."""

LOOK_AGAIN_S: Final = 0.02
"""How often other connections are seen to while this one is away."""

_LEAVING: Final = (_ConnectionState.MQTT_CS_DISCONNECTING, _ConnectionState.MQTT_CS_DISCONNECTED)

_RELEASED: Final = (MessageState.MQTT_MS_WAIT_FOR_PUBCOMP, MessageState.MQTT_MS_RESEND_PUBREL)

_UNSENT: Final = (MessageState.MQTT_MS_QUEUED, MessageState.MQTT_MS_PUBLISH)

HOLD: Final = -sys.maxsize
"""So many publications may be in flight while they are held: each waits in paho's queue. paho's own count can be below
none: its version 2.1 takes one off for each message of QoS 2 that has come."""

FAILURE: Final = 0x80
"""Codes of a SUBACK from here on say no."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


class Wired(PahoClient):
    """paho's client, with a listener or without."""

    _listener: Listener | None = None

    def wire(self, listener: Listener | None) -> None:
        """Take a listener, once, before anything is connected."""
        self._listener = listener
        self._orders: deque[Subscribe | Publish] = deque()
        self._orders_lock = threading.RLock()
        self._awaited: tuple[int, str] | None = None  # the packet id, and the topic, that the broker is to confirm
        self._barred = False
        self._our_publishes: dict[int, Publish] = {}  # not acknowledged, by packet id
        self._our_subscribes: set[int] = set()
        self._our_unsubscribes: set[int] = set()
        self._not_taken = 0  # the packet id of a message that the broker is to send again
        self._is_quiet = False  # the application has not heard that there is no connection, nor is to of the next
        self._is_hurried = False  # there is another broker to try
        self._gate = Gate()  # nobody sends while one connection is exchanged for another
        self._led_to: Address | None = None  # where we were moved; what the application has set stays as it is
        self._own_clean_session: bool | None = None  # what the application has set, if a move needs another
        self._held_max: int | None = None  # what `max_inflight_messages` was before publications were held

    # ---- what MQLoom sends ---------------------------------------------------------------------------------------

    def order(self, effect: Subscribe | Publish) -> None:
        """Send something behind all that was ordered before; what a lost connection takes with it is not sent again."""
        with self._orders_lock:
            self._orders.append(effect)
            self._pump()

    @property
    def has_unacknowledged(self) -> bool:
        """Whether something of ours waits for its acknowledgement, or to be sent."""
        return bool(self._orders or self._our_publishes)

    def last_words(self) -> list[Publish]:
        """Return what the broker was to be told, and has not acknowledged."""
        with self._orders_lock, self._out_message_mutex:
            unsent = [each for each in self._orders if isinstance(each, Publish) and each.qos]
            return [*self._our_publishes.values(), *unsent]

    def forget_orders(self) -> None:
        """Leave out what was not sent yet: the connection is gone, or about to be."""
        with self._orders_lock:
            self._orders.clear()
            self._awaited = None
            self._barred = False

    def _pump(self) -> None:
        with self._orders_lock:
            while self._orders and self._awaited is None and self.is_connected():
                if not self._send(self._orders[0]):
                    return
                self._orders.popleft()

    def _send(self, effect: Subscribe | Publish) -> bool:
        """Send one; return whether it could be. paho's queues may be full, and then it is tried again."""
        if isinstance(effect, Subscribe):
            result, mid = super().subscribe(effect.topic, effect.qos)
            if result == MQTTErrorCode.MQTT_ERR_SUCCESS and mid is not None:
                self._awaited = mid, effect.topic
            return self._awaited is not None
        return self._barred or self.publish_ours(effect)

    def publish_ours(self, effect: Publish) -> bool:
        """Publish now; return whether it could be."""
        info = super().publish(effect.topic, effect.payload, effect.qos, effect.retain)
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            return False
        if effect.qos:
            self._our_publishes[info.mid] = effect
        return True

    def unsubscribe_unheard(self, topics: list[str], properties: Properties | None) -> None:
        """Unsubscribe at the one broker, whose answer is not for the application: its call has another packet id."""
        with self._orders_lock:  # else the answer may be there before it is known for what it is
            _, mid = super().unsubscribe(topics, properties)
            self._our_unsubscribes |= set() if mid is None else {mid}

    # ---- what paho's loop calls ----------------------------------------------------------------------------------

    def _handle_connack(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if self._listener is not None and len(packet) >= 2 and packet[1] == 0:
            self._listener.connected(resumed=bool(packet[0] & 1))
        if self._listener is not None and len(packet) >= 2 and packet[1] in TURNED_AWAY:
            self._listener.turned_away(TURNED_AWAY[packet[1]])
        reference = self._reference_in(PacketTypes.CONNACK, packet[1:])
        result = self._without_callback("_on_connect", super()._handle_connack, self._is_quiet)
        self._is_quiet = False
        self._refer(reference)
        if result == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self.release()
        self._turn()
        return result

    def _handle_disconnect(self) -> None:
        reference = self._reference_in(PacketTypes.DISCONNECT, self._in_packet["packet"])
        super()._handle_disconnect()
        if self._listener is not None and self._state == _ConnectionState.MQTT_CS_CONNECTED:
            self._state = _ConnectionState.MQTT_CS_CONNECTION_LOST  # paho notes it in the next turn of its loop
        self._refer(reference)

    def _reference_in(self, kind: int, packet: bytes | bytearray) -> str:
        """Return where a packet of MQTT 5 sends us: behind its reason code are its properties."""
        is_new = self._listener is not None and self._protocol == MQTTProtocolVersion.MQTTv5
        if not is_new or len(packet) < 2 or packet[0] not in REFERRING:
            return ""
        properties = Properties(kind)  # type: ignore[no-untyped-call] # paho has no types there
        with contextlib.suppress(MQTTException, IndexError, UnicodeError):  # paho says what is wrong with it
            properties.unpack(bytes(packet[1:]))  # type: ignore[no-untyped-call]
        return str(getattr(properties, "ServerReference", ""))

    def _refer(self, reference: str) -> None:
        if reference and self._listener is not None:
            self._listener.referred(reference)

    def _sock_close(self) -> None:
        was_open = self._sock is not None
        super()._sock_close()
        if was_open and self._listener is not None:
            self._our_unsubscribes.clear()  # nobody answers them any more
            self._listener.lost()

    def _do_on_disconnect(self, *arguments: Any, **named: Any) -> None:
        self._is_quiet = False  # the application hears of this, and so of the next connection, too
        super()._do_on_disconnect(*arguments, **named)

    def _handle_suback(self) -> None:
        packet = self._in_packet["packet"]
        if _mid_of(packet) in self._our_subscribes:
            self._our_subscribes.discard(_mid_of(packet))
            return
        with self._orders_lock if self._listener is not None else contextlib.nullcontext():
            if self._listener is None or self._awaited is None or self._awaited[0] != _mid_of(packet):
                topic = None
            else:
                topic, self._awaited = self._awaited[1], None
                self._barred = self._barred or packet[-1] >= FAILURE
        if self._listener is None or topic is None:
            super()._handle_suback()
            return
        if packet[-1] >= FAILURE:
            self._listener.barred(topic)
        self._turn()

    def _handle_unsuback(self) -> MQTTErrorCode:
        if self._listener is not None:
            mid = _mid_of(self._in_packet["packet"])
            with self._orders_lock:
                is_ours = mid in self._our_unsubscribes
                self._our_unsubscribes.discard(mid)
            if is_ours:
                return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._handle_unsuback()

    def _handle_on_message(self, message: MQTTMessage) -> None:
        if self._listener is not None and message._topic.startswith(OURS.encode()):
            is_taken = self._listener.received(message)
            self._not_taken = 0 if is_taken or self._manual_ack else message.mid
        else:
            super()._handle_on_message(message)

    def _send_puback(self, mid: int) -> MQTTErrorCode:
        if mid and mid == self._not_taken:
            self._not_taken = 0
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._send_puback(mid)

    def _do_on_publish(self, mid: int, *arguments: Any) -> MQTTErrorCode:
        if self._listener is None or mid not in self._our_publishes:
            return super()._do_on_publish(mid, *arguments)
        self._our_publishes.pop(mid, None)
        handle = super()._do_on_publish
        return self._without_callback("_on_publish", lambda: handle(mid, *arguments), True)

    def _without_callback(self, name: str, handle: Callable[[], MQTTErrorCode], is_quiet: bool) -> MQTTErrorCode:
        """Let paho handle a packet of which the application is not to hear."""
        if not is_quiet:
            return handle()
        # Nobody sets it meanwhile. The first lock is one that paho takes inside: who publishes has it before the other.
        with self._out_message_mutex, self._callback_mutex:
            callback = getattr(self, name)
            setattr(self, name, None)
            try:
                return handle()
            finally:
                setattr(self, name, callback)

    def _loop(self, timeout: float = 1.0) -> MQTTErrorCode:
        if self._listener is None:
            return super()._loop(timeout)
        self._turn()
        self._listener.settle()
        return super()._loop(self._listener.patience(timeout))

    def loop_misc(self) -> MQTTErrorCode:
        """Do as paho does, and whatever else is due."""
        self._turn()
        if self._listener is not None:
            self._listener.settle()
        return super().loop_misc()

    def _reconnect_wait(self) -> None:
        """Wait as paho does before the next try; but if other connections go on meanwhile, see to them."""
        if self._listener is None:
            super()._reconnect_wait()
            return
        with self._reconnect_delay_mutex:
            delay = self._reconnect_delay
            self._reconnect_delay = (
                self._reconnect_min_delay if delay is None else min(2 * delay, self._reconnect_max_delay)
            )
            until = time.monotonic() + self._reconnect_delay
        self._is_hurried = False
        while self._state not in _LEAVING and not self._thread_terminate and not self._is_hurried:
            remaining = until - time.monotonic()
            if remaining <= 0:
                return
            self._listener.turn()
            self._listener.settle()
            time.sleep(min(remaining, LOOK_AGAIN_S))

    def loop_write(self) -> MQTTErrorCode:
        """Do as paho does. A loop of the program's own is woken by this when somebody has subscribed."""
        if self._on_socket_register_write is not None:  # else it may be the thread that publishes
            self._turn()
        return super().loop_write()

    def _turn(self) -> None:
        if self._listener is not None:
            self._listener.turn()
            self._pump()

    def wake(self, *, from_background: bool = False) -> None:
        """Let the loop take a turn soon; any thread may call this.

        A loop of the program's own is told so by its callback, but not from a thread of which it cannot know.
        """
        if self._sockpairW is not None:
            with contextlib.suppress(OSError):  # full, so that it will wake anyway; or closed
                self._sockpairW.send(b"0")
        if not from_background:
            self._call_socket_register_write()

    def go_to(self, address: Address) -> bool:
        """Leave the broker, and connect to another, with a session that it has kept; only between two packets.

        Returns whether that was done: an application that disconnects in a callback of this goes nowhere any more.
        """
        with self._gate.closed():
            return self._go_to(address)

    def _go_to(self, address: Address) -> bool:
        was_open = self._sock is not None
        is_whole = write_out(self)
        is_quiet = self._is_quiet or (self._sock is not None and self.is_connected())  # it has heard of no end
        if self._sock is not None:  # else it is lost, or that was the DISCONNECT of one that did not wait for the gate
            if is_whole:
                say_goodbye(self._sock)
            self._sock_close()
        if self._state in _LEAVING:
            return False
        self._forget_ours()
        self._host, self._port = address.host, address.port
        self._led_to = address
        if self._protocol == MQTTProtocolVersion.MQTTv5:
            self._clean_start = False  # and how long it is kept from now on is as the application wants it
        else:
            if self._own_clean_session is None:
                self._own_clean_session = self._clean_session
            self._clean_session = False
        self._is_quiet, self._is_hurried = is_quiet, True
        if was_open:
            with contextlib.suppress(OSError):  # then the loop tries again
                self.reconnect()
        return True

    def publish(
        self,
        topic: str,
        payload: PayloadType = None,
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> MQTTMessageInfo:
        """Publish as paho does; while the connection is exchanged for one to another broker, wait for that."""
        if self._listener is None:
            return super().publish(topic, payload, qos, retain, properties)
        with self._gate.passing():
            return super().publish(topic, payload, qos, retain, properties)

    def begin_sending(self) -> bool:
        """Return whether no connection is being exchanged: none is then until `end_sending`, which this thread owes."""
        return self._gate.enter()

    def end_sending(self) -> None:
        """Let connections be exchanged again."""
        self._gate.leave()

    def hold(self) -> None:
        """Let what is published from now on at QoS 1 and 2 wait in paho's queue, until another broker has accepted us.

        What is held in that queue is sent in its order; below none in flight nothing is ever sent.
        """
        with self._out_message_mutex:
            if self._held_max is None:
                self._held_max, self._max_inflight_messages = self._max_inflight_messages, HOLD

    def release(self) -> None:
        """Send what was held."""
        with self._out_message_mutex:
            if self._held_max is not None:
                bound, self._held_max = self._held_max, None
                self._max_inflight_messages = bound or sys.maxsize  # 0 is no bound, but not to what is called here
                with self._in_callback_mutex:  # then it is written by the loop, as paho does it behind a CONNACK
                    self._update_inflight()
                self._max_inflight_messages = bound

    @property
    def is_handed_over(self) -> bool:
        """Whether all that was published and is not held is acknowledged."""
        with self._out_message_mutex:
            return all(each.state in _UNSENT for each in self._out_messages.values())

    def _forget_ours(self) -> None:
        """What MQLoom has published and was not acknowledged is for one broker: paho must not send it to another.

        Of the application's, what is of QoS 2 begins anew: the other broker knows nothing of the first half.
        """
        self.forget_orders()
        with self._out_message_mutex:
            for mid in self._our_publishes:
                self._out_messages.pop(mid, None)
            self._our_publishes.clear()
            for message in self._out_messages.values():
                if message.state in _RELEASED:
                    message.state = MessageState.MQTT_MS_WAIT_FOR_PUBREC

    def take_half(self) -> "OrderedDict[int, MQTTMessage]":
        """Return what has come at QoS 2 and is not released yet: that is for the session's next connection."""
        with self._in_message_mutex:
            half, self._in_messages = self._in_messages, OrderedDict()
        return half

    def give_half(self, half: "OrderedDict[int, MQTTMessage]") -> None:
        """Have what an earlier connection of the session has got by half."""
        with self._in_message_mutex:
            self._in_messages.update(half)

    # ---- packets that never came ---------------------------------------------------------------------------------

    def pretend_suback(self, mid: int, codes: list[int]) -> None:
        """Call on_subscribe as paho does for such a packet, in whichever shape this application wants it."""
        self._pretend(_acknowledgement(0x90, mid, codes, self._protocol), super()._handle_suback)

    def pretend_unsuback(self, mid: int, count: int) -> None:
        """Call on_unsubscribe as paho does for such a packet."""
        codes = [0] * count if self._protocol == MQTTProtocolVersion.MQTTv5 else []
        self._pretend(_acknowledgement(0xB0, mid, codes, self._protocol), super()._handle_unsuback)

    def _pretend(self, packet: Any, handle: Callable[[], object]) -> None:
        came, self._in_packet = self._in_packet, packet
        try:
            handle()
        finally:
            self._in_packet = came


def _mid_of(packet: bytes | bytearray) -> int:
    return int.from_bytes(packet[:2], "big")


def _acknowledgement(command: int, mid: int, codes: list[int], protocol: MQTTProtocolVersion) -> dict[str, Any]:
    """Return a packet as paho has it when it was read."""
    no_properties = b"\0" if protocol == MQTTProtocolVersion.MQTTv5 else b""
    packet = bytearray(mid.to_bytes(2, "big") + no_properties + bytes(codes))
    return {
        "command": command,
        "have_remaining": 1,
        "remaining_count": [],
        "remaining_mult": 1,
        "remaining_length": len(packet),
        "packet": packet,
        "to_process": 0,
        "pos": len(packet),
    }

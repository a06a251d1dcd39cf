"""Sessions of ours that brokers are to forget, each ended by connecting once without one, in a thread of its own.

As long as the application has not taken, or acknowledged, all that has come by it, a session is kept: a program that
dies gets it from there in its next life. A broker can be gone just then: it is tried again, for a while. But should we
be sent back to it meanwhile, the old session must not be ended over the head of the new one: `Farewells.is_busy` stops
the trying, and says when it is over. So there is one `Farewells` for all lives of a client. A broker is known by its
gateway, too: the program may call its host otherwise than the roster does.

A program that ends waits until what it leaves is left, for a bounded time; not for what it holds, which stays there.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client.limits import ACKNOWLEDGE_S, CONNECT_S, FORGET_S, LEAVE_S, LINGER_S, TRY_AGAIN_S
from mqloom.client.vocabulary import Publish
from mqloom.client.wired import Address
from mqloom.core.ids import GatewayId

logger: Final = logging.getLogger("mqloom.client")

THREAD_NAME: Final = "mqloom-leave"
"""Of the threads that leave brokers."""

HOLDING_NAME: Final = "mqloom-hold"
"""Of those that do not yet: the application has not taken all. A program that ends does not wait for them."""

HELD_AGAIN_S: Final = 0.02
"""How often it is looked whether the application has taken all."""

LOOK_AGAIN_S: Final = 0.005
"""How often it is looked whether a connection is gone, or a broker left."""


OF_ONE_CONNECTION: Final = ("SessionExpiryInterval", "TopicAliasMaximum")
"""What another connection does not take over of that with which the application connects: it has a session of its own,
and reads topics, not aliases of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """As whom a client connects, to whichever broker."""

    client_id: str
    protocol: MQTTProtocolVersion
    username: str | None
    password: bytes | None
    keepalive_s: int
    session_s: int
    """How long a connection in the background is to be kept for us when it is lost, where the broker can be told (MQTT
    5)."""
    proxy: Any = None
    bind_address: str = ""
    properties: Properties | None = None
    """With what the application connects (MQTT 5)."""

    def introduce(self, client: PahoClient, address: Address) -> None:
        """Let a client connect as the application does: with its account, by its proxy, with TLS where that is."""
        if self.username is not None:
            client.username_pw_set(self.username)
            client._password = self.password
        if self.proxy:
            client._proxy = self.proxy
        if address.tls is not None:
            client.tls_set_context(address.tls)

    def properties_for(self, session_s: int) -> Properties | None:
        """Return with what a connection begins whose session is kept for so long; before MQTT 5 there is nothing."""
        if self.protocol != MQTTProtocolVersion.MQTTv5:
            return None
        nothing = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho has no types there
        said = copy(self.properties or nothing)
        for name in OF_ONE_CONNECTION:
            vars(said).pop(name, None)
        if session_s:
            said.SessionExpiryInterval = session_s
        return said


class Parting(NamedTuple):
    """How a broker is left: what it still holds for us, what disconnects us, and who is told that it has forgotten us.

    What disconnects us returns what the broker was to be told, and has not acknowledged: our last words. If nobody is
    told, it is not to forget us.
    """

    is_held: Callable[[], bool]
    end: Callable[[], Sequence[Publish]]
    forgotten: Callable[[], None] | None


class _Farewell(NamedTuple):
    place: tuple[str, int]
    gateway: GatewayId | None
    thread: threading.Thread
    is_called_off: threading.Event

    def is_at(self, address: Address, gateway: GatewayId | None) -> bool:
        """Whether this is the broker that is left."""
        return self.place == (address.host, address.port) or (gateway is not None and self.gateway == gateway)


class Farewells:
    """What one client is leaving."""

    def __init__(self) -> None:
        self._under_way: list[_Farewell] = []
        self._lock = threading.Lock()

    def begin(self, address: Address, identity: Identity, parting: Parting, gateway: GatewayId | None = None) -> None:
        """Leave a broker when nothing is held any more, or LINGER_S are over; then it forgets our session, if so."""
        is_called_off = threading.Event()

        def leave() -> None:
            deadline = time.monotonic() + LINGER_S
            while parting.is_held() and time.monotonic() < deadline and not is_called_off.is_set():
                thread.name = HOLDING_NAME
                is_called_off.wait(HELD_AGAIN_S)
            thread.name = THREAD_NAME
            words = parting.end()
            if parting.forgotten is not None and forget_session(address, identity, FORGET_S, is_called_off, words):
                parting.forgotten()

        thread = threading.Thread(target=leave, name=THREAD_NAME, daemon=True)
        with self._lock:
            self._under_way = [each for each in self._under_way if each.thread.is_alive()]
            self._under_way.append(_Farewell((address.host, address.port), gateway, thread, is_called_off))
            thread.start()

    def forget_at_the_end(self, address: Address, identity: Identity, is_gone: Callable[[], bool]) -> None:
        """Make a broker forget our session once our connection is gone: before, it would publish our last will."""

        def gone() -> list[Publish]:
            deadline = time.monotonic() + LEAVE_S
            while not is_gone() and time.monotonic() < deadline:
                time.sleep(LOOK_AGAIN_S)
            return []

        self.begin(address, identity, Parting(lambda: False, gone, lambda: None))

    def is_busy(self, address: Address, gateway: GatewayId | None = None) -> bool:
        """Whether one of them is still under way at this broker; it ends as soon as it can: we want to go there."""
        with self._lock:
            found = [each for each in self._under_way if each.is_at(address, gateway)]
        for each in found:
            each.is_called_off.set()
        return any(each.thread.is_alive() for each in found)

    def make_way(self, address: Address) -> None:
        """We are about to connect there: wait until nothing is under way, for LEAVE_S and CONNECT_S at most."""
        deadline = time.monotonic() + LEAVE_S + CONNECT_S
        while self.is_busy(address) and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_S)

    def call_off(self) -> None:
        """Let no broker forget us that has not yet: our next life finds in our record which it is to leave."""
        with self._lock:
            for each in self._under_way:
                each.is_called_off.set()


def forget_session(
    address: Address,
    identity: Identity,
    for_s: float,
    is_called_off: threading.Event,
    words: Sequence[Publish] = (),
) -> bool:
    """Make a broker forget our session, by connecting once without one, with our last words; tries for so long.

    Returns whether it has.
    """
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if is_called_off.is_set():
            return False
        if _connect_clean(address, identity, words):
            return True
        is_called_off.wait(TRY_AGAIN_S)
    place = f"{identity.client_id} at {address.host}:{address.port}"
    logger.warning("the session of %s could not be ended", place)
    for each in words:
        logger.warning("and what it was to write last is not written: %s, by %s", each.topic, place)
    return False


def await_farewells() -> None:
    """Wait, before a program ends, until brokers have forgotten what it has left, for LEAVE_S and CONNECT_S at most."""
    deadline = time.monotonic() + LEAVE_S + CONNECT_S
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(max(0.0, deadline - time.monotonic()))


def _connect_clean(address: Address, identity: Identity, words: Sequence[Publish]) -> bool:
    is_new = identity.protocol == MQTTProtocolVersion.MQTTv5
    clean = None if is_new else True
    client = PahoClient(CallbackAPIVersion.VERSION2, identity.client_id, clean, protocol=identity.protocol)
    client.connect_timeout = CONNECT_S
    identity.introduce(client, address)
    accepted = threading.Event()
    client.on_connect = lambda *_: accepted.set()
    try:
        client.connect(  # with MQTT 5 the first connection of a client is clean, too
            address.host, address.port, bind_address=identity.bind_address, properties=identity.properties_for(0)
        )
    except (OSError, ValueError):
        return False
    is_done = _looped_until(client, accepted.is_set, CONNECT_S) and _say(client, words)
    client.disconnect()
    client.loop(0)
    return is_done


def _looped_until(client: PahoClient, is_done: Callable[[], bool], for_s: float) -> bool:
    """Run a client's loop until something is so; in this thread, for a program that ends cannot start another."""
    deadline = time.monotonic() + for_s
    while not is_done() and time.monotonic() < deadline:
        if client.loop(HELD_AGAIN_S) != MQTTErrorCode.MQTT_ERR_SUCCESS:
            return False
    return is_done()


def _say(client: PahoClient, words: Sequence[Publish]) -> bool:
    """Publish these; return whether the broker has acknowledged all, within ACKNOWLEDGE_S."""
    said = [client.publish(each.topic, each.payload, each.qos, each.retain) for each in words]
    try:
        return _looped_until(client, lambda: all(info.is_published() for info in said), ACKNOWLEDGE_S)
    except (RuntimeError, ValueError):  # the connection is gone
        return False


atexit.register(await_farewells)

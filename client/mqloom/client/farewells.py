"""Sessions of ours that brokers are to forget, each ended by connecting once without one, in a thread of its own.

As long as the application has not taken, or acknowledged, all that has come by it, a session is kept: a program that
dies gets it from there in its next life. A broker can be gone just then: it is tried again, for a while. But should we
be sent back to it meanwhile, the old session must not be ended over the head of the new one: `Farewells.is_busy` stops
the trying, and says when it is over.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client.limits import ACKNOWLEDGE_S, CONNECT_S, FORGET_S, LEAVE_S, LINGER_S, TRY_AGAIN_S
from mqloom.client.vocabulary import Publish
from mqloom.client.wired import Address

logger: Final = logging.getLogger("mqloom.client")

THREAD_NAME: Final = "mqloom-leave"
"""Of the threads that leave brokers."""

HELD_AGAIN_S: Final = 0.02
"""How often it is looked whether the application has taken all."""


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
    thread: threading.Thread
    is_called_off: threading.Event


class Farewells:
    """What one client is leaving."""

    def __init__(self) -> None:
        self._under_way: list[_Farewell] = []

    def begin(self, address: Address, identity: Identity, parting: Parting) -> None:
        """Leave a broker when nothing is held any more, or LINGER_S are over; then it forgets our session, if so."""
        is_called_off = threading.Event()

        def leave() -> None:
            deadline = time.monotonic() + LINGER_S
            while parting.is_held() and time.monotonic() < deadline and not is_called_off.is_set():
                is_called_off.wait(HELD_AGAIN_S)
            words = parting.end()
            if parting.forgotten is not None and forget_session(address, identity, FORGET_S, is_called_off, words):
                parting.forgotten()

        thread = threading.Thread(target=leave, name=THREAD_NAME, daemon=True)
        self._under_way = [each for each in self._under_way if each.thread.is_alive()]
        self._under_way.append(_Farewell((address.host, address.port), thread, is_called_off))
        thread.start()

    def is_busy(self, address: Address) -> bool:
        """Whether one of them is still under way at this broker; it ends as soon as it can: we want to go there."""
        found = [each for each in self._under_way if each.place == (address.host, address.port)]
        for each in found:
            each.is_called_off.set()
        return any(each.thread.is_alive() for each in found)


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


def forget_at_the_end(address: Address, identity: Identity, is_gone: Callable[[], bool]) -> None:
    """Make a broker forget our session once our connection is gone: before, it would publish our last will.

    The program waits for that when it ends, for LEAVE_S and CONNECT_S at most.
    """

    def forget() -> None:
        deadline = time.monotonic() + LEAVE_S
        while not is_gone() and time.monotonic() < deadline:
            time.sleep(0.005)
        forget_session(address, identity, CONNECT_S, threading.Event())

    threading.Thread(target=forget, name=THREAD_NAME).start()


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
    if identity.username is not None:
        client.username_pw_set(identity.username)
        client._password = identity.password
    if address.tls is not None:
        client.tls_set_context(address.tls)
    accepted = threading.Event()
    client.on_connect = lambda *_: accepted.set()
    try:
        client.connect(address.host, address.port)  # with MQTT 5 the first connection of a client is clean, too
    except (OSError, ValueError):
        return False
    client.loop_start()
    is_done = accepted.wait(CONNECT_S)
    if is_done:
        is_done = _say(client, words)
    client.disconnect()
    client.loop_stop()
    return is_done


def _say(client: PahoClient, words: Sequence[Publish]) -> bool:
    """Publish these; return whether the broker has acknowledged all, within ACKNOWLEDGE_S."""
    deadline = time.monotonic() + ACKNOWLEDGE_S
    said = [client.publish(each.topic, each.payload, each.qos, each.retain) for each in words]
    try:
        for info in said:
            info.wait_for_publish(max(0.0, deadline - time.monotonic()))
        return all(info.is_published() for info in said)
    except (RuntimeError, ValueError):  # the connection is gone
        return False

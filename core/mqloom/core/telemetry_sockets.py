"""ZeroMQ sockets between gateways, the collector and its readers: bounded, and encrypted where there is a key.

With a telemetry key both ends prove themselves by CURVE (`mqloom.core.telemetry_keys`). This is no core, but what the
drivers of gateways and of the collector, who must not know each other, have in common; it needs the extra `gateway`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from mqloom.core.telemetry_keys import Curve

HIGH_WATER: Final = 1_000
"""Messages that a socket queues in either direction; past that it takes no more."""

RECONNECT_MS: Final = 100
RECONNECT_MS_MAX: Final = 2_000
"""How often somebody who is not there is tried: after the first of these, then twice that, up to the second."""

STRANGERS_MAX: Final = 1_000
"""Attempts of strangers that are counted at a time."""

MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A longer message ends the connection of whoever sent it."""


class PeerBounds(NamedTuple):
    """What a socket that listens holds for one peer, in messages each way, and how long one may be."""

    received: int = HIGH_WATER
    unsent: int = HIGH_WATER
    message_bytes: int = MESSAGE_BYTES_MAX


USUAL: Final = PeerBounds()


def listen(
    context: "zmq.Context[zmq.Socket[bytes]]", address: str, curve: Curve | None, bounds: PeerBounds = USUAL
) -> "zmq.Socket[bytes]":
    """Return a ROUTER that listens; raises zmq.ZMQError. With keys, an authenticator must run (`authenticate`)."""
    socket = context.socket(zmq.ROUTER)
    _bound(socket)
    socket.setsockopt(zmq.RCVHWM, bounds.received)
    socket.setsockopt(zmq.SNDHWM, bounds.unsent)
    socket.setsockopt(zmq.MAXMSGSIZE, bounds.message_bytes)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 0)
    if curve is not None:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = curve.public, curve.secret
        socket.zap_domain = b"mqloom"
    return _at(socket, socket.bind, address)


def connect(
    context: "zmq.Context[zmq.Socket[bytes]]", address: str, curve: Curve | None, *, queue: int = 0
) -> "zmq.Socket[bytes]":
    """Return a DEALER that connects, now or whenever somebody listens there; raises zmq.ZMQError for a bad address.

    With `queue`, it takes so many messages at most, and none while nobody is there.
    """
    socket = context.socket(zmq.DEALER)
    _bound(socket)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS_MAX)
    if queue:
        socket.setsockopt(zmq.SNDHWM, queue)
        socket.setsockopt(zmq.IMMEDIATE, 1)
    if curve is not None:
        socket.curve_publickey, socket.curve_secretkey = curve.public, curve.secret
        socket.curve_serverkey = curve.other
    return _at(socket, socket.connect, address)


def _at(socket: "zmq.Socket[bytes]", go: Callable[[str], object], address: str) -> "zmq.Socket[bytes]":
    try:
        go(address)
    except zmq.ZMQError:
        socket.close(linger=0)
        raise
    return socket


def _bound(socket: "zmq.Socket[bytes]") -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
    socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)


def authenticate(context: "zmq.Context[zmq.Socket[bytes]]", curve: Curve) -> ThreadAuthenticator:
    """Let only the other end's key in; `stop` it at the end."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback("mqloom", _OneKey(curve.other))
    return authenticator


def watch_strangers(socket: "zmq.Socket[bytes]") -> "zmq.Socket[bytes]":
    """Return what tells of those who could not prove themselves to a socket that listens (`strangers`)."""
    return socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH)


def strangers(monitor: "zmq.Socket[bytes]") -> int:
    """Return how many tried in vain since the last call, STRANGERS_MAX at most at a time."""
    count = 0
    while count < STRANGERS_MAX and monitor.poll(0):
        recv_monitor_message(monitor)
        count += 1
    return count


class _OneKey:
    """Whom to let in."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        """Say whether this is the key."""
        return domain == "mqloom" and key == self._key

"""The end of a connection to a broker that we leave for another one: it must not take that for our death."""

import contextlib
import selectors
import ssl
import time
from typing import Any, Final

from paho.mqtt.client import Client as PahoClient

DISCONNECT: Final = b"\xe0\0"

GOODBYE_S: Final = 0.5
"""How long a broker that we leave may take to read what is under way, and then to close the connection; then we do."""


def write_out(client: PahoClient) -> bool:
    """Write what a client has still to send; return whether no packet is left by half: then another may follow."""
    deadline = time.monotonic() + GOODBYE_S
    PahoClient.loop_write(client)
    with contextlib.suppress(OSError, ValueError):  # the connection is gone
        while client.want_write() and (remaining := deadline - time.monotonic()) > 0:
            sock = client.socket()
            if sock is None:
                break
            _await(sock, selectors.EVENT_WRITE, remaining)
            PahoClient.loop_write(client)
    return not any(packet["pos"] for packet in list(client._out_packet))


def say_goodbye(sock: Any) -> None:
    """Send DISCONNECT, and read until the broker has closed, for GOODBYE_S at most.

    A socket that is closed with something unread is reset: the broker may not get to read the DISCONNECT then, and
    publishes our last will.
    """
    deadline = time.monotonic() + GOODBYE_S
    with contextlib.suppress(OSError, ValueError):  # the connection is gone
        sock.send(DISCONNECT)
        while (remaining := deadline - time.monotonic()) > 0:
            is_readable = _await(sock, selectors.EVENT_READ, remaining)
            with contextlib.suppress(ssl.SSLWantReadError):  # so far there is a part of a record
                if is_readable and not sock.recv(65_536):
                    return


def _await(sock: Any, event: int, for_s: float) -> bool:
    """Wait until a socket can be read, or written; return whether it can; also one that `select` does not take."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, event)
        return bool(selector.select(for_s))

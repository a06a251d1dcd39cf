"""The end of a connection to a broker that we leave for another one: it must not take that for our death."""

import contextlib
import select
import time
from typing import Any, Final

DISCONNECT: Final = b"\xe0\0"

GOODBYE_S: Final = 0.5
"""How long a broker that we leave may take to close the connection; then we close it."""


def say_goodbye(sock: Any) -> None:
    """Send DISCONNECT, and read until the broker has closed, for GOODBYE_S at most.

    A socket that is closed with something unread is reset: the broker may not get to read the DISCONNECT then, and
    publishes our last will.
    """
    deadline = time.monotonic() + GOODBYE_S
    with contextlib.suppress(OSError):
        sock.send(DISCONNECT)
        while (remaining := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([sock], [], [], remaining)
            if readable and not sock.recv(65_536):
                return

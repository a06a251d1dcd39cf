"""Ports for what a demonstration, a bench or a test is about to start.

They lie below those that the system gives to outgoing connections: one of those may be taken by anybody's connection
before the program that is to listen has started. Where to look first is left to chance, because several of us look.
"""

import contextlib
import random
import socket

LOWEST, HIGHEST = 10_000, 32_000


def free_port() -> int:
    """Return a port of this machine that nobody listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens on now; raises OSError when there are not as many."""
    chosen: list[int] = []
    for port in random.sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(f"only {len(chosen)} of {count} ports between {LOWEST} and {HIGHEST} are free")

"""How many bytes crossed TCP connections, as Linux counts them: nothing stands in the way of what is measured.

The kernel tells over a netlink socket (sock_diag(7)), for every TCP connection, what was acknowledged and received on
it, payload of TCP only. /proc/PID/fd says which connections are a process's. No rights are needed for one's own.
"""

import os
import socket
import struct
from collections.abc import Collection
from typing import Final, NamedTuple

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_ERROR: Final = 2
_DONE: Final = 3
_REQUEST_DUMP: Final = 0x301
_INFO: Final = 2
_ESTABLISHED: Final = 1 << 1
_MESSAGE_HEADER: Final = struct.Struct("=IHHII")
_ACKED_OFFSET: Final = 120
"""Of tcpi_bytes_acked in struct tcp_info; tcpi_bytes_received follows it."""


class Connection(NamedTuple):
    """A TCP connection of this machine, seen from one of its ends."""

    inode: int
    to_port: int
    total_bytes: int


def link_bytes(process_id: int, to_ports: Collection[int]) -> int | None:
    """Return the bytes both ways on a process's connections to these ports; None where the system does not tell."""
    try:
        inodes = _inodes(process_id)
        return sum(each.total_bytes for each in connections() if each.inode in inodes and each.to_port in to_ports)
    except (OSError, AttributeError):  # no Linux, or one that does not let us
        return None


def connections() -> list[Connection]:
    """Return all connections over IPv4; raises OSError, and AttributeError where Python knows no netlink."""
    found: list[Connection] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
        request = struct.pack("=BBBBI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        size = _MESSAGE_HEADER.size + len(request)
        netlink.send(_MESSAGE_HEADER.pack(size, _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            data = netlink.recv(1 << 18)
            while data:
                size, kind, *_ = _MESSAGE_HEADER.unpack_from(data)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", data, _MESSAGE_HEADER.size)[0], "sock_diag refuses us")
                found.append(_connection(data[_MESSAGE_HEADER.size : size]))
                data = data[(size + 3) & ~3 :]


def _connection(body: bytes) -> Connection:
    """Read a struct inet_diag_msg and the attributes behind it."""
    (to_port,) = struct.unpack_from(">H", body, 6)
    (inode,) = struct.unpack_from("=I", body, 68)
    place, total = 72, 0
    while place + 4 <= len(body):
        size, kind = struct.unpack_from("=HH", body, place)
        if kind == _INFO and size >= 4 + _ACKED_OFFSET + 16:
            total = sum(struct.unpack_from("=QQ", body, place + 4 + _ACKED_OFFSET))
        place += max(4, (size + 3) & ~3)
    return Connection(inode, to_port, total)


def _inodes(process_id: int) -> set[int]:
    found = set()
    folder = f"/proc/{process_id}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found

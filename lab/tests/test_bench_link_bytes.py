"""Bytes on TCP connections, as the kernel counts them."""

import os
import socket

import pytest

from mqloom.lab.bench_link_bytes import connections, link_bytes


def test_what_was_sent_and_received_is_counted_both_ways_and_nothing_else_is() -> None:
    try:
        connections()
    except (OSError, AttributeError) as error:
        pytest.skip(f"the system does not tell of its connections: {error}")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        port = server.getsockname()[1]
        before = link_bytes(os.getpid(), {port})
        assert before is not None
        near.sendall(b"x" * 5_000)
        read = 0
        while read < 5_000:
            read += len(far.recv(5_000))
        far.sendall(b"y" * 70)
        assert near.recv(70) == b"y" * 70
        after = link_bytes(os.getpid(), {port})
        assert after is not None
        assert after - before == 5_070
        assert link_bytes(os.getpid(), {1}) == 0


def test_of_a_process_that_is_not_there_nothing_is_known() -> None:
    assert link_bytes(2**30, {1883}) is None

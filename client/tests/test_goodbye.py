"""Brokers that are left while something is under way: they read our DISCONNECT, else they publish our last will."""

import contextlib
import fcntl
import resource
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client
from mqloom.client.goodbye import DISCONNECT, say_goodbye
from mqloom.client.wired import Address

WAIT_S_MAX = 10.0
LARGE = 16_000_000
"""More than the system takes for somebody who does not read."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may have much else to do."""
    monkeypatch.setattr("mqloom.client.goodbye.GOODBYE_S", WAIT_S_MAX)


def anonymous(side: int) -> ssl.SSLContext:
    """Return a context that needs no certificate."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


class Sealed:
    """A broker's end of a connection with TLS, which sends records by pieces."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = anonymous(ssl.PROTOCOL_TLS_SERVER).wrap_bio(self._in, self._out, server_side=True)

    def greet(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._exchange()
            else:
                self._plain.sendall(self._out.read())
                return

    def read(self) -> bytes:
        while True:
            try:
                return self._tls.read()
            except ssl.SSLWantReadError:
                self._exchange()

    def record_of(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def _exchange(self) -> None:
        self._plain.sendall(self._out.read())
        self._in.write(self._plain.recv(65_536))


@pytest.fixture
def ends() -> Iterator[tuple[ssl.SSLSocket, socket.socket, Sealed]]:
    """Two ends of a connection, the client's as paho has it."""
    ours, theirs = socket.socketpair()
    broker = Sealed(theirs)
    greeting = threading.Thread(target=broker.greet)
    greeting.start()
    sealed = anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(ours)
    greeting.join()
    sealed.setblocking(False)
    yield sealed, theirs, broker
    sealed.close()
    theirs.close()


def test_a_record_of_which_only_a_part_has_come_is_no_end(ends: tuple[ssl.SSLSocket, socket.socket, Sealed]) -> None:
    ours, theirs, broker = ends
    record = broker.record_of(b"something that is under way")
    theirs.sendall(record[:10])
    leaving = threading.Thread(target=say_goodbye, args=(ours,))
    leaving.start()
    assert broker.read() == DISCONNECT
    leaving.join(0.1)
    assert leaving.is_alive()
    theirs.sendall(record[10:])
    leaving.join(0.1)
    assert leaving.is_alive()
    theirs.shutdown(socket.SHUT_RDWR)
    leaving.join(WAIT_S_MAX)
    assert not leaving.is_alive()


def test_what_is_sent_by_half_is_sent_before_the_goodbye() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=False, federation=True)
    client.connect("127.0.0.1", server.getsockname()[1])
    broker, _ = server.accept()
    broker.settimeout(WAIT_S_MAX)
    with server, broker:
        broker.recv(65_536)
        broker.sendall(b"\x20\x02\0\0")
        while not client.is_connected():
            client.loop(0.02)
        client.publish("t", b"p" * LARGE, 0)
        assert client.want_write()
        leaving = threading.Thread(target=client.go_to, args=(Address("127.0.0.1", 1),))
        leaving.start()
        leaving.join(0.1)
        read = bytearray()
        with contextlib.suppress(ConnectionError):
            while not read.endswith(b"p" + DISCONNECT) and (data := broker.recv(1_000_000)):
                read += data
    leaving.join(WAIT_S_MAX)
    assert read.endswith(b"p" * 9 + DISCONNECT)
    assert read.count(b"p") == LARGE


@pytest.fixture
def many_files() -> Iterator[int]:
    """Return from which number on there are descriptors that `select` does not take."""
    number = 1_024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * number:
        pytest.skip("this machine lets no process have so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * number, hard))
    yield number
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_is_waited_for_in_a_program_with_many_connections_too(many_files: int) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(WAIT_S_MAX)
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, many_files)) as late:
        leaving = threading.Thread(target=say_goodbye, args=(late,))
        leaving.start()
        assert theirs.recv(64) == DISCONNECT
        leaving.join(0.1)
        assert leaving.is_alive()
        theirs.shutdown(socket.SHUT_RDWR)
        leaving.join(WAIT_S_MAX)
    assert not leaving.is_alive()

"""What the application has set is as it has set it, wherever a client is led meanwhile; and goes with it."""

import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client import Client, Federation
from mqloom.client.farewells import forget_session
from mqloom.client.limits import PASSING_S
from mqloom.client.shim import Shim
from mqloom.client.traveller import Traveller
from mqloom.client.ways import Background
from mqloom.client.wired import Address
from mqloom.core.orders import RosterBroker
from mqloom.core.signatures import OrderKey

HOST, OTHER_HOST = "127.0.0.1", "127.0.0.2"
WAIT_S_MAX = 10.0
HUNG_UP = (ssl.SSLError, ConnectionError)
"""What a handshake with a broker that hangs up ends with."""

paho_leaves_a_socket = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""When a handshake fails."""

CONNECT, HANDSHAKE = 0x10, 0x16
"""The first byte that a client sends in clear, and with TLS."""


class Ear:
    """A broker that hears the first bytes of each connection, and hangs up."""

    def __init__(self) -> None:
        self.heard: queue.Queue[bytes] = queue.Queue()
        self.hosts: queue.Queue[str] = queue.Queue()
        """Where connections come from."""
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def first(self) -> int:
        """Return the first byte of the next connection."""
        return self.heard.get(timeout=WAIT_S_MAX)[0]

    def said(self) -> dict[str, Any]:
        """Return the properties of the next CONNECT of MQTT 5."""
        packet = self.heard.get(timeout=WAIT_S_MAX)
        assert packet[0] == CONNECT
        assert packet[1] < 128  # its length is in one byte
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho has no types there
        properties.unpack(packet[12:])  # type: ignore[no-untyped-call] # behind the name, version, flags and keepalive
        return dict(properties.json())  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(WAIT_S_MAX)

    def _serve(self) -> None:
        while True:
            try:
                connection, (host, _) = self._server.accept()
                self.hosts.put(host)
            except OSError:
                return
            with connection:
                self.heard.put(connection.recv(4_096))


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    yield ear
    ear.close()


def client_of(context: ssl.SSLContext | None, **options: bool) -> Client:
    client = Client(
        CallbackAPIVersion.VERSION2, "one", clean_session=options.pop("clean_session", True), federation=Federation()
    )
    client.username_pw_set("ann", "secret")
    if context is not None:
        client.tls_set_context(context)
    client.connect_async(HOST, 1)
    return client


@paho_leaves_a_socket
def test_after_a_move_to_a_broker_without_tls_a_password_goes_nowhere_in_clear(ear: Ear) -> None:
    client = client_of(ssl.create_default_context())
    client.go_to(Address(HOST, 1_883))
    with pytest.raises(HUNG_UP):
        client.connect(HOST, ear.port)
    assert ear.first() == HANDSHAKE


@paho_leaves_a_socket
def test_nor_at_the_very_address_that_had_none(ear: Ear) -> None:
    client = client_of(ssl.create_default_context())
    client.go_to(Address(HOST, ear.port))
    client.reconnect()
    assert ear.first() == CONNECT  # it was led there
    with pytest.raises(HUNG_UP):
        client.connect(HOST, ear.port)
    assert ear.first() == HANDSHAKE


def test_where_it_is_led_with_tls_it_goes_with_tls_and_comes_back_without(ear: Ear) -> None:
    client = client_of(None)
    client.go_to(Address(HOST, ear.port, ssl.create_default_context()))
    with pytest.raises(HUNG_UP):
        client.reconnect()
    assert ear.first() == HANDSHAKE
    client.connect(HOST, ear.port)
    assert ear.first() == CONNECT


def test_tls_is_as_the_application_has_set_it_up_however_it_came_there() -> None:
    """Its own authority, and its certificate: without them the next broker would be refused, or would refuse."""
    context = ssl.create_default_context()
    client = client_of(context)
    client.go_to(Address(HOST, 1_883))
    assert client._shim is not None
    assert client._shim._address_of(RosterBroker(host=HOST, tls=True)).tls is context
    assert client._shim._address_of(RosterBroker(host=HOST)).tls is None
    client.tls_insecure_set(True)
    assert not context.check_hostname


@pytest.mark.parametrize(("has_tls", "may", "needs"), [(True, False, True), (True, True, False), (False, False, False)])
def test_one_whose_application_has_set_up_tls_needs_it_unless_that_says_otherwise(
    has_tls: bool, may: bool, needs: bool
) -> None:
    key = OrderKey(bytes(32)).public.text
    client = Client(CallbackAPIVersion.VERSION2, federation=Federation(order_keys=(key,), moves_without_tls=may))
    if has_tls:
        client.tls_set_context(ssl.create_default_context())
    assert client._shim is not None
    core = client._shim._new_core()
    assert isinstance(core, Traveller)
    assert core._summons._needs_tls is needs


@pytest.mark.parametrize("clean_session", [True, False])
@pytest.mark.parametrize("again", ["connect", "disconnect"])
def test_whether_a_session_is_kept_is_as_the_application_wants_it_again(
    monkeypatch: pytest.MonkeyPatch, clean_session: bool, again: str
) -> None:
    forgotten: list[Shim] = []
    monkeypatch.setattr(Shim, "forget_at_the_end", lambda shim, _is_gone: forgotten.append(shim))
    client = client_of(None, clean_session=clean_session)
    client.go_to(Address(HOST, 1))
    assert client._clean_session is False
    assert client._is_kept() is not clean_session
    if again == "connect":
        client.connect_async(HOST, 1)
    else:
        client.disconnect()
        assert len(forgotten) == clean_session
    assert client._clean_session is clean_session
    assert client._is_kept() is not clean_session


# ---- what another connection takes over ------------------------------------------------------------------------------


def application() -> Client:
    """Return a client with all that an application can say of how it connects."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 600
    properties.TopicAliasMaximum = 5
    properties.ReceiveMaximum = 7
    properties.MaximumPacketSize = 70_000
    properties.UserProperty = ("site", "north")
    properties.AuthenticationMethod = "token"
    properties.AuthenticationData = b"t0ken"
    client = Client(CallbackAPIVersion.VERSION2, "one", protocol=MQTTProtocolVersion.MQTTv5, federation=True)
    client.connect_async(HOST, 1, bind_address=OTHER_HOST, bind_port=4_711, properties=properties)
    return client


SHARED = {
    "ReceiveMaximum": 7,
    "MaximumPacketSize": 70_000,
    "UserProperty": [("site", "north")],
    "AuthenticationMethod": "token",
    "AuthenticationData": b"t0ken",
}


def test_another_connection_says_what_the_applications_does_but_for_its_own_session(ear: Ear) -> None:
    identity = application().leg_identity
    Background(1, Address(HOST, ear.port), identity, lambda *_: None).reconnect()
    assert ear.said() == SHARED | {"SessionExpiryInterval": 600}
    assert ear.hosts.get(timeout=WAIT_S_MAX) == OTHER_HOST
    passing = replace(identity, session_s=PASSING_S)
    Background(1, Address(HOST, ear.port), passing, lambda *_: None).reconnect()
    assert ear.said() == SHARED | {"SessionExpiryInterval": PASSING_S}


def test_so_does_the_one_that_ends_a_session(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqloom.client.farewells.CONNECT_S", 0.2)
    client = application()
    called_off = threading.Event()
    ending = threading.Thread(
        target=forget_session, args=(Address(HOST, ear.port), client.leg_identity, WAIT_S_MAX, called_off)
    )
    ending.start()
    assert ear.said() == SHARED
    assert ear.hosts.get(timeout=WAIT_S_MAX) == OTHER_HOST
    called_off.set()
    ending.join(WAIT_S_MAX)


def test_what_the_application_says_is_not_changed_by_that() -> None:
    client = application()
    before = str(client._connect_properties)
    client.leg_identity.properties_for(0)
    assert str(client._connect_properties) == before
    assert client_of(None).leg_identity.properties_for(60) is None


@pytest.mark.parametrize("is_ending", [False, True])
def test_none_goes_past_the_proxy(ear: Ear, monkeypatch: pytest.MonkeyPatch, is_ending: bool) -> None:
    monkeypatch.setattr("paho.mqtt.client.socks", Socks)
    monkeypatch.setattr("mqloom.client.farewells.CONNECT_S", 0.2)
    client = client_of(None)
    client.proxy_set(proxy_type=Socks.SOCKS5, proxy_addr=HOST, proxy_port=ear.port)
    beyond = Address("beyond.example", 1_883)
    if is_ending:
        forget_session(beyond, client.leg_identity, 0.1, threading.Event())
    else:
        Background(1, beyond, client.leg_identity, lambda *_: None).reconnect()
    assert ear.first() == CONNECT


class Socks:
    """What PySocks does, as far as paho uses it: connect to the proxy, and ask that for the rest."""

    HTTP, SOCKS4, SOCKS5 = 3, 1, 2

    @staticmethod
    def create_connection(_to: object, *, proxy_addr: str, proxy_port: int, **_: object) -> socket.socket:
        return socket.create_connection((proxy_addr, proxy_port))

"""Connections in the background, to brokers that are scripted: no real one loses a packet on demand."""

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client
from mqloom.client.farewells import await_farewells
from mqloom.client.legs import ForLeg, TurnedAway
from mqloom.client.vocabulary import ConnectionLost, Publish
from mqloom.client.ways import Background, Happening, StrayReceived
from mqloom.client.wired import Address

WAIT_S_MAX = 10.0
PUBLISHED = b"\x34\x08\0\x03t/1\0\x07m"
"""At QoS 2, with the packet id 7."""
RELEASED = b"\x62\x02\0\x07"
COMPLETE = b"\x70\x02\0\x07"


class Script:
    """A broker that has kept every session, and says the next of these to each that connects."""

    def __init__(self) -> None:
        self.code = 0
        self.says: queue.Queue[bytes] = queue.Queue()
        self.heard: queue.Queue[bytes] = queue.Queue()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while (first := stream.read(1)) not in (b"", b"\xe0"):
                length = stream.read(1)
                packet = first + length + stream.read(length[0])
                self.heard.put(packet)
                if first == b"\x10":
                    said = b"" if self.says.empty() else self.says.get()
                    connection.sendall(bytes((0x20, 2, not self.code, self.code)) + said)
                elif first[0] & 0xF6 == 0x32:
                    start = 2 + int.from_bytes(packet[2:4], "big")
                    connection.sendall(b"\x40\x02" + packet[2 + start : 4 + start])


@pytest.fixture
def scripts() -> Iterator[list[Script]]:
    scripts = [Script(), Script()]
    yield scripts
    for script in scripts:
        script.close()


def heard_until(script: Script, packet: bytes, client: Client) -> None:
    while True:
        client.loop(0.02)
        with contextlib.suppress(queue.Empty):
            if script.heard.get_nowait() == packet:
                return


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=False, federation=True)
    assert client._shim is not None
    ways = client._shim._ways
    tell = ways._tell

    def tell_strays(leg: int, event: Happening | StrayReceived, packet: int) -> None:
        if isinstance(event, StrayReceived):  # the core is one that is never moved
            tell(leg, event, packet)

    ways._tell = tell_strays
    yield client
    ways.pause()
    client.disconnect()
    client.loop(0.02)


def test_what_has_come_by_half_is_given_out_when_the_session_goes_on_in_the_background(
    scripts: list[Script], client: Client
) -> None:
    old, new = scripts
    came: list[tuple[str, bytes | bytearray, int]] = []
    client.on_message = lambda _c, _u, message: came.append((message.topic, message.payload, message.qos))
    old.says.put(PUBLISHED)
    client.connect(old.address.host, old.address.port)
    heard_until(old, b"\x50\x02\0\x07", client)
    old.says.put(RELEASED)
    shim = client._shim
    assert shim is not None
    shim._ways._begin(1, new.address)
    shim._ways.serve_by(1)
    shim._ways._take_over()
    heard_until(old, COMPLETE, client)
    assert came == [("t/1", b"m", 2)]


@pytest.mark.parametrize(
    ("code", "reason"), [(4, "user name and password"), (5, "does not let us in"), (2, "client id"), (3, "")]
)
def test_a_broker_that_does_not_take_us_is_told_of_with_its_reason_and_one_that_is_not_ready_is_not(
    scripts: list[Script], client: Client, code: int, reason: str
) -> None:
    _, new = scripts
    new.code = code
    told: queue.Queue[Happening | StrayReceived] = queue.Queue()
    shim = client._shim
    assert shim is not None
    background = Background(1, new.address, client.leg_identity, lambda leg, event, packet: told.put(event))
    background.loop_start()
    first = told.get(timeout=WAIT_S_MAX)
    background.end()
    if reason:
        assert isinstance(first, TurnedAway)
        assert reason in first.reason
    else:
        assert isinstance(first, ConnectionLost)


def test_what_is_released_by_a_connection_that_never_had_it_is_done_with(scripts: list[Script], client: Client) -> None:
    """Its publication has come by an earlier one; without an answer it would stay in the broker's window."""
    old, new = scripts
    client.connect(old.address.host, old.address.port)
    new.says.put(RELEASED)
    assert client._shim is not None
    client._shim._ways._begin(1, new.address)
    heard_until(new, COMPLETE, client)


def test_what_comes_in_the_background_is_acknowledged_when_it_was_handed_over_and_not_before(
    scripts: list[Script], client: Client
) -> None:
    heard: queue.Queue[tuple[Happening | StrayReceived, int]] = queue.Queue()
    old, new = scripts
    client.connect(old.address.host, old.address.port)
    new.says.put(b"\x32\x08\0\x03t/1\0\x07m")
    assert client._shim is not None
    ways = client._shim._ways
    tell, ways._tell = ways._tell, lambda _leg, event, packet: heard.put((event, packet))
    ways._begin(1, new.address)
    event, packet = heard.get(timeout=WAIT_S_MAX)
    while not isinstance(event, StrayReceived):
        event, packet = heard.get(timeout=WAIT_S_MAX)
    assert new.heard.get(timeout=WAIT_S_MAX)[:1] == b"\x10"
    with pytest.raises(queue.Empty):
        new.heard.get(timeout=0.1)
    came: list[MQTTMessage] = []
    client.on_message = lambda _c, _u, message: came.append(message)
    tell(1, event, packet)
    heard_until(new, b"\x40\x02\0\x07", client)
    assert [message.payload for message in came] == [b"m"]


@pytest.mark.parametrize("acknowledges_itself", [False, True])
def test_what_still_comes_where_it_was_before_it_connects_again_is_not_acknowledged(
    scripts: list[Script], client: Client, acknowledges_itself: bool
) -> None:
    """The life that asked for it is over, and the next one has not begun there: the session keeps it."""
    shim = client._shim
    assert shim is not None

    def on_connect(*_: object) -> None:
        shim.turn()
        shim._ways.own = 2  # it was moved twice
        shim.begin_again()

    def on_message(_client: object, _data: object, message: MQTTMessage) -> None:
        if acknowledges_itself:
            client.ack(message.mid, message.qos)

    client.on_connect = on_connect
    client.on_message = on_message
    client.manual_ack_set(acknowledges_itself)
    scripts[0].says.put(b"\x32\x10\0\x0bmqloom/v1/t\0\x07m" + b"\x32\x08\0\x03t/1\0\x08m")
    client.connect(scripts[0].address.host, scripts[0].address.port)
    heard: list[bytes] = []
    while b"\x40\x02\0\x08" not in heard:
        client.loop(0.02)
        with contextlib.suppress(queue.Empty):
            heard.append(scripts[0].heard.get_nowait())
    assert b"\x40\x02\0\x07" not in heard


def until_heard(script: Script, kind: int) -> bytes:
    while (packet := script.heard.get(timeout=WAIT_S_MAX))[0] != kind:
        pass
    return packet


def about_to_go(old: Script, new: Script, *, clean: bool) -> Client:
    """Return one that has left the old broker but for its connection, and goes to the new one in its next turn."""
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=clean, federation=True)
    shim = client._shim
    assert shim is not None
    client.connect(old.address.host, old.address.port)
    while not client.is_connected():
        client.loop(0.02)
    shim._ways._tell = lambda *_: None  # the core is one that is never moved
    shim._ways._begin(1, new.address)
    until_heard(new, 0x10)
    shim._ways.serve_by(1)
    shim._ways.close(0, forget=True)
    return client


@pytest.mark.parametrize("clean", [True, False], ids=["a session that is not kept", "one that is"])
def test_a_disconnect_while_the_other_broker_is_taken_over_is_the_end_and_leaves_no_more_than_is_to_stay(
    scripts: list[Script], monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    old, new = scripts
    client = about_to_go(old, new, clean=clean)
    assert client._shim is not None
    ways, end, others = client._shim._ways, Background.end, [threading.Thread(target=client.disconnect)]

    def end_while_another_disconnects(leg: Background) -> list[Publish]:
        if others:
            other = others.pop()
            threads.append(other)
            other.start()
            while not ways._is_paused:
                other.join(0.005)
        return end(leg)

    threads: list[threading.Thread] = []
    monkeypatch.setattr(Background, "end", end_while_another_disconnects)
    while not threads:
        client.loop(0.02)
    threads[0].join(WAIT_S_MAX)
    client.loop(0.02)
    assert not client.is_connected()
    assert (client._host, client._port) == (old.address.host, old.address.port)
    if clean:  # MQTT 3.1.1: once more, to end the session that was kept for the move
        assert until_heard(new, 0x10)[9] == 2
    else:
        with pytest.raises(queue.Empty):
            new.heard.get(timeout=0.1)


@pytest.mark.parametrize("clean", [True, False], ids=["a session that is not kept", "one that is"])
def test_so_is_one_in_a_callback_of_that_and_what_the_core_says_then_reaches_the_other_broker(
    scripts: list[Script], monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    old, new = scripts
    client = about_to_go(old, new, clean=clean)
    assert client._shim is not None
    ways, gone = client._shim._ways, threading.Event()

    def on_publish(*_: object) -> None:
        client.disconnect()
        gone.set()

    def handled(*_: object) -> list[ForLeg]:  # as the core of one that is moved: its record is to be deleted
        return [ForLeg(leg=1, effect=Publish(topic="r", payload=b"", qos=1, retain=True))]

    monkeypatch.setattr("mqloom.client.shim.handled", handled)
    client.on_publish = on_publish
    with client._in_callback_mutex:  # then paho leaves it to the loop
        client.publish("t", b"", 0)
    ways.settle()
    assert gone.is_set()
    assert not client.is_connected()
    assert (client._host, client._port) == (old.address.host, old.address.port)
    assert client._clean_session is clean
    if clean:
        assert until_heard(new, 0x10)[9] == 2
        assert until_heard(new, 0x33)[2:5] == b"\0\x01r"
    else:
        await_farewells()
        assert new.heard.empty()
        assert list(ways._opening) == [1]  # it goes on with that when it is back


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's reinitialise
@pytest.mark.parametrize("clean", [True, False])
def test_one_that_begins_anew_leaves_no_connection_of_before_in_the_background(
    scripts: list[Script], clean: bool
) -> None:
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=clean, federation=True)
    client.connect(scripts[0].address.host, scripts[0].address.port)
    while not client.is_connected():
        client.loop(0.02)
    assert client._shim is not None
    ways = client._shim._ways
    ways._tell = lambda *_: None  # the core is one that is never moved
    ways._begin(1, scripts[1].address)
    other = ways._others[1]
    while not other.is_connected():
        client.loop(0.02)
    client.reinitialise("c", clean)
    await_farewells()
    assert other.socket() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's reinitialise
@pytest.mark.parametrize("goes_back", [True, False], ids=["and goes back there", "and goes nowhere"])
def test_nor_one_for_what_it_holds_which_stays_in_its_session_for_a_later_life(
    scripts: list[Script], goes_back: bool
) -> None:
    old, new = scripts
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=False, federation=True)
    client.connect(new.address.host, new.address.port)
    while not client.is_connected():
        client.loop(0.02)
    assert client._shim is not None
    ways = client._shim._ways
    ways._tell = lambda *_: None  # the core is one that is never moved
    ways._is_held = lambda _leg: True
    ways._begin(1, old.address)
    other = ways._others[1]
    while not other.is_connected():
        client.loop(0.02)
    thread = other._thread
    assert thread is not None
    ways.close(1, forget=True)
    client.reinitialise("c", False)
    if goes_back:
        client.connect(old.address.host, old.address.port)
        assert not thread.is_alive()  # else either connection ends the other
        client.disconnect()
        client.loop(0.02)
    thread.join(WAIT_S_MAX)
    assert not thread.is_alive()
    await_farewells()
    connects = [each for each in old.heard.queue if each[0] == 0x10]
    assert [each[9] for each in connects] == [0] * len(connects)  # none is to end the session

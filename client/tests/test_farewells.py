"""Brokers that are left: what they were to be told last reaches them, and they forget us; on real Mosquittos."""

import logging
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client import Client
from mqloom.client.farewells import Identity, forget_session
from mqloom.client.vocabulary import Publish
from mqloom.client.ways import Background
from mqloom.client.wired import Address
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Record, decode_record
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_relay import Relay
from mqloom.lab.demo_town import EAST, HOST, WAIT_S_MAX, WEST, Town, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


def record_at(town: Town, client: str, at: GatewayId = WEST) -> Record | None:
    """Return the record of a client that a broker keeps."""
    came: queue.Queue[bytes] = queue.Queue()
    reader = town.publisher(at)
    reader.on_message = lambda _c, _u, message: came.put(bytes(message.payload))
    reader.on_subscribe = lambda *_: came.put(b"")
    reader.subscribe(layout.record(at, ClientId(client)), 1)
    heard = [came.get(timeout=WAIT_S_MAX)]
    reader.publish("mqloom/probe", b"", 1).wait_for_publish(WAIT_S_MAX)  # what is retained comes before its PUBACK
    while not came.empty():
        heard.append(came.get())
    return decode_record(max(heard, key=len)) if any(heard) else None


def identity(name: str) -> Identity:
    return Identity(
        client_id=name,
        protocol=MQTTProtocolVersion.MQTTv311,
        username=None,
        password=None,
        keepalive_s=60,
        session_s=60,
    )


def test_what_was_to_be_written_last_is_written_when_the_session_is_ended(town: Town) -> None:
    client, _ = town.client(client_id="leaver", clean_session=False)
    client.disconnect()
    client.loop_stop()
    assert record_at(town, "leaver") is not None
    word = Publish(topic=layout.record(WEST, ClientId("leaver")), payload=b"", qos=1, retain=True)
    forget_session(Address(HOST, town.ports[WEST]), identity("leaver"), 5.0, threading.Event(), [word])
    assert record_at(town, "leaver") is None
    assert not town.has_session(WEST, "leaver")


def test_a_broker_that_does_not_come_back_is_named_with_what_it_was_to_be_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    word = Publish(topic="mqloom/v1/WEST/sub/leaver", payload=b"", qos=1, retain=True)
    with caplog.at_level(logging.WARNING, "mqloom.client"):
        forget_session(Address(HOST, 1), identity("leaver"), 0.1, threading.Event(), [word])
    assert "the session of leaver at 127.0.0.1:1 could not be ended" in caplog.text
    assert "is not written: mqloom/v1/WEST/sub/leaver" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_a_program_that_ends_while_its_connection_is_exchanged_leaves_nothing_at_either_broker(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = town.client(client_id="hasty", clean_session=True)
    shim, end = client._shim, Background.end
    assert shim is not None
    ways, ending = shim._ways, threading.Thread(target=client.disconnect)

    def end_late(leg: Background) -> list[Publish]:
        words = end(leg)
        if not ending.ident:
            ending.start()
            while not ways._is_paused:
                ending.join(0.005)
        return words

    monkeypatch.setattr(Background, "end", end_late)
    assert town.migrate("hasty", EAST) == 0
    until(lambda: bool(ending.ident), "its connection is exchanged")
    ending.join(WAIT_S_MAX)
    client.loop_stop()
    for at in (WEST, EAST):
        until(lambda at=at: not town.has_session(at, "hasty"), "no session is left")  # type: ignore[misc]
    assert record_at(town, "hasty", EAST) is None


def test_a_connection_that_is_lost_before_its_last_word_does_not_lose_that(town: Town) -> None:
    """The old gateway has given us all; that we are elsewhere is written, and the connection is gone just then."""
    relay = Relay(town.ports[WEST])
    relay.deaf_after = b'"leaving_to"'
    client = Client(CallbackAPIVersion.VERSION2, "cut", clean_session=False, federation=town.federation)
    established = threading.Event()
    client.on_established = lambda *_: established.set()
    client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
    client.connect(HOST, relay.port)
    client.loop_start()
    assert established.wait(WAIT_S_MAX)
    town.order("cut", WEST, EAST)
    until(lambda: client.stats().migrations == 1, "it is served elsewhere")
    until(lambda: b'"moved_to"' in b"".join(each.payload for each in client.last_words()), "that waits to be written")
    found = record_at(town, "cut")
    assert found is not None
    assert found.leaving_to == EAST
    relay.deaf_after = b""
    relay.cut()

    def is_written() -> bool:
        found = record_at(town, "cut")
        return found is not None and found.moved_to == EAST

    until(is_written, "it is written all the same")
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "and the client is there")
    client.disconnect()
    client.loop_stop()
    relay.close()

"""A broker that sends its client to another by MQTT 5's own words: a real Mosquitto, behind a relay that says them."""

import contextlib
import json
import logging
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client import Client, Federation
from mqloom.client.traveller import Traveller
from mqloom.core.references import SERVER_MOVED, USE_ANOTHER_SERVER
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_relay import Relay
from mqloom.lab.demo_town import EAST, HOST, WAIT_S_MAX, WEST, Town, numbers, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


@pytest.fixture
def relay(town: Town) -> Iterator[Relay]:
    relay = Relay(town.ports[WEST])
    yield relay
    relay.close()


Guest = tuple[Client, "queue.Queue[MQTTMessage]"]


@contextlib.contextmanager
def guest(
    port: int, federation: Federation, protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5
) -> Iterator[Guest]:
    """Run a client with a kept session there, which subscribes as soon as it is accepted."""
    came: queue.Queue[MQTTMessage] = queue.Queue()
    is_new = protocol == MQTTProtocolVersion.MQTTv5
    client = Client(
        CallbackAPIVersion.VERSION2, "guest", None if is_new else False, protocol=protocol, federation=federation
    )
    client.on_connect = lambda _c, _u, _f, reason, _p: (
        None if reason.is_failure else client.subscribe("stocks/#", 1) and None
    )
    client.on_message = lambda _c, _u, message: came.put(message)
    properties = Properties(PacketTypes.CONNECT) if is_new else None  # type: ignore[no-untyped-call]
    if properties is not None:
        properties.SessionExpiryInterval = 600
    client.connect(HOST, port, clean_start=False, properties=properties) if is_new else client.connect(HOST, port)
    client.loop_start()
    try:
        yield client, came
    finally:
        client.disconnect()
        client.loop_stop()


def number(town: Town, number: int) -> None:
    town.publisher(WEST).publish("stocks/YHOO", json.dumps({"number": number}), 1).wait_for_publish(WAIT_S_MAX)


def legs(client: Client) -> int:
    assert client._shim is not None
    core = client._shim._core
    assert isinstance(core, Traveller)
    return len(core.legs)


def established(client: Client) -> threading.Event:
    heard = threading.Event()
    client.on_established = lambda *_: heard.set()
    return heard


@pytest.mark.parametrize("code", [USE_ANOTHER_SERVER, SERVER_MOVED])
def test_sent_to_a_broker_of_the_roster_it_goes_there_and_misses_nothing(town: Town, relay: Relay, code: int) -> None:
    with guest(relay.port, town.federation) as (client, came):
        assert established(client).wait(WAIT_S_MAX)
        with town.publishing() as sent:
            until(lambda: len(sent) > 50, "publications flow")
            relay.send_away(code, f"somewhere.example {HOST}:{town.ports[EAST]}")
            until(lambda: client.broker == EAST and client._port == town.ports[EAST], "it has gone there")
            relay.refusal = b""  # it may fetch there what was kept for it
            until(lambda: legs(client) == 1, "it has left the other")
            so_far = len(sent)
            until(lambda: len(sent) > so_far + 20, "publications flow")
        assert numbers(came, sent) == sent
        assert (client.stats().migrations, client.stats().gaps) == (1, 0)
        until(lambda: not town.has_session(WEST, "guest"), "the old session is ended")


@pytest.mark.parametrize("acknowledges_itself", [False, True])
def test_what_the_old_broker_has_for_a_subscription_of_its_own_comes_too_and_holds_up_nothing(
    town: Town, relay: Relay, acknowledges_itself: bool
) -> None:
    """More than Mosquitto sends without an acknowledgement waits there, in front of what is from the federation."""
    with guest(relay.port, town.federation) as (client, came):
        assert established(client).wait(WAIT_S_MAX)
        is_subscribed = threading.Event()
        client.on_subscribe = lambda *_: is_subscribed.set()
        client.subscribe([("rooms/#", 1), ("halls/#", 2)], local=True)
        assert is_subscribed.wait(WAIT_S_MAX)
        rooms: list[tuple[str, int]] = []

        def on_room(_client: object, _data: object, message: MQTTMessage) -> None:
            rooms.append((message.topic, int(message.payload)))
            if acknowledges_itself:
                client.ack(message.mid, message.qos)

        def on_stock(_client: object, _data: object, message: MQTTMessage) -> None:
            came.put(message)
            if acknowledges_itself:
                client.ack(message.mid, message.qos)

        client.message_callback_add("rooms/#", on_room)
        client.message_callback_add("halls/#", on_room)
        client.on_message = on_stock
        client.manual_ack_set(acknowledges_itself)
        relay.send_away(USE_ANOTHER_SERVER, f"{HOST}:{town.ports[EAST]}")
        publisher = town.publisher(WEST)
        expected = [(topic, each) for each in range(40) for topic in ("rooms/1", "halls/1")]
        for topic, each in expected:
            publisher.publish(topic, each, 2).wait_for_publish(WAIT_S_MAX)
        number(town, 1)
        until(lambda: client.broker == EAST and client._port == town.ports[EAST], "it has gone there")
        relay.refusal = b""
        until(lambda: len(rooms) == len(expected), "it has got what the old broker has")
        until(lambda: legs(client) == 1, "it has left the old broker")
        number(town, 2)
        assert numbers(came, [1, 2]) == [1, 2]
    for topic in ("rooms/1", "halls/1"):
        assert [each for each in rooms if each[0] == topic] == [each for each in expected if each[0] == topic]
    until(lambda: not town.has_session(WEST, "guest"), "the old session is ended")


def test_sent_to_a_stranger_it_stays_comes_back_and_says_so(
    town: Town, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Relay(town.ports[EAST])
    with guest(relay.port, town.federation) as (client, came), caplog.at_level(logging.INFO, "mqloom.client"):
        until(lambda: client.broker == WEST, "it is served")
        relay.send_away(USE_ANOTHER_SERVER, f"{HOST}:{stranger.port}")
        until(lambda: client.stats().refused > 0, "it is counted")
        relay.refusal = b""
        again = established(client)
        assert again.wait(WAIT_S_MAX)
        number(town, 1)
        assert numbers(came, [1]) == [1]
        assert (client.broker, client._port, client.stats().migrations) == (WEST, relay.port, 0)
    assert "not obeyed (stranger)" in caplog.text
    assert stranger.connections == 0
    stranger.close()


def test_a_stranger_is_followed_by_one_that_is_set_so(town: Town, relay: Relay) -> None:
    stranger = Relay(town.ports[EAST])
    federation = Federation(order_keys=town.federation.order_keys, follows_strangers=True)
    with guest(relay.port, federation) as (client, came):
        until(lambda: client.broker == WEST, "it is served")
        relay.send_away(SERVER_MOVED, f"{HOST}:{stranger.port}")
        until(lambda: client.broker == EAST and client._port == stranger.port, "it has gone there")
        number(town, 1)
        assert numbers(came, [1]) == [1]
    stranger.close()


def test_refused_from_the_first_it_goes_where_it_is_sent_if_it_is_set_so(town: Town, relay: Relay) -> None:
    relay.send_away(USE_ANOTHER_SERVER, f"{HOST}:{town.ports[EAST]}")
    with guest(relay.port, Federation(follows_strangers=True)) as (client, came):
        until(lambda: client.broker == EAST and client._port == town.ports[EAST], "it has gone there")

        def comes() -> bool:
            number(town, 1)
            return not came.empty()

        until(comes, "it is served there")


def test_without_order_keys_it_is_ignored_and_counted(town: Town, relay: Relay) -> None:
    with guest(relay.port, Federation()) as (client, came):
        until(lambda: client.broker == WEST, "it is served")
        again = established(client)
        relay.send_away(USE_ANOTHER_SERVER, f"{HOST}:{town.ports[EAST]}")
        until(lambda: client.stats().refused > 0, "it is counted")
        relay.refusal = b""
        assert again.wait(WAIT_S_MAX)
        number(town, 1)
        assert numbers(came, [1]) == [1]
        assert client.broker == WEST


def test_mqtt_3_1_1_has_no_references(town: Town, relay: Relay) -> None:
    with guest(relay.port, town.federation, MQTTProtocolVersion.MQTTv311) as (client, _):
        until(lambda: client.broker == WEST, "it is served")
        again = established(client)
        relay.send_away(USE_ANOTHER_SERVER, f"{HOST}:{town.ports[EAST]}")
        relay.refusal = b""
        assert again.wait(WAIT_S_MAX)
        assert (client.broker, client.stats().refused) == (WEST, 0)

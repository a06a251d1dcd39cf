"""The client in a real federation: two gateways with their embedded brokers, in a thread of their own."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from mqloom.client import Client, Federation, Wish
from mqloom.core.errors import FilterError, LocalError, TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import RECORD_SUBSCRIPTIONS_MAX
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

HOST = "127.0.0.1"
WAIT_S_MAX = 15.0
WEST, EAST = GatewayId("WEST"), GatewayId("EAST")
HOT = "volume > 300000"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[GatewayId, int]]:
    path: Path = tmp_path_factory.mktemp("federation") / "federation.toml"
    ports = write_chain(path, [WEST, EAST])
    with gateways_in_thread(path, [WEST, EAST]):
        yield ports


@dataclass
class Heard:
    """All that callbacks of a client were called with, in the order of the calls."""

    messages: queue.Queue[MQTTMessage] = field(default_factory=queue.Queue)
    established: queue.Queue[tuple[Wish, bool]] = field(default_factory=queue.Queue)
    refused: queue.Queue[tuple[Wish, str]] = field(default_factory=queue.Queue)
    subscribed: queue.Queue[tuple[int, list[int]]] = field(default_factory=queue.Queue)
    unsubscribed: queue.Queue[int] = field(default_factory=queue.Queue)
    published: queue.Queue[int] = field(default_factory=queue.Queue)
    disconnected: threading.Event = field(default_factory=threading.Event)
    threads: set[str] = field(default_factory=set)

    def volumes(self, count: int) -> list[int]:
        messages = [self.messages.get(timeout=WAIT_S_MAX) for _ in range(count)]
        return [json.loads(message.payload)["volume"] for message in messages]


Make = Callable[..., tuple[Client, Heard]]


def listening(client: Client) -> Heard:
    heard = Heard()

    def note(where: "queue.Queue[Any]", what: Any) -> None:
        heard.threads.add(threading.current_thread().name)
        where.put(what)

    client.on_message = lambda _c, _u, message: note(heard.messages, message)
    client.on_established = lambda _c, _u, wish, partly: note(heard.established, (wish, partly))
    client.on_refused = lambda _c, _u, wish, problem: note(heard.refused, (wish, problem))
    client.on_subscribe = lambda _c, _u, mid, codes, _p: note(heard.subscribed, (mid, [code.value for code in codes]))
    client.on_unsubscribe = lambda _c, _u, mid, _r, _p: note(heard.unsubscribed, mid)
    client.on_publish = lambda _c, _u, mid, _r, _p: note(heard.published, mid)
    client.on_disconnect = lambda *_: heard.disconnected.set()
    return heard


@pytest.fixture
def make(ports: dict[GatewayId, int]) -> Iterator[Make]:
    """Make a client, connected and with its loop running in a thread; all of them are ended at the end."""
    clients: list[Client] = []

    def connected(gateway: GatewayId = WEST, **options: Any) -> tuple[Client, Heard]:
        client = Client(CallbackAPIVersion.VERSION2, **({"federation": True} | options))
        heard = listening(client)
        client.connect(HOST, ports[gateway])
        client.loop_start()
        clients.append(client)
        return client, heard

    yield connected
    for client in clients:
        client.disconnect()
        client.loop_stop()


def publish(client: Client, *volumes: int, topic: str = "stocks/YHOO") -> None:
    for volume in volumes:
        client.publish(topic, json.dumps({"volume": volume}), qos=1).wait_for_publish(WAIT_S_MAX)


def established(client: Client, heard: Heard, topic: str = "stocks/#", qos: int = 1, **options: Any) -> None:
    _, mid = client.subscribe(topic, qos, **options)
    assert heard.subscribed.get(timeout=WAIT_S_MAX) == (mid, [min(qos, 1)])
    heard.established.get(timeout=WAIT_S_MAX)


def test_a_subscription_by_content_gets_what_matches_from_another_broker(make: Make) -> None:
    east, heard = make(EAST)
    result, mid = east.subscribe("stocks/#", qos=1, where=HOT)
    assert result == MQTTErrorCode.MQTT_ERR_SUCCESS
    assert heard.established.get(timeout=WAIT_S_MAX) == (Wish(topics="stocks/#", where=HOT), False)
    assert heard.subscribed.get(timeout=WAIT_S_MAX) == (mid, [1])
    assert east.broker == EAST
    west, _ = make(WEST)
    publish(west, 5, 400_000, 300_000, 300_001)
    message = heard.messages.get(timeout=WAIT_S_MAX)
    assert (message.topic, json.loads(message.payload)) == ("stocks/YHOO", {"volume": 400_000})
    assert (message.qos, message.retain, message.dup, message.properties) == (1, False, False, None)
    assert heard.volumes(1) == [300_001]
    assert (east.stats().received, east.stats().duplicates, east.stats().gaps) == (2, 0, 0)
    assert [name[:17] for name in heard.threads] == ["paho-mqtt-client-"]
    assert heard.published.empty()  # what MQLoom publishes is not the application's


def test_a_plain_subscription_is_for_the_whole_federation(make: Make) -> None:
    east, heard = make(EAST)
    established(east, heard)
    publish(make(WEST)[0], 7)
    assert heard.volumes(1) == [7]


def test_a_local_one_is_for_the_one_broker(make: Make) -> None:
    east, heard = make(EAST)
    east.subscribe("rooms/#", 1, local=True)
    assert heard.subscribed.get(timeout=WAIT_S_MAX)[1] == [1]
    publish(make(WEST)[0], 1, topic="rooms/2")
    publish(make(EAST)[0], 2, topic="rooms/2")
    assert heard.volumes(1) == [2]
    assert east.stats().received == 0


def test_what_paho_refuses_at_the_one_broker_is_asked_for_at_no_other(make: Make) -> None:
    """Else it would raise in the thread of the loop, as soon as the client is moved."""
    client, _ = make()
    with pytest.raises(ValueError, match="Invalid subscription filter"):
        client.subscribe([("rooms/2", 1), ("rooms/#/3", 1)], local=True)
    away = Client(CallbackAPIVersion.VERSION2, federation=True)
    assert away.subscribe("rooms/2", 1, local=True) == (MQTTErrorCode.MQTT_ERR_NO_CONN, None)
    assert (client._local, away._local) == ({}, {})
    client.subscribe("rooms/2", 1, local=True)
    with pytest.raises(ValueError, match="Invalid subscription filter"):
        client.subscribe([("rooms/2", 1), ("rooms/#/3", 1)], local=True)
    assert list(client._local) == ["rooms/2"]


def test_a_publication_comes_once_however_many_subscriptions_match(make: Make) -> None:
    client, heard = make()
    for where in ("", HOT, "volume > 5"):
        established(client, heard, where=where)
    publish(client, 400_000, 1)
    assert heard.volumes(2) == [400_000, 1]


def test_callbacks_for_topics_get_what_is_theirs(make: Make) -> None:
    client, heard = make()
    apart: queue.Queue[str] = queue.Queue()
    client.message_callback_add("stocks/IBM", lambda _c, _u, message: apart.put(message.topic))
    established(client, heard)
    publish(client, 1, topic="stocks/IBM")
    publish(client, 2)
    assert apart.get(timeout=WAIT_S_MAX) == "stocks/IBM"
    assert heard.volumes(1) == [2]


def test_the_qos_of_the_call_is_the_most_that_a_message_has(make: Make) -> None:
    client, heard = make()
    established(client, heard, qos=0)
    publish(client, 1)
    message = heard.messages.get(timeout=WAIT_S_MAX)
    assert (message.qos, message.mid) == (0, 0)


def test_unsubscribing_is_confirmed_and_then_nothing_comes(make: Make) -> None:
    client, heard = make()
    established(client, heard, where=HOT)
    established(client, heard, "stocks/IBM")
    _, mid = client.unsubscribe("stocks/#")
    assert heard.unsubscribed.get(timeout=WAIT_S_MAX) == mid
    publish(client, 400_000)
    publish(client, 1, topic="stocks/IBM")
    assert heard.volumes(1) == [1]


def test_who_unsubscribes_and_subscribes_again_at_once_hears_of_both(make: Make) -> None:
    """The gateway hears of neither, or of an end that is none any more."""
    client, heard = make()
    established(client, heard, where=HOT)
    for _ in range(3):
        _, ended = client.unsubscribe("stocks/#")
        _, begun = client.subscribe("stocks/#", 1, where=HOT)
        assert heard.unsubscribed.get(timeout=WAIT_S_MAX) == ended
        assert heard.subscribed.get(timeout=WAIT_S_MAX) == (begun, [1])
    publish(client, 400_000)
    assert heard.volumes(1) == [400_000]
    _, ended = client.unsubscribe("stocks/#")
    assert heard.unsubscribed.get(timeout=WAIT_S_MAX) == ended
    publish(client, 400_001)
    established(client, heard, "stocks/IBM")
    publish(client, 1, topic="stocks/IBM")
    assert heard.volumes(1) == [1]


def test_one_of_two_filters_can_be_given_up(make: Make) -> None:
    client, heard = make()
    established(client, heard, where=HOT)
    established(client, heard, where="volume < 10")
    client.unsubscribe("stocks/#", where=HOT)
    heard.unsubscribed.get(timeout=WAIT_S_MAX)
    publish(client, 400_000, 5)
    assert heard.volumes(1) == [5]


def test_one_call_that_ends_subscriptions_in_the_federation_and_at_the_one_broker_is_answered_once(make: Make) -> None:
    client, heard = make()
    established(client, heard)
    _, mid = client.subscribe("local/#", local=True)
    assert heard.subscribed.get(timeout=WAIT_S_MAX)[0] == mid
    _, mid = client.unsubscribe(["local/#", "stocks/#"])
    _, last = client.unsubscribe("none/#")
    assert {heard.unsubscribed.get(timeout=WAIT_S_MAX) for _ in range(2)} == {mid, last}
    assert heard.unsubscribed.empty()  # the broker answers one after the other


def test_several_topics_in_one_call_are_answered_together(make: Make) -> None:
    client, heard = make()
    _, mid = client.subscribe([("stocks/A", 0), ("stocks/B", 2)])
    assert heard.subscribed.get(timeout=WAIT_S_MAX) == (mid, [0, 1])


def test_a_refused_subscription_is_told_with_the_reason(make: Make) -> None:
    client, heard = make()
    _, mid = client.subscribe("elsewhere/#")
    assert heard.subscribed.get(timeout=WAIT_S_MAX) == (mid, [128])
    wish, problem = heard.refused.get(timeout=WAIT_S_MAX)
    assert wish.topics == "elsewhere/#"
    assert "only stocks/# take part in the federation" in problem
    established(client, heard)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("stocks/#",), {"where": "volume >> 3"}, FilterError),
        (("stocks/#/x",), {}, TopicError),
        (("stocks/#", 3), {}, ValueError),
        (("",), {}, ValueError),
        (([],), {}, ValueError),
        (([("$SYS/#", 0), ("stocks/#", 0)],), {}, ValueError),
        (("stocks/#",), {"where": HOT, "local": True}, LocalError),
    ],
)
def test_a_mistake_is_raised_at_once(
    make: Make, arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception]
) -> None:
    client, _ = make()
    with pytest.raises(error):
        client.subscribe(*arguments, **options)


def test_too_many_subscriptions_are_refused_at_once(make: Make) -> None:
    client, _ = make()
    with pytest.raises(LocalError, match="at most"):
        client.subscribe([(f"stocks/{number}", 0) for number in range(RECORD_SUBSCRIPTIONS_MAX + 1)])


def test_without_a_connection_nothing_is_subscribed() -> None:
    client = Client(CallbackAPIVersion.VERSION2, federation=True)
    assert client.subscribe("stocks/#") == (MQTTErrorCode.MQTT_ERR_NO_CONN, None)
    assert client.broker is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_after_a_disconnect_the_subscriptions_are_over_as_with_paho(make: Make, ports: dict[GatewayId, int]) -> None:
    client, heard = make(client_id="leaver")
    established(client, heard)
    client.disconnect()
    client.loop_stop()
    client.connect(HOST, ports[WEST])
    client.loop_start()
    established(client, heard, "stocks/IBM")
    publish(client, 1)
    publish(client, 2, topic="stocks/IBM")
    assert heard.volumes(1) == [2]
    assert client.stats().received == 1


def test_a_program_that_comes_back_gets_what_its_session_kept(make: Make) -> None:
    first, heard = make(client_id="kept", clean_session=False)
    established(first, heard)
    first.disconnect()
    first.loop_stop()
    publish(make(EAST)[0], 1, 2)
    second, heard = make(client_id="kept", clean_session=False)
    assert heard.volumes(2) == [1, 2]
    established(second, heard)
    publish(second, 3)
    assert heard.volumes(1) == [3]
    second.unsubscribe("stocks/#")
    heard.unsubscribed.get(timeout=WAIT_S_MAX)


def test_one_that_comes_back_at_once_is_served_however_often(make: Make) -> None:
    """The embedded broker may not be done with the connection before."""
    for _ in range(4):
        client, heard = make(client_id="restless", clean_session=False)
        established(client, heard)
        client.disconnect()
        client.loop_stop()
    client, heard = make(client_id="restless", clean_session=False)
    established(client, heard)
    client.unsubscribe("stocks/#")
    heard.unsubscribed.get(timeout=WAIT_S_MAX)


def test_subscribing_in_on_connect_is_in_time(make: Make, ports: dict[GatewayId, int]) -> None:
    client = Client(CallbackAPIVersion.VERSION2, federation=Federation(client="by-hand"))
    heard = listening(client)

    def on_connect(*_: object) -> None:
        client.subscribe("stocks/#", 1, where=HOT)

    client.on_connect = on_connect
    client.connect(HOST, ports[WEST])
    while heard.established.empty():  # paho's simplest loop, in this thread
        assert client.loop(0.2) == MQTTErrorCode.MQTT_ERR_SUCCESS
    publish(make(EAST)[0], 400_000)
    while heard.messages.empty():
        assert client.loop(0.2) == MQTTErrorCode.MQTT_ERR_SUCCESS
    client.disconnect()
    assert heard.volumes(1) == [400_000]
    assert heard.threads == {"MainThread"}


def test_a_program_with_a_loop_of_its_own_is_woken_to_write(make: Make, ports: dict[GatewayId, int]) -> None:
    client = Client(CallbackAPIVersion.VERSION2, federation=True)
    heard = listening(client)
    wanted: list[bool] = []
    client.on_socket_register_write = lambda *_: wanted.append(True)
    client.connect(HOST, ports[WEST])
    while not client.is_connected():
        client.loop_write()
        client.loop_read()
    wanted.clear()
    client.subscribe("stocks/#", 1)
    assert wanted
    while heard.established.empty():
        client.loop_write()
        client.loop_read()
        client.loop_misc()
    client.disconnect()
    client.loop_write()


def test_the_environment_can_ask_for_the_federation(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    monkeypatch.setenv("MQLOOM_FEDERATION", "1")
    client, heard = make(federation=None)
    established(client, heard, where=HOT)

import contextlib
import queue
from collections.abc import Callable, Iterator

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.containers import Broker

WAIT_S_MAX = 10.0


@contextlib.contextmanager
def connected(broker: Broker, session: str = "") -> Iterator[Client]:
    client = Client(CallbackAPIVersion.VERSION2, session, clean_session=not session)
    client.connect(broker.host, broker.port)
    messages: queue.Queue[MQTTMessage] = queue.Queue()
    client.user_data_set(messages)
    client.on_message = lambda _client, messages, message: messages.put(message)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def subscribe(client: Client, topic: str) -> "queue.Queue[MQTTMessage]":
    """Subscribe and return once the broker granted it; messages land in the queue."""
    granted: queue.Queue[None] = queue.Queue()
    client.on_subscribe = lambda *_: granted.put(None)
    client.subscribe(topic, qos=1)
    granted.get(timeout=WAIT_S_MAX)
    messages: queue.Queue[MQTTMessage] = client.user_data_get()
    return messages


def publish(client: Client, topic: str, payload: bytes, *, retain: bool = False) -> None:
    client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(WAIT_S_MAX)


def test_a_publication_arrives_at_a_subscriber(mosquitto: Broker) -> None:
    with connected(mosquitto) as subscriber, connected(mosquitto) as publisher:
        messages = subscribe(subscriber, "area/+/temperature")
        publish(publisher, "area/7/temperature", b"21.5")
        message = messages.get(timeout=WAIT_S_MAX)
        assert (message.topic, message.payload, message.retain) == ("area/7/temperature", b"21.5", False)


@pytest.mark.timeout(180)
def test_every_publication_that_was_queued_while_a_subscriber_was_away_arrives(maker_broker: Broker) -> None:
    with connected(maker_broker, session="away") as subscriber:
        subscribe(subscriber, "area/#")
    with connected(maker_broker) as publisher:
        for number in range(1_500):  # over the limit that some brokers have if nothing is said
            publisher.publish("area/7", str(number), qos=1)
        publish(publisher, "area/7", b"last")
    with connected(maker_broker, session="away") as subscriber:
        messages = subscribe(subscriber, "area/#")
        received = [messages.get(timeout=WAIT_S_MAX).payload for _ in range(1_501)]
    assert received == [*(str(number).encode() for number in range(1_500)), b"last"]


def test_a_retained_message_is_kept_for_a_later_subscriber(mosquitto: Broker) -> None:
    with connected(mosquitto) as publisher:
        publish(publisher, "state/door", b"open", retain=True)
    with connected(mosquitto) as subscriber:
        message = subscribe(subscriber, "state/#").get(timeout=WAIT_S_MAX)
        assert (message.topic, message.payload, message.retain) == ("state/door", b"open", True)


def test_a_broker_that_was_stopped_comes_back_on_its_port_with_its_data(mosquitto: Broker) -> None:
    with connected(mosquitto) as publisher:
        publish(publisher, "state/door", b"open", retain=True)
    mosquitto.restart()
    with connected(mosquitto) as subscriber:
        assert subscribe(subscriber, "state/#").get(timeout=WAIT_S_MAX).payload == b"open"


def test_two_brokers_run_side_by_side_and_do_not_hear_each_other(start_mosquitto: Callable[..., Broker]) -> None:
    here, there = start_mosquitto(), start_mosquitto(more="max_inflight_messages 100\n")
    with connected(there) as subscriber, connected(here) as publisher_here, connected(there) as publisher_there:
        messages = subscribe(subscriber, "#")
        publish(publisher_here, "from/here", b"")
        publish(publisher_there, "from/there", b"")
        assert messages.get(timeout=WAIT_S_MAX).topic == "from/there"
        assert messages.empty()

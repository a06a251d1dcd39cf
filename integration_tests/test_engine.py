import contextlib
import queue
from collections.abc import Callable, Iterator

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.mosquitto import CONFIGURATION, Mosquitto

WAIT_S_MAX = 10.0


@contextlib.contextmanager
def connected(broker: Mosquitto) -> Iterator[Client]:
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect(broker.host, broker.port)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def subscribe(client: Client, topic: str) -> "queue.Queue[MQTTMessage]":
    """Subscribe and return once the broker granted it; messages land in the queue."""
    messages: queue.Queue[MQTTMessage] = queue.Queue()
    granted: queue.Queue[None] = queue.Queue()
    client.on_message = lambda _client, _userdata, message: messages.put(message)
    client.on_subscribe = lambda *_: granted.put(None)
    client.subscribe(topic, qos=1)
    granted.get(timeout=WAIT_S_MAX)
    return messages


def publish(client: Client, topic: str, payload: bytes, *, retain: bool = False) -> None:
    client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(WAIT_S_MAX)


def test_a_publication_arrives_at_a_subscriber(mosquitto: Mosquitto) -> None:
    with connected(mosquitto) as subscriber, connected(mosquitto) as publisher:
        messages = subscribe(subscriber, "area/+/temperature")
        publish(publisher, "area/7/temperature", b"21.5")
        message = messages.get(timeout=WAIT_S_MAX)
        assert (message.topic, message.payload, message.retain) == ("area/7/temperature", b"21.5", False)


def test_a_retained_message_is_kept_for_a_later_subscriber(mosquitto: Mosquitto) -> None:
    with connected(mosquitto) as publisher:
        publish(publisher, "state/door", b"open", retain=True)
    with connected(mosquitto) as subscriber:
        message = subscribe(subscriber, "state/#").get(timeout=WAIT_S_MAX)
        assert (message.topic, message.payload, message.retain) == ("state/door", b"open", True)


def test_a_broker_that_was_stopped_comes_back_on_its_port_with_its_data(mosquitto: Mosquitto) -> None:
    with connected(mosquitto) as publisher:
        publish(publisher, "state/door", b"open", retain=True)
    mosquitto.container.get_wrapped_container().restart(timeout=10)
    mosquitto.wait_until_it_answers()
    with connected(mosquitto) as subscriber:
        assert subscribe(subscriber, "state/#").get(timeout=WAIT_S_MAX).payload == b"open"


def test_two_brokers_run_side_by_side_and_do_not_hear_each_other(start_mosquitto: Callable[..., Mosquitto]) -> None:
    here, there = start_mosquitto(), start_mosquitto(configuration=CONFIGURATION + "max_inflight_messages 100\n")
    with connected(there) as subscriber, connected(here) as publisher_here, connected(there) as publisher_there:
        messages = subscribe(subscriber, "#")
        publish(publisher_here, "from/here", b"")
        publish(publisher_there, "from/there", b"")
        assert messages.get(timeout=WAIT_S_MAX).topic == "from/there"
        assert messages.empty()

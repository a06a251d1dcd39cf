"""What RabbitMQ's management interface answers, as version 3.10.8 did."""

import json

import pytest

from mqloom.core.errors import RecordError
from mqloom.plugins import plain_clients
from mqloom.plugins.plain_clients import KNOWN_MAX, WholeInterest
from mqloom.plugins.rabbitmq_bindings import subscriptions_in


def binding(queue: str, key: str, kind: str = "queue") -> dict[str, object]:
    return {
        "source": "amq.topic",
        "vhost": "/",
        "destination": queue,
        "destination_type": kind,
        "routing_key": key,
        "arguments": {},
        "properties_key": key,
    }


def test_bindings_of_mqtt_queues_are_read_as_topic_filters() -> None:
    answer = [
        binding("mqtt-subscription-annqos1", "stocks.*.price"),
        binding("mqtt-subscription-bobqos0", "weather.#"),
        binding("mqtt-subscription-bobqos1", "stocks.*.price"),
    ]
    assert WholeInterest().look(subscriptions_in(json.dumps(answer).encode())) == ("stocks/+/price", "weather/#")


def test_other_queues_exchanges_and_our_own_clients_do_not_count() -> None:
    answer = [
        binding("mqtt-subscription-mqloom-EASTqos1", "stocks.#"),
        binding("orders", "stocks.#"),
        binding("mqtt-subscription-annqos1", "a", kind="exchange"),
        binding("mqtt-subscription-ann", "b"),
    ]
    assert WholeInterest().look(subscriptions_in(json.dumps(answer).encode())) == ()


@pytest.mark.parametrize("data", [b"", b"{}", b'[{"destination": 1}]', b'{"error": "not_authorised"}'])
def test_another_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        subscriptions_in(data)


def test_past_the_bounds_the_first_count_and_the_others_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_clients, "PLAIN_FILTERS_PER_CLIENT_MAX", 2)
    interest = WholeInterest()
    answer = [binding("mqtt-subscription-annqos1", f"a.{number}") for number in (3, 2, 1)]
    answer += [binding("mqtt-subscription-annqos0", f"a.{number}") for number in (1, 2)]
    answer += [binding("mqtt-subscription-bobqos1", "b")]
    for _ in range(2):  # what stands is counted once
        assert interest.look(subscriptions_in(json.dumps(answer).encode())) == ("a/1", "a/2", "b")
        assert (interest.overlooked, interest.overlooked_of) == (1, "ann")
    assert interest.look(subscriptions_in(json.dumps(answer[1:]).encode())) == ("a/1", "a/2", "b")
    assert interest.look(subscriptions_in(json.dumps(answer).encode())) == ("a/1", "a/2", "b")
    assert interest.overlooked == 2
    monkeypatch.setattr(plain_clients, "KNOWN_MAX", 1)
    assert interest.look(subscriptions_in(json.dumps(answer).encode())) == ("a/1",)
    assert interest.overlooked == 4


def test_learning_goes_on_past_a_hundred_thousand_bindings() -> None:
    answer = [binding(f"mqtt-subscription-{number % 200}qos1", f"t.{number}") for number in range(KNOWN_MAX + 5)]
    interest = WholeInterest()
    assert len(interest.look(subscriptions_in(json.dumps(answer).encode()))) == KNOWN_MAX
    assert interest.overlooked == 5

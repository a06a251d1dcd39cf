"""What RabbitMQ's management interface answers, as version 3.10.8 did."""

import json

import pytest

from mqloom.core.errors import RecordError
from mqloom.plugins import rabbitmq_bindings
from mqloom.plugins.rabbitmq_bindings import filters_in


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
    assert filters_in(json.dumps(answer).encode()) == ("stocks/+/price", "weather/#")


def test_other_queues_exchanges_and_our_own_clients_do_not_count() -> None:
    answer = [
        binding("mqtt-subscription-mqloom-EASTqos1", "stocks.#"),
        binding("orders", "stocks.#"),
        binding("mqtt-subscription-annqos1", "a", kind="exchange"),
        binding("mqtt-subscription-ann", "b"),
    ]
    assert filters_in(json.dumps(answer).encode()) == ()


@pytest.mark.parametrize("data", [b"", b"{}", b'[{"destination": 1}]', b'{"error": "not_authorised"}'])
def test_another_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        filters_in(data)


def test_past_the_bound_the_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq_bindings, "KNOWN_MAX", 1)
    with pytest.raises(RecordError, match="2 bindings"):
        filters_in(json.dumps([binding("a", "a"), binding("b", "b")]).encode())

from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from mqloom.client.asking import Asked, asked, check_same_place, is_of_one_broker, wish_of
from mqloom.core.errors import FilterError, TopicError
from mqloom.core.records import Wish

V311, V5 = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


@pytest.mark.parametrize(
    ("topic", "qos", "expected"),
    [
        ("a/#", 1, [("a/#", 1)]),
        (("a/#", 2), 0, [("a/#", 2)]),
        ([("a", 0), ("b", 1)], 2, [("a", 0), ("b", 1)]),
        ([("a", SubscribeOptions(qos=1))], 0, [("a", 1)]),
    ],
)
def test_every_shape_of_a_call_is_understood(topic: Any, qos: int, expected: list[tuple[str, int]]) -> None:
    assert [(each.topics, each.qos) for each in asked(topic, qos, None, V5)] == expected


def test_options_count_with_mqtt_5_only() -> None:
    options = SubscribeOptions(qos=1)
    assert asked("a", 0, options, V5) == [Asked("a", 1, options)]
    assert asked("a", 0, options, V311) == [Asked("a", 0, None)]
    with pytest.raises(ValueError, match="cannot be combined"):
        asked("a", 1, options, V5)


@pytest.mark.parametrize("topic", [None, "", [], 7, b"a", ("a", 3), [("a", -1)], [(None, 0)]])
def test_what_paho_refuses_is_refused(topic: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - paho's texts
        asked(topic, 0, None, V311)


@pytest.mark.parametrize(
    ("topics", "expected"), [("$SYS/#", True), ("$share/g/a", True), ("mqloom/v1/+/status", True), ("mqloomy", False)]
)
def test_some_topics_are_of_one_broker(topics: str, expected: bool) -> None:
    assert is_of_one_broker(topics) == expected


def test_one_call_is_for_one_place() -> None:
    assert check_same_place([Asked("$SYS/#", 0, None)])
    assert not check_same_place([Asked("a", 0, None), Asked("b", 0, None)])
    with pytest.raises(ValueError, match="by themselves"):
        check_same_place([Asked("$SYS/#", 0, None), Asked("b", 0, None)])


def test_a_wish_is_checked_at_once() -> None:
    assert wish_of(Asked("a/#", 1, None), "x > 3", None) == Wish(topics="a/#", where="x > 3")
    with pytest.raises(FilterError):
        wish_of(Asked("a/#", 1, None), "x >> 3", None)
    with pytest.raises(TopicError):
        wish_of(Asked("a#", 1, None), "", None)
    with pytest.raises(ValueError, match="noLocal"):
        wish_of(Asked("a", 1, SubscribeOptions(qos=1, noLocal=True)), "", None)


def test_properties_of_one_broker_are_refused() -> None:
    properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call] # paho has no types there
    assert wish_of(Asked("a", 0, None), "", properties) == Wish(topics="a")
    properties.SubscriptionIdentifier = 7
    with pytest.raises(ValueError, match="local=True"):
        wish_of(Asked("a", 0, None), "", properties)

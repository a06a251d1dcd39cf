"""What a call of paho's `subscribe` asks for, whichever of its shapes it has; checked as paho checks it, and more."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from mqloom.core.layout import RESERVED
from mqloom.core.records import Wish
from mqloom.core.subscription import Subscription

QOS_MAX: Final = 1
"""What the federation carries: more is not granted."""

Topics = (
    str | tuple[str, int] | tuple[str, SubscribeOptions] | list[tuple[str, int]] | list[tuple[str, SubscribeOptions]]
)


class Asked(NamedTuple):
    """One topic filter of a call, with its QoS and the further options of MQTT 5."""

    topics: str
    qos: int
    options: SubscribeOptions | None


def asked(topic: Any, qos: int, options: SubscribeOptions | None, protocol: MQTTProtocolVersion) -> list[Asked]:
    """Return what is asked for; raises ValueError as paho does."""
    if isinstance(topic, list):
        if not topic:
            raise ValueError("Empty topic list")
        return [_one(each, second) for each, second in topic]
    if isinstance(topic, tuple):
        return [_one(*topic)]
    if options is not None and qos != 0:
        raise ValueError("Subscribe options and qos parameters cannot be combined.")
    if options is not None and protocol != MQTTProtocolVersion.MQTTv5:
        options = None  # paho does not use them then
    return [_one(topic, qos if options is None else options)]


def _one(topics: Any, second: Any) -> Asked:
    if not isinstance(topics, str) or not topics:
        raise ValueError("Invalid topic.")
    if isinstance(second, SubscribeOptions):
        return Asked(topics, second.QoS, second)
    if not isinstance(second, int) or not 0 <= second <= 2:
        raise ValueError("Invalid QoS level.")
    return Asked(topics, second, None)


def is_of_one_broker(topics: str) -> bool:
    """Whether a topic filter means something on its own broker only: `$SYS/#`, `$share/...`, and topics of MQLoom."""
    return topics.startswith("$") or topics.split("/", 1)[0] == RESERVED


def wish_of(each: Asked, where: str, properties: Properties | None) -> Wish:
    """Return the wish for the federation; raises FilterError, TopicError, ValueError for what cannot be had there."""
    Subscription.parse(each.topics, where)
    if each.options is not None and each.options.noLocal:
        raise ValueError("noLocal cannot be kept in a federation: subscribe with local=True, or without it")
    if properties is not None and properties.json():  # type: ignore[no-untyped-call] # paho has no types there
        raise ValueError("properties of a subscription go to one broker: subscribe with local=True, or without them")
    return Wish(topics=each.topics, where=where)


def check_same_place(found: Sequence[Asked]) -> bool:
    """Return whether all of it is for the one broker; raises ValueError if only some of it is."""
    places = {is_of_one_broker(each.topics) for each in found}
    if len(places) > 1:
        raise ValueError(
            f"topics that begin with $ or {RESERVED}/ are the broker's own: subscribe to them by themselves"
        )
    return places == {True}

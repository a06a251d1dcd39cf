"""RabbitMQ's bindings, as its management interface lists them: what MQTT clients subscribe to.

Each MQTT client has queues of its own, `mqtt-subscription-CLIENTqos0` and `...qos1`, bound to the exchange `amq.topic`
by a routing key for each topic filter: `/` is written `.` there, and `+` is `*`. A `.` in a filter cannot be told from
a `/` then, and is read as one.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from mqloom.core.errors import RecordError

QUEUE: Final = "mqtt-subscription-"
QOS: Final = ("qos0", "qos1")

_WRITTEN: Final = str.maketrans({".": "/", "*": "+"})


class Binding(Struct):
    """One binding, as far as it matters here."""

    destination: str
    destination_type: str
    routing_key: str


def subscriptions_in(data: bytes) -> list[tuple[str, str]]:
    """Return who subscribes to which topic filter, in the order of their names; raises RecordError."""
    try:
        bindings = msgspec.json.decode(data, type=list[Binding])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no list of bindings: {error}") from None
    return sorted(_subscriptions_of(bindings))


def _subscriptions_of(bindings: Sequence[Binding]) -> set[tuple[str, str]]:
    return {
        (each.destination[len(QUEUE) : -len(QOS[0])], each.routing_key.translate(_WRITTEN))
        for each in bindings
        if each.destination_type == "queue"
        and each.routing_key
        and each.destination.startswith(QUEUE)
        and each.destination.endswith(QOS)
    }

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
from mqloom.plugins.plain_clients import KNOWN_MAX, OURS

QUEUE: Final = "mqtt-subscription-"
QOS: Final = ("qos0", "qos1")

_WRITTEN: Final = str.maketrans({".": "/", "*": "+"})


class Binding(Struct):
    """One binding, as far as it matters here."""

    destination: str
    destination_type: str
    routing_key: str


def filters_in(data: bytes) -> tuple[str, ...]:
    """Return the topic filters of plain clients, each once, in the order of their names; raises RecordError."""
    try:
        bindings = msgspec.json.decode(data, type=list[Binding])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no list of bindings: {error}") from None
    if len(bindings) > KNOWN_MAX:
        raise RecordError(f"{len(bindings)} bindings, the bound is {KNOWN_MAX}")
    return _filters_of(bindings)


def _filters_of(bindings: Sequence[Binding]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                each.routing_key.translate(_WRITTEN)
                for each in bindings
                if each.destination_type == "queue" and each.routing_key and _is_plain(each.destination)
            }
        )
    )


def _is_plain(queue: str) -> bool:
    return queue.startswith(QUEUE) and queue.endswith(QOS) and not queue.startswith(QUEUE + OURS)

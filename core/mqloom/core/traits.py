"""How brokers differ, as far as it matters to a gateway."""

from msgspec import Struct


class Traits(Struct, frozen=True, kw_only=True):
    """What a broker does; the defaults are what MQTT demands, and most do."""

    replays_to_wildcards: bool = True
    """Whether retained messages are replayed to a subscription with wildcards; RabbitMQ does not."""

    keeps_packet_ids: bool = True
    """Whether what is sent again has the packet id that it had; RabbitMQ counts anew in each connection."""

    repeats_at_once: bool = True
    """Whether what is sent again comes when a session is resumed; NATS lets it wait until its `ack_wait` is over."""


USUAL = Traits()

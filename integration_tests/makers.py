"""The makers of brokers: which image, what is written into it, and how the gateway beside it is told of it.

An image is a maker's public one, or whatever `MQLOOM_MAKER_IMAGE` names, as long as it reads its configuration from the
same place. All are set up so that a lost message is our loss: sessions that last, no limit on what is queued.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Mosquitto drops QoS 1 messages over 1,000 queued ones although it acknowledged them: 0 is no limit.
MOSQUITTO_CONFIGURATION = """\
listener 1883
allow_anonymous true
persistence true
persistence_location /mosquitto/data/
max_queued_messages 0
set_tcp_nodelay true
log_dest stderr
"""

MOSQUITTO_LOGGING = """\
log_dest topic
log_type subscribe
log_type unsubscribe
log_type notice
"""
"""What a Mosquitto must be told so that its gateway knows what plain clients subscribe to."""

# A session is forgotten after a day, and a client gets ten messages at a time, if nothing else is said.
RABBITMQ_CONFIGURATION = """\
loopback_users = none
mqtt.allow_anonymous = true
mqtt.default_user = guest
mqtt.default_pass = guest
mqtt.prefetch = 1000
mqtt.subscription_ttl = undefined
"""

# What is not acknowledged comes again after `ack_wait`, and only then; at most `max_ack_pending` are handed over.
NATS_CONFIGURATION = """\
server_name: nats
jetstream { store_dir: /data }
mqtt { port: 1883, ack_wait: "4s", max_ack_pending: 1000 }
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Maker:
    """One maker's broker."""

    name: str
    public_image: str
    files: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    adapter: str = "mqtt"
    """The adapter of the gateway beside it."""
    management_port: int = 0
    """Where in the container its management interface is, if it has one that the adapter asks."""
    is_built_for_ci: bool = True
    """Whether .ci/broker-images makes an image: then a missing one is a failure where CI is set."""

    @property
    def image(self) -> str:
        """The image that the environment asks for, or the public one."""
        return os.environ.get(self.variable) or self.public_image

    @property
    def variable(self) -> str:
        """The environment's variable that names another image."""
        return f"MQLOOM_{self.name.upper()}_IMAGE"


MOSQUITTO = Maker(
    name="mosquitto",
    public_image="eclipse-mosquitto:2",
    files={"/mosquitto/config/mosquitto.conf": MOSQUITTO_CONFIGURATION},
)
TELLING_MOSQUITTO = replace(
    MOSQUITTO,
    adapter="mosquitto",
    files={"/mosquitto/config/mosquitto.conf": MOSQUITTO_CONFIGURATION + MOSQUITTO_LOGGING},
)
"""One whose gateway learns what plain clients subscribe to."""
RABBITMQ = Maker(
    name="rabbitmq",
    public_image="rabbitmq:3-management",
    files={
        "/etc/rabbitmq/rabbitmq.conf": RABBITMQ_CONFIGURATION,
        "/etc/rabbitmq/enabled_plugins": "[rabbitmq_mqtt,rabbitmq_management].\n",
    },
    adapter="rabbitmq",
    management_port=15_672,
)
NATS = Maker(
    name="nats",
    public_image="nats:2-alpine",
    files={"/etc/nats/nats-server.conf": NATS_CONFIGURATION},
)
EMQX = Maker(
    name="emqx",
    public_image="emqx/emqx:5.8",
    files={},
    environment={
        "EMQX_MQTT__MAX_MQUEUE_LEN": "infinity",
        "EMQX_MQTT__MAX_INFLIGHT": "1000",
        "EMQX_MQTT__SESSION_EXPIRY_INTERVAL": "24h",
    },
    is_built_for_ci=False,
)

MAKERS = (MOSQUITTO, RABBITMQ, NATS, EMQX)

"""RabbitMQ's configuration and definitions for one broker of a federation, for its MQTT plugin, as text.

RabbitMQ turns a topic `a/b/c` into a routing key `a.b.c` of the exchange `amq.topic`. It asks for leave three times:
for queues and exchanges by name, and for routing keys (topic permissions). Each is a regular expression.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from mqloom.gateway.accounts import Account
from mqloom.gateway.configuration import BrokerTable
from mqloom.gateway.mosquitto_files import IN_FLIGHT, LOOPBACK

PLUGINS: Final = "[rabbitmq_management,rabbitmq_mqtt].\n"
"""The file `enabled_plugins`."""

QUEUES: Final = "^mqtt-subscription-.*$"
"""The queues of MQTT clients: `mqtt-subscription-IDqos0` and `...qos1`."""
EXCHANGE: Final = "amq.topic"
ANONYMOUS: Final = "anonymous"
"""The account of whoever does not log in: RabbitMQ knows nobody without one."""
MANAGEMENT_PORT: Final = 15_672
"""Where its management interface is if nothing is said."""


def main_file(
    broker: BrokerTable, folder: str, authority: str = "", *, management_port: int = MANAGEMENT_PORT, nobody: str = ""
) -> str:
    """Return rabbitmq.conf; the definitions are in `folder`.

    With TLS, clients with certificates are asked for them, and the `authority`, a file, must vouch for these. With a
    password of `nobody`, whoever does not log in has the account ANONYMOUS.
    """
    host = {"localhost": "127.0.0.1"}.get(broker.host, broker.host) if broker.host in LOOPBACK else ""
    place = f"{host}:{broker.port}" if host else str(broker.port)
    lines = [
        f"# RabbitMQ beside the gateway {broker.id}; written by `mqloom config rabbitmq`, which overwrites it.",
        "listeners.tcp = none",
        *(_tls(broker, place, folder, authority) if broker.tls else [f"mqtt.listeners.tcp.default = {place}"]),
        f"mqtt.allow_anonymous = {'true' if nobody else 'false'}",
        *([f"mqtt.default_user = {ANONYMOUS}", f"mqtt.default_pass = {nobody}"] if nobody else []),
        "mqtt.vhost = /",
        f"mqtt.exchange = {EXCHANGE}",
        f"load_definitions = {folder}/definitions.json",
        "# A session that nobody uses is kept for so many milliseconds: ten years.",
        "mqtt.subscription_ttl = 315360000000",
        f"mqtt.prefetch = {IN_FLIGHT}",
        '# The gateway asks here what plain clients subscribe to, with `adapter = "rabbitmq"`.',
        f"management.tcp.port = {management_port}",
        *([f"management.tcp.ip = {host}"] if host else []),
        "",
    ]
    return "\n".join(lines)


def _tls(broker: BrokerTable, place: str, folder: str, authority: str) -> list[str]:
    lines = ["mqtt.listeners.tcp = none", f"mqtt.listeners.ssl.default = {place}"]
    lines += ["# The broker's own certificate and key: put them there.", f"ssl_options.certfile = {folder}/broker.pem"]
    lines.append(f"ssl_options.keyfile = {folder}/broker.key")
    if broker.tls_certificate and authority:
        lines += [f"ssl_options.cacertfile = {authority}", "ssl_options.verify = verify_peer"]
        lines.append("ssl_options.fail_if_no_peer_cert = true")
    return lines


def definitions(
    broker: BrokerTable, accounts: Sequence[Account], passwords: Mapping[str, str], salts: Sequence[bytes]
) -> str:
    """Return definitions.json, with a salt of 4 random bytes for each account; whoever does not log in has one, too."""
    named = [account if account.name else account._replace(name=ANONYMOUS) for account in accounts]
    users = [
        {
            "name": account.name,
            "password_hash": _hashed(passwords[account.name], salt),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": "monitoring" if broker.adapter == "rabbitmq" and account.user == broker.id else "",
        }
        for account, salt in zip(named, salts, strict=True)
    ]
    return (
        json.dumps(
            {
                "users": users,
                "vhosts": [{"name": "/"}],
                "permissions": [
                    {
                        "user": account.name,
                        "vhost": "/",
                        "configure": _queues(broker, account),
                        "write": f"({_queues(broker, account)})|(^{re.escape(EXCHANGE)}$)",
                        "read": f"({_queues(broker, account)})|(^{re.escape(EXCHANGE)}$)",
                    }
                    for account in named
                ],
                "topic_permissions": [
                    {
                        "user": account.name,
                        "vhost": "/",
                        "exchange": EXCHANGE,
                        "write": routing_keys(account.writes),
                        "read": routing_keys(account.reads),
                    }
                    for account in named
                ],
            },
            indent=2,
        )
        + "\n"
    )


def _queues(broker: BrokerTable, account: Account) -> str:
    """Return which queues an account may have: nobody but the gateway itself those of a gateway's sessions.

    The ids of clients are theirs to choose; all that is known of them is that they do not begin as those of gateways.
    """
    if account.user == broker.id:
        return QUEUES
    own = "" if account.user is None else f"|mqloom-{re.escape(account.user)}-to-|mqloom-doctor-"
    return f"^mqtt-subscription-((?!mqloom-){own}).*$"


def routing_keys(filters: Sequence[str]) -> str:
    """Return a regular expression of the routing keys, and the binding keys, that topic filters include."""
    return "|".join(f"^{_routing_key(each)}$" for each in filters) or "^$"


def _routing_key(topic_filter: str) -> str:
    """Return it for one filter: `+` is any level, `#` any number of levels, none included.

    A level of `#` is none of those that `+` is: who may subscribe to `a/+` could bind to `a/#` by it.
    """
    levels = topic_filter.split("/")
    parts = ["[^.#]*" if level == "+" else re.escape(level.replace(".", "/")) for level in levels if level != "#"]
    text = r"\.".join(parts)
    if levels[-1] != "#":
        return text
    return rf"{text}(\..*)?" if parts else ".*"


def _hashed(password: str, salt: bytes) -> str:
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()

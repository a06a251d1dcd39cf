"""Mosquitto's configuration, password file and access list for one broker of a federation, as text."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mqloom.core.limits import FRAME_BYTES_MAX, READ_BYTES_MAX
from mqloom.core.seals import PACKET_BYTES
from mqloom.gateway.accounts import Account
from mqloom.gateway.configuration import BrokerTable

ROUNDS: Final = 1_000
"""Of PBKDF2. The passwords are random, so that guessing is hopeless without any."""

IN_FLIGHT: Final = 4_000
"""Publications that a gateway gets before it has acknowledged the first: that bounds the rate."""

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def main_file(broker: BrokerTable, folder: str, user: str, authority: str = "", *, anonymous: bool) -> str:
    """Return mosquitto.conf; the other files are in `folder`, and the broker runs as `user` if root starts it.

    With TLS, clients with certificates are asked for them, and the `authority`, a file, must vouch for these.
    """
    listener = f"listener {broker.port}" + (f" {broker.host}" if broker.host in LOOPBACK else "")
    lines = [
        f"# Mosquitto beside the gateway {broker.id}; written by `mqloom config mosquitto`, which overwrites it.",
        listener,
        *_tls(broker, folder, authority),
        f"allow_anonymous {'true' if anonymous else 'false'}",
        f"password_file {folder}/passwords",
        f"acl_file {folder}/acl",
        f"user {user}",
        "",
        "# What waits for a gateway or a client survives a restart, and none of it is dropped.",
        "persistence true",
        f"persistence_location {folder}/store/",
        "autosave_interval 30",
        "max_queued_messages 0",
        "max_queued_bytes 0",
        "",
        f"# A gateway gets {IN_FLIGHT:,} publications at a time; each waits until the whole federation has it.",
        f"max_inflight_messages {IN_FLIGHT}",
        "set_tcp_nodelay true",
        "",
        "# No gateway takes a larger payload: it is refused to whoever publishes it. Packets may be as large as that",
        "# needs; some releases of Mosquitto take 2,000,000 bytes if nobody says otherwise.",
        f"message_size_limit {FRAME_BYTES_MAX + PACKET_BYTES}",
        f"max_packet_size {READ_BYTES_MAX}",
        "",
    ]
    if broker.adapter == "mosquitto":
        lines += [
            "# The gateway learns from the log what plain clients subscribe to.",
            *("log_dest topic", "log_dest stderr"),
            *(f"log_type {kind}" for kind in ("error", "warning", "notice", "subscribe", "unsubscribe")),
            "",
        ]
    return "\n".join(lines)


def _tls(broker: BrokerTable, folder: str, authority: str) -> list[str]:
    if not broker.tls:
        return []
    lines = ["# The broker's own certificate and key: put them there.", f"certfile {folder}/broker.pem"]
    lines.append(f"keyfile {folder}/broker.key")
    if broker.tls_certificate and authority:
        lines += [f"cafile {authority}", "require_certificate true"]
    return lines


def access_list(broker: BrokerTable, accounts: Iterable[Account]) -> str:
    """Return the access list; whoever does not log in comes first, as Mosquitto wants it."""
    parts = []
    for account in accounts:
        lines = [f"# {account.whose}"]
        if account.name:
            lines.append(f"user {account.name}")
        both = [topics for topics in account.reads if topics in account.writes]
        lines += [f"topic readwrite {topics}" for topics in both]
        lines += [f"topic read {topics}" for topics in account.reads if topics not in both]
        lines += [f"topic write {topics}" for topics in account.writes if topics not in both]
        if broker.adapter == "mosquitto" and account.user == broker.id:
            lines.append("topic read $SYS/broker/#")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def password_file(passwords: Mapping[str, str], salts: Sequence[bytes]) -> str:
    """Return the password file, with a salt of 12 random bytes for each account."""
    pairs = zip(passwords.items(), salts, strict=True)
    return "".join(f"{name}:{_hashed(password, salt)}\n" for (name, password), salt in pairs)


def _hashed(password: str, salt: bytes) -> str:
    """Return a password as Mosquitto keeps it: format 7, PBKDF2 with SHA-512."""
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ROUNDS)
    return f"$7${ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"

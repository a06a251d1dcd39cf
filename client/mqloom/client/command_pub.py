"""Publish on a broker, and wait until it has acknowledged.

Whoever subscribes in the federation gets it; for this command it is ordinary MQTT, and needs no gateway.
"""

import argparse
import secrets
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from paho.mqtt.client import MQTTMessageInfo

from mqloom.client.connecting import Connection
from mqloom.client.limits import ACKNOWLEDGE_S, UNACKNOWLEDGED_MAX
from mqloom.core.broker_login import add_connection_options, login_of
from mqloom.core.errors import BrokerError, LocalError
from mqloom.core.topics import check_topic


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", metavar="TOPIC", help="the topic to publish to")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("payload", metavar="PAYLOAD", nargs="?", help="what to publish")
    source.add_argument("--stdin", action="store_true", help="publish every line of stdin that is not empty")
    source.add_argument("--file", metavar="FILE", help="publish what is in a file, as one publication")
    parser.add_argument("--qos", type=int, choices=(0, 1), default=1, help="0: nothing is acknowledged (%(default)s)")
    parser.add_argument("--retain", action="store_true", help="let the broker keep it for subscribers to come")
    add_connection_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publish; return 0 when all is acknowledged. Raises BrokerError when it is not in time."""
    check_topic(arguments.topic)
    payloads = _payloads(arguments)
    with Connection(login_of(arguments), f"mqloom.pub-{secrets.token_hex(4)}") as connection:
        waiting: deque[MQTTMessageInfo] = deque()
        acknowledged = 0
        for payload in payloads:
            waiting.append(connection.publish(arguments.topic, payload, arguments.qos, retain=arguments.retain))
            if len(waiting) >= UNACKNOWLEDGED_MAX:
                acknowledged = _wait(waiting, acknowledged, connection)
        while waiting:
            acknowledged = _wait(waiting, acknowledged, connection)
    return 0


def _payloads(arguments: argparse.Namespace) -> Iterator[bytes]:
    """Return what is to be published; raises LocalError for a file that cannot be read."""
    if arguments.stdin:
        lines = (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return (line for line in lines if line)
    if arguments.file is not None:
        try:
            return iter([Path(arguments.file).read_bytes()])
        except OSError as error:
            raise LocalError(f"--file: {error}") from error
    return iter([arguments.payload.encode(errors="surrogateescape")])


def _wait(waiting: deque[MQTTMessageInfo], acknowledged: int, connection: Connection) -> int:
    """Wait for the oldest publication; return how many are acknowledged now."""
    info = waiting.popleft()
    try:
        info.wait_for_publish(ACKNOWLEDGE_S)
        problem = "" if info.is_published() else f"not acknowledged within {ACKNOWLEDGE_S:g} s"
    except (RuntimeError, ValueError) as error:
        problem = str(error)
    if problem:
        total = acknowledged + 1 + len(waiting)
        text = f"{problem}; of {total} publications sent {acknowledged} were acknowledged in order"
        raise BrokerError(connection.login.address, text)
    return acknowledged + 1

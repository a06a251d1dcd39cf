"""Mosquitto's log, as it publishes it on $SYS topics: which client connects, subscribes, unsubscribes, leaves.

    topic                          line, behind its time
    $SYS/broker/log/M/subscribe    CLIENT QOS FILTER
    $SYS/broker/log/M/unsubscribe  CLIENT FILTER
    $SYS/broker/log/N              New client connected from ADDRESS as CLIENT (p2, c1, k60).
    $SYS/broker/log/N              Client CLIENT disconnected.   and other ways to go
    $SYS/broker/log/N              Expiring client CLIENT due to timeout.

`c1` is a clean start. Names and filters may contain spaces, so that a line can be read in several ways: then the one of
a client that is known counts, else that of the shortest name. With MQTT 5 a session may outlive a clean start, or end
with its connection without one; the log does not tell: as it started, so it ends.
"""

import re
from collections.abc import Iterator
from typing import Final

from mqloom.plugins.plain_clients import PlainClients

SUBSCRIBE: Final = "$SYS/broker/log/M/subscribe"
UNSUBSCRIBE: Final = "$SYS/broker/log/M/unsubscribe"
NOTICE: Final = "$SYS/broker/log/N"
TOPICS: Final = (SUBSCRIBE, UNSUBSCRIBE, NOTICE)

_TIME: Final = re.compile(r"\d+: |\d{4}-\d\d-\d\d[T ][\d:.+Z-]+: ")
_CONNECTED: Final = re.compile(
    r"New (?:client|bridge) connected from \S+ as (.*) \(p\d+, c([01]), k\d+(?:, u'.*')?\)\."
)
_GONE: Final = (
    re.compile(r"Client (.*) disconnected(?:\.|[,:] .*| due to .*)"),
    re.compile(r"Client (.*) closed its connection\."),
    re.compile(r"Client (.*) has exceeded timeout, disconnecting\."),
    re.compile(r"Client (.*) been disconnected by administrative action\."),
    re.compile(r"Socket error on client (.*), disconnecting\."),
    re.compile(r"Bad socket read/write on client (.*): .*"),
)
_EXPIRED: Final = re.compile(r"Expiring client (.*) due to timeout\.")


class MosquittoLog:
    """Reads the log of one broker into what is known of its clients."""

    def __init__(self, clients: PlainClients) -> None:
        self._clients = clients

    def heard(self, topic: str, line: str) -> None:
        """Take one line; what is no news of a client is passed over."""
        text = _TIME.sub("", line, count=1) if _TIME.match(line) else line
        if topic == SUBSCRIBE:
            self._subscribed(text)
        elif topic == UNSUBSCRIBE:
            self._unsubscribed(text)
        elif topic == NOTICE:
            self._noticed(text)

    def _subscribed(self, text: str) -> None:
        ways = [
            (client, rest[2:]) for client, rest in _splits(text) if rest[:2] in ("0 ", "1 ", "2 ") and len(rest) > 2
        ]
        known = [way for way in ways if self._clients.knows(way[0])]
        for client, topics in (known or ways)[:1]:
            self._clients.subscribed(client, topics)

    def _unsubscribed(self, text: str) -> None:
        for client, topics in _splits(text):
            if self._clients.has(client, topics):
                self._clients.unsubscribed(client, topics)
                return

    def _noticed(self, text: str) -> None:
        connected = _CONNECTED.fullmatch(text)
        if connected:
            self._clients.connected(connected[1], clean=connected[2] == "1")
            return
        expired = _EXPIRED.fullmatch(text)
        if expired:
            self._clients.ended(expired[1])
            return
        for way in _GONE:
            gone = way.fullmatch(text)
            if gone and self._clients.knows(gone[1]):
                self._clients.left(gone[1])
                return


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yield all ways to part a line at a space, the shortest beginning first."""
    at = text.find(" ")
    while at > 0:
        yield text[:at], text[at + 1 :]
        at = text.find(" ", at + 1)

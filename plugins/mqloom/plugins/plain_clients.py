"""What the plain MQTT clients of one broker subscribe to, gathered from what the broker tells of each of them.

A client's subscriptions live as long as its session: one that connects clean begins with none, one that leaves takes
them along if its session was clean, and else they stay until the session ends. Of a client of which only subscriptions
were heard it is not known how it connected: they stay.

A broker that starts again says of nobody that it has left. That it has is seen by its uptime, which is less than it
was: then those have left who had connected clean before we lost our own connection to it.

At most KNOWN_MAX subscriptions are known, and PLAIN_FILTERS_PER_CLIENT_MAX of one client, so that nobody takes the room
of all others; further ones are passed over, and `overlooked` counts them. Our own clients, named mqloom-..., do not
count.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.limits import PLAIN_FILTERS_PER_CLIENT_MAX

KNOWN_MAX: Final = 100_000
"""Subscriptions of all plain clients of a broker."""

KEPT_BYTES_MAX: Final = 1024 * 1024
"""A larger record of what clients want is neither written nor read."""

OURS: Final = "mqloom-"
"""How the names of our own clients begin."""

VERSION: Final = 1


@dataclass(slots=True)
class _Client:
    """One client: whether its subscriptions end when it leaves, and what they are, in their order."""

    heard_in: int
    """In which of our own connections we heard that it connected, or subscribed."""
    clean: bool = False
    filters: dict[str, None] = field(default_factory=dict)


class _KeptClient(Struct):
    """One client, written down."""

    clean: bool
    filters: list[str]


class _Kept(Struct, kw_only=True):
    """All clients, written down."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)] = VERSION
    clients: dict[str, _KeptClient]
    uptime_s: Annotated[int, Meta(ge=0)] = 0


class Overlooked:
    """Tells in the log what was passed over: not each time, so that a flood of it does not fill the disk."""

    def __init__(self) -> None:
        self._logged = 0

    def tell(self, log: logging.LoggerAdapter[logging.Logger], count: int, client: str) -> None:
        """So many were passed over since the start, the last of them of this client."""
        if count >= max(2 * self._logged, 1):
            self._logged = count
            log.warning(
                "%d subscriptions of plain clients were passed over, the last one of %r: at most %d of one client and "
                "%d in all are federated; name in `federate` what covers them",
                count,
                client[:100],
                PLAIN_FILTERS_PER_CLIENT_MAX,
                KNOWN_MAX,
            )


class WholeInterest:
    """What plain clients want where the broker tells all of it at each look; the bounds are the same."""

    def __init__(self) -> None:
        self.overlooked = 0
        """How many subscriptions were passed over since the start, each once as long as it stands."""
        self.overlooked_of = ""
        """Whose the last of them was."""
        self._over = 0

    def look(self, subscriptions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the topic filters of these clients, sorted; of each, and in all, those that come first count."""
        of_each: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        wanted: set[str] = set()
        over = 0
        for client, text in subscriptions:
            if client.startswith(OURS) or (client, text) in seen:
                continue
            if len(seen) >= KNOWN_MAX or of_each[client] >= PLAIN_FILTERS_PER_CLIENT_MAX:
                over += 1
                self.overlooked_of = client
                continue
            of_each[client] += 1
            seen.add((client, text))
            wanted.add(text)
        self.overlooked += max(over - self._over, 0)
        self._over = over
        return tuple(sorted(wanted))


class PlainClients:
    """The plain clients of one broker."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._connection = 1
        self._uptime_s = 0
        self._wanted: Counter[str] = Counter()
        self._count = 0
        self.overlooked = 0
        """How many subscriptions were passed over because too many are known, in all or of their client."""
        self.overlooked_of = ""
        """Whose the last of them was."""

    def connected(self, client: str, *, clean: bool) -> None:
        """A client connected; clean, it has no subscriptions yet."""
        if client.startswith(OURS):
            return
        if clean:
            self.ended(client)
        known = self._clients.get(client)
        if known is not None:
            known.clean = clean
            known.heard_in = self._connection
        elif len(self._clients) < KNOWN_MAX:
            self._clients[client] = _Client(self._connection, clean)

    def subscribed(self, client: str, text: str) -> None:
        """A client subscribed, perhaps once more."""
        if client.startswith(OURS):
            return
        known = self._clients.get(client) or _Client(self._connection)
        if text in known.filters:
            return
        if self._count >= KNOWN_MAX or len(known.filters) >= PLAIN_FILTERS_PER_CLIENT_MAX:
            self.overlooked += 1
            self.overlooked_of = client
            return
        self._clients[client] = known
        known.filters[text] = None
        self._wanted[text] += 1
        self._count += 1

    def unsubscribed(self, client: str, text: str) -> None:
        """A client unsubscribed."""
        known = self._clients.get(client)
        if known is not None and text in known.filters:
            del known.filters[text]
            self._forget([text])

    def left(self, client: str) -> None:
        """A client's connection ended."""
        known = self._clients.get(client)
        if known is not None and (known.clean or not known.filters):
            self.ended(client)

    def ended(self, client: str) -> None:
        """A client's session ended."""
        known = self._clients.pop(client, None)
        if known is not None:
            self._forget(known.filters)

    def lost(self) -> None:
        """Our own connection to the broker ended; what comes by the next one is of it as it is then."""
        self._connection += 1

    def runs(self, uptime_s: int, *, is_complete: bool = True) -> bool:
        """The broker has run for so long; return whether it has started again, and whoever had come clean has left.

        They stay if what it has told since is not complete: some may be back, and were not heard.
        """
        has_started = uptime_s < self._uptime_s and is_complete
        self._uptime_s = uptime_s
        if has_started:
            for name in [
                name for name, each in self._clients.items() if each.clean and each.heard_in < self._connection
            ]:
                self.ended(name)
        return has_started

    def knows(self, client: str) -> bool:
        """Whether a client of this name is known."""
        return client in self._clients

    def has(self, client: str, text: str) -> bool:
        """Whether a client has subscribed to this."""
        return client in self._clients and text in self._clients[client].filters

    @property
    def filters(self) -> tuple[str, ...]:
        """All that is wanted, each once, in the order of their names."""
        return tuple(sorted(self._wanted))

    def encode(self) -> bytes:
        """Return what is known, to be kept; raises RecordError if it is too much."""
        clients = {
            name: _KeptClient(client.clean, list(client.filters))
            for name, client in self._clients.items()
            if client.filters
        }
        data = msgspec.json.encode(_Kept(clients=clients, uptime_s=self._uptime_s))
        if len(data) > KEPT_BYTES_MAX:
            raise RecordError(f"{len(data)} bytes, the bound is {KEPT_BYTES_MAX}")
        return data

    def restore(self, data: bytes) -> None:
        """Know again what was kept; raises RecordError. What is known already stays.

        What the broker says of its uptime must come behind it.
        """
        if len(data) > KEPT_BYTES_MAX:
            raise RecordError(f"{len(data)} bytes, the bound is {KEPT_BYTES_MAX}")
        try:
            kept = msgspec.json.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(str(error)) from None
        self._uptime_s = kept.uptime_s
        for name, client in kept.clients.items():
            if name not in self._clients:
                for text in client.filters:
                    self.subscribed(name, text)
                if name in self._clients:
                    self._clients[name].clean = client.clean
                    self._clients[name].heard_in = 0

    def check(self) -> None:
        """State the invariants."""
        filters = [text for client in self._clients.values() for text in client.filters]
        assert self._wanted == Counter(filters)
        assert self._count == len(filters) <= KNOWN_MAX
        assert all(len(client.filters) <= PLAIN_FILTERS_PER_CLIENT_MAX for client in self._clients.values())

    def _forget(self, filters: Collection[str]) -> None:
        for text in filters:
            self._wanted[text] -= 1
            if not self._wanted[text]:
                del self._wanted[text]
        self._count -= len(filters)

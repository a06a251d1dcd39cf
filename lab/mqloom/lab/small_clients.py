"""The clients of a small world: what each of them was given, checked as it comes."""

import pickle  # our own objects, in our own memory
from typing import NamedTuple

from mqloom.core.ids import ClientId
from mqloom.core.records import Record, Wish, decode_envelope, encode_record
from mqloom.core.seen import Seen
from mqloom.lab.small_scope import Scope, SmallSubscriber, payload_of
from mqloom.lab.small_steps import Catalogue, ViolationError


class Reader(NamedTuple):
    """A client: the publications it was given, and what it needs to tell repetitions."""

    received: tuple[int, ...]
    seen: bytes


class Clients:
    """What clients become by what they are given, each step taken once and then remembered."""

    def __init__(self, scope: Scope, seen: type[Seen]) -> None:
        self.readers: Catalogue[Reader] = Catalogue()
        self.fresh = self.readers.number(Reader((), pickle.dumps(seen())))
        self._scope = scope
        self._read: dict[tuple[int, int, bytes], int] = {}
        self._publication = {payload_of(each): index for index, each in enumerate(scope.publications)}
        self._wanted = [
            {index for index, each in enumerate(scope.publications) if subscriber.wants(each)}
            for subscriber in scope.subscribers
        ]

    def read(self, client: int, reader: int, data: bytes) -> int:
        """Return what a client is after it was given an envelope; raises ViolationError."""
        key = client, reader, data
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._receive(client, self.readers.values[reader], data)
        return known

    def missing(self, client: int, reader: int) -> list[str]:
        """Return which publications a client was not given."""
        received = self.readers.values[reader].received
        return [f"p{each + 1}" for each in sorted(self._wanted[client].difference(received))]

    def _receive(self, client: int, reader: Reader, data: bytes) -> int:
        seen: Seen = pickle.loads(reader.seen)  # noqa: S301 - our own
        received = reader.received
        name = self._scope.subscribers[client].name
        for delivered in decode_envelope(data):
            index = self._publication[delivered.publication.payload]
            if seen.earlier(delivered.publication) is not None:
                continue
            if index not in self._wanted[client]:
                raise ViolationError(f"{name} was given p{index + 1}, for which it did not ask")
            if index in received:
                raise ViolationError(f"{name} was given p{index + 1} twice")
            received = (*received, index)
        return self.readers.number(Reader(received, pickle.dumps(seen)))


def record_of(subscriber: SmallSubscriber) -> tuple[ClientId, bytes]:
    """Return who a subscriber is, and the record that it keeps on its broker."""
    wishes = {subscriber.name: Wish(topics=subscriber.topics, where=subscriber.where)}
    return ClientId(subscriber.name), encode_record(Record(subscriptions=wishes, format="frame"))

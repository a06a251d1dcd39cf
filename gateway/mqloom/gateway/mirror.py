"""Clients' records once more, written by us, for a broker that does not replay them to us after a restart.

Theory of operation. A gateway that starts reads the records of its clients by a wildcard. Where the broker replays
nothing to one, it reads this mirror instead, topic by topic. Which chunks have changed is told at the end of each
event, before the answers of that event: who has been told that its subscription stands is in the mirror, or will be
within MIRROR_EVERY_S. What clients wrote while we were away is in our session with the broker, and comes behind the
mirror.
"""

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import MIRROR_CHUNK_BYTES_MAX, MIRROR_EVERY_S
from mqloom.core.mirrors import chunk_of, encode_chunk
from mqloom.gateway.journal import Journal

ENTRY_BYTES = 16
"""What an entry takes besides its name and record, at most."""


class Mirror:
    """The mirror of one gateway; it does nothing until it is begun."""

    def __init__(self, gateway: GatewayId, journal: Journal) -> None:
        self._gateway = gateway
        self._journal = journal
        self._is_kept = False
        self._chunks: dict[int, dict[ClientId, bytes]] = {}
        self._sizes: dict[int, int] = {}
        self._changed: dict[int, None] = {}
        self._not_before: float | None = None

    def begin(self) -> None:
        """From now on keep one: the broker needs it."""
        self._is_kept = True

    def note(self, client: ClientId, record: bytes) -> None:
        """A client has this record now; no bytes: none."""
        if not self._is_kept:
            return
        number = chunk_of(client)
        chunk = self._chunks.setdefault(number, {})
        before = chunk.get(client, b"")
        if before == record:
            return
        size = self._sizes.get(number, 0) - _weight(client, before)
        if size + _weight(client, record) > MIRROR_CHUNK_BYTES_MAX:
            text = f"the record of {client[:100]!r} is not mirrored: after a restart of ours it has to write it again"
            self._journal.refuse("mirror_refused", "too large", text)
            record = b""
        chunk.pop(client, None)
        if record:
            chunk[client] = record
        if record or before:
            self._sizes[number] = size + _weight(client, record)
            self._changed[number] = None

    def drain(self, now: float) -> list[PublishLocally]:
        """Return the chunks that have changed, if it is time."""
        if not self._changed or (self._not_before is not None and now < self._not_before):
            return []
        self._not_before = now + MIRROR_EVERY_S
        changed, self._changed = self._changed, {}
        return [
            PublishLocally(
                topic=layout.mirror(self._gateway, number),
                payload=encode_chunk(self._chunks[number]),
                qos=1,
                retain=True,
            )
            for number in changed
        ]

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        return (self._not_before or 0.0) if self._changed else None


def _weight(client: ClientId, record: bytes) -> int:
    return len(client.encode("utf-8", "surrogatepass")) + len(record) + ENTRY_BYTES if record else 0

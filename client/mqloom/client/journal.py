"""A client's record at one broker: what it says, when it is written, and what an earlier life has left in its place."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from mqloom.client.journey import AT_HOME, Journey, journey_in, pointer_of, probe_of, record_of, wishes_in
from mqloom.client.limits import LEASE_S, READ_HELD_S, READ_HELD_S_MAX, READ_S, READ_TRIES
from mqloom.client.vocabulary import Publish, Subscribe
from mqloom.client.wishes import Wishes
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Wish
from mqloom.core.seen import Seen

NEVER: Final = float("inf")


class Travel(NamedTuple):
    """Of a client that is moved: what its record is to say of that, and what has come to it by any broker."""

    journey: Journey
    seen: Seen
    is_home: bool = True
    """Whether the client begins here. Only here it has a reason to wait long for what an earlier life has left: where
    it goes there is a time for it, and a broker that it leaves sends less the sooner it does. Anywhere else it reads
    whatever it wants: where it has a session, or had one, there may be a record."""


@dataclass(slots=True)
class Journal:
    """The record of one client; one that `reads` looks first what is there."""

    client: ClientId
    wishes: Wishes
    qos: int = 1
    lease_s: float = LEASE_S
    token: str = ""
    journey: Journey = AT_HOME
    reads: bool = False
    waits: bool = False
    """Whether nobody has said yet what comes of what was read."""
    may_stand: bool = False
    """Whether the gateway may have a record that asks for something: until it has said that the last has ended, for
    what we write may be lost with the connection."""
    tries_max: int = READ_TRIES
    is_patient: bool = False
    is_behind: bool = False
    """Whether publications have come by this connection: what is read may stand behind others, in the same queue."""
    read_by: float | None = None
    write_at: float = 0.0
    """When it is to be written next: at a third of its lease, or sooner."""
    _written_at: float = 0.0
    _found: bytes = b""
    _tries: int = 0
    _began_at: float = 0.0

    def write(self, gateway: GatewayId, now: float) -> Publish:
        """Say what is wanted now; nothing at all deletes it."""
        wishes = self.wishes.asked()
        self.may_stand = self.may_stand or bool(wishes)
        payload = b""
        if wishes or self.journey.leaving_to:  # who leaves is answered, whatever it wants
            payload = record_of(wishes, self.journey, qos=self.qos, lease_s=self.lease_s, token=self.token)
        self._written_at = now
        self.write_at = now + self.lease_s / 3 if payload else NEVER
        return self._publish(gateway, payload)

    def hurry(self, now: float, pause_s: float) -> None:
        """Let it be written soon: so long after the last time, or at once."""
        self.write_at = min(self.write_at, max(now, self._written_at + pause_s))

    def delete(self, gateway: GatewayId) -> Publish:
        """Want nothing any more."""
        return self._publish(gateway, b"")

    def point(self, gateway: GatewayId) -> Publish:
        """Say where we have gone."""
        return self._publish(gateway, pointer_of(self.journey, self.journey.leaving_to, self.token))

    def begin_reading(self, gateway: GatewayId, now: float) -> list[Subscribe | Publish]:
        """Ask for what an earlier life has left: that comes before our own probe."""
        self._found, self._tries, self._began_at = b"", 0, now
        subscribe = Subscribe(topic=layout.record(gateway, self.client), qos=1)
        return [subscribe, self.probe(gateway, now)]

    def may_probe(self, now: float) -> bool:
        """Whether it is worth asking once more: what stands before it may take long."""
        is_held = self.is_patient and self.is_behind and now < self._began_at + READ_HELD_S_MAX
        return self._tries < self.tries_max or is_held

    @property
    def is_late(self) -> bool:
        """Whether it is waited for longer than it would be if nothing could stand before it."""
        return self.reads and self._tries > self.tries_max

    def probe(self, gateway: GatewayId, now: float) -> Publish:
        """Write what comes behind all that is there, and changes nothing."""
        self._tries += 1
        if self._tries > self.tries_max:
            self.read_by, self.is_behind = now + READ_HELD_S, False
        else:
            self.read_by = now + READ_S
        return Publish(topic=layout.record(gateway, self.client), payload=self._probe(), qos=1, retain=False)

    def hear(self, payload: bytes) -> bool:
        """Take what comes by the record's topic, and return whether that was our probe."""
        if payload == self._probe():
            return True
        if self.reads:
            self._found = payload
        return False

    def end_reading(self, *, is_certain: bool) -> tuple[Journey | None, dict[str, Wish]]:
        """Return what an earlier life has left: of its moves, and of what it wanted."""
        self.reads, self.read_by = False, None
        wishes = wishes_in(self._found)
        if is_certain or wishes:
            self.may_stand = bool(wishes)
        return journey_in(self._found), wishes

    def leave(self, to: str) -> None:
        """Say from now on that we leave."""
        self.journey = Journey(incarnation=self.journey.incarnation, leaving_to=to)
        self.reads = self.waits = False
        self.read_by = None

    def _probe(self) -> bytes:
        return probe_of(self.journey, self.token)

    def _publish(self, gateway: GatewayId, payload: bytes) -> Publish:
        return Publish(topic=layout.record(gateway, self.client), payload=payload, qos=1, retain=True)

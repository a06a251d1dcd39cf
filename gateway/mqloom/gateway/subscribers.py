"""The local side: clients and their records, standing subscriptions, and how a matched publication reaches each.

A client's record is its whole wish. A new record is compared with the one before: what is new begins, what is gone or
changed ends, the rest is untouched. Beginning comes before ending, so that a changed filter has no gap.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import FRAME_BYTES_TARGET
from mqloom.core.migration_records import Immovable
from mqloom.core.publication import Publication
from mqloom.core.records import Delivered, Format, Record, Wish, encode_envelope
from mqloom.core.wire import weight_of
from mqloom.gateway.custody import Duty

Matched = tuple[Publication, list[SubscriptionKey], Duty | None]
"""A publication, who wants it here, and its duty if it has one."""

Delivery = tuple[PublishLocally, list[Duty]]
"""What to publish, and whose duties that serves."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A subscription from the configuration: what matches is republished here below the topic `into`."""

    topics: str
    where: str
    into: str


@dataclass(slots=True)
class _Client:
    """One client: where and how it is served, and its subscriptions by name."""

    out: str
    format: Format
    qos: int
    lease_until: float | None
    incarnation: str
    wishes: dict[str, tuple[Wish, SubscriptionKey]] = field(default_factory=dict)
    keys: int = 0  # subscriptions that still deliver, those that are ending included


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose subscription a key is: a client's (by name), a standing one's (`into`), or that of plain clients."""

    client: ClientId | None
    name: str
    into: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What a new record changes: names that begin, keys that end, and keys that stay as they are."""

    begin: dict[str, Wish]
    end: list[SubscriptionKey]
    stay: list[SubscriptionKey]


class Subscribers:
    """All local subscribers of one gateway."""

    def __init__(self, gateway: GatewayId) -> None:
        self._gateway = gateway
        self._clients: dict[ClientId, _Client] = {}
        self._owners: dict[SubscriptionKey, Owner] = {}
        self._leases: list[tuple[float, ClientId]] = []  # a heap; entries of replaced leases are skipped

    def compare(self, client: ClientId, record: Record, now: float) -> Difference:
        """Note how the client wants to be served from now on, and return what its new record changes."""
        known = self._clients.get(client)
        if known is None:
            out = layout.out(self._gateway, client)
            known = self._clients[client] = _Client(out, record.format, record.qos, None, record.incarnation)
        known.format, known.qos, known.incarnation = record.format, record.qos, record.incarnation
        self.renew(client, record.lease_s, now)
        begin, end, stay = dict(record.subscriptions), [], []
        for name, (wish, key) in known.wishes.items():
            if record.subscriptions.get(name) == wish:
                del begin[name]
                stay.append(key)
            else:
                end.append(key)
        return Difference(begin, end, stay)

    def renew(self, client: ClientId, lease_s: float, now: float) -> None:
        """Note until when a client's record holds."""
        known = self._clients[client]
        known.lease_until = now + lease_s if lease_s else None
        if known.lease_until is not None:
            self._note_lease(client, known.lease_until)

    def _note_lease(self, client: ClientId, until: float) -> None:
        if len(self._leases) > 2 * len(self._clients) + 1_024:  # renewals must not fill the heap
            leases = {client: known.lease_until for client, known in self._clients.items()}
            self._leases = [(until, client) for client, until in leases.items() if until is not None]
            heapq.heapify(self._leases)
        else:
            heapq.heappush(self._leases, (until, client))

    def begin(self, client: ClientId, name: str, wish: Wish, key: SubscriptionKey) -> None:
        """Take in one of a client's subscriptions; another of that name must be ending."""
        known = self._clients[client]
        known.wishes[name] = (wish, key)
        known.keys += 1
        self._owners[key] = Owner(client, name)

    def begin_standing(self, standing: Standing, key: SubscriptionKey) -> None:
        """Take in a subscription from the configuration."""
        self._owners[key] = Owner(None, standing.into, standing.into)

    def begin_plain(self, topics: str, key: SubscriptionKey) -> None:
        """Take in what plain clients want."""
        self._owners[key] = Owner(None, topics, is_plain=True)

    def is_of_client(self, key: SubscriptionKey) -> bool:
        """Whether a subscription is that of a client, and not of the configuration or of plain clients."""
        owner = self._owners.get(key)
        return owner is not None and owner.client is not None

    def end(self, key: SubscriptionKey) -> None:
        """A subscription is ending: its name is free again, but it delivers until it is forgotten."""
        owner = self._owners[key]
        assert owner.client is not None
        wishes = self._clients[owner.client].wishes
        if owner.name in wishes and wishes[owner.name][1] == key:
            del wishes[owner.name]

    def forget(self, key: SubscriptionKey) -> Owner:
        """A subscription has ended: it delivers no more. Returns whose it was."""
        owner = self._owners.pop(key)
        if owner.client is not None:
            self._clients[owner.client].keys -= 1
            self.discard_idle(owner.client)
        return owner

    def discard_idle(self, client: ClientId) -> None:
        """Forget a client without any subscription."""
        known = self._clients.get(client)
        if known is not None and not known.keys:
            del self._clients[client]

    def keys_of(self, client: ClientId) -> list[SubscriptionKey]:
        """Return the keys of a client's subscriptions that are not ending."""
        known = self._clients.get(client)
        return [key for _, key in known.wishes.values()] if known is not None else []

    def wishes(self) -> Iterator[tuple[ClientId, list[SubscriptionKey]]]:
        """Return, client by client, the keys of all subscriptions that are not ending."""
        for client, known in self._clients.items():
            yield client, [key for _, key in known.wishes.values()]

    def has(self, client: ClientId, name: str) -> bool:
        """Whether a client has a subscription of that name that is not ending."""
        return client in self._clients and name in self._clients[client].wishes

    def incarnation(self, client: ClientId) -> str:
        """Return which start of a client wrote its record; nothing if it does not say, or is none of ours."""
        known = self._clients.get(client)
        return known.incarnation if known is not None else ""

    def immovable(self, client: ClientId) -> Immovable | None:
        """Return why a client that wants something here reads no orders; None if it does, or wants nothing."""
        known = self._clients.get(client)
        if known is None or known.incarnation or not known.wishes:
            return None
        return "plain" if known.format == "plain" else "keyless"

    def all_immovable(self) -> Iterator[tuple[ClientId, Immovable]]:
        """Return all that read no orders, each with the reason."""
        for client in self._clients:
            reason = self.immovable(client)
            if reason is not None:
                yield client, reason

    def ending(self, client: ClientId) -> int:
        """How many subscriptions of a client only wait to be forgotten."""
        known = self._clients.get(client)
        return known.keys - len(known.wishes) if known is not None else 0

    def owner(self, key: SubscriptionKey) -> Owner:
        """Return whose subscription this is."""
        return self._owners[key]

    def is_ending(self, key: SubscriptionKey) -> bool:
        """Whether this subscription only waits to be forgotten."""
        owner = self._owners[key]
        if owner.client is None:
            return False
        current = self._clients[owner.client].wishes.get(owner.name)
        return current is None or current[1] != key

    def expired(self, now: float) -> list[ClientId]:
        """Return the clients whose lease has run out, each once."""
        clients = []
        while self._leases and self._leases[0][0] <= now:
            until, client = heapq.heappop(self._leases)
            known = self._clients.get(client)
            if known is not None and known.lease_until == until:
                known.lease_until = None
                clients.append(client)
        return clients

    @property
    def deadline(self) -> float | None:
        """When `expired` must be called."""
        while self._leases:
            until, client = self._leases[0]
            known = self._clients.get(client)
            if known is not None and known.lease_until == until:
                return until
            heapq.heappop(self._leases)
        return None

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, client: ClientId) -> bool:
        return client in self._clients

    def check(self) -> None:
        """State the invariants: every client owns what it counts, and every wish has an owner."""
        owned = [owner.client for owner in self._owners.values() if owner.client is not None]
        for client, known in self._clients.items():
            assert known.keys == owned.count(client) > 0, client
            for name, (_, key) in known.wishes.items():
                assert self._owners[key] == Owner(client, name)
        assert set(owned) == set(self._clients)

    def deliver(self, matched: Iterable[Matched]) -> tuple[list[Delivery], int]:
        """Return what to publish locally for a batch, and how many deliveries that is.

        A client gets a publication once, however many of its subscriptions match. What a batch has for one client
        is one envelope, or several of FRAME_BYTES_TARGET. Plain clients together get it once, under its own topic,
        unless it entered here: then they have it.
        """
        deliveries: list[Delivery] = []
        envelopes: dict[ClientId, list[tuple[Delivered, Duty | None]]] = {}
        count = 0
        for publication, keys, duty in matched:
            duties = [] if duty is None else [duty]
            names: dict[ClientId, list[str]] = {}
            intos: dict[str, None] = {}
            is_for_plain = False
            for key in keys:
                owner = self._owners[key]
                if owner.is_plain:
                    is_for_plain = publication.origin != self._gateway
                elif owner.client is None:
                    intos[owner.into] = None
                else:
                    names.setdefault(owner.client, []).append(owner.name)
            count += len(names) + len(intos)
            if is_for_plain:
                count += 1
                effect = _republished(publication, publication.topic, publication.qos, retain=publication.retain)
                deliveries.append((msgspec.structs.replace(effect, republished=True), duties))
            deliveries += [
                (_republished(publication, f"{into}/{publication.topic}", publication.qos), duties) for into in intos
            ]
            for client, wanted_by in names.items():
                known = self._clients[client]
                if known.format == "plain":
                    topic = f"{known.out}/{publication.topic}"
                    deliveries.append((_republished(publication, topic, min(publication.qos, known.qos)), duties))
                else:
                    delivered = Delivered(publication, tuple(sorted(set(wanted_by))))
                    envelopes.setdefault(client, []).append((delivered, duty))
        for client, listed in envelopes.items():
            known = self._clients[client]
            for part in _parts(listed):
                qos = min(known.qos, max(each.publication.qos for each, _ in part))
                effect = PublishLocally(topic=known.out, payload=encode_envelope([each for each, _ in part]), qos=qos)
                deliveries.append((effect, [duty for _, duty in part if duty is not None]))
        return deliveries, count


def _parts(listed: list[tuple[Delivered, Duty | None]]) -> Iterator[list[tuple[Delivered, Duty | None]]]:
    """Cut what one client gets, in order, into envelopes of which only one of a single publication is larger."""
    part: list[tuple[Delivered, Duty | None]] = []
    size = 0
    for each, duty in listed:
        weight = weight_of(each.publication) + 4 * sum(map(len, each.names))
        if part and size + weight > FRAME_BYTES_TARGET:
            yield part
            part, size = [], 0
        part.append((each, duty))
        size += weight
    yield part


def _republished(publication: Publication, topic: str, qos: int, *, retain: bool = False) -> PublishLocally:
    return PublishLocally(
        topic=topic,
        payload=publication.payload,
        qos=qos,
        retain=retain,
        content_type=publication.content_type,
        user_properties=publication.user_properties,
    )

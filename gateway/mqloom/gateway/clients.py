"""The way of a client's subscriptions: from its record into the table, and out of it behind what is under way.

Whatever becomes of one the client is told: established, refused with a reason, ended.

A client that is served by another gateway already, and only moves away (`leaving_to`), still names its subscriptions:
if we have restarted meanwhile they begin once more, so that what is under way to them is not lost. They end behind a
wave that has reached everybody; then the client is told, without a name, that all have ended.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import FilterError, RecordError, TopicError
from mqloom.core.events import BrokerKnown
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import CLIENTS_MAX, ENDING_MAX, ID_LENGTH_MAX, LEAVING_S, RECORDS_PER_S
from mqloom.core.records import Answer, Record, Wish, decode_record, encode_answer, encode_record
from mqloom.core.subscription import Subscription
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.interfaces import RecordRequest, SubscribeRequest
from mqloom.gateway.journal import Journal
from mqloom.gateway.mirror import Mirror
from mqloom.gateway.pace import Pace
from mqloom.gateway.pointers import Pointers
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Standing, Subscribers

NO_WISH: Final = Record(subscriptions={})
"""What a client that deletes its record asks for."""


class Terms(Protocol):
    """Under what conditions clients are served; a node's parts say that."""

    @property
    def gateway(self) -> GatewayId:
        """The gateway beside our broker."""
        ...

    @property
    def epoch(self) -> int:
        """Of this start of it."""
        ...

    @property
    def data(self) -> Sequence[str]:
        """The topics that take part."""
        ...

    @property
    def admit(self) -> Callable[[SubscribeRequest], str | None]:
        """Says why somebody may not subscribe; None if it may."""
        ...

    @property
    def admit_record(self) -> Callable[[RecordRequest], str | None]:
        """Says why a record does not count; None if it does."""
        ...

    @property
    def pace(self) -> Pace | None:
        """How much clients may make us do."""
        ...


Noted = Callable[[ClientId, Record | None, float], None]
"""Is told each record that counts; None: the client has none any more."""


class Clients:
    """The clients of one gateway, as far as they subscribe."""

    def __init__(
        self,
        terms: Terms,
        routes: Routes,
        subscribers: Subscribers,
        flushes: Flushes,
        journal: Journal,
        noted: Noted = lambda client, record, now: None,
    ) -> None:
        self._noted = noted
        self._terms = terms
        self._routes = routes
        self._subscribers = subscribers
        self._flushes = flushes
        self._journal = journal
        self._mirror = Mirror(terms.gateway, journal)
        self._number = 0
        self._standing: dict[Standing, SubscriptionKey] = {}
        self._leaving: set[ClientId] = set()
        self._pointers = Pointers()
        self._effects: list[PublishLocally] = []

    def record(self, client: ClientId, data: bytes, now: float) -> None:
        """A client wrote its record: begin what is new, then end what is gone."""
        record = None if self._is_hurried(client, now) else self._admitted(client, data, now)
        if record is None or record.is_probe:
            return
        self._noted(client, record if data else None, now)
        self._point(client, record, now)
        if not data:
            self._mirror.note(client, b"")
            self._end(self._subscribers.keys_of(client), now)
            return
        self._mirror.note(client, encode_record(replace(record, token="")) if record.token else data)
        if record.leaving_to and client in self._leaving:
            self._subscribers.renew(client, record.lease_s, now)
            return
        difference = self._subscribers.compare(client, record, now)
        for name, wish in difference.begin.items():
            self._begin(client, name, wish, now)
        self._end(difference.end, now)
        if record.leaving_to:
            self._leave(client, now)
            return
        self._subscribers.discard_idle(client)
        for key in difference.stay:
            complete = self._routes.standing_of(key)
            if complete is not None:
                name = self._subscribers.owner(key).name
                self._answer(client, Answer(answer="established", name=name, partly=not complete))

    def _point(self, client: ClientId, record: Record, now: float) -> None:
        """Know for how long what a client that moves wrote is to stay on our broker."""
        if not record.leaving_to:
            self._leaving.discard(client)
        if (record.leaving_to or record.moved_to) and record.lease_s:
            self._pointers.note(client, now + record.lease_s)
        else:
            self._pointers.forget(client)

    def _leave(self, client: ClientId, now: float) -> None:
        """Let all that a client has end, with patience; nobody else will ask for it once more."""
        keys = self._subscribers.keys_of(client)
        for key in keys:
            self._subscribers.end(key)
        self._leaving.add(client)
        self._flushes.close(keys, now, patient_until=now + LEAVING_S)
        self._subscribers.discard_idle(client)
        self._answer_left(client)

    def _answer_left(self, client: ClientId) -> None:
        """Tell a client that moves away that it has got all that was under way, if it has."""
        if client in self._leaving and client not in self._subscribers:
            self._leaving.discard(client)
            self._answer(client, Answer(answer="ended"))

    def _is_hurried(self, client: ClientId, now: float) -> bool:
        """Whether a client writes more records than we read; it is told so once, until it has waited."""
        pace = self._terms.pace
        if pace is None or pace.record(client, now):
            return False
        if pace.is_to_be_told(client):
            problem = f"over {RECORDS_PER_S:g} records a second: wait a little, and write the last one again"
            self._refuse(client, "rate", Answer(answer="refused", problem=problem), now)
        else:
            self._journal.counters.add("subscriptions_refused", "rate")
        return True

    def _admitted(self, client: ClientId, data: bytes, now: float) -> Record | None:
        """Return what a record says (no bytes: nothing is wanted), if it can be read and counts."""
        try:
            record = decode_record(data) if data else NO_WISH
            if len(client) > ID_LENGTH_MAX:
                raise RecordError(f"a client's name of more than {ID_LENGTH_MAX} characters")
            if self._subscribers.ending(client) > ENDING_MAX and data:
                raise RecordError("too many changes: wait until earlier subscriptions have ended, then write it again")
            if data and client not in self._subscribers and len(self._subscribers) >= CLIENTS_MAX:
                raise RecordError(f"this gateway serves {CLIENTS_MAX} clients already")
        except RecordError as error:
            self._refuse(client, "record", Answer(answer="refused", problem=error.problem), now)
            return None
        if not data and client not in self._subscribers:
            return record
        refusal = self._terms.admit_record(self._request(client, record, len(data)))
        if refusal is not None:
            self._refuse(client, "admission", Answer(answer="refused", problem=refusal), now)
            return None
        return record

    def _request(self, client: ClientId, record: Record, size: int) -> RecordRequest:
        pace = self._terms.pace
        changes = 0 if pace is None else pace.changes(client)
        return RecordRequest(self._terms.gateway, client, record.token, size, len(record.subscriptions), changes)

    def _begin(self, client: ClientId, name: str, wish: Wish, now: float) -> None:
        try:
            subscription = Subscription.parse(wish.topics, wish.where)
        except FilterError as error:
            answer = Answer(answer="refused", name=name, problem=error.problem, column=error.column)
            self._refuse(client, "filter", answer, now)
            return
        except TopicError as error:
            self._refuse(client, "topic", Answer(answer="refused", name=name, problem=str(error)), now)
            return
        if not any(subscription.may_touch(topics) for topics in self._terms.data):
            problem = f"nothing would ever come: only {', '.join(self._terms.data)} take part in the federation"
            self._refuse(client, "topic", Answer(answer="refused", name=name, problem=problem), now)
            return
        refusal = self._terms.admit(SubscribeRequest(self._terms.gateway, client, name, subscription))
        if refusal is not None:
            self._refuse(client, "admission", Answer(answer="refused", name=name, problem=refusal), now)
            return
        key = self.next_key()
        if not self._routes.add(key, subscription, None):
            problem = "the matcher failed on it: ask the operator"
            self._refuse(client, "matcher", Answer(answer="refused", name=name, problem=problem), now)
            return
        self._subscribers.begin(client, name, wish, key)

    def start(self, standing: Sequence[Standing]) -> None:
        """Begin the subscriptions of the configuration."""
        for each in standing:
            key = self.next_key()
            if each not in self._standing and self._routes.add(key, Subscription.parse(each.topics, each.where), None):
                self._standing[each] = key
                self._subscribers.begin_standing(each, key)

    def change(self, terms: Terms, standing: Sequence[Standing], now: float) -> None:
        """Serve clients under other conditions from now on, and have other subscriptions of the configuration."""
        self._terms = terms
        self.start(standing)
        gone = [each for each in self._standing if each not in standing]
        self._flushes.close([self._standing.pop(each) for each in gone], now)

    def expire(self, now: float) -> None:
        """End what was not renewed."""
        for client in self._subscribers.expired(now):
            keys = self._subscribers.keys_of(client)
            self._journal.counters.add("subscriptions_expired", "lease", amount=len(keys))
            self._end(keys, now)
            self._delete(client, now)
        for client in self._pointers.pushed_out():
            self._journal.counters.add("pointers_dropped", "too many")
            self._delete(client, now)
        for client in self._pointers.expired(now):
            self._delete(client, now)

    def _delete(self, client: ClientId, now: float) -> None:
        """Delete a client's record: it would be replayed to us after a restart, and live once more."""
        self._noted(client, None, now)
        self._mirror.note(client, b"")
        topic = layout.record(self._terms.gateway, client)
        self._effects.append(PublishLocally(topic=topic, payload=b"", retain=True))

    def tend(self) -> None:
        """Forget what has ended, and tell what is established."""
        self._forget_flushed()
        self._answer_established()

    def know(self, event: BrokerKnown, now: float) -> None:
        """Keep a mirror of all records if the broker needs one, and take from the earlier one what clients wanted."""
        if not event.traits.replays_to_wildcards:
            self._mirror.begin()
            for client, data in event.records:
                self.record(client, data, now)

    def drain(self, now: float) -> list[PublishLocally]:
        """Return what is to be published on our broker."""
        effects, self._effects = [*self._mirror.drain(now), *self._effects], []
        return effects

    @property
    def deadline(self) -> float | None:
        """When `expire` and `drain` must be called."""
        deadlines = [at for at in (self._mirror.deadline, self._pointers.deadline) if at is not None]
        return min(deadlines, default=None)

    def next_key(self) -> SubscriptionKey:
        """Return a key that no subscription of ours has had."""
        self._number += 1
        return SubscriptionKey(self._terms.gateway, self._terms.epoch, self._number)

    def _end(self, keys: Sequence[SubscriptionKey], now: float) -> None:
        """Let subscriptions end behind what is under way to them."""
        for key in keys:
            self._subscribers.end(key)
        self._flushes.close(keys, now)

    def _forget_flushed(self) -> None:
        for key in self._flushes.finished():
            self._routes.remove(key, None)
            owner = self._subscribers.forget(key)
            # Else nobody is to be told, or another has taken its place.
            if owner.client is not None and not self._subscribers.has(owner.client, owner.name):
                self._answer(owner.client, Answer(answer="ended", name=owner.name))
            if owner.client is not None:
                self._answer_left(owner.client)

    def _answer_established(self) -> None:
        for key, complete in self._routes.established_here():
            self._journal.counters.add("subscriptions_established", "" if complete else "partly")
            owner = self._subscribers.owner(key)
            if owner.client is not None and not self._subscribers.is_ending(key):
                self._answer(owner.client, Answer(answer="established", name=owner.name, partly=not complete))

    def _refuse(self, client: ClientId, reason: str, answer: Answer, now: float) -> None:
        text = f"client {client[:100]!r} {answer.name[:100]!r}: {answer.problem}"
        self._journal.refuse("subscriptions_refused", reason, text)
        pace = self._terms.pace
        if pace is None or pace.answer(now):
            self._answer(client, answer)

    def _answer(self, client: ClientId, answer: Answer) -> None:
        topic = layout.control(self._terms.gateway, client)
        self._effects.append(PublishLocally(topic=topic, payload=encode_answer(answer), qos=1))

"""One gateway as a core without IO: the way of a publication, of a subscription and of an unsubscription through it.

`handle(event, now)` is the only way in, and the effects it returns the only way out. The parts, each with its theory
of operation on top of its file: `links` (conversations with neighbours), `intake` (what our own broker hands over),
`contents` (codecs), `routes` and `announcements` (who wants what, covering, established), `flushes` (unsubscribing
without loss), `subscribers` (local clients), `controls` (agents), `guarded` (overlays that fail).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.effects import Effect, PublishLocally, WakeAt
from mqloom.core.errors import FilterError, FrameError, RecordError, TopicError
from mqloom.core.events import (
    Event,
    FramesReceived,
    LinkConnected,
    LinkLost,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import CLIENTS_MAX, ENDING_MAX, HOPS_MAX, ID_LENGTH_MAX, LINK_GRACE_S
from mqloom.core.messages import Announce, Control, Established, Flush, Flushed, Message, Synced, Withdraw
from mqloom.core.publication import Publication
from mqloom.core.records import Answer, Wish, decode_record, encode_answer
from mqloom.core.seen import Seen
from mqloom.core.subscription import Subscription
from mqloom.core.wire import decode
from mqloom.gateway.contents import Contents
from mqloom.gateway.controls import Controls
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.intake import Intake
from mqloom.gateway.interfaces import Agent, CodecChoice, Content, Matcher, Overlay, SubscribeRequest
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.links import Link, LinkChange, LinkState
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Standing, Subscribers


def admit_all(request: SubscribeRequest) -> str | None:
    """Admit everybody: what a gateway does without an admission plugin."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What a node is built of. The epoch must be larger than at any earlier start of this gateway."""

    gateway: GatewayId
    epoch: int
    neighbours: Sequence[GatewayId]
    matcher: Matcher
    overlay: Overlay
    codecs: Sequence[CodecChoice]
    agents: Sequence[Agent] = ()
    admit: Callable[[SubscribeRequest], str | None] = admit_all
    standing: Sequence[Standing] = ()
    data: Sequence[str] = ("#",)
    counters: Counters = field(default_factory=Counters)


Matched = tuple[Publication, list[SubscriptionKey]]


class Node:
    """The core of one gateway."""

    def __init__(self, parts: NodeParts, now: float) -> None:
        self.gateway = parts.gateway
        self.counters = parts.counters
        self._parts = parts
        self._journal = Journal(parts.counters)
        self._outbox = Outbox()
        self._urgent = Outbox()
        self._links = {
            neighbour: Link(parts.gateway, neighbour, parts.epoch, now, self._journal) for neighbour in parts.neighbours
        }
        self._overlay = GuardedOverlay(parts.overlay, parts.neighbours, self._journal)
        self._routes = Routes(parts.neighbours, parts.matcher, self._overlay, self._outbox, self._journal)
        self._flushes = Flushes(parts.gateway, parts.epoch, self._overlay, self._outbox, self._journal)
        self._controls = Controls(parts.gateway, parts.epoch, parts.agents, self._overlay, self._urgent, self._journal)
        self._contents = Contents(parts.codecs, self._journal, self._routes.mentions)
        self._subscribers = Subscribers(parts.gateway)
        self._seen = Seen()
        self._intake = Intake(parts.gateway, parts.epoch, self._journal)
        self._records_read = False
        self._synced: set[GatewayId] = set()
        self._hold_until: float | None = None
        self._subscription_number = 0
        self._effects: list[Effect] = []
        self._wake_at: float | None = None

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; return what is to be done, in order."""
        match event:
            case PublishesReceived():
                self._route(self._intake.take(event.publications), None)
            case FramesReceived():
                self._receive(event, now)
            case RecordReceived():
                self._record(event.client, event.data, now)
            case RecordsRead():
                self._records_read = True
            case Started():
                self._start(now)
            case LinkConnected():
                self._links[event.neighbour].connected(now)
            case LinkLost():
                self._links[event.neighbour].lost(now)
            case Woke():
                self._wake(now)
        self._let_go(now)
        self._forget_flushed()
        self._answer_established()
        return self._finish(now)

    # ---- a publication's way -------------------------------------------------------------------------------------

    def _let_go(self, now: float) -> None:
        """Route what was held at the start, as soon as there is nobody left to hear from, or it is time."""
        if not self._intake.is_holding or self._hold_until is None:
            return
        heard = self._records_read and not any(
            link.state is LinkState.CONNECTING or (link.state is LinkState.UP and neighbour not in self._synced)
            for neighbour, link in self._links.items()
        )
        if heard or now >= self._hold_until:
            self._hold_until = None
            self._route(self._intake.let_go(), None)

    def _route(self, publications: Sequence[Publication], source: GatewayId | None) -> None:
        """Match a batch that came from one side, deliver here, forward there."""
        if not publications:
            return
        contents = self._contents.decode(publications)
        local: list[Matched] = []
        forwarded: dict[GatewayId, list[Publication]] = {}
        for publication, keys in zip(publications, self._match(publications, contents), strict=True):
            here, hops = self._split(keys, source)
            if here or hops:
                self.counters.add("publications_matched")
            if here:
                local.append((publication, here))
            if hops and publication.hops >= HOPS_MAX:
                self._journal.refuse("publications_dropped", "hops", f"{publication.id} crossed {HOPS_MAX} links")
                continue
            for hop in hops:
                forwarded.setdefault(hop, []).append(publication.one_hop_further())
        effects, deliveries = self._subscribers.deliver(local)
        self._effects += effects
        self.counters.add("deliveries", amount=deliveries)
        for hop, batch in forwarded.items():
            if self._links[hop].state is LinkState.UP:
                self.counters.add("publications_forwarded", amount=len(batch))
            self._outbox.post(hop, batch)

    def _match(
        self, publications: Sequence[Publication], contents: Sequence[Content]
    ) -> Sequence[list[SubscriptionKey]]:
        """Ask the matcher for the batch; if that fails, for each by itself, and set aside those on which it fails."""
        try:
            return self._journal.guard("matcher", self._ask_matcher, contents)
        except PluginFailed:
            pass
        found: list[list[SubscriptionKey]] = []
        for publication, content in zip(publications, contents, strict=True):
            try:
                found += self._journal.guard("matcher", self._ask_matcher, [content])
            except PluginFailed:
                self.counters.add("publications_dead")
                topic = layout.dead(self.gateway, publication.topic)
                self._effects.append(PublishLocally(topic=topic, payload=publication.payload, qos=publication.qos))
                found.append([])
        return found

    def _ask_matcher(self, contents: Sequence[Content]) -> list[list[SubscriptionKey]]:
        """Return the matching keys for each publication; raises if the matcher answers nonsense."""
        found = [list(keys) for keys in self._parts.matcher.match(contents)]
        if len(found) != len(contents):
            raise ValueError(f"it answered for {len(found)} publications instead of {len(contents)}")
        if all(key in self._routes for keys in found for key in keys):
            return found
        self._journal.refuse("plugin_failures", "matcher", "it named subscriptions that are not there: passed over")
        return [[key for key in keys if key in self._routes] for keys in found]

    def _split(
        self, keys: Sequence[SubscriptionKey], source: GatewayId | None
    ) -> tuple[list[SubscriptionKey], Sequence[GatewayId]]:
        """Part the matched subscriptions into those of our own clients and the neighbours that lead to the rest."""
        here: list[SubscriptionKey] = []
        wanted: set[GatewayId] = set()
        for key in keys:
            side = self._routes.source_of(key)
            if side is None:
                here.append(key)
            else:
                wanted.add(side)
        return here, self._overlay.route(wanted, source) if wanted else ()

    # ---- links ---------------------------------------------------------------------------------------------------

    def _receive(self, event: FramesReceived, now: float) -> None:
        link = self._links.get(event.sender)
        if link is None:
            reason = "stranger"
            text = f"{event.sender[:100]!r} wrote to our link topic, but is no neighbour of ours"
            for _ in event.frames:
                self._journal.refuse("frames_refused", reason, text)
            return
        for data in event.frames:
            try:
                frame = decode(data)
                if frame.sender != event.sender:
                    raise FrameError("sender", f"it names {frame.sender!r}")
            except FrameError as error:
                self._journal.refuse("frames_refused", error.reason, f"from {event.sender}: {error.problem}")
                continue
            if event.urgent:
                self._obey(link.receive_urgent(frame), event.sender, now)
                continue
            changes, messages = link.receive(frame, now)
            self._change(event.sender, changes, now)
            self._obey(messages, event.sender, now)

    def _obey(self, messages: Sequence[Message], sender: GatewayId, now: float) -> None:
        """Carry out a neighbour's messages in order; publications that stand together are one batch."""
        batch: list[Publication] = []
        for message in messages:
            if isinstance(message, Publication):
                if self._is_new(message):
                    batch.append(message)
                continue
            self._route(batch, sender)
            batch = []
            self._obey_one(message, sender, now)
        self._route(batch, sender)

    def _obey_one(self, message: Message, sender: GatewayId, now: float) -> None:
        match message:
            case Announce():
                self._announced(message, sender)
            case Withdraw():
                self._routes.remove(message.key, sender)
            case Established():
                self._routes.establish(message.key, sender)
            case Synced():
                self._routes.sweep(sender)
                self._synced.add(sender)
            case Flush():
                self._flushes.passed(sender, message)
            case Flushed():
                self._flushes.answered(sender, message, now)
            case Control():
                self._controls.receive(message, sender, now)

    def _is_new(self, publication: Publication) -> bool:
        known = publication.origin == self.gateway or not self._seen.first_time(
            publication.origin, publication.epoch, publication.sequence, publication.low_water
        )
        self.counters.add("duplicates" if known else "publications_received")
        return not known

    def _announced(self, message: Announce, sender: GatewayId) -> None:
        try:
            subscription = Subscription.parse(message.topics, message.where)
        except (FilterError, TopicError) as error:
            self._journal.refuse("subscriptions_refused", "neighbour", f"announced by {sender}: {error}")
            return
        self._routes.add(message.key, subscription, sender)

    def _change(self, neighbour: GatewayId, changes: Sequence[LinkChange], now: float) -> None:
        for change in changes:
            match change:
                case LinkChange.OPEN:
                    self._routes.open_link(neighbour)
                    self._flushes.reach(neighbour)
                case LinkChange.CLOSE:
                    self._routes.close_link(neighbour)
                    self._flushes.lose(neighbour, now)
                case LinkChange.DOUBT:
                    self._routes.doubt(neighbour)
                case LinkChange.GIVE_UP:
                    self._routes.give_up_on(neighbour)

    # ---- a subscription's way ------------------------------------------------------------------------------------

    def _record(self, client: ClientId, data: bytes, now: float) -> None:
        """A client wrote its record: begin what is new, then end what is gone."""
        if not data:
            self._end(self._subscribers.keys_of(client), now)
            return
        try:
            record = decode_record(data)
            if len(client) > ID_LENGTH_MAX:
                raise RecordError(f"a client's name of more than {ID_LENGTH_MAX} characters")
            if self._subscribers.ending(client) > ENDING_MAX:
                raise RecordError("too many changes: wait until earlier subscriptions have ended, then write it again")
            if client not in self._subscribers and len(self._subscribers) >= CLIENTS_MAX:
                raise RecordError(f"this gateway serves {CLIENTS_MAX} clients already")
        except RecordError as error:
            self._refuse(client, "record", Answer(answer="refused", problem=error.problem))
            return
        difference = self._subscribers.compare(client, record, now)
        for name, wish in difference.begin.items():
            self._begin(client, name, wish)
        self._end(difference.end, now)
        self._subscribers.discard_idle(client)
        for key in difference.stay:
            if self._routes.is_established(key):
                self._answer(client, Answer(answer="established", name=self._subscribers.owner(key).name))

    def _begin(self, client: ClientId, name: str, wish: Wish) -> None:
        try:
            subscription = Subscription.parse(wish.topics, wish.where)
        except FilterError as error:
            answer = Answer(answer="refused", name=name, problem=error.problem, column=error.column)
            self._refuse(client, "filter", answer)
            return
        except TopicError as error:
            self._refuse(client, "topic", Answer(answer="refused", name=name, problem=str(error)))
            return
        if not any(subscription.may_touch(topics) for topics in self._parts.data):
            problem = f"nothing would ever come: only {', '.join(self._parts.data)} take part in the federation"
            self._refuse(client, "topic", Answer(answer="refused", name=name, problem=problem))
            return
        refusal = self._parts.admit(SubscribeRequest(self.gateway, client, name, subscription))
        if refusal is not None:
            self._refuse(client, "admission", Answer(answer="refused", name=name, problem=refusal))
            return
        key = self._next_key()
        if not self._routes.add(key, subscription, None):
            problem = "the matcher failed on it: ask the operator"
            self._refuse(client, "matcher", Answer(answer="refused", name=name, problem=problem))
            return
        self._subscribers.begin(client, name, wish, key)

    def _next_key(self) -> SubscriptionKey:
        self._subscription_number += 1
        return SubscriptionKey(self.gateway, self._parts.epoch, self._subscription_number)

    def _end(self, keys: Sequence[SubscriptionKey], now: float) -> None:
        """Let subscriptions end behind what is under way to them."""
        for key in keys:
            self._subscribers.end(key)
        self._flushes.close(keys, now)

    def _forget_flushed(self) -> None:
        for key in self._flushes.finished():
            self._routes.remove(key, None)
            owner = self._subscribers.forget(key)
            assert owner.client is not None
            if not self._subscribers.has(owner.client, owner.name):  # else another has taken its place
                self._answer(owner.client, Answer(answer="ended", name=owner.name))

    def _answer_established(self) -> None:
        for key in self._routes.established_here():
            self.counters.add("subscriptions_established")
            owner = self._subscribers.owner(key)
            if owner.client is not None and not self._subscribers.is_ending(key):
                self._answer(owner.client, Answer(answer="established", name=owner.name))

    def _refuse(self, client: ClientId, reason: str, answer: Answer) -> None:
        text = f"client {client[:100]!r} {answer.name[:100]!r}: {answer.problem}"
        self._journal.refuse("subscriptions_refused", reason, text)
        self._answer(client, answer)

    def _answer(self, client: ClientId, answer: Answer) -> None:
        topic = layout.control(self.gateway, client)
        self._effects.append(PublishLocally(topic=topic, payload=encode_answer(answer), qos=1))

    # ---- time ----------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        self._hold_until = now + LINK_GRACE_S
        for standing in self._parts.standing:
            key = self._next_key()
            if self._routes.add(key, Subscription.parse(standing.topics, standing.where), None):
                self._subscribers.begin_standing(standing, key)
        self._controls.start(now)

    def _wake(self, now: float) -> None:
        self._wake_at = None
        for neighbour, link in self._links.items():
            self._change(neighbour, link.wake(now), now)
        self._flushes.wake(now)
        self._controls.wake(now)
        for client in self._subscribers.expired(now):
            keys = self._subscribers.keys_of(client)
            self.counters.add("subscriptions_expired", amount=len(keys))
            self._end(keys, now)
            # Its record would be replayed to us after a restart, and live once more.
            self._effects.append(PublishLocally(topic=layout.record(self.gateway, client), payload=b"", retain=True))

    def _finish(self, now: float) -> list[Effect]:
        """Turn what was gathered into effects: local publishes, frames, the next waking, log lines."""
        effects, self._effects = self._effects, []
        posted, urgent = self._outbox.drain(), self._urgent.drain()
        for neighbour, link in self._links.items():
            effects += link.pack_urgent(urgent.get(neighbour, ()))
            effects += link.pack(posted.get(neighbour, ()), now)
        deadlines = (
            *(link.deadline for link in self._links.values()),
            self._hold_until,
            self._flushes.deadline,
            self._controls.deadline,
            self._subscribers.deadline,
        )
        deadline = min((at for at in deadlines if at is not None), default=None)
        if deadline is not None and deadline != self._wake_at:
            self._wake_at = deadline
            effects.append(WakeAt(at=deadline))
        return [*effects, *self._journal.drain()]

    # ---- looking in ----------------------------------------------------------------------------------------------

    def link_states(self) -> dict[GatewayId, LinkState]:
        """Return how each link stands."""
        return {neighbour: link.state for neighbour, link in self._links.items()}

    def subscription_counts(self) -> tuple[int, int]:
        """Return how many subscriptions are known: of our own clients, and of other gateways."""
        here = self._routes.here()
        return here, len(self._routes) - here

    def check(self) -> None:
        """State the invariants of all parts; for tests and simulations."""
        for link in self._links.values():
            link.check()
        self._routes.check()
        self._flushes.check()
        self._subscribers.check()

"""One gateway as a core without IO: the way of a publication, of a subscription and of an unsubscription through it.

`handle(event, now)` is the only way in, and the effects it returns the only way out. The parts, each with its theory
of operation on top of its file: `links` (conversations with neighbours), `traffic` (publications and their custody),
`routes` and `announcements` (who wants what, covering, established), `flushes` (unsubscribing without loss),
`subscribers` and `clients` (local ones), `plain_interest` (of clients that know nothing of us), `controls` (agents),
`guarded` (overlays that fail), `portraits` (links, shown), `reception` (frames, and whose they are), `obedience` (what
they say), `weaver` (what the overlay wants), `moves` and `moves_of_others` with `freezes`, `neighbours`, `places` and
`aliases` (primary links that are moved), `migrations` and `rosters` (clients that are moved), `sealing` (the door, if
the federation has a key). `node_parts` says what a node is built of.
"""

from collections.abc import Sequence

from mqloom.core.agent_records import is_for_agent
from mqloom.core.effects import Effect, WakeAt
from mqloom.core.events import (
    AcksReceived,
    Asked,
    BrokerKnown,
    ConfigurationRead,
    DrainRead,
    Event,
    FramesReceived,
    InterestLearned,
    LinkConnected,
    LinkLost,
    LoadMeasured,
    OrderAnswered,
    Ordered,
    PlaceRead,
    RanBeside,
    RecordReceived,
    RecordsRead,
    RosterRead,
    Started,
    Woke,
    Written,
)
from mqloom.core.ids import ClientId, Conversation, GatewayId
from mqloom.core.limits import LINK_GRACE_S
from mqloom.core.messages import Flush, Flushed
from mqloom.gateway.agency import Agency
from mqloom.gateway.clients import Clients
from mqloom.gateway.contents import Contents
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.freezes import Freezes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.guests import Guests
from mqloom.gateway.holdings import Holdings, Look
from mqloom.gateway.interfaces import LinkStood, OverlayStarted
from mqloom.gateway.journal import Journal
from mqloom.gateway.link_changes import LinkChanges
from mqloom.gateway.links import Link, LinkChange, LinkState
from mqloom.gateway.migrations import Migrations
from mqloom.gateway.moves import Moves
from mqloom.gateway.neighbours import Neighbours
from mqloom.gateway.node_parts import NodeParts, admit_all
from mqloom.gateway.obedience import Obedience
from mqloom.gateway.operator_orders import OperatorOrders
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.places import Places
from mqloom.gateway.plain_interest import PlainInterest
from mqloom.gateway.portraits import Painter
from mqloom.gateway.questions import Answering
from mqloom.gateway.reception import Reception
from mqloom.gateway.reconfiguring import Reconfigured, reconfigure
from mqloom.gateway.rosters import RosterKeeper
from mqloom.gateway.routes import Routes
from mqloom.gateway.sealing import Sealing
from mqloom.gateway.soft_links import SoftLinks
from mqloom.gateway.subscribers import Subscribers
from mqloom.gateway.traffic import Traffic
from mqloom.gateway.weaver import Weaver

__all__ = ["Node", "NodeParts", "admit_all"]


class Node:
    """The core of one gateway."""

    def __init__(self, parts: NodeParts, now: float) -> None:
        self.gateway = parts.gateway
        self.counters = parts.counters
        self._parts = parts
        self._peers = set(parts.peers)
        self._journal = Journal(parts.counters)
        self._outbox = Outbox()
        self._urgent = Outbox()
        self._waves = Outbox()
        self._links = {
            neighbour: Link(parts.gateway, neighbour, Conversation(parts.epoch, 0), now, self._journal)
            for neighbour in parts.neighbours
        }
        self._soft_links = SoftLinks(parts.gateway, parts.epoch, self._journal)
        self._guests = Guests(parts.gateway, self._journal)
        self._overlay = GuardedOverlay(parts.gateway, parts.overlay, parts.neighbours, self._journal)
        self._painter = Painter(parts.gateway, parts.epoch, self._links, self._overlay) if parts.shows_links else None
        self._routes = Routes(parts.neighbours, parts.matcher, self._overlay, self._outbox, self._journal, self._peers)
        self._flushes = Flushes(parts.gateway, parts.epoch, self._overlay, self._soft_links, self._waves, self._journal)
        self._contents = Contents(parts.codecs, self._journal, self._routes.mentions)
        self._subscribers = Subscribers(parts.gateway)
        self._traffic = Traffic(
            gateway=parts.gateway,
            epoch=parts.epoch,
            links=self._links,
            soft_links=self._soft_links,
            guests=self._guests,
            routes=self._routes,
            matcher=parts.matcher,
            overlay=self._overlay,
            contents=self._contents,
            subscribers=self._subscribers,
            payload_bytes_max=parts.payload_bytes_max,
            journal=self._journal,
        )
        self.tally = self._traffic.tally
        """What is counted for telemetry, if anybody wants it."""
        gateway, epoch, pace = parts.gateway, parts.epoch, parts.pace
        self._migrations = Migrations(gateway, epoch, parts.orders, self._subscribers, self._journal, pace)
        self.agency = Agency(
            parts,
            neighbours=lambda: tuple(self._links),
            overlay=self._overlay,
            urgent=self._urgent,
            outbox=self._outbox,
            routes=self._routes,
            subscribers=self._subscribers,
            migrations=self._migrations,
            profiling=self._traffic.profiling,
            journal=self._journal,
        )
        self._controls = self.agency.controls
        self._weaver = Weaver(
            overlay=self._overlay,
            peers=self._peers,
            outbox=self._outbox,
            urgent=self._urgent,
            soft_links=self._soft_links,
            routes=self._routes,
            traffic=self._traffic,
            flushes=self._flushes,
            painter=self._painter,
            journal=self._journal,
        )
        self._freezes = Freezes(
            parts.gateway, self._overlay, self._soft_links, self._outbox, self._weaver.hand, self._peers
        )
        self._neighbours = Neighbours(
            gateway=parts.gateway,
            epoch=parts.epoch,
            links=self._links,
            peers=self._peers,
            places=Places(parts.gateway, parts.neighbours, self._journal, parts.network),
            routes=self._routes,
            traffic=self._traffic,
            flushes=self._flushes,
            freezes=self._freezes,
            soft_links=self._soft_links,
            overlay=self._overlay,
            tell_overlay=self._weaver.hand,
            wants=self._controls.wants,
            journal=self._journal,
        )
        self._moves = Moves(parts.gateway, self._neighbours, self._journal, parts.pace)
        self._link_changes = LinkChanges(self._neighbours, self._moves, self._peers, self._journal)
        self._orders = OperatorOrders(parts.gateway, self._migrations, self._moves, self._journal, parts.pace)
        obey = Obedience(self._neighbours, self._moves, self._controls, self._weaver)
        self._reception = Reception(self._neighbours, self._guests, self._moves, self._peers, obey, self._change)
        self._clients = Clients(
            parts, self._routes, self._subscribers, self._flushes, self._journal, self._migrations.noted
        )
        self._plain = PlainInterest(
            parts.data, self._routes, self._subscribers, self._flushes, self._journal, self._clients.next_key
        )
        known = (*parts.peers, *parts.neighbours)
        seals = parts.seals
        self.sealing = None if seals is None else Sealing(gateway, epoch, seals, known, self._journal, pace)
        """The door, if the federation has a key."""
        self._rosters = RosterKeeper(parts.orders, self._journal)
        self._records_read = False
        self._hold_until: float | None = None
        self._effects: list[Effect] = []
        self._wake_at: float | None = None

    def handle(self, event: Event | Reconfigured, now: float) -> list[Effect]:
        """Take one event; return what is to be done, in order."""
        if self.sealing is None:
            self._take(event, now)
        elif isinstance(event, Reconfigured):
            self.sealing.change_keys(event.keyring, () if event.network is None else event.network.peers)
            self._take(event, now)
        else:
            opened = self.sealing.opened(event, now)
            for gateway in self.sealing.met():
                self._met(gateway, now)
            if opened is not None:
                self._take(opened, now)
        return self._finish(now)

    def _take(self, event: Event | Reconfigured, now: float) -> None:
        match event:
            case FramesReceived():
                self._reception.receive(event, now)
            case AcksReceived():
                self._reception.receive_acks(event, now)
            case LinkConnected() | LinkLost():
                self._connect(event, now)
            case Woke():
                self._wake(now)
            case Started():
                self._start(now)
            case RanBeside() | LoadMeasured():
                self.agency.handle(event, now)
            case Reconfigured():
                self._reconfigure(event, now)
            case BrokerKnown():
                self._traffic.know(event.traits)
                self._clients.know(event, now)
            case _ if isinstance(event, Written):
                self._read(event, now)
            case _:
                self._traffic.handle(event, now)
        self._tend(now)

    def _tend(self, now: float) -> None:
        """Do what may have become possible by whatever has happened."""
        self._weaver.tend(now)
        self._moves.drop_parted(now)
        self._moves.tend(now)
        self._link_changes.tend(now)
        self._weaver.tend(now)
        self._open_intake(now)
        self._say_synced()
        self._clients.tend()
        self._migrations.tend(now)
        self.agency.tend(now)

    def _reconfigure(self, event: Reconfigured, now: float) -> None:
        self._rosters.change(event.orders)
        self._migrations.change(event.orders)
        self.agency.reconfigured(event.agents, now)
        if event.network is not None:
            self._link_changes.change(event.network)
        self._parts = reconfigure(event, self._parts, self._contents, self._clients, self._plain, now)

    # ---- links ---------------------------------------------------------------------------------------------------

    def _connect(self, event: LinkConnected | LinkLost, now: float) -> None:
        """We can write to another gateway's broker, or cannot any more."""
        link, is_up = self._links.get(event.neighbour), isinstance(event, LinkConnected)
        if link is not None:
            (link.connected if is_up else link.lost)(now)
        elif is_up:
            self._soft_links.connected(event.neighbour, now)
        else:
            self._soft_links.lost(event.neighbour)

    def _met(self, gateway: GatewayId, now: float) -> None:
        """Another gateway has begun anew, and hears us now: what was said before that must be said again."""
        if gateway in self._links:
            self._links[gateway].met(now)
        else:
            self._soft_links.met(gateway, now)

    def _change(self, neighbour: GatewayId, changes: Sequence[LinkChange], now: float) -> None:
        if self._moves.is_leaving(neighbour):
            return
        for change in changes:
            match change:
                case LinkChange.OPEN:
                    self._freezes.reach(neighbour)  # before it hears of a map
                    if not self._moves.is_new(neighbour):
                        self._weaver.hand(LinkStood(neighbour, up=True), now)  # its map goes before announcements
                    self._routes.open_link(neighbour)
                    self._controls.wants.open_link(neighbour)
                    self._flushes.reach(neighbour)
                    self._traffic.link_up(neighbour, now)
                case LinkChange.CLOSE:
                    if not self._moves.is_new(neighbour):
                        self._weaver.hand(LinkStood(neighbour, up=False), now)
                    self._routes.close_link(neighbour)
                    self._controls.wants.close_link(neighbour)
                    self._flushes.lose(neighbour, now)
                    self._freezes.lose(neighbour)
                    self._traffic.link_lost(neighbour)
                    self._neighbours.told_synced.discard(neighbour)
                case LinkChange.DOUBT:
                    self._routes.doubt(neighbour)
                    self._controls.wants.doubt(neighbour)
                case LinkChange.GIVE_UP:
                    self._routes.give_up_on(neighbour)
                    self._traffic.give_up(neighbour)

    def _say_synced(self) -> None:
        """Say Synced to those for whom we know everything there is: what all others want, and our own clients."""
        for neighbour, link in self._links.items():
            if self._moves.is_leaving(neighbour) or neighbour in self._neighbours.unkept:
                continue
            if link.state is not LinkState.UP or neighbour in self._neighbours.told_synced or not self._records_read:
                continue
            if all(self._traffic.has_heard(other) for other in self._links if other != neighbour):
                self._neighbours.told_synced.add(neighbour)
                self._routes.say_synced(neighbour)

    def _read(self, event: Written, now: float) -> None:
        """Take what people, clients and we ourselves have written on our broker."""
        match event:
            case InterestLearned():
                self._plain.learned(event.filters, now, event.passed_over)
            case RecordReceived():
                self._clients.record(event.client, event.data, now)
            case RecordsRead():
                self._read_records()
            case PlaceRead():
                self._neighbours.read(event.data, now)
            case Asked():
                self._asked(event.client, event.data, now)
            case Ordered() | ConfigurationRead():
                self._orders.take(event, now)
            case RosterRead():
                self._rosters.found(event.data)
            case DrainRead():
                self._migrations.marked(event.data)
            case OrderAnswered():
                self._migrations.answered(event.client, event.data, now)

    def _read_records(self) -> None:
        if not self._records_read:
            self._records_read = True
            self._rosters.start()
            self._migrations.start()
            self._traffic.open()

    def _open_intake(self, now: float) -> None:
        """Take in when there is nobody left to hear from, or it is time."""
        if self._traffic.intake.is_open or not self._records_read or self._hold_until is None:
            return
        heard = all(
            self._traffic.has_heard(neighbour) or link.state is LinkState.DOWN
            for neighbour, link in self._links.items()
        )
        if heard or now >= self._hold_until:
            self._hold_until = None
            self._traffic.intake.open()

    # ---- questions and orders -------------------------------------------------------------------------------------

    def _asked(self, client: ClientId, data: bytes, now: float) -> None:
        if self._parts.pace is not None and not self._parts.pace.question(now):
            self._journal.refuse("questions_refused", "rate", "more than can be answered")
            return
        if is_for_agent(data):
            self.agency.asked(client, data)
            return
        links, data_topics = tuple(self._links), self._parts.data
        answering = Answering(
            self.gateway, links, data_topics, self._traffic, self._routes, self._overlay, self._journal
        )
        self._effects += answering.reply(client, data)

    # ---- time ----------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        self._hold_until = now + LINK_GRACE_S
        self._clients.start(self._parts.standing)
        self._plain.start(self._parts.federate, now)
        self.agency.start(now)
        self._weaver.hand(OverlayStarted(), now)

    def _wake(self, now: float) -> None:
        self._wake_at = None
        for neighbour, link in self._links.items():
            self._change(neighbour, link.wake(now), now)
        self._soft_links.wake(now)
        self._freezes.wake(now)
        self._weaver.wake(now)
        self._traffic.wake(now)
        self._flushes.wake(now)
        self._controls.wake(now)
        self._clients.expire(now)

    def _finish(self, now: float) -> list[Effect]:
        """Turn what was gathered into effects: local publishes, frames, the next waking, log lines."""
        effects, self._effects = [*self._effects, *self._moves.drain()], []
        effects += [*self._migrations.drain(), *self._orders.drain(), *self.agency.drain()]
        answers, self._reception.answers = self._reception.answers, []
        effects += answers
        for neighbour, waves in self._waves.drain().items():
            for wave in waves:
                assert isinstance(wave, Flush | Flushed)
                if neighbour in self._links:
                    self._traffic.post_wave(neighbour, wave)
        effects += self._soft_links.drain(now)
        effects += self._rosters.drain(now)
        posted, urgent = self._outbox.drain(), self._urgent.drain()
        for neighbour, link in self._links.items():
            effects += link.pack_urgent(urgent.get(neighbour, ()))
            messages = self._neighbours.outgoing(neighbour, posted.get(neighbour, []))
            effects += link.pack(messages, self._traffic.take(neighbour, messages, now), now)
        effects += self._traffic.drain(now)
        effects += self._clients.drain(now)  # behind what they get: who is told that a subscription has ended, leaves
        effects += self._guests.drain(now)
        acks = (link.pack_ack(now) for link in self._links.values())
        effects += [ack for ack in acks if ack is not None]
        if self._painter is not None:
            effects += self._painter.drain(now)
        deadlines = (
            *(link.deadline for link in self._links.values()),
            self._hold_until if self._records_read else None,
            self._traffic.deadline,
            self._soft_links.deadline,
            self._guests.deadline,
            self._weaver.deadline,
            self._painter.deadline if self._painter is not None else None,
            self._flushes.deadline,
            self._freezes.deadline,
            self._moves.deadline,
            self._link_changes.deadline,
            self.agency.deadline,
            self._subscribers.deadline,
            self._clients.deadline,
            self._rosters.deadline,
            self._migrations.deadline,
        )
        deadline = min((at for at in deadlines if at is not None), default=None)
        if deadline is not None and deadline != self._wake_at:
            self._wake_at = deadline
            effects.append(WakeAt(at=deadline))
        if self.sealing is not None:
            effects = list(self.sealing.sealed(effects))
        return [*effects, *self._journal.drain()]

    # ---- looking in ----------------------------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """Whether a primary link of ours is being moved."""
        return self._moves.is_under_way

    @property
    def gives_orders(self) -> bool:
        """Whether the federation has an order key."""
        return self._parts.orders is not None

    def way_to(self, gateway: GatewayId) -> Sequence[GatewayId]:
        """Return the primary way to a gateway, if it is on our map."""
        return self._overlay.way_to(gateway)

    def link_states(self) -> dict[GatewayId, LinkState]:
        """Return how each link stands."""
        return {neighbour: link.state for neighbour, link in self._links.items()}

    @property
    def subscriptions(self) -> int:
        """How many subscriptions stand in the matcher."""
        return len(self._routes)

    def subscription_counts(self) -> tuple[int, int]:
        """Return how many subscriptions are known: of our own clients, and of other gateways."""
        here = self._routes.here()
        return here, len(self._routes) - here

    def check(self) -> None:
        """State the invariants of all parts; for tests and simulations."""
        for link in self._links.values():
            link.check()
        self._soft_links.check()
        self._guests.check()
        self._routes.check()
        self._flushes.check()
        self._subscribers.check()
        self._traffic.check()
        self._moves.check()
        self._link_changes.check()
        self._controls.wants.check()
        self._migrations.check()
        self.counters.check()

    def holdings(self) -> Holdings:
        """Return how much is held in memory for others."""
        return self._traffic.holdings()

    def look(self) -> Look:
        """Return what an operator wants to see of this moment."""
        here, elsewhere = self.subscription_counts()
        return Look(
            links=self.link_states(),
            holdings=self.holdings(),
            parks=self._traffic.parks(),
            progress=self._traffic.progress,
            subscriptions_here=here,
            subscriptions_elsewhere=elsewhere,
            clients=len(self._subscribers),
            migrating=self._migrations.under_way,
            is_draining=self._migrations.is_draining,
        )

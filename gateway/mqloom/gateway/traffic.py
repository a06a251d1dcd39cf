"""The way of a publication through a gateway: taken in or received, matched, delivered, forwarded, acknowledged.

The parts, each with its theory of operation on top of its file: `intake` (what our own broker hands over), `custody`
(who waits for what), `contents` (codecs), `matching` (who wants what), `deliveries` (our own broker), `flows` (what
waits for a neighbour).

A publication that crosses a soft link overtakes others, which may be parked on the primary way. So its origin's mark
must not count from there on: it is taken off. Instead the origin tells its mark now and then, over the primary links.
There it goes behind what is parked, or rather not at all: a mark that must wait is dropped, another follows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import (
    FencePassed,
    IntakeLost,
    IntakeOpened,
    LocallyPublished,
    LocallyRefused,
    Parked,
    ParkedReceived,
    PublishesReceived,
)
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.limits import HOPS_MAX, MARK_EVERY
from mqloom.core.messages import Flush, Flushed, Mark, Message, Passed
from mqloom.core.publication import Incoming, Publication
from mqloom.core.seen import Seen
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.contents import Contents
from mqloom.gateway.custody import Custody, Duty, FromBroker, FromGuest, FromNeighbour, FromPark, FromUs
from mqloom.gateway.deliveries import Deliveries, dead_letter
from mqloom.gateway.departures import Entry
from mqloom.gateway.early import Early
from mqloom.gateway.flows import Flow
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.guests import Guests
from mqloom.gateway.holdings import Holdings, Parking, Progress
from mqloom.gateway.intake import Intake
from mqloom.gateway.interfaces import Matcher
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkState
from mqloom.gateway.matching import Matching
from mqloom.gateway.profiling import Profiling
from mqloom.gateway.routes import Routes
from mqloom.gateway.soft_links import SoftLinks
from mqloom.gateway.subscribers import Matched, Subscribers
from mqloom.gateway.tallies import Tally

Published = LocallyPublished | LocallyRefused
TrafficEvent = PublishesReceived | Published | ParkedReceived | FencePassed | IntakeOpened | IntakeLost

FromGateway = FromNeighbour | FromGuest


class Traffic:
    """All publications of one gateway."""

    def __init__(  # noqa: PLR0913 - the node's other parts, each used
        self,
        *,
        gateway: GatewayId,
        epoch: int,
        links: Mapping[GatewayId, Link],
        soft_links: SoftLinks,
        guests: Guests,
        routes: Routes,
        matcher: Matcher,
        overlay: GuardedOverlay,
        contents: Contents,
        subscribers: Subscribers,
        payload_bytes_max: int,
        journal: Journal,
    ) -> None:
        self._gateway = gateway
        self._links = links
        self._soft_links = soft_links
        self._guests = guests
        self._overlay = overlay
        self._subscribers = subscribers
        self._journal = journal
        self._counters: Counters = journal.counters
        self._seen = Seen()
        self._custody = Custody()
        self.intake = Intake(gateway, epoch, payload_bytes_max, journal)
        self._deliveries = Deliveries(gateway, self._custody, journal)
        self._flows = {each: Flow(gateway, each, epoch, self._deliveries, journal) for each in links}
        self._epoch = epoch
        self._numbered = 0  # in parks for neighbours that have gone
        self._traits = USUAL
        self._told_mark = 0
        self._matching = Matching(matcher, contents, routes, overlay, links, self._set_aside, journal)
        self.profiling = Profiling(contents, routes, subscribers, journal)
        self.tally = Tally(routes, overlay, links)
        self._early = Early(journal)
        self._effects: list[Effect] = []

    # ---- what happens --------------------------------------------------------------------------------------------

    def handle(self, event: TrafficEvent, now: float) -> None:
        """Take an event that is about publications alone."""
        match event:
            case PublishesReceived():
                self.intake.expire(now)
                self._take_in(event.publications)
            case LocallyPublished():
                self._deliveries.published(event.numbers)
                self.intake.echoes.acknowledged(event.numbers, now)
                self._tell_sources()
            case LocallyRefused():
                self._deliveries.refused(event.number, event.reason, now)
            case ParkedReceived():
                self._unpark(event.neighbour, event.messages, now)
            case FencePassed():
                self.intake.fenced(event.number)
            case IntakeOpened():
                self.intake.opened(now, echoes=event.echoes, resumed=event.resumed)
            case IntakeLost():
                self.intake.lost()

    def _take_in(self, incoming: Sequence[Incoming]) -> None:
        publications = self.intake.take(incoming)
        self._route([(each, self._begin_own(each)) for each in publications], None)
        if self.intake.low_water >= self._told_mark + MARK_EVERY:  # behind those of QoS 0 that are below it
            self._told_mark = self.intake.low_water
            self._spread(Mark(self._gateway, self._epoch, self._told_mark), None)

    def marked(self, mark: Mark, sender: GatewayId) -> None:
        """A neighbour passes on what an origin has told."""
        if mark.gateway == self._gateway or sender in self._overlay.stand_in:  # the primary network has a cycle
            return
        if mark.low_water > self._seen.floor(mark.gateway, mark.epoch):
            self._seen.forget_below(mark.gateway, mark.epoch, mark.low_water)
        self._spread(mark, sender)

    def _spread(self, mark: Mark, source: GatewayId | None) -> None:
        for neighbour in self._overlay.spread(source):
            if self._flows[neighbour].is_clear:
                self._flows[neighbour].post(Entry(mark, None))

    def _begin_own(self, publication: Publication) -> Duty | None:
        return self._custody.begin(FromBroker(publication.sequence), publication.id) if publication.qos else None

    def receive(self, publications: Sequence[Publication], first: FromGateway) -> FromGateway:
        """A gateway sent publications next to each other; returns the place behind them."""
        source = first
        kind, sender = type(first), first[0]
        if sender in self._overlay.stand_in:  # what is parked on the other way may be older than its mark says
            publications = [replace(publication, low_water=0) for publication in publications]
        batch: list[tuple[Publication, Duty | None]] = []
        for publication in publications:
            known = publication.id if publication.origin == self._gateway else self._seen.earlier(publication)
            if known is None:
                duty = self._custody.begin(source, publication.id) if publication.qos else None
                batch.append((publication, duty))
            elif publication.qos:
                self._custody.again(source, publication.id, known)
            if publication.qos:
                source = kind(sender, source.conversation, source.place + 1)
        self._counters.add("publications_received", amount=len(batch))
        self._counters.add("duplicates", amount=len(publications) - len(batch))
        if self._early.is_over:
            self._route(batch, sender)
            return source
        for publication, duty in batch:
            self._early.hold(publication, duty, sender)
        return source

    def _unpark(self, neighbour: GatewayId, messages: Sequence[Parked], now: float) -> None:
        flow = self._flows.get(neighbour)
        if flow is None:  # it has parted from us: nobody waits for what is parked
            return
        for message in messages:
            publications = flow.parked(message.data, message.receipt, now)
            if not publications:
                continue
            duty = self._custody.begin(FromPark(neighbour, message.receipt))
            publications = self._matching.sift(publications, duty, neighbour)
            duty.claims += len(publications)
            flow.post_parked([Entry(publication, duty, is_parked=True) for publication in publications])
            self._custody.meet(duty)

    def taken_over(self, entries: Sequence[Entry]) -> None:
        """A neighbour has taken care of these."""
        for entry in entries:
            assert entry.duty is not None
            self._custody.meet(entry.duty)

    def heard(self, neighbour: GatewayId) -> None:
        """A neighbour has said everything that is wanted behind it."""
        self._matching.unheard.discard(neighbour)

    def has_heard(self, neighbour: GatewayId) -> bool:
        """Whether a neighbour has ever said everything."""
        return neighbour not in self._matching.unheard

    def open(self) -> None:
        """We know what our own clients want: route what neighbours sent."""
        for publication, duty, sender in self._early.end():
            self._route([(publication, duty)], sender)

    def link_up(self, neighbour: GatewayId, now: float) -> None:
        """A neighbour listens."""
        self._flows[neighbour].link_up(now)

    def link_lost(self, neighbour: GatewayId) -> None:
        """A neighbour does not listen any more: what it has not taken care of waits."""
        flow = self._flows[neighbour]
        flow.post_again(self._links[neighbour].take_back())
        flow.link_lost()

    def give_up(self, neighbour: GatewayId) -> None:
        """A neighbour stays away."""
        self._flows[neighbour].give_up()

    def post_wave(self, neighbour: GatewayId, wave: Flush | Flushed) -> None:
        """Send a wave behind all publications before it."""
        self._flows[neighbour].post(Entry(wave, None))

    # ---- neighbours that come and go -----------------------------------------------------------------------------

    def know(self, traits: Traits) -> None:
        """This is how our broker behaves."""
        self._traits = traits
        self.intake.know(traits)
        for flow in self._flows.values():
            flow.comes_in_order = traits.keeps_packet_ids and traits.repeats_at_once

    def add_neighbour(self, neighbour: GatewayId) -> None:
        """A gateway is a neighbour from now on; until it has said everything, it may want anything."""
        flow = Flow(self._gateway, neighbour, self._epoch, self._deliveries, self._journal, self._numbered)
        flow.comes_in_order = self._traits.keeps_packet_ids and self._traits.repeats_at_once
        self._flows[neighbour] = flow
        self._matching.unheard.add(neighbour)

    def drop_neighbour(self, neighbour: GatewayId) -> None:
        """A gateway is no neighbour any more: what was for it reaches whoever wants it another way."""
        flow = self._flows.pop(neighbour)
        self._numbered = max(self._numbered, flow.numbered)
        given_up = [*flow.take_all(), *self._links[neighbour].end()]
        for entry in given_up:
            if entry.duty is not None:
                self._custody.meet(entry.duty)
        self._deliveries.forget(layout.park(self._gateway, neighbour))
        self._matching.unheard.discard(neighbour)
        self._custody.forget(neighbour)

    def part(self, twins: Collection[GatewayId]) -> None:
        """Two neighbours are on the same side; or none any more."""
        self._custody.twins = frozenset(twins)

    def open_from(self, neighbour: GatewayId) -> list[Duty]:
        """Return what a neighbour gave us and we have not taken care of."""
        return self._custody.open_from(neighbour)

    def is_clear(self, neighbour: GatewayId) -> bool:
        """Whether nothing is parked for a neighbour, and all goes out directly."""
        return self._flows[neighbour].is_clear

    def has_sent_all(self, neighbour: GatewayId) -> bool:
        """Whether nothing waits for a neighbour, in memory or in the park."""
        flow = self._flows[neighbour]
        return flow.is_clear and not flow.waiting

    def pass_on(self, neighbour: GatewayId, passed: Passed) -> bool:
        """Send on what goes along the path of a move, behind all before it; whether that can be."""
        flow = self._flows.get(neighbour)
        if flow is None or not flow.is_clear or self._links[neighbour].state is not LinkState.UP:
            return False
        flow.post(Entry(passed, None))
        return True

    def hold(self, neighbour: GatewayId) -> None:
        """Let what is for a neighbour go out, and nothing that comes later."""
        self._flows[neighbour].hold()

    def pin(self, neighbour: GatewayId) -> None:
        """Park nothing of what is held: another neighbour gets it."""
        self._flows[neighbour].pin()

    def release(self, neighbour: GatewayId) -> None:
        """Let everything go out again."""
        self._flows[neighbour].release()

    def divert(self, old: GatewayId, new: GatewayId) -> None:
        """Let another neighbour have what was held for one."""
        for entry in self._flows[old].take_all():
            self._flows[new].post(entry)

    def keep(self, effect: PublishLocally, then: Callable[[], None]) -> None:
        """Have our own broker keep something, and do something then."""
        duty = self._custody.begin(FromUs(then))
        self._deliveries.publish(effect, [duty], is_vital=True)
        self._custody.meet(duty)

    def wake(self, now: float) -> None:
        """Do what the time has come for."""
        self._deliveries.wake(now)
        for flow in self._flows.values():
            flow.wake(now)

    # ---- matching and routing ------------------------------------------------------------------------------------

    def _route(self, batch: Sequence[tuple[Publication, Duty | None]], source: GatewayId | None) -> None:
        """Match a batch that came from one side, deliver here, forward there."""
        if not batch:
            return
        publications = [publication for publication, _ in batch]
        local: list[Matched] = []
        split: list[tuple[list[SubscriptionKey], Sequence[GatewayId]]] = []
        matched = relayed = 0
        found = self._matching.match(publications, [duty for _, duty in batch])
        for (publication, duty), keys in zip(batch, found, strict=True):
            here, hops = ways = self._matching.split(keys, source, publication.qos)
            split.append(ways)
            if here or hops:
                matched += 1
            if here:
                local.append((publication, here, duty))
            elif source is not None:
                relayed += 1
            if hops:
                self._forward(publication, duty, hops)
        if self.profiling.is_sampling:
            self.profiling.note(publications, found, [source is None or bool(hops) for _, hops in split])
        self.tally.routed(publications, split, source, relayed)
        self._counters.add("publications_matched", amount=matched)
        self._counters.add("publications_relayed", amount=relayed)
        self._deliver(local)
        for _, duty in batch:
            if duty is not None:
                self._custody.meet(duty)

    def _forward(self, publication: Publication, duty: Duty | None, hops: Sequence[GatewayId]) -> None:
        if publication.hops >= HOPS_MAX:
            self._journal.refuse("publications_dropped", "hops", f"{publication.id} crossed {HOPS_MAX} links")
            return
        for hop in hops:
            if duty is not None:
                duty.claims += 1
            is_primary = hop in self._flows
            self._send(Entry(publication.one_hop_further(is_marked=is_primary), duty), hop)

    def _send(self, entry: Entry, hop: GatewayId) -> None:
        if hop in self._flows:
            self._flows[hop].post(entry)
        else:
            self._soft_links.post(hop, entry)

    def reroute(self) -> bool:
        """Send on another way what soft links have given back: to whoever is next on the way there.

        That one sends it on to everybody behind it, who may have got it already. It must not go back to where it came
        from: that one would have it from us, and whoever waits for us would be told so. Returns whether some of it went
        over soft links again.
        """
        is_soft = False
        for peer, entry in self._soft_links.returned():
            assert isinstance(entry.message, Publication)
            self._counters.add("publications_rerouted")
            first = None if entry.duty is None else next(iter(entry.duty.sources), None)
            source = first[0] if isinstance(first, FromNeighbour | FromGuest) else None
            hops = self._overlay.route({peer}, source, tuple)
            if not hops:  # it is not on the map any more
                hops = self._hops_again(entry.message, entry.duty, source)
            for hop in hops:
                if entry.duty is not None:
                    entry.duty.claims += 1
                self._send(Entry(entry.message, entry.duty), hop)
                is_soft = is_soft or hop not in self._flows
            if entry.duty is not None:
                self._custody.meet(entry.duty)
        return is_soft

    def _hops_again(self, publication: Publication, duty: Duty | None, source: GatewayId | None) -> Sequence[GatewayId]:
        [keys] = self._matching.match([publication], [duty])
        return self._matching.split(keys, source, publication.qos)[1]

    def _deliver(self, local: Sequence[Matched]) -> None:
        deliveries, count = self._subscribers.deliver(local)
        for effect, duties in deliveries:
            self._counters.add("publications_republished", amount=int(effect.republished))
            if effect.qos and duties:
                self._deliveries.publish(effect, duties)
            else:
                self._effects.append(effect)
        self._counters.add("deliveries", amount=count)

    def _set_aside(self, publication: Publication, duty: Duty | None) -> None:
        """A plugin failed twice on a publication: it must not block the rest."""
        self._counters.add("publications_dead", "plugin")
        if publication.qos:
            self._deliveries.set_aside(publication, duty)
        else:
            self._effects.append(dead_letter(self._gateway, publication))

    @property
    def unheard(self) -> list[GatewayId]:
        """The neighbours that have not said everything yet."""
        return sorted(self._matching.unheard)

    def wanted_by(self, publication: Publication) -> list[SubscriptionKey]:
        """Return which subscriptions want a publication, for people: nothing is done with it. Raises PluginFailed."""
        return self._matching.wanted_by(publication)

    # ---- what goes out -------------------------------------------------------------------------------------------

    def take(self, neighbour: GatewayId, messages: Sequence[Message], now: float) -> list[Entry]:
        """Return what goes to a neighbour now, behind these messages."""
        link, flow = self._links[neighbour], self._flows[neighbour]
        if link.state is not LinkState.UP or not link.may_leave(flow.waiting, messages, now):
            return []
        entries = flow.take(link.room)
        self._counters.add(
            "publications_forwarded", amount=len([entry for entry in entries if isinstance(entry.message, Publication)])
        )
        return entries

    def drain(self, now: float) -> list[Effect]:
        """Return what is to be done on our own broker."""
        effects, self._effects = self._effects, []
        for flow in self._flows.values():
            effects += flow.drain(now)
        self._tell_sources()
        for flow in self._flows.values():  # what was told may let parked receipts go
            effects += flow.drain(now)
        effects += self.intake.drain(now)
        effects += self._deliveries.drain()
        self.intake.echoes.expect(effects, now)
        return effects

    def _tell_sources(self) -> None:
        for source in self._custody.met():
            if isinstance(source, FromBroker):
                self.intake.met(source.sequence)
            elif isinstance(source, FromNeighbour):
                if source.neighbour in self._links:  # else it has parted from us
                    self._links[source.neighbour].taken_care_of(source.conversation, source.place)
            elif isinstance(source, FromGuest):
                self._guests.taken_care_of(source.guest, source.conversation, source.place)
            elif isinstance(source, FromUs):
                source.then()
            elif source.neighbour in self._flows:
                self._flows[source.neighbour].settle(source.receipt)

    @property
    def deadline(self) -> float | None:
        """When `wake` and `drain` must be called."""
        times = (self.intake.deadline, self._deliveries.deadline, *(flow.deadline for flow in self._flows.values()))
        return min((at for at in times if at is not None), default=None)

    # ---- looking in ----------------------------------------------------------------------------------------------

    def holdings(self) -> Holdings:
        """Return how much is held in memory."""
        flows = {name: flow.held + self._links[name].held for name, flow in self._flows.items()}
        flows |= self._soft_links.holdings()
        return Holdings(len(self._custody), len(self.intake), len(self._deliveries), flows)

    def parks(self) -> dict[GatewayId, Parking]:
        """Return what is known of each neighbour's park."""
        return {name: flow.parking for name, flow in self._flows.items()}

    @property
    def progress(self) -> Progress:
        """How far our own publications are taken care of."""
        return self.intake.progress

    def check(self) -> None:
        """State the invariants of all parts."""
        self.intake.check()
        for flow in self._flows.values():
            flow.check()

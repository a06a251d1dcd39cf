"""Drives a client's core from paho's loop: what paho hears becomes events, effects become packets and callbacks.

Whoever calls `request` (any thread) only leaves an event and wakes the loop. The loop's thread takes events one by one:
the core answers with effects, of which those for the broker are ordered at once, under a lock, and those for the
application are carried out after it, without one. So callbacks are called by the loop's thread alone, as paho does it,
and may call anything. Only `leave` gives the core an event from another thread, under the same lock.

A callback that raises stops the loop, as with paho. What it was called with counts as not delivered and not
acknowledged, and what stood behind it waits for the next turn of a loop. If that came in the background, the next turn
begins with it: its connection has a thread that nobody has stopped, so that its broker has no reason to send it again.
"""

import logging
import secrets
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTErrorCode

from mqloom.client.application import Application, Renewed, Stats
from mqloom.client.cores import Core, counts_of, handled, is_moved, new_core
from mqloom.client.federation import Federation
from mqloom.client.happenings import Entry, Happenings
from mqloom.client.herald import Herald
from mqloom.client.legs import CloseLeg, ForLeg, Migrated, OpenLeg, Stayed, TravelEffect
from mqloom.client.limits import LEAVE_S
from mqloom.client.memory_file import MemoryFile
from mqloom.client.messages import message_of
from mqloom.client.receipts import PACKET_IDS, Receipt, Receipts, Stray
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import (
    Adopted,
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    MessageReceived,
    Note,
    Publish,
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.client.wanted import Table, Wanted
from mqloom.client.ways import Happening, StrayReceived, Ways, referred_at
from mqloom.client.wired import Address
from mqloom.core.errors import LocalError
from mqloom.core.ids import ClientId
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.orders import RosterBroker
from mqloom.core.records import Wish
from mqloom.core.seen import Seen

logger: Final = logging.getLogger("mqloom.client")


class Shim:
    """One client's part in a federation. `is_kept` tells whether its broker keeps its session."""

    def __init__(
        self, application: Application, settings: Federation, client_id: str, is_kept: Callable[[], bool]
    ) -> None:
        self.table = Table()
        self.acknowledges_itself = False
        self._application = application
        self._settings = settings
        self.client = ClientId(settings.client or client_id or f"client-{secrets.token_hex(4)}")
        if len(self.client) > ID_LENGTH_MAX:
            raise ValueError(
                f"the client id has more than {ID_LENGTH_MAX} characters: name a shorter Federation(client=)"
            )
        self._herald = Herald(application, self.client, self.table)
        self._is_kept = is_kept
        self._lock = threading.RLock()
        self._core: Core | None = None
        self._farewells = application.farewells
        self._wake_at: float | None = None
        self._up: set[int] = set()  # legs
        self._begin_life(Receipts())
        self._is_busy = False
        self._received = 0
        self._dropped = 0  # in earlier lives
        self._counted: Counter[str] = Counter()
        self._seen = Seen()
        self._is_recalled = False
        self._memory: MemoryFile | None = None
        if settings.state_folder:
            if not (settings.client or client_id):
                raise LocalError("Federation: state_folder needs a client id: the next start must have the same")
            self._memory = MemoryFile(Path(settings.state_folder), self.client)

    # ---- for the application's calls, in any thread --------------------------------------------------------------

    @property
    def broker(self) -> str | None:
        """The name of the broker whose gateway serves us."""
        core = self._core
        return core.home.gateway if isinstance(core, Traveller) else core.gateway if core is not None else None

    def stats(self) -> Stats:
        """Return what has come so far."""
        core = self._core
        counts = Counter(self._counted) + counts_of(core)
        return Stats(
            received=self._received,
            duplicates=counts["duplicates"],
            gaps=counts["gaps"],
            dropped=self._dropped + self._happenings.dropped,
            migrations=counts["moved"],
            memory_faults=0 if self._memory is None else self._memory.faults,
            refused=counts["references"] + sum(counts[name] for name in counts if name.startswith("refused: ")),
        )

    def request(self, event: Event) -> None:
        """Leave an event for the loop."""
        self._happenings.add(None, event)
        self._application.wake()

    def want(self, name: str, wanted: Wanted) -> None:
        """One more is wanted, or the same again, be it before it has ended; what it takes the place of is not."""
        for outdated in self.table.outdated_by(name, wanted):
            self.unwant(outdated)
        calls = self.table.unsubscribing.waiting_for(name)
        if calls:
            self._herald.add(Renewed(name, calls))
        self.table.add(name, wanted)
        self.request(WishAdded(name=name, wish=wanted.wish))

    def unwant(self, name: str) -> None:
        """One is not wanted any more."""
        self.table.end(name)
        self.request(WishRemoved(name=name))

    def make_way(self) -> None:
        """The application is about to connect: where it does no session must be ended any more. Waits for that."""
        self._farewells.make_way(self._application.leg_address)

    def forget_at_the_end(self, is_gone: Callable[[], bool]) -> None:
        """The application disconnects, and the broker is to forget a session that it had kept only for a move."""
        application = self._application
        self._farewells.forget_at_the_end(application.leg_address, application.leg_identity, is_gone)

    def acknowledge(self, number: int) -> MQTTErrorCode:
        """The application has taken a publication of QoS 1."""
        with self._lock:
            stray = self._receipts.release_stray(number)
        if stray is not None:
            return self._ways.acknowledge(*stray)
        with self._lock:
            taken = self._receipts.in_hand(number)
            receipt = self._receipts.release(number)
            if taken is not None:
                self._remember(*taken)
        return MQTTErrorCode.MQTT_ERR_SUCCESS if receipt is None else self._acknowledge(receipt)

    def recall(self) -> None:
        """The application is about to connect: read what earlier lives have taken; raises LocalError."""
        if self._memory is not None and not self._is_recalled:
            self._seen = self._memory.open()
            self._is_recalled = True

    def begin_again(self) -> None:
        """The application names a broker. If we were moved from where it had been, that is a new life, as any other."""
        with self._lock:
            if self._core is None or not self._ways.own:
                return
            self._counted += counts_of(self._core)
            self._ways.pause()
            self._farewells.call_off()  # the next life finds in our record what is to be left
            self._begin_at_home()
            self._core = self._new_core()

    def _begin_at_home(self) -> None:
        """Have one connection, the application's own, which is the first leg of whatever core comes next."""
        self._dropped += self._happenings.dropped
        self._up.clear()
        self._wake_at = None
        self._begin_life(self._receipts.for_next_life())

    def _begin_life(self, receipts: Receipts) -> None:
        """Have legs that count from 0. Those of the life before keep their queue, and change nothing."""
        happenings = Happenings()

        def happened(leg: int, event: Happening | StrayReceived, packet: int) -> None:  # in that leg's thread
            happenings.add_from_background(leg, event, packet)
            self._application.wake(from_background=True)

        def is_held(leg: int) -> bool:
            with self._lock:
                return receipts.holds(leg)

        self._happenings, self._receipts = happenings, receipts
        self._interrupted: Receipt | None = None  # came in the background, and a callback has raised
        self._ways = Ways(self._application, happened, is_held, self._farewells)

    def leave(self) -> None:
        """The application disconnects: with a session that is not kept, its subscriptions are over, as with paho.

        Should the loop be busy for longer than LEAVE_S, they are left to their lease.
        """
        if self._memory is not None:
            self._memory.close()
        if self._is_kept():
            self._ways.pause()
            return
        if not self._lock.acquire(timeout=LEAVE_S):
            return
        try:
            core, self._core = self._core, None
            if core is None:
                return
            self._application.forget_orders()
            self._counted += counts_of(core)
            with self._ways.at_rest():  # else a leg may just be neither the application's nor in the background
                for effect in handled(core, None, CloseRequested()):
                    self._say_at_the_end(effect)
                self._receipts.forget()
                self._ways.end()
            self.table.clear()
            self._begin_at_home()
        finally:
            self._lock.release()

    def _say_at_the_end(self, effect: Effect | TravelEffect) -> None:
        leg, order = (effect.leg, effect.effect) if isinstance(effect, ForLeg) else (self._ways.own, effect)
        if isinstance(order, Publish) and leg == self._ways.own:
            # The DISCONNECT is right behind it: a broker that answers in between, to a connection that is
            # closed already, may not get to read that, and publishes our last will.
            self._application.publish_ours(replace(order, qos=0))
        elif isinstance(order, Publish):
            self._ways.order(leg, order)

    # ---- for paho's loop -----------------------------------------------------------------------------------------

    def connected(self, *, resumed: bool) -> None:
        """Listener: the broker has accepted us."""
        self._ways.resume()
        self._happenings.add(self._ways.own, Connected(resumed=resumed))

    def lost(self) -> None:
        """Listener: the connection is gone."""
        self._happenings.add(self._ways.own, ConnectionLost())

    def turned_away(self, reason: str) -> None:
        """Listener: paho tells the application."""

    def referred(self, reference: str) -> None:
        """Listener: the broker has named another, in place of itself."""
        self._happenings.add(self._ways.own, referred_at(self._application.leg_address, reference))

    def received(self, message: MQTTMessage) -> bool:
        """Listener: a message for us; paho may acknowledge it if it is done with, and came by the connection of now."""
        self.turn()
        event = MessageReceived(
            topic=message.topic, payload=bytes(message.payload), qos=message.qos, retain=message.retain
        )
        packet = message.mid if message.qos == 1 else 0
        receipt = self._receive(self._ways.own, event, packet)
        if receipt is None:
            return False
        if self.acknowledges_itself:  # else paho does
            self._acknowledge(receipt)
        return receipt.packet == packet

    def _receive(self, leg: int, event: MessageReceived, packet: int) -> Receipt | None:
        """Give out what a message holds; return its receipt if it is done with."""
        with self._lock:
            receipt = self._arrive(leg, event, packet)
        return None if receipt is None else self._give_out(receipt)

    def _arrive(self, leg: int, event: MessageReceived, packet: int) -> Receipt | None:
        if leg not in self._up:  # we have left: it is for a later life of ours, which gets it again
            return None
        return self._receipts.arrived(leg, event.payload, packet, self._take(leg, event))

    def _give_out(self, receipt: Receipt) -> Receipt | None:
        self._herald.tell_all()
        while receipt.left:
            self._deliver(receipt)
        with self._lock:
            return self._receipts.settled(receipt)

    def barred(self, topic: str) -> None:
        """Listener: the broker does not let us subscribe to this topic."""
        problem = f"the broker does not let this client subscribe to {topic}: its access list must allow that"
        self._herald.add(Unserved(names=tuple(self.table), problem=problem))

    def turn(self) -> None:
        """Listener: do whatever is due."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            self._herald.tell_all()
            while self._handle_next():
                pass
        finally:
            self._is_busy = False

    def settle(self) -> None:
        """Listener: open and exchange connections."""
        if not self._is_busy:
            self._ways.settle()

    def patience(self, timeout: float) -> float:
        """Listener: how long the loop may wait."""
        if self._wake_at is None or timeout < 0:
            return timeout
        return min(timeout, max(0.0, self._wake_at - time.monotonic()))

    # ---- the core ------------------------------------------------------------------------------------------------

    def _next_event(self) -> Entry | None:
        happening = self._happenings.next()
        if happening is not None:
            return happening
        if self._wake_at is not None and time.monotonic() >= self._wake_at:
            self._wake_at = None
            return None, Woke(), 0
        return None

    def _handle_next(self) -> bool:
        """Handle what has happened, if anything has. Between being taken and handled no other life may begin."""
        receipt = self._interrupted
        if receipt is not None:
            self._finish(receipt)
            return True
        with self._lock:
            happening = self._next_event()
            if happening is None:
                return False
            leg, event, packet = happening
            if isinstance(event, MessageReceived):
                assert leg is not None
                receipt = self._arrive(leg, event, packet)
            elif not isinstance(event, StrayReceived):
                deliveries = self._take(leg, event)
                assert not deliveries
        if isinstance(event, StrayReceived):
            assert leg is not None
            self._hand_over(leg, event.message, packet)
        elif receipt is None:
            self._herald.tell_all()
        else:
            self._finish(receipt)
        return True

    def _finish(self, receipt: Receipt) -> None:
        """Give out what has come in the background, and acknowledge it if it is done with."""
        self._interrupted = receipt
        done = self._give_out(receipt)
        self._interrupted = None
        if done is not None:
            self._acknowledge(done)

    def _take(self, leg: int | None, event: Event | Happening) -> list[Deliver]:
        """Give the core one event: order what is for the broker, keep what is to be told, return deliveries."""
        if isinstance(event, Connected | ConnectionLost):
            assert leg is not None
            if (leg in self._up) == isinstance(event, Connected):
                return []  # a connection that was never accepted is no loss
            self._up ^= {leg}
        if isinstance(event, ConnectionLost) and leg is not None:
            self._receipts.lost(leg)
            if leg == self._ways.own:
                self._application.forget_orders()
        if self._core is None:
            self._core = self._new_core()
        deliveries = []
        for effect in handled(self._core, leg, event):
            if isinstance(effect, Deliver):
                deliveries.append(effect)
            else:
                self._carry_out(effect)
        if isinstance(self._core, Traveller):
            self._ways.serve_by(self._core.home.number, self._core.home.gateway)
        return deliveries

    def _new_core(self) -> Core:
        wishes = {name: wanted.wish for name in self.table if (wanted := self.table.get(name)) is not None}
        is_kept, moves = self._is_kept(), self._can_be_moved()
        has_tls = self._application.own_tls is not None
        return new_core(self.client, self._settings, wishes, self._seen, is_kept=is_kept, moves=moves, has_tls=has_tls)

    def _can_be_moved(self) -> bool:
        is_wanted, transport = is_moved(self._settings), self._application.transport
        if is_wanted and transport != "tcp":
            logger.warning("%s: is never moved: the roster has no addresses for transport %r", self.client, transport)
            return False
        return is_wanted

    def _carry_out(self, effect: Effect | TravelEffect) -> None:
        match effect:
            case Subscribe() | Publish():
                self._ways.order(self._ways.own, effect)
            case ForLeg():
                self._ways.order(effect.leg, effect.effect)
            case OpenLeg():
                self._ways.open(effect.leg, self._address_of(effect.broker), effect.gateway)
            case CloseLeg():
                self._ways.close(effect.leg, forget=effect.forget)
            case WakeAt():
                self._wake_at = effect.at
            case Adopted():
                self._adopt(effect.wishes)
            case Unserved():
                self._herald.add(replace(effect, problem=f"{effect.problem}{self._hint()}"))
            case Tell() | Note() | Migrated() | Stayed():
                self._herald.add(effect)
            case _:
                raise AssertionError(f"{effect!r} of a core that lasts")

    def _adopt(self, wishes: Mapping[str, Wish]) -> None:
        for name, wish in wishes.items():
            if not self.table.adopt(name, wish):
                self._happenings.add(None, WishRemoved(name=name))

    def _hint(self) -> str:
        """Return why no answer comes, if it may be for what the application has not acknowledged."""
        if not self.acknowledges_itself or not self._receipts:
            return ""
        return f"; {len(self._receipts)} messages wait for your acknowledgement, and a broker sends only so many before"

    def _address_of(self, broker: RosterBroker) -> Address:
        """Return where another broker is; with TLS as the application has set that up, if it has."""
        tls = self._application.own_tls or ssl.create_default_context() if broker.tls else None
        return Address(broker.host, broker.port, tls)

    # ---- the application -----------------------------------------------------------------------------------------

    def _deliver(self, receipt: Receipt) -> None:
        """Give out the next of an envelope. Another thread may acknowledge it before the callback has returned."""
        with self._lock:
            delivery = receipt.left.popleft()
            qos = self.table.qos_for(delivery.names, delivery.publication.qos)
            number = self._receipts.next_number()
            is_held = bool(qos) and self.acknowledges_itself
            if is_held:
                self._receipts.hold(receipt, number, delivery)
        protocol = self._application.protocol
        message = message_of(delivery, qos=qos, number=number, protocol=protocol)
        self._received += 1
        try:
            self._application.deliver(message)
        except BaseException:
            self._received -= 1  # it comes again
            with self._lock:
                self._receipts.take_back(receipt, number, delivery)
            raise
        if self._memory is not None and not is_held:
            with self._lock:
                self._remember(receipt, delivery)

    def _hand_over(self, leg: int, message: MQTTMessage, packet: int) -> None:
        """Give out what has come in the background for a subscription of the application's own."""
        acknowledges_itself, happenings = self.acknowledges_itself, self._happenings
        if message.qos:
            with self._lock:
                message.mid = self._receipts.hold_stray(Stray(leg, packet, message.qos))
        try:
            self._application.deliver(message)
        except BaseException:
            with self._lock:
                is_held = self._receipts.release_stray(message.mid) is not None
            if is_held:
                happenings.put_back(leg, StrayReceived(message), packet)
            raise
        if message.qos and not acknowledges_itself:
            self.acknowledge(message.mid)

    def _remember(self, receipt: Receipt, delivery: Deliver) -> None:
        """Note what the application has taken. A mark counts only if nothing is left that a later life must get."""
        if self._memory is not None:
            publication = delivery.publication
            is_marked = publication.qos > 0 and self._receipts.is_all_but(receipt)
            low_water = None if self._seen.holds_floors else publication.low_water if is_marked else 0
            self._memory.note(publication, low_water=low_water)

    def _acknowledge(self, receipt: Receipt) -> MQTTErrorCode:
        if not receipt.packet:  # of QoS 0, or the broker will send it again
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        if receipt.leg == self._ways.own and receipt.packet < PACKET_IDS:
            return self._application.acknowledge(receipt.packet)
        return self._ways.acknowledge(receipt.leg, receipt.packet)

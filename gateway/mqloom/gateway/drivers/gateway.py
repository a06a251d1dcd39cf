"""One gateway in the real world: its node, connections to its own broker, one to each neighbour's, and a clock.

This translates and nothing else: MQTT messages into events, effects into MQTT messages and timers.

To its own broker a gateway has two connections, and one to each park that is open. By the intake come publications,
which may long wait for their acknowledgement; records and frames must not wait behind them, and come by the other.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

from mqloom.core import layout
from mqloom.core.effects import (
    Acknowledge,
    AcknowledgeParked,
    CloseLink,
    ClosePark,
    Effect,
    Heard,
    HoldIntake,
    Log,
    OpenLink,
    OpenPark,
    PublishFence,
    PublishLocally,
    ReadConfiguration,
    ReleaseIntake,
    RunBeside,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.errors import BrokerError
from mqloom.core.events import (
    AcksReceived,
    ConfigurationRead,
    Event,
    FramesReceived,
    InterestLearned,
    LoadMeasured,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PlaceRead,
    PublishesReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.drivers.acquaintance import acquaint
from mqloom.gateway.drivers.beside import Beside
from mqloom.gateway.drivers.intake import IntakeDriver
from mqloom.gateway.drivers.metering import Metering, broker_figures
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received
from mqloom.gateway.drivers.mqtt_clients import MakeConnection, make_connection
from mqloom.gateway.drivers.observing import ObservationPlan, Observer, Sinks
from mqloom.gateway.drivers.outward import Outward
from mqloom.gateway.drivers.own_status import OwnStatus
from mqloom.gateway.drivers.park import ParkDriver
from mqloom.gateway.drivers.peers import Peers
from mqloom.gateway.drivers.sorting import Kind, Sorter, control_subscriptions, event_of
from mqloom.gateway.drivers.telemetry import TelemetryDriver, TelemetryPlan
from mqloom.gateway.interfaces import BrokerAdapter, BrokerAddress, InterestAdapter
from mqloom.gateway.meters import Meter
from mqloom.gateway.node import Node
from mqloom.gateway.reconfiguring import Reconfigured

logger = logging.getLogger(__name__)

DATA_EVENTS: Final = frozenset((PublishesReceived, LocallyPublished, ParkedReceived))
"""What the time of publications is spent on, always; on frames and their acknowledgements it may be."""


class Addresses(NamedTuple):
    """Where brokers are: our own, and any other's, if we may go there; and how we connect to them."""

    own: BrokerAddress
    of: Callable[[GatewayId], BrokerAddress | None]
    connect: MakeConnection = make_connection
    former: Sequence[str] = ()  # MQTT client ids by which the broker may keep sessions that we shall not come back to


class GatewayDriver:
    """Runs one node until it is told to stop."""

    def __init__(
        self,
        build_node: Callable[[int, float], Node],
        gateway: GatewayId,
        adapter: BrokerAdapter,
        addresses: Addresses,
        data: Sequence[str],
        sinks: Sinks,
        observation: ObservationPlan,
    ) -> None:
        self._gateway = gateway
        self._adapter = adapter
        self._address = addresses.own
        self._connect, self._former = addresses.connect, addresses.former
        self._sorter = Sorter(gateway)
        self._data = data
        self._sink = sinks.counters
        self._observation = observation
        self._log = logging.LoggerAdapter(logger, {"gateway": gateway})
        self._loop = asyncio.get_running_loop()
        self._epoch = time.time_ns() // 1_000_000
        self.node = build_node(self._epoch, self._loop.time())
        self._status = OwnStatus(
            gateway, self._epoch, self.node.sealing, addresses.own, self._write_retained, self._refuse, self._fail
        )
        self._timer: asyncio.TimerHandle | None = None
        self._started = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.ready = asyncio.Event()
        self._own: Connection | None = None
        self._intake: IntakeDriver | None = None
        self._parks: dict[GatewayId, ParkDriver] = {}
        self._peers = Peers(
            gateway,
            addresses.of,
            self._handle,
            self._status.read,
            partial(self._dropped, "link_frames_dropped"),
            self._look_for_room,
            self._log,
            self._connect,
        )
        self._beside = Beside(self._handle)
        self._forwarded = 0
        self._meter = Meter(self._loop.time(), observation.output_bytes_s_max)
        self._outward = Outward(
            gateway,
            self._handle,
            self._look_for_room,
            partial(self._dropped, "local_publishes_dropped"),
            self._meter,
            observation.output_bytes_s_max,
        )
        figures = partial(broker_figures, adapter, self.node.counters, self._log)
        self.metering = Metering(
            self.node,
            self._meter,
            observation.memory,
            figures,
            lambda: self._outward.waiting_bytes,
            lambda: self._outward.is_crowded,
            self._measured,
        )
        """What was measured last: `load`, and what the broker says of itself, `broker`."""
        self.telemetry = TelemetryDriver(self.node, self._epoch, observation.telemetry, sinks.records)
        self.telemetry.broker_figures = lambda: figures().named
        self._discarding: dict[GatewayId, asyncio.Task[None]] = {}
        self._place = b""
        self._has_place = False
        self._outward.kept[layout.here()] = self._status.encoded(alive=True)
        self._interest: InterestLearned | None = None
        self._observer: Observer | None = None
        self.on_reload: Callable[[ClientId], None] = self._reload_nothing
        """Called when an operator orders that the configuration be read again; then `reloaded` is to be called."""

    async def run(self) -> None:
        """Run until `stop`, or until our own mistake: then raises it."""
        if isinstance(self._adapter, InterestAdapter):
            self._adapter.watch(self._gateway, self._learned)
        await self._adapter.start()
        try:
            whose = self._address, self._gateway, self._data
            found = await acquaint(*whose, self._connect, self._log, self._ended, self._former)
            self._open(found.former)
            self._handle(found.known)
            if self._interest is not None:
                self._handle(self._interest)
            outward = self._publish_report, self._is_served
            inward = self._sink, self._observation, self.metering, self.telemetry
            observer = Observer(self.node, self._epoch, *inward, *outward)
            async with observer as self._observer:
                await self._ended
        finally:
            await self._close()
            await self._adapter.stop()

    def reconfigure(self, event: Reconfigured, telemetry_s: float, telemetry: TelemetryPlan) -> None:
        """Let a configuration that was read again hold; connections stay as they are."""
        self.telemetry.reconfigure(telemetry)
        before = self._status.encoded(alive=True)
        self._handle(event)
        if (status := self._status.encoded(alive=True)) != before:  # another key seals from now on
            self._outward.kept[layout.here()] = status
            if self._is_served():  # else it is said when the broker is back
                self._status.say()
                self._write_retained(layout.here(), status)
        if self._intake is not None and list(self._data) != list(event.data):
            self._intake.change(event.data)
        self._data = event.data
        if self._observer is not None:
            self._observer.telemetry_s = telemetry_s

    def _measured(self, event: LoadMeasured) -> None:
        self.telemetry.measured(event.load, self._observation.load_window_s)
        self._handle(event)

    def reloaded(self, event: ConfigurationRead) -> None:
        """Tell an operator what became of reading the configuration again."""
        self._handle(event)

    def _reload_nothing(self, operator: ClientId) -> None:
        problem = "this gateway runs inside another program, and has no configuration file to read"
        self._loop.call_soon(self._handle, ConfigurationRead(operator=operator, problem=problem))

    def stop(self) -> None:
        """Let `run` end; what our broker has taken over by now is acknowledged before, and does not come again."""
        self._outward.tell_published()
        if not self._ended.done():
            self._ended.set_result(None)

    def _open(self, former: Sequence[str] | None) -> None:
        self._own = self._connect(self._own_plan(), self._log)
        self._outward.own = self._own
        self._own.open()
        self._intake = IntakeDriver(
            self._gateway,
            self._address,
            self._data,
            former,
            connect=self._connect,
            keep=self._outward.keep,
            handle=self._handle,
            on_up=self._look_whether_ready,
            on_broken=self._outward.tell_published,  # what it has republished is no echo that is still to come
            on_drop=partial(self._dropped, "local_publishes_dropped"),
            on_room=self._look_for_room,
            log=self._log,
        )
        self._outward.intake = self._intake

    def _own_plan(self) -> ConnectionPlan:
        return ConnectionPlan(
            address=self._address,
            client_id=self._address.session(f"mqloom-{self._gateway}-control"),
            clean_session=False,
            subscriptions=control_subscriptions(self._gateway, gives_orders=self.node.gives_orders),
            on_messages=self._received,
            on_up=self._own_up,
            on_down=lambda problem: None,
            on_broken=self._own_lost,
            will=(layout.status(self._gateway), self._status.encoded(alive=False)),
            on_drop=partial(self._dropped, "local_publishes_dropped"),
            on_room=self._look_for_room,
        )

    def _is_served(self) -> bool:
        return self._own is not None and self._own.is_up

    def _publish_report(self, data: bytes) -> None:
        if self._own is not None and self._is_served():
            self._own.publish(layout.report(self._gateway), data, 0, retain=True)

    async def _close(self) -> None:
        self._outward.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._status.rest()
        if self._own is not None:
            self._write_retained(layout.status(self._gateway), self._status.encoded(alive=False))
            for topic in (layout.portrait(self._gateway), layout.report(self._gateway)):
                self._write_retained(topic, b"")
        intake = None if self._intake is None else self._intake.connection
        connections = filter(None, (self._own, intake))
        for task in self._discarding.values():
            task.cancel()
        await asyncio.gather(
            *(connection.close() for connection in connections),
            *(park.stop() for park in self._parks.values()),
            self._peers.close_all(),
            self._beside.close(),
        )
        await asyncio.gather(*self._discarding.values(), return_exceptions=True)

    # ---- inward --------------------------------------------------------------------------------------------------

    def _own_lost(self) -> None:
        for park in self._parks.values():
            park.doubt()

    def _own_up(self) -> None:
        for park in self._parks.values():
            park.create()
        self._status.say()
        for topic, payload in self._outward.kept.items():
            self._write_retained(topic, payload)
        self._log.info("serving the broker at %s:%s", self._address.host, self._address.port)
        if not self._started:
            self._started = True
            self._handle(Started())
        self._look_whether_ready()

    def _look_whether_ready(self) -> None:
        if self._is_served() and self._intake is not None and self._intake.connection.is_up:
            self.ready.set()

    def _learned(self, filters: Collection[str], passed_over: int = 0, /) -> None:
        self._interest = InterestLearned(filters=tuple(filters), passed_over=passed_over)  # all: the last counts
        if self._own is not None:
            self._handle(self._interest)

    def _parked(self, neighbour: GatewayId, parked: list[Parked]) -> None:
        self._handle(ParkedReceived(neighbour=neighbour, messages=tuple(parked)))

    def _own_status(self, message: Received) -> None:
        """Something came on our status topic; when it is our own, all records are read."""
        if not self._status.came(message):
            return
        if not self._has_place:
            self._has_place = True
            if self._place:
                self._outward.kept[layout.place(self._gateway)] = self._place
            self._handle(PlaceRead(data=self._place))
        self._handle(RecordsRead())

    def _write_retained(self, topic: str, payload: bytes) -> None:
        assert self._own is not None
        self._own.publish(topic, payload, 1, retain=True)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _received(self, batch: Sequence[Received]) -> None:
        """Hand a batch to the node in its order, joining what stands together."""
        if self._ended.done():
            return
        for kind, messages in itertools.groupby(batch, lambda message: self._sorter.kind(message.topic)):
            if (event := self._event(kind, list(messages))) is not None:
                self._handle(event)

    def _event(self, kind: Kind, messages: Sequence[Received]) -> Event | None:
        what, who, _ = kind
        if what in ("order", "answer") and messages[-1].retain:  # it would come again at every start
            self._refuse(what, f"of {who[:100]!r}, retained: {what}s are not; delete it")
            return None
        if what == "status":
            self._own_status(messages[-1])
        elif what == "place":
            self._place = messages[-1].payload  # read once, before our own status
        elif what == "link":
            self._spoke(GatewayId(who))
        elif what == "malformed":
            for _ in messages:
                self._refuse("malformed", f"{who}; names in topics are percent-encoded, as in sub/my%20client")
        return event_of(kind, messages)

    def _spoke(self, peer: GatewayId) -> None:
        """Somebody wrote as this gateway; in a federation with a key the node says (Heard) whether it was that one."""
        if self.node.sealing is None:
            self._peers.speaks(peer)

    def _refuse(self, reason: str, text: str) -> None:
        """Count a message that is refused, and log it the 1st, 2nd, 4th, 8th... time."""
        self.node.counters.add("frames_refused", reason)
        count = self.node.counters.value("frames_refused", reason)
        if count & (count - 1) == 0:
            self._log.warning("refused (%s, %s so far): %s", reason, count, text)

    def _dropped(self, counter: str, reason: str) -> None:
        self.node.counters.add(counter, reason)

    def _look_for_room(self) -> None:
        """Take in again when nobody outward is crowded any more, and the node does not hold."""
        if self._intake is not None and not self._intake.is_held and not self._is_crowded():
            self._intake.connection.resume()

    def _is_crowded(self) -> bool:
        return self._peers.are_crowded or self._outward.is_crowded

    def _is_data(self, event: Event | Reconfigured, received: int) -> bool:
        """Tell whether publications are what an event's time was spent on, of which so many had been received before.

        Frames may have none, but subscriptions of clients that come or move; and so may those that are acknowledged.
        """
        kind = type(event)
        if kind is FramesReceived:
            return received != self.node.counters.value("publications_received", "")
        if kind is AcksReceived:
            forwarded = self._forwarded
            self._forwarded = self.node.counters.value("publications_forwarded", "")
            return forwarded != self._forwarded
        return kind in DATA_EVENTS

    def _handle(self, event: Event | Reconfigured) -> None:
        if self._ended.done():
            return
        began = time.thread_time()  # what others do on a busy machine is not our load
        received = self.node.counters.value("publications_received", "") if type(event) is FramesReceived else 0
        try:
            for effect in self.node.handle(event, self._loop.time()):
                self._carry_out(effect)
            if self._is_data(event, received):
                self._meter.busy_s += time.thread_time() - began
            if self._intake is not None and self._is_crowded():
                self._intake.connection.pause()
        except Exception as error:  # our own mistake: end, and let whoever started us see it
            self._fail(error)

    # ---- outward -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PublishLocally():
                self._outward.publish(effect)
            case SendFrame():
                self._peers.send(effect)
            case SendAck():
                assert self._own is not None
                self._own.publish(layout.ack(self._gateway, effect.neighbour), effect.ack, 0)
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(effect.at, self._handle, Woke())
            case Log():
                self._log.log(logging.getLevelNamesMapping()[effect.level.upper()], "%s", effect.text)
            case Heard():
                self._peers.speaks(effect.neighbour)
            case OpenLink():
                self._open_link(effect)
            case CloseLink():
                self._close_link(effect)
            case _:
                self._carry_out_custody(effect)

    def _open_link(self, effect: OpenLink) -> None:
        peer = effect.neighbour
        if effect.is_primary:
            park = ParkDriver(
                self._address,
                self._gateway,
                peer,
                self._parked,
                self._log,
                self._connect,
                after=self._discarding.pop(peer, None),
            )
            self._parks[peer] = self._outward.parks[layout.park(self._gateway, peer)] = park
            if self._is_served():
                park.create()
        self._peers.open(peer)

    def _close_link(self, effect: CloseLink) -> None:
        peer = effect.neighbour
        self._peers.close(peer)
        if effect.is_primary:
            self._outward.parks.pop(layout.park(self._gateway, peer), None)
            park = self._parks.pop(peer, None)
            if park is None:
                park = ParkDriver(self._address, self._gateway, peer, self._parked, self._log, self._connect)
            self._discarding[peer] = asyncio.create_task(park.discard())

    def _carry_out_custody(self, effect: Effect) -> None:
        match effect:
            case OpenPark():
                self._parks[effect.neighbour].open()
            case ClosePark():
                self._parks[effect.neighbour].close()
            case AcknowledgeParked():
                self._parks[effect.neighbour].acknowledge(effect.receipts)
            case RunBeside():
                self._beside.run(effect)
            case ReadConfiguration():
                self.on_reload(effect.operator)
            case _:
                self._carry_out_at_intake(effect)

    def _carry_out_at_intake(self, effect: Effect) -> None:
        assert self._intake is not None
        match effect:
            case Acknowledge():
                self._intake.acknowledge(effect.receipts)
            case PublishFence():
                self._intake.fence(effect.number)
            case HoldIntake():
                self._intake.hold()
            case ReleaseIntake():
                self._intake.is_held = False
                self._look_for_room()


async def wait_until_ready(driver: GatewayDriver, timeout_s: float) -> None:
    """Return when a gateway serves its broker; raises BrokerError if it does not in time."""
    try:
        await asyncio.wait_for(driver.ready.wait(), timeout_s)
    except TimeoutError:
        raise BrokerError(f"gateway {driver.node.gateway}", f"not reached in {timeout_s:g} s") from None

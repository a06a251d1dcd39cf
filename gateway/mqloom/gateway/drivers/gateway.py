"""One gateway in the real world: its node, the connection to its own broker, one to each neighbour's, and a clock.

This translates and nothing else: MQTT messages into events, effects into MQTT messages and timers.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version

from mqloom.core import layout
from mqloom.core.effects import Effect, Log, PublishLocally, SendFrame, WakeAt
from mqloom.core.errors import BrokerError, RecordError, TopicError
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
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import STATUS_EVERY_S
from mqloom.core.publication import Incoming
from mqloom.core.records import Status, decode_status, encode_status
from mqloom.core.topics import topic_matches
from mqloom.gateway.drivers.mqtt import ConnectionPlan, MqttConnection, Received
from mqloom.gateway.interfaces import BrokerAdapter, BrokerAddress, CounterRecord
from mqloom.gateway.node import Node

logger = logging.getLogger(__name__)

Sink = Callable[[CounterRecord], None]


class GatewayDriver:
    """Runs one node until it is told to stop."""

    def __init__(
        self,
        build_node: Callable[[int, float], Node],
        gateway: GatewayId,
        adapter: BrokerAdapter,
        address: BrokerAddress,
        neighbours: Mapping[GatewayId, BrokerAddress],
        data: Sequence[str],
        sink: Sink,
        telemetry_s: float,
    ) -> None:
        self._gateway = gateway
        self._adapter = adapter
        self._address = address
        self._neighbours = neighbours
        self._data = data
        self._sink = sink
        self._telemetry_s = telemetry_s
        self._log = logging.LoggerAdapter(logger, {"gateway": gateway})
        self._loop = asyncio.get_running_loop()
        self._epoch = time.time_ns() // 1_000_000
        self.node = build_node(self._epoch, self._loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._started = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.ready = asyncio.Event()
        self._own: MqttConnection | None = None
        self._links: dict[GatewayId, MqttConnection] = {}
        self._neighbour_alive = dict.fromkeys(neighbours, True)
        self._neighbour_epoch = dict.fromkeys(neighbours, 0)
        self._status_at = 0.0
        self._correction: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Run until `stop`, or until our own mistake: then raises it."""
        await self._adapter.start()
        try:
            self._open()
            await self._with_telemetry()
        finally:
            await self._close()
            await self._adapter.stop()

    def stop(self) -> None:
        """Let `run` end."""
        if not self._ended.done():
            self._ended.set_result(None)

    def _open(self) -> None:
        status = layout.status(self._gateway)
        plan = ConnectionPlan(
            address=self._address,
            client_id=f"mqloom-{self._gateway}",
            clean_session=False,
            subscriptions=[
                *((topics, 1) for topics in self._data),
                (layout.records(self._gateway), 1),
                *((topics, 1) for topics in layout.links(self._gateway)),
                (status, 1),  # last: when our own comes back, all records before it have
            ],
            on_messages=self._received,
            on_up=self._own_up,
            on_down=lambda problem: None,
            will=(status, encode_status(self._status(alive=False))),
            on_drop=partial(self._dropped, "local_publishes_dropped"),
            on_room=self._look_for_room,
        )
        self._own = MqttConnection(plan, self._log)
        self._own.open()
        for neighbour, address in self._neighbours.items():
            plan = ConnectionPlan(
                address=address,
                client_id=f"mqloom-{self._gateway}-to-{neighbour}",
                clean_session=True,
                subscriptions=[(layout.status(neighbour), 0)],
                on_messages=partial(self._neighbour_status, neighbour),
                on_up=partial(self._link_up, neighbour),
                on_down=partial(self._link_down, neighbour),
                on_drop=partial(self._dropped, "link_frames_dropped"),
                on_room=self._look_for_room,
            )
            self._links[neighbour] = MqttConnection(plan, self._log)
            self._links[neighbour].open()

    async def _with_telemetry(self) -> None:
        while not self._ended.done():
            await asyncio.wait([self._ended], timeout=self._telemetry_s)
            self._sink(CounterRecord(self._gateway, time.time(), self.node.counters.snapshot()))
        await self._ended

    async def _close(self) -> None:
        for timer in (self._timer, self._correction):
            if timer is not None:
                timer.cancel()
        if self._own is not None:
            status = encode_status(self._status(alive=False))
            self._own.publish(layout.status(self._gateway), status, 1, retain=True)
        connections = [connection for connection in (self._own, *self._links.values()) if connection is not None]
        await asyncio.gather(*(connection.close() for connection in connections))

    def _status(self, *, alive: bool) -> Status:
        return Status(alive=alive, gateway=self._gateway, version=version("mqloom"), epoch=self._epoch)

    # ---- inward --------------------------------------------------------------------------------------------------

    def _own_up(self) -> None:
        self._say_status()
        self._log.info("serving the broker at %s:%s", self._address.host, self._address.port)
        if not self._started:
            self._started = True
            self._handle(Started())
        self.ready.set()

    def _link_up(self, neighbour: GatewayId) -> None:
        if self._neighbour_alive[neighbour]:
            self._handle(LinkConnected(neighbour=neighbour))

    def _link_down(self, neighbour: GatewayId, problem: str) -> None:
        self._handle(LinkLost(neighbour=neighbour))

    def _neighbour_status(self, neighbour: GatewayId, batch: Sequence[Received]) -> None:
        """A neighbour's last will says that its gateway is gone although its broker is there."""
        for message in batch:
            try:
                status = decode_status(message.payload)
            except RecordError as error:
                self._refuse("status", f"on {message.topic}: {error}")
                continue
            # A last will counts only if it is of the run that we know, or of a later one.
            if status.gateway == neighbour and (status.alive or status.epoch >= self._neighbour_epoch[neighbour]):
                self._neighbour_epoch[neighbour] = status.epoch
                self._neighbour_is(neighbour, alive=status.alive)

    def _neighbour_is(self, neighbour: GatewayId, *, alive: bool) -> None:
        if alive != self._neighbour_alive[neighbour]:
            self._neighbour_alive[neighbour] = alive
            if self._links[neighbour].is_up:
                self._handle(LinkConnected(neighbour=neighbour) if alive else LinkLost(neighbour=neighbour))

    def _own_status(self, message: Received) -> None:
        """Our status came back to us: all records are read. If it is not what we said, say it again."""
        if message.payload == encode_status(self._status(alive=True)):
            self._handle(RecordsRead())
        elif not message.retain and self._correction is None:
            if message.payload != encode_status(self._status(alive=False)):  # else it is our own last will
                self._refuse("status", f"somebody else wrote {message.topic}: is there another gateway of our name?")
            self._correction = self._loop.call_at(self._status_at + STATUS_EVERY_S, self._say_status)

    def _say_status(self) -> None:
        assert self._own is not None
        if self._correction is not None:
            self._correction.cancel()
            self._correction = None
        self._status_at = self._loop.time()
        self._own.publish(layout.status(self._gateway), encode_status(self._status(alive=True)), 1, retain=True)

    def _received(self, batch: Sequence[Received]) -> None:
        """Hand a batch to the node in its order, joining what stands together."""
        if self._ended.done():
            return
        for kind, messages in itertools.groupby(batch, self._kind):
            event = self._event(kind, list(messages))
            if event is not None:
                self._handle(event)

    def _kind(self, message: Received) -> tuple[str, str, bool]:
        """Sort a message by its topic: data, a record (each by itself), or frames of one sender."""
        topic = message.topic
        if not topic.startswith(f"{layout.RESERVED}/"):
            return ("data", "", False)
        try:
            if topic_matches(layout.records(self._gateway), topic):
                return ("record", layout.record_client(self._gateway, topic), False)
            if any(topic_matches(links, topic) for links in layout.links(self._gateway)):
                sender, urgent = layout.link_sender(self._gateway, topic)
                return ("link", sender, urgent)
        except TopicError as error:
            return ("malformed", str(error), False)
        if topic == layout.status(self._gateway):
            return ("status", "", False)
        return ("unasked", topic, False)  # some brokers replay retained messages that nobody asked for

    def _event(self, kind: tuple[str, str, bool], messages: Sequence[Received]) -> Event | None:
        what, who, urgent = kind
        if what == "data":
            return PublishesReceived(
                publications=tuple(
                    Incoming(topic=each.topic, payload=each.payload, qos=each.qos, retain=each.retain)
                    for each in messages
                    if self._is_ours(each.topic)
                )
            )
        if what == "record":  # only the last counts: a record is the whole wish
            return RecordReceived(client=ClientId(who), data=messages[-1].payload)
        if what == "status":
            self._own_status(messages[-1])
            return None
        if what == "link":
            if who in self._neighbour_alive:  # whoever speaks is alive, whatever the status says
                self._neighbour_is(GatewayId(who), alive=True)
            frames = tuple(each.payload for each in messages)
            return FramesReceived(sender=GatewayId(who), frames=frames, urgent=urgent)
        if what == "malformed":
            for _ in messages:
                self._refuse("malformed", f"{who}; names in topics are percent-encoded, as in sub/my%20client")
        return None

    def _is_ours(self, topic: str) -> bool:
        """Whether it is data still: the broker may remember a subscription of an earlier configuration."""
        return any(topic_matches(topics, topic) for topics in self._data)

    def _refuse(self, reason: str, text: str) -> None:
        """Count a message that is refused, and log it the 1st, 2nd, 4th, 8th... time."""
        self.node.counters.add("frames_refused", reason)
        count = self.node.counters.value("frames_refused", reason)
        if count & (count - 1) == 0:
            self._log.warning("refused (%s, %s so far): %s", reason, count, text)

    def _dropped(self, counter: str, reason: str) -> None:
        self.node.counters.add(counter, reason)

    def _look_for_room(self) -> None:
        """Take in again when nobody outward is crowded any more."""
        if self._own is not None and not self._is_crowded():
            self._own.resume()

    def _is_crowded(self) -> bool:
        return any(each.is_crowded for each in (self._own, *self._links.values()) if each is not None)

    def _handle(self, event: Event) -> None:
        if self._ended.done():
            return
        try:
            for effect in self.node.handle(event, self._loop.time()):
                self._carry_out(effect)
            if self._own is not None and self._is_crowded():
                self._own.pause()
        except Exception as error:  # our own mistake: end, and let whoever started us see it
            self._ended.set_exception(error)

    # ---- outward -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PublishLocally():
                assert self._own is not None
                self._own.publish(effect.topic, effect.payload, effect.qos, retain=effect.retain)
            case SendFrame():
                topic = layout.link(effect.neighbour, self._gateway, urgent=effect.urgent)
                self._links[effect.neighbour].publish(topic, effect.frame, 0 if effect.urgent else 1)
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(effect.at, self._handle, Woke())
            case Log():
                self._log.log(logging.getLevelNamesMapping()[effect.level.upper()], "%s", effect.text)


async def wait_until_ready(driver: GatewayDriver, timeout_s: float) -> None:
    """Return when a gateway serves its broker; raises BrokerError if it does not in time."""
    try:
        await asyncio.wait_for(driver.ready.wait(), timeout_s)
    except TimeoutError:
        raise BrokerError(f"gateway {driver.node.gateway}", f"not reached in {timeout_s:g} s") from None

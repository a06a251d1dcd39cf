"""How our own broker behaves, tried out on short visits before a gateway opens its connections.

1. Leave a retained message.
2. In a session of our own, subscribe to it by a wildcard, and publish two more: does it come before those? Acknowledge
   all but the last, and leave.
3. Come back: is the last sent again, and under the same packet id? If nothing was replayed to the wildcard, read the
   mirror of clients' records, topic by topic. Read what the session of our intake may be subscribed to.
4. Delete the retained message, and the session; and note what that of our intake will be subscribed to besides.
5. End sessions that an earlier run of the gateway had by other ids, before the federation had a secret for them: in
   those the broker would keep everything for ever.

A broker that does not acknowledge the first step is visited again, until it does. One that does not let us do the rest
is taken for one that behaves as MQTT demands, and the log says so.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mqloom.core import layout
from mqloom.core.errors import RecordError, TopicError
from mqloom.core.events import BrokerKnown
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import INTAKE_BYTES_MAX, MIRROR_CHUNKS
from mqloom.core.mirrors import decode_chunk
from mqloom.core.topics import check_topic_filter
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MakeConnection
from mqloom.gateway.drivers.protocols import Backoff
from mqloom.gateway.interfaces import BrokerAddress

TRY_S_MAX: Final = 5.0
"""How long one visit to a broker that is there may take; then it is not tried out any further."""
REPEAT_S_MAX: Final = 1.0
"""How long what is sent again may take to come; then the broker is one that lets it wait."""


class Acquainted(NamedTuple):
    """What was found out."""

    known: BrokerKnown
    former: Sequence[str] | None = None
    """Which topics the session of our intake may be subscribed to, nothing else among them; None: not known."""


Log = logging.LoggerAdapter[logging.Logger]


async def acquaint(
    address: BrokerAddress,
    gateway: GatewayId,
    data: Sequence[str],
    connect: MakeConnection,
    log: Log,
    until: "asyncio.Future[None]",
    former: Sequence[str] = (),
) -> Acquainted:
    """Return how a broker behaves, as soon as it answers; if we are to end before that, it does not matter."""
    visits = asyncio.create_task(Acquaintance(address, gateway, data, connect, log, former).make())
    both: list[asyncio.Future[Any]] = [visits, until]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not visits.done():
        visits.cancel()
        await asyncio.wait([visits])
        return Acquainted(BrokerKnown(traits=USUAL))
    return visits.result()


def union(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the topics that are in either."""
    return list(dict.fromkeys((*one, *other)))


class Acquaintance:
    """Visits to the broker of one gateway."""

    def __init__(
        self,
        address: BrokerAddress,
        gateway: GatewayId,
        data: Sequence[str],
        connect: MakeConnection,
        log: Log,
        former: Sequence[str] = (),
    ) -> None:
        self._address = address
        self._gateway = gateway
        self._data = data
        self._connect = connect
        self._log = log
        self._name = address.session(f"mqloom-{gateway}-try")
        self._former_ids = former
        self._topic = layout.trial(gateway)
        self._kept, self._first, self._last = (secrets.token_bytes(8) for _ in range(3))

    async def make(self) -> Acquainted:
        """Return how the broker behaves; waits for as long as it does not answer."""
        backoff = Backoff()
        while not await self._retain({self._topic: self._kept}, "it is tried again"):
            await asyncio.sleep(backoff.next_s())
        try:
            found = await self._try_out()
        except TimeoutError:
            self._log.warning(
                "the broker could not be tried out on %s within %g s: may we subscribe to and publish on it? It is "
                "taken for one that behaves as MQTT demands",
                layout.mirrors(self._gateway),
                TRY_S_MAX,
            )
            found = Acquainted(BrokerKnown(traits=USUAL))
        last = {self._topic: b""}
        if found.former is not None:
            last[layout.intake(self._gateway)] = msgspec.json.encode(union(found.former, self._data))
        await self._retain(last, "a retained message may stay there until the next start")
        await self._end_former()
        return found

    async def _end_former(self) -> None:
        """Come as each with a clean session: that ends the one that was kept."""
        for name in self._former_ids:
            async with self._visit((), clean_session=True, name=name) as visit:
                with contextlib.suppress(TimeoutError):  # it is tried again at the next start
                    await asyncio.wait_for(visit.up.wait(), TRY_S_MAX)

    async def _retain(self, messages: Mapping[str, bytes], consequence: str) -> bool:
        """Leave retained messages, or delete them; return whether the broker has acknowledged all, or else warn."""
        async with self._visit((), clean_session=True) as visit:
            await visit.up.wait()
            try:
                async with asyncio.timeout(TRY_S_MAX):
                    for topic, payload in messages.items():
                        await visit.put(topic, payload, retain=True)
            except TimeoutError:
                self._log.warning(
                    "the broker at %s:%d did not acknowledge a retained message on %s within %g s: may we publish on "
                    "it, and is the broker overloaded? The gateway goes on; %s",
                    self._address.host,
                    self._address.port,
                    self._topic,
                    TRY_S_MAX,
                    consequence,
                )
                return False
        return True

    async def _try_out(self) -> Acquainted:
        async with self._visit((layout.mirrors(self._gateway),)) as visit:
            messages, packet = await asyncio.wait_for(self._leave_one(visit), TRY_S_MAX)
        replays = any(message.payload == self._kept for message in messages)
        chunks = [layout.mirror(self._gateway, number) for number in range(MIRROR_CHUNKS)]
        ours = layout.intake(self._gateway), self._topic
        async with self._visit(ours if replays else (*chunks, *ours)) as visit:
            repeated = await self._repeated(visit)
            messages += await asyncio.wait_for(self._read_all(visit), TRY_S_MAX)
        traits = Traits(
            replays_to_wildcards=replays,
            keeps_packet_ids=repeated in (None, packet),
            repeats_at_once=repeated is not None,
        )
        records = () if replays else self._records([each for each in messages if each.topic in chunks])
        former = self._former([each.payload for each in messages if each.topic == layout.intake(self._gateway)])
        return Acquainted(BrokerKnown(traits=traits, records=records), former)

    async def _leave_one(self, visit: "Visit") -> tuple[list[Received], int]:
        """Return what came before our own two, and the packet id of the last, which is not acknowledged."""
        await visit.up.wait()
        await visit.put(self._topic, self._first)
        await visit.put(self._topic, self._last)
        messages = [await visit.next() for _ in range(1)]
        while messages[-1].payload != self._last:
            visit.acknowledge(messages[-1])
            messages.append(await visit.next())
        return messages[:-1], messages[-1].token[1]

    async def _repeated(self, visit: "Visit") -> int | None:
        """Return under which packet id the last was sent again."""
        await asyncio.wait_for(visit.up.wait(), TRY_S_MAX)
        try:
            message = await asyncio.wait_for(self._until(visit, self._last), REPEAT_S_MAX)
        except TimeoutError:
            return None
        return message.token[1] if message.again else None

    async def _until(self, visit: "Visit", payload: bytes) -> Received:
        while True:
            message = await visit.next()
            visit.acknowledge(message)
            if message.payload == payload:
                return message

    async def _read_all(self, visit: "Visit") -> list[Received]:
        """Return everything that has come, when one more of ours has."""
        await visit.put(self._topic, self._first)
        await self._until(visit, self._first)
        return visit.received

    def _former(self, kept: Sequence[bytes]) -> Sequence[str]:
        if not kept or not kept[-1]:
            return ()
        try:
            if len(kept[-1]) > INTAKE_BYTES_MAX:
                raise msgspec.ValidationError(f"{len(kept[-1])} bytes, and {INTAKE_BYTES_MAX} are read at most")
            topics = msgspec.json.decode(kept[-1], type=list[str])
            for each in topics:  # a broker ends the connection of whoever names it what is none
                check_topic_filter(each)
        except (msgspec.DecodeError, UnicodeDecodeError, TopicError) as error:
            topic = layout.intake(self._gateway)
            self._log.warning("on %s: %s; passed over: what was data earlier may still come", topic, error)
            return ()
        return topics

    def _records(self, messages: Sequence[Received]) -> tuple[tuple[ClientId, bytes], ...]:
        records: dict[ClientId, bytes] = {}
        for message in messages:
            try:
                records.update(decode_chunk(message.payload))
            except RecordError as error:
                self._log.warning("on %s: %s; passed over", message.topic, error)
        return tuple(records.items())

    def _visit(self, topics: Sequence[str], *, clean_session: bool = False, name: str = "") -> "Visit":
        subscriptions = [TopicSubscription(topic, 1) for topic in topics]
        return Visit(
            lambda on_up, on_messages: self._connect(
                ConnectionPlan(
                    address=self._address,
                    client_id=name or self._name,
                    clean_session=clean_session,
                    subscriptions=subscriptions,
                    on_messages=on_messages,
                    on_up=on_up,
                    on_down=lambda problem: None,
                    acknowledges=False,
                ),
                self._log,
            )
        )


class Visit:
    """One connection, closed at the end; everything that came by it, in order."""

    def __init__(self, connect: Callable[[Callable[[], None], Callable[[list[Received]], None]], Connection]) -> None:
        self.up = asyncio.Event()
        self.received: list[Received] = []
        self._taken = 0
        self._came = asyncio.Event()
        self._connection = connect(self.up.set, self._receive)

    async def __aenter__(self) -> "Visit":
        self._connection.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    def _receive(self, batch: list[Received]) -> None:
        self.received += batch
        self._came.set()

    async def next(self) -> Received:
        """Return the next message when it has come."""
        while self._taken == len(self.received):
            self._came.clear()
            await self._came.wait()
        self._taken += 1
        return self.received[self._taken - 1]

    async def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish, and return when the broker has acknowledged it."""
        done = asyncio.Event()
        self._connection.publish(topic, payload, 1, retain=retain, then=done.set)
        await done.wait()

    def acknowledge(self, message: Received) -> None:
        """Tell the broker that it need not keep a message."""
        if message.qos:
            self._connection.acknowledge([message.token])

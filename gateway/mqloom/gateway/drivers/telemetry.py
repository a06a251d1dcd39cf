"""Sends a gateway's telemetry to the collector: ZeroMQ and the clock around `TelemetryOutbox` and `Recorder`.

All of it happens between two events, every TICK_S, without waiting for anything: what the socket does not take stays in
the outbox, and what the outbox has no room for is dropped and counted. ZeroMQ's own thread speaks with the network.

Where the key file has several telemetry keys, the next one is tried whenever the collector has not answered for a
while: so during a rotation it does not matter which of them the collector goes by.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import zmq

from mqloom.core.counters import Counters
from mqloom.core.errors import TelemetryError
from mqloom.core.load import Load
from mqloom.core.telemetry import Record
from mqloom.core.telemetry_keys import peer_curve
from mqloom.core.telemetry_outbox import HELD_BYTES_MAX, IN_FLIGHT_MAX, RESEND_S, TelemetryOutbox, decode_kept
from mqloom.core.telemetry_sockets import connect
from mqloom.gateway.agent_interfaces import TellingAgent
from mqloom.gateway.configuration_texts import again, changes
from mqloom.gateway.node import Node
from mqloom.gateway.recorder import Recorder, check_records

logger = logging.getLogger(__name__)

TICK_S: Final = 0.2
"""How often it is looked whether something is to be sent, or was answered."""

ANSWERS_MAX: Final = 100
"""Answers that are read at a time."""

PATIENCE_S: Final = 3 * RESEND_S
"""How long an answer may take before another connection is tried, with the next key."""

FAREWELL_S: Final = 1.0
"""How long a gateway that ends waits for the collector to have its last records."""

SETTINGS_EVERY_S: Final = 86_400.0
"""How often the configuration is told again: who has only what was kept of late must know it too."""

RecordsSink = Callable[[Sequence[Record]], None]


class TelemetryPlan(NamedTuple):
    """What one gateway tells, and to whom: the collector at an endpoint, plugins, or with `is_on` false nobody."""

    endpoint: str = ""
    window_s: float = 10.0
    held_bytes_max: int = HELD_BYTES_MAX
    groups_max: int = 1_000
    secrets: tuple[bytes, ...] = ()
    """The telemetry keys that may be right, the likeliest first; none: without encryption."""
    to_plugins: bool = False
    is_on: bool = True
    settings: Mapping[str, str] = {}
    """The configuration, place by place (`configuration_texts`): told at the start, and what is different later."""


class TelemetryDriver:
    """Tells of one gateway while it runs."""

    def __init__(self, node: Node, epoch: int, plan: TelemetryPlan, sink: RecordsSink) -> None:
        self._node = node
        self._epoch = epoch
        self._plan = plan
        self._sink = sink
        self._recorder = Recorder()
        self._outbox = TelemetryOutbox(node.gateway, epoch, time.time, plan.held_bytes_max)
        self._log = logging.LoggerAdapter(logger, {"gateway": node.gateway})
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._key = 0
        self._answered_at = 0.0
        self._counted = 0
        self._told: Mapping[str, str] = {}
        self._settings_at = 0.0
        self._is_paused = False
        self._failures = 0
        self._since = time.monotonic()
        self.broker_figures: Callable[[], Mapping[str, float]] = dict
        """Asked once in a window for the broker's own figures."""

    @property
    def is_on(self) -> bool:
        """Whether anybody is told anything."""
        return self._plan.is_on

    def reconfigure(self, plan: TelemetryPlan) -> None:
        """Tell something else, or somebody else, from now on; what was not answered goes there."""
        if plan == self._plan:
            return
        if (plan.endpoint, plan.secrets, plan.is_on) != (self._plan.endpoint, self._plan.secrets, self._plan.is_on):
            self._hang_up()
            self._key = 0
        before, self._plan = self._plan, plan
        if not plan.is_on:
            self._node.tally.stop()
        elif before.is_on:
            self._tell_settings()
        else:
            self._begin_window()

    def pause(self, *, is_paused: bool) -> None:
        """Count and tell nothing for a while, or again: for measurements of what it costs."""
        self._is_paused = is_paused
        self._node.tally.is_on = self._plan.is_on and not is_paused

    def offer(self, records: Sequence[Record]) -> None:
        """Take records on their way: to plugins, and to the collector."""
        if not records or not self._plan.is_on:
            return
        if self._plan.to_plugins:
            self._sink(records)
        if self._plan.endpoint:
            now = time.monotonic()
            for record in records:
                self._outbox.offer(record, now)

    def measured(self, load: Load, window_s: float) -> None:
        """A window of the meters has ended."""
        if self._plan.is_on and not self._is_paused:
            self.offer(self._recorder.load(load, self._node.look().clients, window_s, time.time()))

    async def run(self) -> None:
        """Go on until cancelled; then `farewell` must be called."""
        self._begin_window()
        while True:
            await asyncio.sleep(TICK_S)
            if self._plan.is_on and not self._is_paused:
                try:
                    self._tick()
                except Exception as error:  # a mistake of ours, or of an adapter, must not end telemetry, nor more
                    self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Log what went wrong the 1st, 2nd, 4th, 8th... time: what always fails must not fill the log."""
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            text = "telemetry to %s: %s: %s (%s times so far); trying again"
            where = self._plan.endpoint or "plugins"
            self._log.error(text, where, type(error).__name__, error, self._failures, exc_info=error)

    def _begin_window(self) -> None:
        self._since = time.monotonic()
        if self._plan.is_on:
            self._node.tally.window(0, 0.0)
            self._tell_settings()
            self._settings_at = self._since

    def _tell_settings(self) -> None:
        told, self._told = self._told, self._plan.settings
        self.offer(changes(told, self._told, time.time()))

    def _remind(self, now: float, at: float) -> None:
        """Tell the settings again, when they have not been told for long."""
        if now >= self._settings_at + SETTINGS_EVERY_S:
            self._settings_at = now
            self.offer(again(self._told, at))

    def _tick(self) -> None:
        if time.monotonic() >= self._since + self._plan.window_s:
            self._tell_window()
        self._exchange()

    def _tell_window(self) -> None:
        now, at = time.monotonic(), time.time()
        window_s, self._since = now - self._since, now
        tallied = self._node.tally.window(self._plan.groups_max, window_s)
        records = self._recorder.traffic(tallied, window_s, at)
        records += self._recorder.refusals(self._node.counters.snapshot(), at)
        records += self._recorder.broker(self.broker_figures(), at)
        records += self._of_agents(at)
        self.offer(records)
        self._remind(now, at)

    def _of_agents(self, at: float) -> list[Record]:
        records: list[Record] = []
        for agent in self._node.agency.controls.agents().values():
            if not isinstance(agent, TellingAgent):
                continue
            try:
                records += check_records(agent.tell(at))
            except Exception as error:  # a plugin's mistake costs nobody else anything
                self._node.counters.add("plugin_failures", agent.name)
                self._log.error("agent %s: tell raised %s: %s", agent.name, type(error).__name__, error)
        return records

    # ---- the collector -------------------------------------------------------------------------------------------

    def _exchange(self, *, all_of_it: bool = False) -> None:
        """Send what is due, and read what was answered."""
        if not self._plan.endpoint:
            return
        now = time.monotonic()
        try:
            if self._socket is None:
                self._socket = self._connect()
                self._answered_at = now
            due = self._outbox.due(now, all_of_it=all_of_it)
            for place, batch in enumerate(due):
                try:
                    self._socket.send(batch, zmq.NOBLOCK)
                except zmq.Again:
                    self._outbox.not_taken(due[place:])
                    break
            self._read(self._socket, now)
        except zmq.ZMQError as error:
            self._failed(error)
            self._hang_up()
        self._count(self._node.counters)
        if self._outbox.held_bytes and now >= self._answered_at + PATIENCE_S:
            self._key += 1
            self._hang_up()

    def _connect(self) -> "zmq.Socket[bytes]":
        if self._context is None:
            self._context = zmq.Context()
        secrets = self._plan.secrets
        curve = peer_curve(secrets[self._key % len(secrets)]) if secrets else None
        return connect(self._context, self._plan.endpoint, curve, queue=2 * IN_FLIGHT_MAX)

    def _read(self, socket: "zmq.Socket[bytes]", now: float) -> None:
        for _ in range(ANSWERS_MAX):
            try:
                answer = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                self._outbox.confirmed(decode_kept(answer))
                self._answered_at = now
            except TelemetryError as error:
                self._log.warning("telemetry: what answers at %s is no collector: %s", self._plan.endpoint, error)
        if not self._outbox.held_bytes:
            self._answered_at = now

    def _count(self, counters: Counters) -> None:
        """Count what was dropped; the log has the first time, and each time that it is twice as much."""
        dropped = self._outbox.dropped
        if dropped > self._counted:
            counters.add("telemetry_dropped", "queue full", amount=dropped - self._counted)
            if dropped.bit_length() > self._counted.bit_length():
                text = (
                    "the collector at %s does not take telemetry: %s records were dropped so far; does it run, with "
                    "the same key, is there another gateway of this name, or was the clock ahead at an earlier start?"
                )
                self._log.warning(text, self._plan.endpoint, dropped)
            self._counted = dropped

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None
            self._outbox.lost()

    async def farewell(self) -> None:
        """Tell the window that was begun, wait a little for the collector to have it all, and let go of the socket."""
        try:
            if self._plan.is_on:
                self._tell_window()
                await self._flush(time.monotonic() + FAREWELL_S)
        finally:
            self._hang_up()
            if self._context is not None:
                self._context.destroy(linger=0)
                self._context = None

    async def _flush(self, until: float) -> None:
        self._exchange(all_of_it=True)
        while self._plan.endpoint and not self._outbox.is_settled and time.monotonic() < until:
            await asyncio.sleep(0.02)
            self._exchange(all_of_it=True)

    @property
    def outbox(self) -> TelemetryOutbox:
        """What is on its way, for whoever wants to look."""
        return self._outbox

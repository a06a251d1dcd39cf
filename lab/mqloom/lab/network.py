"""Connections in virtual time: paths that can be slow, cut and healed, and pairs of ordered channels on them.

A path is the way between two places; several connections may run on it. When it is cut, what is under way is lost,
and the two ends of each connection notice that after a while, each after its own. Until then they speak into the void.
A connection that broke stays broken: whoever opened it has to open another.

Packets that would arrive at the same time arrive together, as bytes on a TCP connection do.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from mqloom.lab.clock import Clock
from mqloom.lab.packets import Packet, Publish, bytes_of

PUBLICATION: Final = b'"id":'
"""In every publication of the lab, and once: they are numbered."""


@dataclass(slots=True)
class Quality:
    """How a path behaves: seconds, bytes a second (0: no bound), and shares of frames that suffer.

    With `tick_s` things arrive at multiples of it only, and so more of them together: as with a busy event loop.
    """

    latency_s: float = 0.001
    jitter_s: float = 0.0
    bytes_s: float = 0.0
    duplicated: float = 0.0
    delayed: float = 0.0
    delay_s: float = 0.0
    tick_s: float = 0.0


class End(Protocol):
    """Whoever is at one end of a connection."""

    def receive(self, connection: "Connection", packets: list[Packet]) -> None:
        """Packets have come, in order."""
        ...

    def lose(self, connection: "Connection") -> None:
        """The connection is found to be broken."""
        ...


@dataclass(slots=True)
class Traffic:
    """What crossed all connections of a world.

    A hop is a message that crosses a connection; of a frame or an envelope each publication in it is one.
    """

    hops: int = 0
    packets: int = 0
    bytes: int = 0
    lost: int = 0


class Path:
    """The way between two places."""

    def __init__(self, name: str, quality: Quality, randomness: random.Random) -> None:
        self.name = name
        self.usual = quality
        self.quality = replace(quality)
        self.randomness = randomness
        self.cuts = 0  # how many faults cut it just now
        self.connections: dict[Connection, None] = {}

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return self.cuts > 0

    def cut(self, notice_s: Callable[[], float]) -> None:
        """Let nothing pass any more; `notice_s` draws after what time an end notices."""
        self.cuts += 1
        for connection in list(self.connections):
            connection.break_off(notice_s(), notice_s())

    def heal(self) -> None:
        """Take one cut back."""
        self.cuts -= 1
        assert self.cuts >= 0


@dataclass(slots=True)
class Channel:
    """One direction of a connection: first in, first out."""

    clock: Clock
    path: Path
    traffic: Traffic
    deliver: Callable[[list[Packet]], None]
    is_dead: bool = False
    _batch: list[Packet] | None = None
    _batch_at: float = 0.0
    _free_at: float = 0.0

    def send(self, packet: Packet) -> None:
        """Put a packet on its way."""
        if self.is_dead:
            self.traffic.lost += 1
            return
        quality = self.path.quality
        at = self.clock.now + quality.latency_s
        if quality.jitter_s:
            at += quality.jitter_s * self.path.randomness.random()
        if quality.bytes_s:
            self._free_at = max(self._free_at, self.clock.now) + bytes_of(packet) / quality.bytes_s
            at = max(at, self._free_at + quality.latency_s)
        if quality.tick_s:
            at = (at // quality.tick_s + 1.0) * quality.tick_s
        if (quality.duplicated or quality.delayed) and self._suffers(packet, at):
            return
        self._send_at(packet, at)

    def _send_at(self, packet: Packet, at: float) -> None:
        if self._batch is not None and at <= self._batch_at:
            self._batch.append(packet)
            return
        self._batch, self._batch_at = [packet], at
        self.clock.at(at, partial(self._arrive, self._batch))

    def _suffers(self, packet: Packet, at: float) -> bool:
        """Duplicate or delay a frame; whether it is on its way already. All else keeps the rules of MQTT."""
        if not isinstance(packet, Publish) or packet.qos or "/link/" not in packet.topic:
            return False
        quality, randomness = self.path.quality, self.path.randomness
        if randomness.random() < quality.duplicated:
            self.clock.at(at + quality.delay_s * randomness.random(), partial(self._arrive, [packet]))
        if randomness.random() < quality.delayed:
            self.clock.at(at + quality.delay_s * randomness.random(), partial(self._arrive, [packet]))
            return True
        return False

    def _arrive(self, batch: list[Packet]) -> None:
        if self._batch is batch:
            self._batch = None
        traffic = self.traffic
        if self.is_dead:
            traffic.lost += len(batch)
            return
        traffic.packets += len(batch)
        for packet in batch:
            if type(packet) is Publish:
                traffic.hops += packet.payload.count(PUBLICATION) or 1
                traffic.bytes += len(packet.payload)
        self.deliver(batch)


@dataclass(eq=False, slots=True)
class Connection:
    """A party's connection to a broker; `session` is the broker's own note of whom it serves on it."""

    clock: Clock
    path: Path
    party: End
    broker: End
    traffic: Traffic
    session: object = None
    on_taken: Callable[[Publish, list[str]], None] | None = None
    is_broken: bool = False
    to_broker: Channel = field(init=False)
    to_party: Channel = field(init=False)

    def __post_init__(self) -> None:
        self.to_broker = Channel(self.clock, self.path, self.traffic, partial(self.broker.receive, self))
        self.to_party = Channel(self.clock, self.path, self.traffic, partial(self.party.receive, self))
        self.path.connections[self] = None

    def break_off(self, party_notice_s: float | None, broker_notice_s: float | None) -> None:
        """Let it be broken from now on; each end notices after its time, or never."""
        if self.is_broken:
            return
        self.is_broken = True
        self.to_broker.is_dead = self.to_party.is_dead = True
        self.path.connections.pop(self, None)
        for end, notice_s in ((self.party, party_notice_s), (self.broker, broker_notice_s)):
            if notice_s is not None:
                self.clock.at(self.clock.now + notice_s, partial(end.lose, self))

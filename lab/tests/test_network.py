import random

import pytest

from mqloom.lab.clock import Clock
from mqloom.lab.network import Connection, Path, Quality, Traffic
from mqloom.lab.packets import Packet, Puback, Publish


class Ear:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.heard: list[tuple[float, Packet]] = []
        self.lost_at: float | None = None

    def receive(self, connection: Connection, packets: list[Packet]) -> None:
        self.heard += [(self.clock.now, packet) for packet in packets]

    def lose(self, connection: Connection) -> None:
        self.lost_at = self.clock.now

    def payloads(self) -> list[int]:
        return [packet.payload[0] for _, packet in self.heard if isinstance(packet, Publish)]


def joined(quality: Quality, seed: int = 1) -> tuple[Clock, Path, Connection, Ear, Ear]:
    clock = Clock()
    path = Path("path", quality, random.Random(seed))
    party, broker = Ear(clock), Ear(clock)
    return clock, path, Connection(clock, path, party, broker, Traffic()), party, broker


def numbered(count: int, qos: int = 1) -> list[Publish]:
    return [Publish("t" if qos else "v/link/G", bytes([number]), qos) for number in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_channel_keeps_the_order_however_much_the_latency_varies(seed: int) -> None:
    clock, _, connection, _, broker = joined(Quality(latency_s=0.01, jitter_s=1.0), seed)
    for index, packet in enumerate(numbered(50)):
        clock.run(index / 100)
        connection.to_broker.send(packet)
    clock.run(10)
    assert broker.payloads() == list(range(50))
    times = [at for at, _ in broker.heard]
    assert times == sorted(times)
    assert times[0] >= 0.01


def test_bandwidth_spreads_what_is_sent_at_once() -> None:
    clock, _, connection, _, broker = joined(Quality(latency_s=0.5, bytes_s=100))
    for _ in range(3):
        connection.to_broker.send(Publish("t", b"x" * 91, 1))  # 100 bytes with topic and header
    clock.run(10)
    assert [round(at, 6) for at, _ in broker.heard] == [1.5, 2.5, 3.5]


def test_a_cut_loses_what_is_under_way_and_both_ends_notice_in_their_own_time() -> None:
    clock, path, connection, party, broker = joined(Quality(latency_s=1.0))
    connection.to_broker.send(numbered(1)[0])
    connection.to_party.send(Puback((1,)))
    clock.run(0.5)
    notices = iter((2.0, 3.0))
    path.cut(lambda: next(notices))
    clock.run(2.0)
    connection.to_broker.send(numbered(1)[0])  # it has not noticed yet
    path.heal()
    clock.run(10)
    assert not broker.heard
    assert not party.heard
    assert (party.lost_at, broker.lost_at) == (2.5, 3.5)
    assert connection.traffic.lost == 3


def test_a_path_cut_twice_is_healed_twice() -> None:
    _, path, *_ = joined(Quality())
    path.cut(lambda: 0.0)
    path.cut(lambda: 0.0)
    path.heal()
    assert path.is_cut
    path.heal()
    assert not path.is_cut


def test_only_frames_are_duplicated_and_delayed() -> None:
    quality = Quality(duplicated=0.5, delayed=0.5, delay_s=2.0)
    clock, _, connection, _, broker = joined(quality)
    for packet in numbered(100, qos=1):
        connection.to_broker.send(packet)
    clock.run(10)
    assert broker.payloads() == list(range(100))
    broker.heard.clear()
    for packet in numbered(100, qos=0):
        connection.to_broker.send(packet)
    clock.run(20)
    assert set(broker.payloads()) == set(range(100))
    assert len(broker.payloads()) > 120
    assert broker.payloads() != sorted(broker.payloads())

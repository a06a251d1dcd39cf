from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.errors import TelemetryError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import DroppedRecord, ServiceRecord, decode_batch, decode_records
from mqloom.core.telemetry_outbox import Kept, TelemetryOutbox
from mqloom.spark_analytics import collector as collector_module
from mqloom.spark_analytics.collector import Collector
from mqloom.spark_analytics.ranges import LocalRanges
from mqloom.spark_analytics.segments import SpoolError
from mqloom.spark_analytics.spool import SpoolWriter

NORTH = GatewayId("north")


def outbox(epoch: int, held_max: int = 100_000) -> TelemetryOutbox:
    return TelemetryOutbox(NORTH, epoch, lambda: 0.0, held_max)


def rows(folder: Path) -> list[tuple[int, int]]:
    ranges = LocalRanges(folder)
    bounds = ranges.bounds()
    found = []
    for frame in ranges.frames(*bounds):
        batch = decode_batch(frame.data)
        found += [(batch.header.epoch, number) for number, _ in decode_records(batch)]
    return found


def batch(box: TelemetryOutbox, records: int) -> bytes:
    for number in range(records):
        box.offer(ServiceRecord(0.0, number, 0.1, 1), 0.0)
    [data] = box.due(0.0, all_of_it=True)
    return data


def test_a_batch_is_answered_after_the_disk_has_it_and_not_before(tmp_path: Path) -> None:
    collector: Collector[str] = Collector(SpoolWriter(tmp_path))
    collector.received("peer", batch(outbox(1), 3))
    assert not (tmp_path / "end").exists()
    assert collector.commit() == [("peer", Kept(NORTH, 1, 3))]
    assert rows(tmp_path) == [(1, 1), (1, 2), (1, 3)]


def test_what_comes_again_is_answered_and_kept_once(tmp_path: Path) -> None:
    collector: Collector[str] = Collector(SpoolWriter(tmp_path))
    data = batch(outbox(1), 3)
    collector.received("peer", data)
    collector.commit()
    collector.received("peer", data)
    assert collector.commit() == [("peer", Kept(NORTH, 1, 3))]
    assert len(rows(tmp_path)) == 3
    assert collector.counts["repeated"] == 3


def test_a_gateway_that_was_started_again_counts_from_one_and_its_earlier_start_no_more(tmp_path: Path) -> None:
    collector: Collector[str] = Collector(SpoolWriter(tmp_path))
    earlier = outbox(1)
    collector.received("peer", batch(earlier, 3))
    collector.received("peer", batch(outbox(2), 2))
    late = batch(earlier, 1)
    collector.commit()
    collector.received("peer", late)
    assert collector.commit() == []
    assert collector.counts["outdated"] == 1
    assert rows(tmp_path) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]


def test_what_is_no_batch_is_refused_and_counted(tmp_path: Path) -> None:
    collector: Collector[str] = Collector(SpoolWriter(tmp_path))
    with pytest.raises(TelemetryError):
        collector.received("peer", b"hello")
    assert collector.counts["refused"] == 1
    assert collector.commit() == []


def test_of_more_gateways_than_are_kept_in_mind_the_one_heard_from_longest_ago_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "GATEWAYS_MAX", 2)
    writer = SpoolWriter(tmp_path)
    collector: Collector[str] = Collector(writer)
    boxes = [TelemetryOutbox(GatewayId(f"g{number}"), 1, lambda: 0.0) for number in range(3)]

    def tell(box: TelemetryOutbox, records: int = 1) -> None:
        for number in range(records):
            box.offer(ServiceRecord(0.0, number, 0.1, 1), 0.0)
        for _ in range(2):  # who was forgotten is asked from where to go on, and goes on
            for data in box.due(0.0, all_of_it=True):
                collector.received("peer", data)
            for _, kept in collector.commit():
                box.confirmed(kept)
        assert box.held_bytes == 0

    for box in (*boxes[:2], boxes[0], boxes[2]):
        tell(box)
    assert list(SpoolWriter(tmp_path).marker.gateways) == ["g0", "g2"]
    tell(boxes[1], 2)
    assert list(SpoolWriter(tmp_path).marker.gateways) == ["g2", "g1"]
    assert (collector.counts["forgotten"], collector.counts["refused"]) == (2, 0)
    assert sorted(rows(tmp_path)) == [(1, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 3)]


def test_what_is_forgotten_and_not_committed_is_known_again_when_the_disk_refuses(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(1, b"x", "north", 1, 1)
    writer.commit()
    writer.forget_oldest()
    writer.append(1, b"x", "south", 1, 1)
    assert writer.known("north") == (0, 0)
    writer.recover()
    assert writer.known("north") == (1, 1)


def test_when_the_disk_refuses_nobody_is_answered_and_the_same_batch_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path)
    collector: Collector[str] = Collector(writer)
    data = batch(outbox(1), 3)
    collector.received("peer", data)

    def refuse() -> int:
        raise SpoolError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "commit", refuse)
        with pytest.raises(SpoolError):
            collector.commit()
    assert collector.commit() == []
    collector.received("peer", data)
    assert collector.commit() == [("peer", Kept(NORTH, 1, 3))]
    assert len(rows(tmp_path)) == 3


def test_what_a_collector_had_not_committed_when_it_died_is_not_overtaken_by_what_follows(tmp_path: Path) -> None:
    box, collector = outbox(1), Collector[str](SpoolWriter(tmp_path))
    first = batch(box, 3)
    collector.received("peer", first)
    collector = Collector(SpoolWriter(tmp_path))
    second = batch(box, 2)
    collector.received("peer", second)
    assert collector.commit() == [("peer", Kept(NORTH, 1, 0))]
    assert collector.counts["early"] == 2
    for data in (first, second):
        collector.received("peer", data)
    assert collector.commit() == [("peer", Kept(NORTH, 1, 5))]
    assert rows(tmp_path) == [(1, number) for number in range(1, 6)]


def test_a_collector_that_has_nothing_of_what_another_confirmed_gets_what_follows(tmp_path: Path) -> None:
    box, one, other = (
        outbox(1),
        Collector[str](SpoolWriter(tmp_path / "1")),
        Collector[str](SpoolWriter(tmp_path / "2")),
    )
    one.received("peer", batch(box, 3))
    for _, kept in one.commit():
        box.confirmed(kept)
    other.received("peer", batch(box, 2))
    for _, kept in other.commit():
        box.confirmed(kept)
    for data in box.due(0.0):
        other.received("peer", data)
    for _, kept in other.commit():
        box.confirmed(kept)
    assert rows(tmp_path / "2") == [(1, 4), (1, 5)]
    assert box.held_bytes == 0


class Traffic:
    """A gateway, the collector, and what is between them; each can fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.collector: Collector[str] = Collector(SpoolWriter(folder, 300))
        self.boxes = {1: outbox(1, 300)}
        self.under_way: list[bytes] = []
        self.now = 0.0

    @property
    def box(self) -> TelemetryOutbox:
        return self.boxes[max(self.boxes)]

    def offer(self) -> None:
        self.box.offer(ServiceRecord(0.0, 1, 0.1, 1), self.now)

    def send(self) -> None:
        self.under_way += self.box.due(self.now, all_of_it=True)

    def lose(self) -> None:
        self.under_way.clear()
        self.box.lost()

    def deliver(self) -> None:
        for data in self.under_way:
            self.collector.received("peer", data)
        self.under_way.clear()

    def commit(self) -> None:
        for _, kept in self.collector.commit():
            self.box.confirmed(kept)

    def kill(self) -> None:
        self.collector = Collector(SpoolWriter(self.folder, 300))

    def restart(self) -> None:
        """The gateway ends in peace: it waits for its answers, and is started again."""
        for _ in range(2):  # what was dropped is told when there is room for it again
            self.now += 10.0
            self.send()
            self.deliver()
            self.commit()
        if self.box.is_settled:
            self.boxes[max(self.boxes) + 1] = outbox(max(self.boxes) + 1, 300)

    def told(self) -> set[tuple[int, int]]:
        """What gateways said they dropped."""
        found: set[tuple[int, int]] = set()
        for frame in LocalRanges(self.folder).frames(*LocalRanges(self.folder).bounds()):
            read = decode_batch(frame.data)
            for _, record in decode_records(read):
                if isinstance(record, DroppedRecord):
                    found |= {(read.header.epoch, record.first + at) for at in range(record.amount)}
        return found


STEPS = ["offer", "offer", "send", "lose", "deliver", "commit", "kill", "restart"]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(STEPS), max_size=80))
def test_the_spool_has_what_was_emitted_but_for_what_was_told_as_dropped(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    traffic = Traffic(tmp_path_factory.mktemp("spool"))
    for step in ["offer", *steps]:
        traffic.now += 1.0
        getattr(traffic, step)()
    for _ in range(30):
        traffic.now += 10.0
        traffic.send()
        traffic.deliver()
        traffic.commit()
    found, told = rows(traffic.folder), traffic.told()
    emitted = {(epoch, number) for epoch, each in traffic.boxes.items() for number in range(1, each.emitted + 1)}
    assert len(found) == len(set(found))
    assert told.isdisjoint(found)
    assert told | set(found) == emitted

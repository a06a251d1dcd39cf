import errno
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import VERSION, BatchHeader, ServiceRecord, encode_batch, encode_record
from mqloom.spark_analytics.segments import Frame, Gap, SpoolError
from mqloom.spark_analytics.spool import MARKER, SpoolReader, SpoolWriter, segments_of


def fill(writer: SpoolWriter, numbers: Iterator[int], batches: int) -> list[tuple[int, bytes]]:
    added = []
    for _ in range(batches):
        number = next(numbers)
        count, data = number % 5 + 1, f"batch {number}".encode()
        writer.append(count, data)
        added.append((count, data))
    return added


def held(folder: Path, begin: int | None = None) -> list[tuple[int, bytes]]:
    reader = SpoolReader(folder)
    first, end = reader.bounds()
    return [(frame.records, frame.data) for frame in reader.frames(first if begin is None else begin, end)]


def test_a_spool_is_what_the_documentation_says(tmp_path: Path) -> None:
    header = BatchHeader(VERSION, GatewayId("north"), 7, 4, 2, 3)
    records = [encode_record(ServiceRecord(1.5, 9, 0.1, number)) for number in range(2)]
    writer = SpoolWriter(tmp_path)
    writer.append(2, encode_batch(header, records))
    writer.commit()
    segment = (tmp_path / f"{0:020d}.segment").read_bytes()
    assert segment[:10] == b"MQLSPOOL1\n"
    length, count, checksum = (int.from_bytes(segment[at : at + 4], "big") for at in (10, 14, 18))
    batch = segment[22:]
    assert (len(batch), count, zlib.crc32(batch, count)) == (length, 2, checksum)
    own, told = msgspec.msgpack.decode(batch)
    assert own == [VERSION, "north", 7, 4, 2, 3]
    assert [record[:4] for record in told] == [["service", 1.5, 9, 0.1]] * 2


def test_nothing_counts_before_it_is_committed(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(3, b"one")
    writer.commit()
    writer.append(2, b"two")
    assert SpoolReader(tmp_path).bounds() == (0, 3)
    assert held(tmp_path) == [(3, b"one")]


def test_what_a_crash_left_behind_the_marker_is_cut_off(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(3, b"one")
    writer.commit()
    [(_, path)] = segments_of(tmp_path)
    with path.open("ab") as file:
        file.write(b"half a frame")
    (tmp_path / "00000000000000000003.segment").write_bytes(b"begun")
    again = SpoolWriter(tmp_path)
    again.append(1, b"two")
    again.commit()
    assert held(tmp_path) == [(3, b"one"), (1, b"two")]


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(st.sampled_from(["add", "commit", "crash", "drop"]), max_size=40),
    segment_bytes=st.sampled_from([50, 200, 100_000]),
)
def test_a_spool_is_the_list_of_what_was_committed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    writer, numbers = SpoolWriter(folder, segment_bytes), iter(range(10_000))
    committed: list[tuple[int, bytes]] = []
    pending: list[tuple[int, bytes]] = []
    for step in steps:
        if step == "add":
            pending += fill(writer, numbers, 2)
        elif step == "commit":
            writer.commit()
            committed, pending = committed + pending, []
        elif step == "crash":
            writer.close()
            writer, pending = SpoolWriter(folder, segment_bytes), []
        else:
            writer.drop_before(writer.marker.end // 2)
    if not (folder / MARKER).exists():
        assert committed == []
        return
    begin, end = SpoolReader(folder).bounds()
    assert end == sum(count for count, _ in committed)
    found = held(folder)
    assert found == committed[len(committed) - len(found) :]
    assert sum(count for count, _ in found) == end - begin
    assert begin <= end // 2


def test_a_range_is_read_from_the_middle_again_and_again(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=100_000)
    for number in range(300):
        writer.append(100, b"%d" % number)
    writer.commit()
    reader = SpoolReader(tmp_path)
    for _ in range(2):
        assert [frame.data for frame in reader.frames(25_000, 25_300)] == [b"250", b"251", b"252"]
        assert [frame.position for frame in reader.frames(0, 200)] == [0, 100]


def test_a_reader_remembers_nothing_of_segments_that_are_gone(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path, segment_bytes=10), SpoolReader(tmp_path)
    for number in range(1, 6):
        writer.append(100, b"x")
        writer.commit()
        assert [frame.position for frame in reader.frames(100 * (number - 1), 100 * number)] == [100 * (number - 1)]
        writer.drop_before(100 * (number - 1))
    assert reader.bounds() == (400, 500)
    assert [frame.position for frame in reader.frames(400, 500)] == [400]
    assert list(reader._index) == [segments_of(tmp_path)[0][1].name]


def test_a_range_of_so_many_records_ends_where_a_frame_does_and_has_one_at_least(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    for _ in range(3):
        writer.append(100, b"x")
    writer.commit()
    reader = SpoolReader(tmp_path)
    assert reader.boundary(0, 250) == 200
    assert reader.boundary(0, 200) == 200
    assert reader.boundary(100, 1) == 200
    assert reader.boundary(300, 10) == 300


def test_what_is_older_than_what_is_kept_is_an_error_that_says_so(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=10)
    for _ in range(3):
        writer.append(100, b"x")
        writer.commit()
    assert writer.drop_before(250) == 200
    with pytest.raises(SpoolError, match="positions 0 to 200 are gone"):
        list(SpoolReader(tmp_path).frames(0, 300))


def test_the_last_segment_is_never_dropped(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=10)
    writer.append(1, b"x")
    writer.commit()
    assert writer.drop_before(1_000) == 0
    assert held(tmp_path) == [(1, b"x")]


def test_what_a_gateway_has_sent_last_is_known_again_after_a_start(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(3, b"x", gateway="north", epoch=5, last=30)
    assert writer.known("north") == (5, 30)
    writer.commit()
    writer.append(1, b"y", gateway="north", epoch=5, last=31)
    assert SpoolWriter(tmp_path).known("north") == (5, 30)
    assert SpoolWriter(tmp_path).known("south") == (0, 0)


def test_the_rest_of_a_spool_is_read_past_damage_and_what_is_lost_is_told(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=10)
    for number in range(4):
        writer.append(100, b"batch %d" % number)
        writer.commit()
    paths = [path for _, path in segments_of(tmp_path)]
    paths[0].write_bytes(b"PK\x03\x04 something else")
    whole = paths[2].read_bytes()
    paths[2].write_bytes(whole[:-1])
    parts = list(SpoolReader(tmp_path).parts(0, 400))
    assert [part[:2] for part in parts] == [(0, 100), (100, 100), (200, 300), (300, 100)]
    assert isinstance(parts[0], Gap)
    assert parts[0].problem == f"{paths[0]}: no segment of a spool: it does not begin with b'MQLSPOOL1\\n'"
    assert isinstance(parts[2], Gap)
    assert parts[2].problem == f"{paths[2]}: at byte 10 there should be a frame, and there is none"
    assert [part.data for part in parts if isinstance(part, Frame)] == [b"batch 1", b"batch 3"]
    with pytest.raises(SpoolError, match="does not begin with"):
        list(SpoolReader(tmp_path).frames(0, 400))
    assert SpoolReader(tmp_path).boundary(0, 150) == 100
    assert SpoolReader(tmp_path).starts() == [0, 100, 200, 300]


def test_segments_that_go_while_they_are_read_are_gone_and_not_broken(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=10)
    for _ in range(3):
        writer.append(100, b"x")
        writer.commit()
    parts = SpoolReader(tmp_path).parts(0, 300)
    assert next(parts).position == 0  # type: ignore[union-attr]
    writer.drop_before(200)
    gone = next(parts)
    assert isinstance(gone, Gap)
    assert (gone.begin, gone.end, gone.is_gone) == (100, 200, True)
    assert [part[:2] for part in parts] == [(200, 100)]


def test_a_segment_that_somebody_took_away_is_told(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=10)
    for _ in range(3):
        writer.append(100, b"x")
        writer.commit()
    segments_of(tmp_path)[0][1].unlink()
    gap, *frames = SpoolReader(tmp_path).parts(0, 300)
    assert isinstance(gap, Gap)
    assert gap.problem == f"{tmp_path}: positions 0 to 100 are in no segment"
    assert not gap.is_gone
    assert [frame[0] for frame in frames] == [100, 200]


def test_a_folder_without_a_marker_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="is no spool: there is no file 'end' in it"):
        SpoolReader(tmp_path).bounds()


def test_segments_without_a_marker_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.segment").write_bytes(b"precious")
    with pytest.raises(SpoolError, match="restore it, or empty the folder"):
        SpoolWriter(tmp_path)


@pytest.mark.skipif(os.name != "posix" or not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_and_what_counted_before_still_counts(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(1, b"before")
    writer.commit()
    writer.close()
    [(_, path)] = segments_of(tmp_path)
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to("/dev/full")
    writer.append(1, b"after")
    with pytest.raises(SpoolError, match="No space left on device"):
        writer.commit()
    path.unlink()
    path.write_bytes(kept)
    writer.recover()
    writer.append(1, b"later")
    writer.commit()
    assert held(tmp_path) == [(1, b"before"), (1, b"later")]


@pytest.mark.skipif(os.name != "posix" or not Path("/dev/full").exists(), reason="needs /dev/full")
def test_nothing_is_written_behind_what_a_full_disk_has_cut_short(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(1, b"before")
    writer.commit()
    marker = tmp_path / f"{MARKER}.new"
    marker.symlink_to("/dev/full")
    writer.append(1, b"lost")
    with pytest.raises(SpoolError, match="No space left on device"):
        writer.commit()
    marker.unlink()
    kept = (tmp_path / MARKER).rename(tmp_path / "elsewhere")
    with pytest.raises(SpoolError, match="there are segments, and no 'end'"):
        writer.recover()
    kept.rename(tmp_path / MARKER)
    writer.append(1, b"behind it")
    with pytest.raises(SpoolError, match="is not yet cut off"):
        writer.commit()
    writer.recover()
    writer.append(1, b"after")
    writer.commit()
    assert held(tmp_path) == [(1, b"before"), (1, b"after")]


class Disk:
    """A disk that others have filled: it takes something only while segments take less than so many bytes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.bytes_max = folder, 1_000_000
        self._fdatasync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)

    def fdatasync(self, file: int) -> None:
        if sum(path.stat().st_size for path in self.folder.iterdir() if path.suffix != ".new") > self.bytes_max:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._fdatasync(file)


def with_segments(folder: Path, number: int) -> SpoolWriter:
    writer = SpoolWriter(folder, segment_bytes=10)
    for _ in range(number):
        writer.append(100, b"x" * 1_000)
        writer.commit()
    return writer


def test_a_full_disk_has_room_again_when_the_oldest_is_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, writer = Disk(tmp_path, monkeypatch), with_segments(tmp_path, 5)
    disk.bytes_max = 4_000
    writer.append(100, b"lost")
    with pytest.raises(SpoolError, match="No space left on device"):
        writer.commit()
    writer.recover()
    assert writer.drop_before(200) == 200
    assert SpoolReader(tmp_path).bounds() == (200, 500)
    writer.append(100, b"later")
    writer.commit()
    assert [data[:5] for _, data in held(tmp_path)] == [b"xxxxx"] * 3 + [b"later"]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", *[".segment"] * 4]
    with pytest.raises(SpoolError, match="positions 0 to 200 are gone"):
        list(SpoolReader(tmp_path).frames(0, 600))


def test_room_that_others_take_at_once_leaves_a_spool_that_knows_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, writer = Disk(tmp_path, monkeypatch), with_segments(tmp_path, 5)
    disk.bytes_max = 0
    parts = SpoolReader(tmp_path).parts(0, 500)
    assert isinstance(next(parts), Frame)
    for _ in range(2):
        with pytest.raises(SpoolError, match="segments stay that should have gone"):
            writer.drop_before(200)
    gone = next(parts)  # by whoever was reading it, too
    assert isinstance(gone, Gap)
    assert (gone.begin, gone.end, gone.is_gone) == (100, 200, True)
    writer.close()
    again = SpoolWriter(tmp_path, segment_bytes=10)  # as after a crash
    first, *others = SpoolReader(tmp_path).parts(0, 500)
    assert isinstance(first, Gap)
    assert (first.begin, first.end, first.is_gone) == (0, 200, True)
    assert [part[0] for part in others] == [200, 300, 400]
    disk.bytes_max = 1_000_000
    assert again.drop_before(200) == 200
    assert SpoolReader(tmp_path).bounds() == (200, 500)
    assert not list(tmp_path.glob("*.dropped"))


def test_every_spool_has_an_id_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "one")
    writer.ensure()
    first = SpoolReader(tmp_path / "one").identity()
    assert first
    writer.append(3, b"abc")
    writer.commit()
    writer.close()
    again = SpoolWriter(tmp_path / "one", 10)
    again.append(1, b"d")
    again.commit()
    again.drop_before(3)
    assert again.marker.begin == 3
    assert SpoolReader(tmp_path / "one").identity() == again.marker.id == first
    SpoolWriter(tmp_path / "two").ensure()
    assert SpoolReader(tmp_path / "two").identity() not in ("", first)


def without_id(folder: Path) -> None:
    """Make the marker one of an earlier version."""
    fields = json.loads((folder / "end").read_bytes())
    del fields["id"]
    (folder / "end").write_text(json.dumps(fields))


def test_a_spool_of_an_earlier_version_is_read_and_gets_an_id_when_a_collector_begins_with_it(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(3, b"abc")
    writer.commit()
    writer.close()
    without_id(tmp_path)
    assert SpoolReader(tmp_path).identity() == ""
    assert SpoolReader(tmp_path).bounds() == (0, 3)
    SpoolWriter(tmp_path).ensure()
    given = SpoolReader(tmp_path).identity()
    assert given
    SpoolWriter(tmp_path).ensure()
    assert SpoolReader(tmp_path).identity() == given
    assert [frame.data for frame in SpoolReader(tmp_path).frames(0, 3)] == [b"abc"]

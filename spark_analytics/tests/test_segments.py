from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.spark_analytics.segments import MAGIC, Frame, Gap, Part, Segment, encode_frame, read_parts, scan

FRAMES = [(number % 5 + 1, b"batch %d" % number * (number % 3 + 1)) for number in range(12)]
END = sum(count for count, _ in FRAMES)
WHOLE = MAGIC + b"".join(encode_frame(count, data) for count, data in FRAMES)


def positions() -> list[Frame]:
    found, position = [], 0
    for count, data in FRAMES:
        found.append(Frame(position, count, data))
        position += count
    return found


def parts(path: Path) -> list[Part]:
    return [part for _, part in read_parts(Segment(path, 0, END))]


def ends(part: Part) -> tuple[int, int]:
    return (part.begin, part.end) if isinstance(part, Gap) else (part.position, part.position + part.records)


def test_frames_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(WHOLE)
    assert parts(path) == positions()
    for offset, frame in read_parts(Segment(path, 0, END)):
        [(_, first), *_] = read_parts(Segment(path, 0, END), frame[0], offset)
        assert first == frame
    assert list(scan(Segment(path, 0, END))) == [frame[:2] for frame in positions()]


@settings(deadline=None, max_examples=300)
@given(
    damages=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=3),
    length=st.one_of(st.just(len(WHOLE)), st.integers(0, len(WHOLE))),
)
def test_whatever_is_damaged_what_is_read_is_true_and_the_rest_is_told(
    tmp_path_factory: pytest.TempPathFactory, damages: list[tuple[int, int]], length: int
) -> None:
    content = bytearray(WHOLE)
    for at, change in damages:
        content[at] ^= change
    path = tmp_path_factory.mktemp("frames") / "segment"
    path.write_bytes(content[:length])
    found = parts(path)
    assert {part for part in found if isinstance(part, Frame)} <= set(positions())
    tiles = [ends(part) for part in found]
    assert [begin for begin, _ in tiles] == [0, *(end for _, end in tiles[:-1])]
    assert tiles[-1][1] == END
    assert all(begin < end for begin, end in tiles)
    scanned = list(scan(Segment(path, 0, END)))
    assert sum(count for _, count in scanned) == END


def test_one_damaged_frame_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    for number, frame in enumerate(positions()):
        content = bytearray(WHOLE)
        content[WHOLE.index(encode_frame(frame.records, frame.data)) + 13] ^= 1
        path.write_bytes(content)
        found = parts(path)
        assert [part for part in found if isinstance(part, Frame)] == [
            *positions()[:number],
            *positions()[number + 1 :],
        ]
        [gap] = [part for part in found if isinstance(part, Gap)]
        assert (gap.begin, gap.end) == ends(frame)
        assert gap.problem.startswith(f"{path}: the frame at byte ")


def test_what_is_between_two_damaged_frames_is_read(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    content = bytearray(WHOLE)
    damaged = [positions()[number] for number in (2, 3, 9)]
    for frame in damaged:
        content[WHOLE.index(encode_frame(frame.records, frame.data)) + 13] ^= 1
    path.write_bytes(content)
    found = parts(path)
    assert [part for part in found if isinstance(part, Frame)] == [each for each in positions() if each not in damaged]
    assert [ends(part) for part in found if isinstance(part, Gap)] == [ends(frame) for frame in damaged]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not begin with"),
        (b"PK\x03\x04 something else", "does not begin with"),
        (MAGIC + b"\x00\x00", "at byte 10 there should be a frame"),
        (MAGIC, f"it ends at byte 10, and records up to position {END} are missing"),
    ],
)
def test_foreign_and_cut_files_are_gaps_that_name_the_file(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "segment"
    path.write_bytes(content)
    [gap] = parts(path)
    assert isinstance(gap, Gap)
    assert (gap.begin, gap.end) == (0, END)
    assert gap.problem.startswith(f"{path}: ")
    assert problem in gap.problem

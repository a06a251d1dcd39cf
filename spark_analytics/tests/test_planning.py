from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.spark_analytics.planning import pieces
from mqloom.spark_analytics.ranges import LocalRanges
from mqloom.spark_analytics.spool import SpoolWriter


def spool(folder: Path, counts: list[int], segment_bytes: int) -> LocalRanges:
    writer = SpoolWriter(folder, segment_bytes)
    writer.ensure()
    for count in counts:
        writer.append(count, b"x" * count)
        writer.commit()
    writer.close()
    return LocalRanges(folder)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(1, 50), max_size=30),
    st.sampled_from([30, 300, 30_000]),
    st.integers(1, 200),
    st.integers(0, 3),
)
def test_pieces_are_all_of_it_once_and_none_is_much_too_long(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], segment_bytes: int, records: int, skipped: int
) -> None:
    ranges = spool(tmp_path_factory.mktemp("spool"), counts, segment_bytes)
    begin, end = sum(counts[:skipped]), ranges.bounds().end
    found = pieces(ranges, begin, end, records)
    assert [low for low, _ in found] + [end] == [begin, *(high for _, high in found)]
    assert all(high - low <= 2 * records + 50 for low, high in found)
    boundaries = {sum(counts[:number]) for number in range(len(counts) + 1)}
    assert {position for piece in found for position in piece} <= boundaries


def test_segments_are_not_cut_where_they_are_as_long_as_a_piece_should_be(tmp_path: Path) -> None:
    ranges = spool(tmp_path, [10] * 40, 100)
    starts = ranges.starts()
    assert {low for low, _ in pieces(ranges, 0, 400, 50)} <= set(starts)

import math

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    KINDS,
    BatchHeader,
    BrokerRecord,
    LoadRecord,
    Record,
    ServiceRecord,
    encode_batch,
    encode_record,
)
from mqloom.spark_analytics.columns import arrow_schema, arrow_schema_of_all
from mqloom.spark_analytics.decoding import Gathering, missing_rows
from mqloom.spark_analytics.schemas import columns_of, columns_of_all
from mqloom.spark_analytics.segments import Frame, Gap

RECORDS = st.one_of(
    st.builds(BrokerRecord, st.floats(0, 1e9), st.text(max_size=5), st.floats(allow_nan=False)),
    st.builds(ServiceRecord, st.floats(0, 1e9), st.integers(0, 2**40), st.floats(0, 1), st.integers(0, 10)),
)


def frame(position: int, records: list[Record], gateway: str = "north", epoch: int = 3, first: int = 1) -> Frame:
    header = BatchHeader(1, GatewayId(gateway), epoch, first, len(records))
    return Frame(position, len(records), encode_batch(header, [encode_record(record) for record in records]))


@settings(deadline=None)
@given(st.lists(st.lists(RECORDS, min_size=1, max_size=8), max_size=8))
def test_columns_have_what_the_records_have_row_by_row(batches: list[list[Record]]) -> None:
    gathering, wanted, position = Gathering(), [], 10
    for number, records in enumerate(batches):
        gathering.add(frame(position, records, f"g{number % 3}", number, first=100 * number + 1))
        for index, record in enumerate(records):
            own = {name: getattr(record, name) for name in record.__struct_fields__ if name != "at"}
            where = (position + index, f"g{number % 3}", number, 100 * number + 1 + index)
            wanted.append((type(record), where, round(record.at * 1e6), own))
        position += len(records)
    assert gathering.rows == len(wanted)
    for kind, record_type in KINDS.items():
        found = gathering.take(kind)
        found.validate(full=True)
        assert found.schema.equals(arrow_schema(kind))
        micros = found["at"].cast(pa.int64()).to_pylist()
        rows = found.drop_columns(["at"]).to_pylist()
        assert [
            ((row.pop("position"), row.pop("gateway"), row.pop("epoch"), row.pop("number")), at, row)
            for row, at in zip(rows, micros, strict=True)
        ] == [(where, at, own) for each, where, at, own in wanted if each is record_type]
    assert gathering.rows == 0
    assert gathering.gaps == []


def test_only_the_kinds_that_are_wanted_are_kept() -> None:
    gathering = Gathering(("service",))
    gathering.add(frame(0, [BrokerRecord(1.0, "x", 2.0), ServiceRecord(1.0, 2, 3.0, 4)]))
    assert gathering.rows == 1
    assert gathering.take("service")["position"].to_pylist() == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_spark_and_arrow_have_the_same_schemas(kind: str) -> None:
    assert to_arrow_schema(columns_of(kind), timezone="UTC").equals(arrow_schema(kind))
    assert to_arrow_schema(columns_of_all(), timezone="UTC").equals(arrow_schema_of_all())


def load(at: float, subscriptions: int) -> LoadRecord:
    return LoadRecord(at, 10.0, 0.1, 0.2, 0.3, 0.4, 0.5, 6.0, 7.0, 8.0, subscriptions)


BAD = {
    "no batch": Frame(5, 2, b"nonsense"),
    "another number of records": frame(5, [load(1.0, 1)])._replace(records=2),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_frame_that_should_not_have_been_sent_is_left_out_and_told(bad: Frame) -> None:
    gathering = Gathering()
    for part in (frame(0, [load(1.0, 1)]), bad, frame(7, [load(1.0, 2)])):
        gathering.add(part)
    assert gathering.take("load")["position"].to_pylist() == [0, 7]
    [gap] = gathering.gaps
    assert (gap.begin, gap.end) == (5, 7)
    assert "at positions 5 to 7 are malformed" in gap.problem


ONE_BAD = {
    "no record of its kind": msgspec.msgpack.encode(["load", "noon"]),
    "a number that is too large": encode_record(load(1.0, 2**63)),
    "no time": encode_record(load(math.nan, 1)),
    "a time before all times": encode_record(load(-1.0, 1)),
    "no text": b"\x94\xa6broker\x01\xa1\xff\x01",
}


@pytest.mark.parametrize("bad", ONE_BAD.values(), ids=ONE_BAD)
def test_of_a_batch_with_one_malformed_record_that_one_is_left_out_and_named(bad: bytes) -> None:
    good = [encode_record(load(1.0, number)) for number in range(3)]
    data = encode_batch(BatchHeader(1, GatewayId("north"), 7, 41, 4), [good[0], bad, *good[1:]])
    gathering = Gathering()
    for part in (frame(0, [load(1.0, 1)]), Frame(5, 4, data), frame(9, [load(1.0, 2)])):
        gathering.add(part)
    found = gathering.take("load")
    assert found["position"].to_pylist() == [0, 5, 7, 8, 9]
    assert found["number"].to_pylist() == [1, 41, 43, 44, 1]
    assert found["subscriptions"].to_pylist() == [1, 0, 1, 2, 2]
    [gap] = gathering.gaps
    assert (gap.begin, gap.end, gap.is_gone) == (6, 7, False)
    assert gap.problem.startswith("the record at position 6, number 42 of start 7 of north, is malformed: ")


def test_every_malformed_record_is_counted() -> None:
    records: list[Record] = [load(-1.0 if number % 3 == 0 else 1.0, number) for number in range(9)]
    gathering = Gathering()
    gathering.add(frame(20, records))
    assert gathering.take("load")["subscriptions"].to_pylist() == [1, 2, 4, 5, 7, 8]
    assert [(gap.begin, gap.end) for gap in gathering.gaps] == [(20, 21), (23, 24), (26, 27)]


def test_all_kinds_are_in_one_table_and_what_is_missing_too() -> None:
    gathering = Gathering()
    gathering.add(frame(0, [load(1.0, 1), ServiceRecord(1.0, 2, 3.0, 4)]))
    batches = [*gathering.take_all(), missing_rows([Gap(2, 9, "gone", is_gone=True)])]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["position"], row["kind"]) for row in rows] == [(0, "load"), (1, "service"), (2, "missing")]
    assert [[kind for kind in (*KINDS, "missing") if row[kind]] for row in rows] == [["load"], ["service"], ["missing"]]
    assert rows[2]["missing"] == {"end": 9, "is_gone": True, "problem": "gone"}

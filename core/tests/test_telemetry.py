import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import TelemetryError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    KINDS,
    Batch,
    BatchHeader,
    BrokerRecord,
    LoadRecord,
    Record,
    ServiceRecord,
    decode_batch,
    decode_records,
    encode_batch,
    encode_record,
    salvage_records,
)
from mqloom.core.telemetry_outbox import decode_kept

NORTH = GatewayId("north")


def load(at: float = 1.0) -> LoadRecord:
    return LoadRecord(at, 10.0, 0.5, 0.001, 0.25, 0.5, 0.1, 500.0, 1e5, 4e5, 100)


def batch(records: list[bytes], *, first: int = 1, count: int | None = None) -> bytes:
    data = encode_batch(BatchHeader(1, NORTH, 7, first, len(records)), records)
    if count is not None:
        fields = msgspec.msgpack.decode(data)
        fields[0][4] = count
        data = msgspec.msgpack.encode(fields)
    return data


@given(st.integers(1, 300), st.integers(1, 2**40))
def test_records_come_back_as_they_were_with_their_numbers(count: int, first: int) -> None:
    records: list[Record] = [
        load(float(number)) if number % 2 else ServiceRecord(1.0, 5, 0.1, number) for number in range(count)
    ]
    found = decode_records(decode_batch(batch([encode_record(each) for each in records], first=first)))
    assert found == list(enumerate(records, first))


def test_every_kind_says_its_name_first() -> None:
    for name, kind in KINDS.items():
        assert kind.__struct_config__.tag == name


def test_a_record_of_a_later_version_is_read_without_what_is_new() -> None:
    fields = msgspec.msgpack.decode(encode_record(load()))
    later = msgspec.msgpack.encode([*fields, "new", 42])
    assert decode_records(decode_batch(batch([later]))) == [(1, load())]


def test_a_record_of_an_earlier_version_has_the_defaults_of_what_was_not_there() -> None:
    whole = msgspec.structs.replace(load(), clients=12, deliveries_s=40.0)
    fields = msgspec.msgpack.decode(encode_record(whole))
    first, older = (msgspec.msgpack.encode(fields[:-count]) for count in (1, 2))
    found = decode_records(decode_batch(batch([encode_record(whole), first, older])))
    assert found == [(1, whole), (2, msgspec.structs.replace(whole, deliveries_s=None)), (3, load())]


def test_a_kind_that_is_not_known_is_left_out_and_keeps_its_number() -> None:
    unknown = msgspec.msgpack.encode(["weather", 1.0, "rain"])
    known = [encode_record(load()), unknown, encode_record(BrokerRecord(1.0, "clients", 3.0))]
    assert decode_records(decode_batch(batch(known))) == [(1, load()), (3, BrokerRecord(1.0, "clients", 3.0))]


def test_a_known_kind_that_is_malformed_is_an_error_that_names_the_record() -> None:
    wrong = msgspec.msgpack.encode(["load", "noon"])
    with pytest.raises(TelemetryError, match="record 2 of north is malformed"):
        decode_records(decode_batch(batch([encode_record(load()), wrong])))


def test_malformed_records_cost_no_others() -> None:
    wrong = msgspec.msgpack.encode(["load", "noon"])
    unknown = msgspec.msgpack.encode(["weather", 1.0, "rain"])
    found, malformed = salvage_records(decode_batch(batch([wrong, encode_record(load()), unknown, wrong], first=7)))
    assert found == [(8, load())]
    assert [number for number, _ in malformed] == [7, 10]
    assert "length" in malformed[0][1]


def test_a_batch_that_has_another_number_of_records_than_it_says_is_an_error() -> None:
    with pytest.raises(TelemetryError, match="says 2 records and has 1"):
        decode_records(decode_batch(batch([encode_record(load())], count=2)))


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_a_batch_or_an_error(data: bytes) -> None:
    with contextlib.suppress(TelemetryError):
        decode_records(decode_batch(data))


DEEP = b"\x91" * 100_000 + b"\x90"


def test_what_is_nested_without_end_is_an_error_like_any_other() -> None:
    header = msgspec.msgpack.encode(BatchHeader(1, NORTH, 7, 1, 1))
    with pytest.raises(TelemetryError):
        decode_batch(b"\x92" + header + DEEP)
    with pytest.raises(TelemetryError):
        decode_batch(b"\x93" + header + b"\x90" + DEEP)
    with pytest.raises(TelemetryError):
        decode_records(Batch(BatchHeader(1, NORTH, 7, 1, 1), msgspec.Raw(DEEP)))


def test_an_answer_that_is_nested_without_end_is_an_error_like_any_other() -> None:
    with pytest.raises(TelemetryError):
        decode_kept(b"\x94" + msgspec.msgpack.encode("north") + b"\x01\x01" + DEEP)

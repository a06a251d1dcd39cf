"""What clients and gateways write to each other, read back or refused."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import (
    ID_LENGTH_MAX,
    PORTRAIT_BYTES_MAX,
    PORTRAIT_LINKS_MAX,
    QUESTION_BYTES_MAX,
    RECORD_BYTES_MAX,
    RECORD_SUBSCRIPTIONS_MAX,
)
from mqloom.core.publication import Publication
from mqloom.core.records import (
    ENVELOPE_VERSION,
    Answer,
    Delivered,
    PaintedLink,
    Portrait,
    Question,
    Record,
    RouteAnswer,
    Status,
    Way,
    Wish,
    decode_answer,
    decode_envelope,
    decode_portrait,
    decode_question,
    decode_record,
    decode_route,
    decode_status,
    encode_answer,
    encode_envelope,
    encode_portrait,
    encode_question,
    encode_record,
    encode_route,
    encode_status,
    is_of_earlier_run,
)

PUBLICATION = Publication(GatewayId("A"), 1, 2, 0, 3, "stocks/a", b"\xff\x00", 1)
names = st.text(min_size=1, max_size=10)
records = st.builds(
    Record,
    subscriptions=st.dictionaries(names, st.builds(Wish, topics=st.text(max_size=5), where=st.text(max_size=5))),
    format=st.sampled_from(["plain", "frame"]),
    qos=st.integers(0, 1),
    lease_s=st.floats(0, 86_400),
)


def problem_with_record(data: bytes) -> str:
    with pytest.raises(RecordError) as caught:
        decode_record(data)
    return caught.value.problem


# ---- records -----------------------------------------------------------------------------------------------------


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_person_needs_to_write_names_and_topics_only() -> None:
    record = decode_record(b'{"subscriptions": {"mine": {"topics": "a/#"}}}')
    assert record == Record(subscriptions={"mine": Wish(topics="a/#", where="")})
    assert (record.format, record.qos, record.lease_s) == ("plain", 1, 0)


def test_a_record_may_have_no_subscription() -> None:
    assert decode_record(b'{"subscriptions": {}}').subscriptions == {}


MALFORMED_RECORDS = {
    "no JSON": b"subscribe me",
    "cut short": b'{"subscriptions": {"a": {"top',
    "not UTF-8": b'{"subscriptions": {"\xff": {"topics": "a"}}}',
    "an array": b"[]",
    "nothing in it": b"{}",
    "null": b"null",
    "an unknown field": b'{"subscriptions": {}, "leese_s": 3}',
    "an unknown field in a wish": b'{"subscriptions": {"a": {"topics": "a", "filter": "x"}}}',
    "a wish without topics": b'{"subscriptions": {"a": {"where": "x > 1"}}}',
    "topics that are no text": b'{"subscriptions": {"a": {"topics": 7}}}',
    "an empty name": b'{"subscriptions": {"": {"topics": "a"}}}',
    "a long name": json.dumps({"subscriptions": {"n" * (ID_LENGTH_MAX + 1): {"topics": "a"}}}).encode(),
    "too many subscriptions": json.dumps(
        {"subscriptions": {str(n): {"topics": "a"} for n in range(RECORD_SUBSCRIPTIONS_MAX + 1)}}
    ).encode(),
    "an unknown format": b'{"subscriptions": {}, "format": "xml"}',
    "QoS 2": b'{"subscriptions": {}, "qos": 2}',
    "a negative lease": b'{"subscriptions": {}, "lease_s": -1}',
    "a lease for ever": b'{"subscriptions": {}, "lease_s": 1e300}',
    "no number": b'{"subscriptions": {}, "lease_s": NaN}',
    "arrays within arrays": b'{"subscriptions": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("what", MALFORMED_RECORDS)
def test_a_record_that_cannot_be_read_is_refused_and_told_what_one_looks_like(what: str) -> None:
    assert '{"subscriptions": {"NAME": {"topics": "a/#"}}}' in problem_with_record(MALFORMED_RECORDS[what])


def test_a_refusal_names_the_place_of_the_mistake() -> None:
    assert "leese_s" in problem_with_record(MALFORMED_RECORDS["an unknown field"])
    assert "$.subscriptions[...].topics" in problem_with_record(MALFORMED_RECORDS["topics that are no text"])


def test_a_record_past_the_bound_is_refused_unread() -> None:
    assert problem_with_record(b" " * (RECORD_BYTES_MAX + 1)).startswith(f"{RECORD_BYTES_MAX + 1} bytes")


@given(st.binary(max_size=100))
def test_random_bytes_are_a_record_or_refused(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert isinstance(decode_record(data), Record)


# ---- answers and status ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(answer="established", name="a"),
        Answer(answer="ended", name="a"),
        Answer(answer="refused", problem="no JSON"),
        Answer(answer="refused", name="a", problem="a value is missing", column=5),
    ],
)
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert decode_answer(encode_answer(answer)) == answer


def test_an_answer_says_no_more_than_there_is_to_say() -> None:
    assert json.loads(encode_answer(Answer(answer="established", name="a"))) == {"answer": "established", "name": "a"}


@pytest.mark.parametrize("data", [b"", b"yes", b"{}", b'{"answer": "maybe"}', b'{"answer": "ended", "name": "\xff"}'])
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_answer(data)


def test_a_status_comes_back_as_it_was() -> None:
    status = Status(alive=True, gateway=GatewayId("A"), version="0.1.0", epoch=7)
    assert decode_status(encode_status(status)) == status


def test_a_status_of_an_earlier_run_of_the_same_gateway_is_known() -> None:
    now = Status(alive=True, gateway=GatewayId("A"), version="0.1.0", epoch=7)
    then = Status(alive=False, gateway=GatewayId("A"), version="0.1.0", epoch=6)
    other = Status(alive=False, gateway=GatewayId("B"), version="0.1.0", epoch=6)
    assert is_of_earlier_run(encode_status(then), now)
    assert not is_of_earlier_run(encode_status(now), now)
    assert not is_of_earlier_run(encode_status(other), now)
    assert not is_of_earlier_run(b"junk", now)


def test_a_status_of_a_later_release_is_read() -> None:
    data = b'{"alive": false, "gateway": "A", "version": "9", "epoch": 1, "load": {"cpu": 1}}'
    assert decode_status(data) == Status(alive=False, gateway=GatewayId("A"), version="9", epoch=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"alive",
        b'{"alive": true}',
        b'{"alive": true, "gateway": "", "version": "1", "epoch": 1}',
        b'{"alive": true, "gateway": "A", "version": "1", "epoch": -1}',
        b'{"alive": 1, "gateway": "A", "version": "1", "epoch": 1}',
    ],
)
def test_what_is_no_status_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_status(data)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_as_answer_and_as_status(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_answer(data)
    with pytest.raises(RecordError):
        decode_status(data)


# ---- envelopes ---------------------------------------------------------------------------------------------------


def test_an_envelope_comes_back_as_it_was() -> None:
    delivered = [Delivered(PUBLICATION, ("a", "b")), Delivered(PUBLICATION.one_hop_further(), ("c",))]
    assert decode_envelope(encode_envelope(delivered)) == tuple(delivered)


def test_an_empty_envelope_holds_nothing() -> None:
    assert decode_envelope(encode_envelope([])) == ()


def envelope(content: object) -> bytes:
    return bytes([ENVELOPE_VERSION]) + msgspec.msgpack.encode(content)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes([ENVELOPE_VERSION + 1]) + encode_envelope([])[1:],
        bytes([ENVELOPE_VERSION]),
        envelope({}),
        envelope([[]]),
        envelope([[[1, "A", 1, 2, 0, 0, "a/#", b""], []]]),
        encode_envelope([Delivered(PUBLICATION, ("a",))])[:-1],
        bytes([ENVELOPE_VERSION]) + b"\x91" * 100_000,
        bytes([ENVELOPE_VERSION]) + b"\x91\x92\xa1\xff\x90",
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_envelope(data)


def test_an_envelope_of_another_format_says_which() -> None:
    with pytest.raises(RecordError, match="format 07, this client reads 1"):
        decode_envelope(b"\x07")
    with pytest.raises(RecordError, match="format none"):
        decode_envelope(b"")


@given(st.binary(max_size=60))
def test_random_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    for candidate in (data, bytes([ENVELOPE_VERSION]) + data):
        with contextlib.suppress(RecordError):
            assert isinstance(decode_envelope(candidate), tuple)


# ---- portraits ---------------------------------------------------------------------------------------------------

LINK = PaintedLink(gateway=GatewayId("B"), kind="soft", up=True, distance=2, publications=3, gain=1.5)
PORTRAIT = Portrait(gateway=GatewayId("A"), epoch=7, strategy="S2", links=(LINK,), left_out=1)


def test_a_portrait_comes_back_as_it_was_and_says_its_version() -> None:
    data = encode_portrait(PORTRAIT)
    assert decode_portrait(data) == PORTRAIT
    assert json.loads(data)["version"] == 1


def test_a_portrait_may_have_more_in_it_than_we_know() -> None:
    assert decode_portrait(json.dumps({**json.loads(encode_portrait(PORTRAIT)), "mood": "good"}).encode()) == PORTRAIT


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"gateway": ""},
        {"links": [{"gateway": "B", "kind": "woven", "up": True, "distance": 1}]},
        {"links": [{"gateway": "B", "kind": "soft", "up": True, "distance": 0}]},
        {"links": [{"gateway": "B", "kind": "soft", "up": True, "distance": 1}] * (PORTRAIT_LINKS_MAX + 1)},
        {"left_out": -1},
    ],
)
def test_a_portrait_out_of_bounds_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(RecordError):
        decode_portrait(json.dumps({**json.loads(encode_portrait(PORTRAIT)), **change}).encode())


def test_a_portrait_that_is_too_large_is_not_even_read() -> None:
    with pytest.raises(RecordError, match="the bound is"):
        decode_portrait(b" " * (PORTRAIT_BYTES_MAX + 1))


# ---- questions ---------------------------------------------------------------------------------------------------


def test_a_question_and_its_answer_come_back_as_they_were() -> None:
    question = Question(number=3, topic="a/b", payload=b"\xff\x00")
    assert decode_question(encode_question(question)) == question
    ways = (Way(gateway=GatewayId("B"), kind="soft", serves=(GatewayId("C"),)),)
    answer = RouteAnswer(answer="route", number=3, here=1, anchors={GatewayId("C"): 2}, ways=ways)
    assert decode_route(encode_route(answer)) == answer


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 10_000,
        b'{"number": 1}',
        b'{"number": -1, "topic": "a"}',
        b'{"number": 1, "topic": ""}',
        b'{"number": 1, "topic": "a", "payload": "?"}',
        b'{"number": 1, "topic": "a", "mood": 1}',
        b" " * (QUESTION_BYTES_MAX + 1),
    ],
)
def test_a_malformed_question_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_question(data)


def test_a_malformed_answer_about_routes_is_refused() -> None:
    with pytest.raises(RecordError):
        decode_route(b'{"answer": "perhaps"}')

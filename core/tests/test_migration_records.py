"""What operators and gateways say about clients that are to be moved: read as written, told apart, refused in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import AT_ONCE_MAX, MIGRATION_CLIENTS_MAX, QUESTION_BYTES_MAX
from mqloom.core.migration_records import (
    Bounds,
    DrainMark,
    MigrationAnswer,
    MigrationRequest,
    decode_mark,
    decode_migration,
    decode_migration_answer,
    encode_mark,
    encode_migration,
    encode_migration_answer,
    is_migration,
)
from mqloom.core.records import MoveAnswer, Order, encode_move, encode_order

EAST = GatewayId("east")
REQUEST = MigrationRequest(number=1, action="migrate", clients=(ClientId("desk"),), to=(EAST,))


def test_all_is_read_as_it_is_written() -> None:
    assert decode_migration(encode_migration(REQUEST)) == REQUEST
    answer = MigrationAnswer(answer="done", number=1, moved=3, problems={"desk": "east is down"}, unknown=("till",))
    assert decode_migration_answer(encode_migration_answer(answer)) == answer
    left = MigrationAnswer(answer="done", number=1, fixed=1, fixed_by={"keyless": 1}, immovable={"desk": "keyless"})
    assert decode_migration_answer(encode_migration_answer(left)) == left
    mark = DrainMark(to=(EAST,), bounds=Bounds(rate=5.0, at_once=7, deadline_s=9.0))
    assert decode_mark(encode_mark(mark)) == mark


def test_a_request_is_told_from_the_order_to_move_a_link() -> None:
    assert is_migration(encode_migration(REQUEST))
    assert not is_migration(encode_order(Order(number=1, move_to=EAST)))
    assert not is_migration(encode_migration(REQUEST) + b" " * QUESTION_BYTES_MAX)


@given(st.binary(max_size=100))
def test_noise_is_no_request(data: bytes) -> None:
    assert not is_migration(data)


def test_a_refusal_at_the_door_is_understood_as_an_answer() -> None:
    answer = decode_migration_answer(encode_move(MoveAnswer(answer="stayed", problem="it has no seal")))
    assert (answer.answer, answer.problem) == ("stayed", "it has no seal")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"number": 1, "action": "fly"}',
        '{"number": 1, "action": "drain", "speed": 3}',
        '{"number": 1, "action": "drain", "bounds": {"rate": -1}}',
        f'{{"number": 1, "action": "drain", "bounds": {{"at_once": {AT_ONCE_MAX + 1}}}}}',
        '{"number": 1, "action": "migrate", "clients": [""]}',
    ],
)
def test_what_cannot_be_read_is_answered_with_an_example(text: str) -> None:
    with pytest.raises(RecordError, match="it must look like"):
        decode_migration(text.encode())


def test_more_clients_than_a_request_may_name_are_refused() -> None:
    many = MigrationRequest(number=1, action="migrate", clients=(ClientId("x"),) * (MIGRATION_CLIENTS_MAX + 1))
    with pytest.raises(RecordError):
        decode_migration(encode_migration(many))
    for decode in (decode_mark, decode_migration_answer):
        with pytest.raises(RecordError):
            decode(b"{")

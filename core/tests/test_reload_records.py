"""Orders to read the configuration again, and their answers, as they are written."""

import pytest

from mqloom.core.errors import RecordError
from mqloom.core.limits import QUESTION_BYTES_MAX
from mqloom.core.reload_records import (
    ReloadAnswer,
    ReloadRequest,
    decode_reload,
    decode_reload_answer,
    encode_reload,
    encode_reload_answer,
    is_reload,
)


def test_what_is_written_is_read() -> None:
    request = ReloadRequest(number=3)
    assert decode_reload(encode_reload(request)) == request
    assert is_reload(encode_reload(request))
    answer = ReloadAnswer(answer="reloaded", number=3, changed=("a",), waiting=("b", "c"))
    assert decode_reload_answer(encode_reload_answer(answer)) == answer
    assert decode_reload_answer(b'{"answer": "refused", "more": 1}') == ReloadAnswer(answer="refused")


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b'{"action": "drain"}', b"{}", b'{"action": "reload"}' + b" " * QUESTION_BYTES_MAX]
)
def test_what_is_another_order_is_none(data: bytes) -> None:
    assert not is_reload(data)


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", b'{"number": -1}', b'{"number": 1, "action": "drain"}'])
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_reload(data)
    with pytest.raises(RecordError):
        decode_reload_answer(data)

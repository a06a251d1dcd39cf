import pytest

from mqloom.core.balance_records import (
    BalanceAnswer,
    BalanceQuestion,
    SessionShown,
    decode_balance_answer,
    decode_balance_question,
    encode_balance_answer,
    encode_balance_question,
)
from mqloom.core.errors import RecordError


def test_a_question_comes_as_it_was_asked_and_nothing_asks_for_the_status() -> None:
    question = BalanceQuestion(ask="explain", session="a-1-1")
    assert decode_balance_question(encode_balance_question(question)) == question
    assert decode_balance_question(b"").ask == "status"


@pytest.mark.parametrize("data", [b"x", b'{"ask": "why"}', b'{"asc": "status"}', b"\xff"])
def test_nonsense_is_explained(data: bytes) -> None:
    with pytest.raises(RecordError, match="it must look like"):
        decode_balance_question(data)


def test_an_answer_comes_as_it_was_given() -> None:
    session = SessionShown(
        session="a-1-1",
        level="local",
        is_offloading=True,
        partner="b",
        metric="input",
        is_overload=False,
        is_advice=False,
        began_s_ago=3.0,
        took_s=None,
        outcome="lasts",
        reason="",
        moved=0,
        stayed=0,
    )
    answer = BalanceAnswer(gateway="a", sessions=(session,))
    assert decode_balance_answer(encode_balance_answer(answer)) == answer
    with pytest.raises(RecordError):
        decode_balance_answer(b"[]")

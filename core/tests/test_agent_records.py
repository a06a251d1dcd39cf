"""Questions to agents and their answers: what is read, and what is refused with an example."""

import pytest

from mqloom.core.agent_records import (
    AgentAnswer,
    AgentQuestion,
    decode_agent_answer,
    decode_agent_question,
    encode_agent_answer,
    encode_agent_question,
    is_for_agent,
)
from mqloom.core.errors import RecordError
from mqloom.core.limits import AGENT_ANSWER_BYTES_MAX, QUESTION_BYTES_MAX

QUESTION = AgentQuestion(number=7, agent="pie", body=b"\x00anything")


def test_questions_and_answers_come_back_as_they_were() -> None:
    assert decode_agent_question(encode_agent_question(QUESTION)) == QUESTION
    for answer in (
        AgentAnswer(answer="agent", number=7, body=b"\xff"),
        AgentAnswer(answer="refused", number=7, problem="no"),
        AgentAnswer(answer="agent", body=bytes(AGENT_ANSWER_BYTES_MAX)),
    ):
        assert decode_agent_answer(encode_agent_answer(answer)) == answer


def test_a_question_to_an_agent_is_told_from_one_about_routes() -> None:
    assert is_for_agent(encode_agent_question(QUESTION))
    assert not is_for_agent(b'{"number": 1, "topic": "a"}')
    assert not is_for_agent(b"\xff{")
    assert not is_for_agent(b'{"agent": "pie", "body": "' + b"x" * QUESTION_BYTES_MAX + b'"}')


@pytest.mark.parametrize("data", [b"", b"[]", b'{"agent": "", "number": 1}', b'{"agent": "pie"}', b'{"agent": 1}'])
def test_a_question_that_is_none_is_refused_with_an_example(data: bytes) -> None:
    with pytest.raises(RecordError, match="it must look like"):
        decode_agent_question(data)


@pytest.mark.parametrize("data", [b"", b'{"answer": "maybe"}', b"x" * (2 * AGENT_ANSWER_BYTES_MAX + 1)])
def test_an_answer_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_agent_answer(data)

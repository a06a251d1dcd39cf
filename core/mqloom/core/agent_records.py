"""What an operator asks an agent of a gateway, and what it answers: JSON, by the topics of questions and answers.

What is in a body is the agent's own affair.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.ids import Number
from mqloom.core.limits import AGENT_ANSWER_BYTES_MAX, QUESTION_BYTES_MAX


class AgentQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the agent of this name; the number comes back. The body is base64."""

    number: Number
    agent: Annotated[str, Meta(min_length=1, max_length=64)]
    body: bytes = b""


class AgentAnswer(Struct, frozen=True, kw_only=True):
    """What the agent says; or, with a problem, why it was not asked. More fields may follow."""

    answer: Literal["agent", "refused"]
    number: Number = 0
    body: bytes = b""
    problem: str = ""


class _Peek(Struct, frozen=True):
    agent: str = ""


_peek_decoder = msgspec.json.Decoder(_Peek)
_question_decoder = msgspec.json.Decoder(AgentQuestion)
_answer_decoder = msgspec.json.Decoder(AgentAnswer)
_DECODING_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def is_for_agent(data: bytes) -> bool:
    """Whether a question is for an agent; nothing else of it is checked."""
    try:
        return len(data) <= QUESTION_BYTES_MAX and bool(_peek_decoder.decode(data).agent)
    except _DECODING_ERRORS:
        return False


def encode_agent_question(question: AgentQuestion) -> bytes:
    """Return the JSON of a question."""
    return msgspec.json.encode(question)


def decode_agent_question(data: bytes) -> AgentQuestion:
    """Return the question in `data`; raises RecordError."""
    try:
        return _question_decoder.decode(data)
    except _DECODING_ERRORS as error:
        example = '{"number": 1, "agent": "pie", "body": "e30="}'
        raise RecordError(f"{error}; it must look like {example}") from None


def encode_agent_answer(answer: AgentAnswer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def decode_agent_answer(data: bytes) -> AgentAnswer:
    """Return the answer in `data`; raises RecordError."""
    if len(data) > 2 * AGENT_ANSWER_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {2 * AGENT_ANSWER_BYTES_MAX}")
    try:
        return _answer_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None

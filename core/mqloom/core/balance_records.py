"""What an operator asks the load agents, and what they answer: JSON, in the body of an agent's question and answer.

{"ask": "status"}                         how the broker stands, and the sessions that it remembers, in short
{"ask": "explain", "session": "edge1-..."}     everything about one session
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.load import Metric

SESSION_NAME_MAX: Final = 512
"""Characters in the name of a session that is asked for."""


class BalanceQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody wants to know."""

    ask: Literal["status", "explain"] = "status"
    session: Annotated[str, Meta(max_length=SESSION_NAME_MAX)] = ""


class Figures(Struct, frozen=True, kw_only=True):
    """Load, measured or predicted."""

    input_ratio: float
    delay_s: float
    output_ratio: float
    utilisation: float
    """The fullest of all resources."""
    subscriptions: int


class SeenBroker(Struct, frozen=True, kw_only=True):
    """What another broker had said of itself when it was decided."""

    broker: str
    cluster: str
    state: str
    figures: Figures


class Considered(Struct, frozen=True, kw_only=True):
    """Somebody who was to be asked, in this order, and what came of it."""

    broker: str
    metric: Metric
    difference: float
    """By how much it had less."""
    answer: str
    """"agreed", why not, or "not asked"."""


class CardShown(Struct, frozen=True, kw_only=True):
    """A report card that was chosen: what it did to move some clients that want the same."""

    clients: int
    difference: float
    is_covered: bool
    rate_reduced: float
    rate_added: float
    bytes_s_each: float


class EstimationError(Struct, frozen=True, kw_only=True):
    """What was predicted against what came, as a share of what came; None: not known."""

    input: float | None = None
    match: float | None = None
    output: float | None = None


class SessionShown(Struct, frozen=True, kw_only=True):
    """One session, or one attempt to find a partner, as one of the two brokers knows it."""

    session: str
    level: Literal["local", "global"]
    is_offloading: bool
    """Whether this broker gave load, or took it."""
    partner: str
    metric: Metric | None
    is_overload: bool
    is_advice: bool
    began_s_ago: float
    took_s: float | None
    """None: it lasts."""
    outcome: str
    """One of "done", "nobody found", "cancelled", "silent", "overdue", "gone" and "lasts"."""
    reason: str
    moved: int
    """Clients; -1: not known."""
    stayed: int
    chosen: int = 0
    """Clients that were to be moved; where it is only advice, whom it would move."""
    why: str = ""
    """What the detector saw."""
    own: Figures | None = None
    seen: tuple[SeenBroker, ...] = ()
    considered: tuple[Considered, ...] = ()
    cards: tuple[CardShown, ...] = ()
    cards_more: int = 0
    """Cards that are not shown."""
    clients: tuple[str, ...] = ()
    """Who was chosen, or came; not all if there are many."""
    stayed_why: dict[str, str] = {}
    choice: str = ""
    """Why the offload plugin ended where it did."""
    covering_left_out: int = 0
    """Subscriptions of the partner's covering set that it did not tell: its input was overestimated."""
    predicted: Figures | None = None
    predicted_partner: Figures | None = None
    observed: Figures | None = None
    """After it had stabilised."""
    observed_partner: Figures | None = None
    error: EstimationError = EstimationError()
    error_partner: EstimationError = EstimationError()


class BalanceAnswer(Struct, frozen=True, kw_only=True):
    """How a load agent stands, and what was asked for."""

    gateway: str
    role: str = ""
    cluster: str = ""
    mode: str = ""
    state: str = ""
    own: Figures | None = None
    others: tuple[SeenBroker, ...] = ()
    sessions: tuple[SessionShown, ...] = ()
    """The last ones first; for "status" without what only "explain" shows."""
    problem: str = ""
    """Why there is no answer."""


_question_decoder = msgspec.json.Decoder(BalanceQuestion)
_answer_decoder = msgspec.json.Decoder(BalanceAnswer)
_DECODING_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode_balance_question(question: BalanceQuestion) -> bytes:
    """Return the JSON of a question."""
    return msgspec.json.encode(question)


def decode_balance_question(data: bytes) -> BalanceQuestion:
    """Return the question in `data`, of which nothing is "status"; raises RecordError."""
    try:
        return _question_decoder.decode(data or b"{}")
    except _DECODING_ERRORS as error:
        raise RecordError(f'{error}; it must look like {{"ask": "explain", "session": "edge1-1f4-2"}}') from None


def encode_balance_answer(answer: BalanceAnswer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def decode_balance_answer(data: bytes) -> BalanceAnswer:
    """Return the answer in `data`; raises RecordError."""
    try:
        return _answer_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None

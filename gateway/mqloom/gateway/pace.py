"""How much one client, and all together, can make a gateway do: so that whoever does too much is not noticed by others.

Records of one client past RECORDS_PER_S are refused, and answered once until it has waited. Refusals past
ANSWERS_PER_S, of whomever, are counted but not answered: malformed records, and orders and questions without a seal, by
many names cost no more than their reading. Questions past QUESTIONS_PER_S are not looked at.
"""

from mqloom.core.ids import ClientId
from mqloom.core.limits import (
    ANSWERS_BURST,
    ANSWERS_PER_S,
    CLIENTS_MAX,
    QUESTIONS_BURST,
    QUESTIONS_PER_S,
    RECORDS_BURST,
    RECORDS_PER_S,
)
from mqloom.core.rate_limiter import RateLimiter


class Pace:
    """The pace of one gateway's clients."""

    def __init__(self) -> None:
        self._records: RateLimiter[ClientId] = RateLimiter(RECORDS_PER_S, RECORDS_BURST, CLIENTS_MAX)
        self._answers: RateLimiter[None] = RateLimiter(ANSWERS_PER_S, ANSWERS_BURST, 1)
        self._questions: RateLimiter[None] = RateLimiter(QUESTIONS_PER_S, QUESTIONS_BURST, 1)
        self._minutes: dict[ClientId, tuple[float, int]] = {}  # since when, and how many records since
        self._told: dict[ClientId, None] = {}

    def record(self, client: ClientId, now: float) -> bool:
        """Whether a client may write a record now."""
        since, count = self._minutes.pop(client, (now, 0))
        if len(self._minutes) >= CLIENTS_MAX:
            del self._minutes[next(iter(self._minutes))]
        self._minutes[client] = (since, count + 1) if now < since + 60.0 else (now, 1)
        is_allowed = self._records.take(client, now)
        if is_allowed:
            self._told.pop(client, None)
        return is_allowed

    def is_to_be_told(self, client: ClientId) -> bool:
        """Whether a client that may not has not been told so since it might."""
        if client in self._told:
            return False
        if len(self._told) >= CLIENTS_MAX:
            del self._told[next(iter(self._told))]
        self._told[client] = None
        return True

    def changes(self, client: ClientId) -> int:
        """Return how many records a client has written in the present minute of its own."""
        return self._minutes.get(client, (0.0, 0))[1]

    def answer(self, now: float) -> bool:
        """Whether a refusal is answered."""
        return self._answers.take(None, now)

    def question(self, now: float) -> bool:
        """Whether a question is looked at."""
        return self._questions.take(None, now)

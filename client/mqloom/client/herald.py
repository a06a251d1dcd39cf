"""Tells the application what has become of its subscriptions and moves, by paho's callbacks and by ours."""

import logging
from collections import deque
from collections.abc import Collection
from typing import Final

from mqloom.client.application import Renewed, Tidings, Told
from mqloom.client.legs import Migrated, Stayed
from mqloom.client.vocabulary import Note, Tell, Unserved
from mqloom.client.wanted import REFUSED, Table
from mqloom.core.errors import FilterError
from mqloom.core.ids import ClientId
from mqloom.core.records import Answer

logger: Final = logging.getLogger("mqloom.client")


class Herald:
    """What is to be told, in its order; `table` has what the application waits for.

    Whoever has tidings leaves them; the loop's thread tells them, without a lock, for callbacks may call anything.
    """

    def __init__(self, application: Told, client: ClientId, table: Table) -> None:
        self._application = application
        self._client = client
        self._table = table
        self._tidings: deque[Tidings] = deque()

    def add(self, tidings: Tidings) -> None:
        """Let this be told with the others."""
        self._tidings.append(tidings)

    def tell_all(self) -> None:
        """Call back."""
        while self._tidings:
            self._tell(self._tidings.popleft())

    def _tell(self, tidings: Tidings) -> None:
        match tidings:
            case Tell(answer=answer) if answer.answer == "established":
                self._tell_established(answer)
            case Tell(answer=answer) if answer.answer == "ended":
                self._tell_ended(answer.name)
            case Tell(answer=answer):
                self._tell_refused(answer.name, f"refused: {self._problem_of(answer)}")
            case Renewed():
                self._answer_unsubscribing(tidings.name, tidings.calls)
            case Unserved():
                for name in tidings.names:
                    self._tell_refused(name, tidings.problem)
            case Note():
                logger.info("%s: %s", self._client, tidings.text)
            case Stayed():
                text = "%s: stays where it is, and does not go to %s: %s"
                logger.warning(text, self._client, tidings.to, tidings.problem)
            case Migrated():
                logger.info("%s: has moved from %s to %s", self._client, tidings.source, tidings.to)
                self._application.tell_migrated(tidings.source, tidings.to)

    def _tell_established(self, answer: Answer) -> None:
        wanted = self._table.get(answer.name)
        if wanted is None:
            return
        for mid, codes in self._table.subscribing.answer(answer.name, wanted.qos):
            self._application.pretend_suback(mid, codes)
        self._application.tell_established(wanted.wish, partly=answer.partly)

    def _tell_ended(self, name: str) -> None:
        self._table.drop(name)
        self._answer_unsubscribing(name)

    def _answer_unsubscribing(self, name: str, calls: Collection[int] | None = None) -> None:
        for mid, codes in self._table.unsubscribing.answer(name, 0, calls):
            self._application.pretend_unsuback(mid, len(codes))

    def _tell_refused(self, name: str, problem: str) -> None:
        wanted = self._table.get(name)
        if wanted is None:
            return
        logger.error("%s: subscription to %r: %s", self._client, name, problem)
        self._application.tell_refused(wanted.wish, problem)  # first: who waits for the other then knows why
        for mid, codes in self._table.subscribing.answer(name, REFUSED):
            self._application.pretend_suback(mid, codes)

    def _problem_of(self, answer: Answer) -> str:
        """Return what the gateway has against it; of a filter, where."""
        wanted = self._table.get(answer.name)
        if wanted is None or not isinstance(answer.column, int):
            return answer.problem
        return str(FilterError(answer.problem, wanted.wish.where, answer.column))

"""A plugin of amqtt's: it sees what plain clients subscribe to, and tells.

amqtt's events come in tasks of their own, one by one; so at each of them the broker's own table is read as it is then.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Any

from amqtt.plugins.base import BasePlugin

from mqloom.gateway.interfaces import Learned
from mqloom.plugins.plain_clients import OURS, Overlooked, WholeInterest

logger = logging.getLogger(__name__)


class PlainSubscriptions(BasePlugin):  # type: ignore[misc] # amqtt has no types
    """Tells all topic filters of plain clients whenever they have changed; `tell` says whom."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._told: tuple[tuple[str, ...], int] = ((), 0)
        self._interest = WholeInterest()
        self._overlooked_log = Overlooked()
        self._log = logging.LoggerAdapter(logger, {"gateway": "-"})
        self.tell: Learned = _tell_nobody

    async def on_broker_client_connected(self, **_: Any) -> None:
        """Look: a clean session takes the place of another."""
        self._look()

    async def on_broker_client_disconnected(self, **_: Any) -> None:
        """Look: a clean session ends."""
        self._look()

    async def on_broker_client_subscribed(self, **_: Any) -> None:
        """Look: somebody wants something."""
        self._look()

    async def on_broker_client_unsubscribed(self, **_: Any) -> None:
        """Look: somebody does not any more."""
        self._look()

    def _look(self) -> None:
        told = self._interest.look(self._subscriptions()), self._interest.overlooked
        if told != self._told:
            self._told = told
            self.tell(*told)
        self._overlooked_log.tell(self._log, self._interest.overlooked, self._interest.overlooked_of)

    def _subscriptions(self) -> Iterator[tuple[str, str]]:
        """Yield who subscribes to what, in the order in which it was first subscribed to."""
        for text, sessions in self.context.subscriptions.items():
            yield from ((str(each.client_id), text) for each, _ in sessions if _counts(each))


def _tell_nobody(filters: Collection[str], passed_over: int = 0, /) -> None:
    pass


def _counts(session: Any) -> bool:
    """Whether this is a plain client whose subscriptions live: amqtt clears up after those that left later on."""
    if str(session.client_id).startswith(OURS):
        return False
    return not (session.transitions.state == "disconnected" and (session.clean_session or session.is_anonymous))

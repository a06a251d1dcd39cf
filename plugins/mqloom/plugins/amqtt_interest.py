"""A plugin of amqtt's: it sees what plain clients subscribe to, and tells.

amqtt's events come in tasks of their own, one by one; so at each of them the broker's own table is read as it is then.
"""

from collections.abc import Callable, Collection
from typing import Any

from amqtt.plugins.base import BasePlugin

from mqloom.plugins.plain_clients import OURS


class PlainSubscriptions(BasePlugin):  # type: ignore[misc] # amqtt has no types
    """Tells all topic filters of plain clients whenever they have changed; `tell` says whom."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._told: tuple[str, ...] = ()
        self.tell: Callable[[Collection[str]], None] = lambda filters: None

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
        subscriptions = self.context.subscriptions
        filters = tuple(
            sorted(text for text, sessions in subscriptions.items() if any(_counts(each) for each, _ in sessions))
        )
        if filters != self._told:
            self._told = filters
            self.tell(filters)


def _counts(session: Any) -> bool:
    """Whether this is a plain client whose subscriptions live: amqtt clears up after those that left later on."""
    if str(session.client_id).startswith(OURS):
        return False
    return not (session.transitions.state == "disconnected" and (session.clean_session or session.is_anonymous))

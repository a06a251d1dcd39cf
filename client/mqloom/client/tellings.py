"""What the user of a client is told of its subscriptions: once, however many gateways have said it."""

from collections.abc import Iterable

from mqloom.client.legs import Leg
from mqloom.client.limits import GONE_MAX
from mqloom.client.roles import Role
from mqloom.core.records import Answer


class Tellings:
    """What the user knows of each subscription; past GONE_MAX names the oldest may be told once more."""

    def __init__(self) -> None:
        self._told: dict[str, Answer] = {}

    def forget(self, name: str) -> None:
        """The user wants something else under this name: whatever comes of it is news."""
        self._told.pop(name, None)

    def is_news(self, leg: Leg, answer: Answer, others: Iterable[Leg]) -> bool:
        """Whether the user is to be told what the gateway of a leg has said.

        That one refuses where we might have gone is not: we stay. A subscription has ended when it has so at all.
        """
        name = answer.name
        if answer.answer == "refused" and leg.role not in (Role.HOME, Role.WAITING):
            return False
        if answer.answer == "ended" and any(other.core.has(name) for other in others if other is not leg):
            return False
        if self._told.get(name) == answer:
            return False
        self._told.pop(name, None)
        self._told[name] = answer
        if len(self._told) > GONE_MAX:
            del self._told[next(iter(self._told))]
        return True

"""Messages for neighbours, gathered while one event is handled, so that each neighbour gets them in one frame."""

from collections.abc import Iterable

from mqloom.core.ids import GatewayId
from mqloom.core.messages import Message


class Outbox:
    """Messages by neighbour, in the order in which they were posted."""

    def __init__(self) -> None:
        self._messages: dict[GatewayId, list[Message]] = {}

    def post(self, neighbour: GatewayId, messages: Iterable[Message]) -> None:
        """Add messages for a neighbour."""
        self._messages.setdefault(neighbour, []).extend(messages)

    def drain(self) -> dict[GatewayId, list[Message]]:
        """Return everything posted since the last call."""
        messages, self._messages = self._messages, {}
        return messages

"""What is published on our own broker, and who waits for its acknowledgement.

At most LOCAL_WINDOW messages are on their way to the broker at a time; more wait here, in order. What waits belongs to
open duties, and these are bounded by the windows of their sources.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from mqloom.core.effects import PublishLocally
from mqloom.core.limits import LOCAL_WINDOW
from mqloom.gateway.custody import Custody, Duty


class Deliveries:
    """The numbered publishes of one gateway."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._number = 0
        self._waiting: deque[tuple[PublishLocally, Sequence[Duty]]] = deque()
        self._under_way: dict[int, Sequence[Duty]] = {}

    def publish(self, effect: PublishLocally, duties: Sequence[Duty]) -> None:
        """Have something published; each duty has one claim more until the broker has it."""
        for duty in duties:
            duty.claims += 1
        self._waiting.append((effect, duties))

    def met(self, duty: Duty) -> None:
        """A claim has passed on to something published here."""
        self._custody.meet(duty)

    def published(self, numbers: Iterable[int]) -> None:
        """The broker has acknowledged these."""
        for number in numbers:
            for duty in self._under_way.pop(number, ()):
                self._custody.meet(duty)

    def drain(self) -> list[PublishLocally]:
        """Return what is to be published now."""
        effects = []
        while self._waiting and len(self._under_way) < LOCAL_WINDOW:
            effect, duties = self._waiting.popleft()
            self._number += 1
            self._under_way[self._number] = duties
            effects.append(msgspec.structs.replace(effect, number=self._number))
        return effects

    def __len__(self) -> int:
        return len(self._under_way) + len(self._waiting)

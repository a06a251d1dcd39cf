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
        self._under_way: dict[int, tuple[str, Sequence[Duty]]] = {}

    def publish(self, effect: PublishLocally, duties: Sequence[Duty]) -> None:
        """Have something published; each duty has one claim more until the broker has it."""
        for duty in duties:
            duty.claims += 1
        self._waiting.append((effect, duties))

    def met(self, duty: Duty) -> None:
        """A claim has passed on to something published here."""
        self._custody.meet(duty)

    def published(self, numbers: Iterable[int]) -> None:
        """The broker has acknowledged these; what is not known any more is passed over."""
        for number in numbers:
            _, duties = self._under_way.pop(number, ("", ()))
            for duty in duties:
                self._custody.meet(duty)

    def forget(self, topic: str) -> None:
        """Nobody needs what is published there any more, and it may never be acknowledged."""
        self.published([number for number, (where, _) in self._under_way.items() if where == topic])
        waiting, self._waiting = self._waiting, deque()
        for effect, duties in waiting:
            if effect.topic != topic:
                self._waiting.append((effect, duties))
                continue
            for duty in duties:
                self._custody.meet(duty)

    def drain(self) -> list[PublishLocally]:
        """Return what is to be published now."""
        effects = []
        while self._waiting and len(self._under_way) < LOCAL_WINDOW:
            effect, duties = self._waiting.popleft()
            self._number += 1
            self._under_way[self._number] = effect.topic, duties
            effects.append(msgspec.structs.replace(effect, number=self._number))
        return effects

    def __len__(self) -> int:
        return len(self._under_way) + len(self._waiting)

"""Acknowledgements to a broker, in the order in which it handed the messages over: MQTT demands that (4.6.0-2)."""

from collections import deque


class Receipts:
    """The receipts of one connection; a lost connection takes all of them with it."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._waiting: set[int] = set()

    def came(self, receipt: int) -> None:
        """A message was handed over."""
        self._order.append(receipt)
        self._waiting.add(receipt)

    def settle(self, receipt: int) -> None:
        """A message may be acknowledged; one of an earlier connection is passed over."""
        self._waiting.discard(receipt)

    def withdraw(self, receipt: int) -> None:
        """A message was handed over again, under another receipt: this one is never acknowledged."""
        if receipt in self._waiting:
            self._waiting.discard(receipt)
            self._order.remove(receipt)

    def drain(self) -> tuple[int, ...]:
        """Return those whose turn has come."""
        ready = []
        while self._order and self._order[0] not in self._waiting:
            ready.append(self._order.popleft())
        return tuple(ready)

    def void(self) -> None:
        """The connection is lost: what was not acknowledged comes again."""
        self._order.clear()
        self._waiting.clear()

    def __len__(self) -> int:
        return len(self._order)

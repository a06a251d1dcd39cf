"""What has happened to one client and was not handled yet: by its own connection, in the background, by its calls.

Each life of a client has its own: what the legs of an earlier one still hear is left where nobody reads it.
"""

import threading
from collections import deque

from mqloom.client.limits import HAPPENINGS_MAX
from mqloom.client.vocabulary import Connected, Event, MessageReceived
from mqloom.client.ways import Happening, StrayReceived

Entry = tuple[int | None, Event | Happening | StrayReceived, int]
"""On which leg, what, and of a message its packet id."""


class Happenings:
    """A queue that any thread may fill, and the loop's thread empties.

    Of what comes in the background at QoS 0 it takes no more than there is room for. What comes at QoS 1 the brokers
    bound, for it is acknowledged when it was handled; what a broker sends again after a connection was lost takes the
    place of what it had sent before.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Entry] = deque()
        self._lock = threading.Lock()

    def add(self, leg: int | None, event: Event | Happening, packet: int = 0) -> None:
        """Something has happened."""
        with self._lock:
            self._waiting.append((leg, event, packet))

    def add_from_background(self, leg: int, event: Happening | StrayReceived, packet: int) -> None:
        """Something has happened on a leg in the background, whoever reads it and however slowly."""
        with self._lock:
            if isinstance(event, Connected) and event.resumed:
                self._waiting = deque(each for each in self._waiting if not _comes_again(each, leg))
            if _qos_of(event) == 0 and len(self._waiting) >= HAPPENINGS_MAX:
                self.dropped += 1
                return
            self._waiting.append((leg, event, packet))

    def put_back(self, leg: int, event: StrayReceived, packet: int) -> None:
        """This was not handled after all: it is the next again."""
        with self._lock:
            self._waiting.appendleft((leg, event, packet))

    def next(self) -> Entry | None:
        """Return what is to be handled next, if anything is."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None


def _comes_again(entry: Entry, leg: int) -> bool:
    """Whether a broker that has kept the session of a leg sends this once more: it was not acknowledged."""
    return entry[0] == leg and _qos_of(entry[1]) == 1


def _qos_of(event: Event | Happening | StrayReceived) -> int | None:
    """Return that of a message."""
    if isinstance(event, StrayReceived):
        return event.message.qos
    return event.qos if isinstance(event, MessageReceived) else None

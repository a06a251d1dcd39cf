"""Echoes that came, and that the broker may send again, for it did not get our acknowledgement.

Where a broker keeps packet ids (see `core.traits`) one of them names the echo. Where it counts anew in each connection,
what is sent again after a break is an echo if an equal one came before it, and once for each of those; but none that
came over ECHO_KEPT_S ago, twice that at most, nor one before the last ECHOES_MAX: those the broker surely knows to be
done with.
"""

from collections import Counter
from typing import Protocol

from mqloom.core.limits import ECHO_KEPT_S, ECHOES_MAX
from mqloom.core.publication import Incoming
from mqloom.core.seen import Print


class EchoRepeats(Protocol):
    """The echoes of QoS 1 that came."""

    def note(self, incoming: Incoming, print_: Print) -> None:
        """An echo came."""
        ...

    def knows(self, incoming: Incoming, print_: Print) -> bool:
        """Whether something that is sent again is an echo that came before."""
        ...

    def came(self, incoming: Incoming) -> None:
        """Something came, whatever it is: its packet id is taken."""
        ...

    def lost(self) -> None:
        """The connection broke: whatever came may come again."""
        ...

    def clear(self) -> None:
        """The broker has lost our session: nothing comes again."""
        ...

    def expire(self, now: float) -> None:
        """Forget what the broker knows by now."""
        ...

    def __len__(self) -> int:
        """How many are remembered."""
        ...


class ByPacketId:
    """As MQTT has it; there are 65,535 at most."""

    def __init__(self) -> None:
        self._prints: dict[int, Print] = {}

    def note(self, incoming: Incoming, print_: Print) -> None:
        """Remember it by its packet id."""
        self._prints[incoming.packet] = print_

    def knows(self, incoming: Incoming, print_: Print) -> bool:
        """Whether an equal one came under this packet id, and none since."""
        return self._prints.get(incoming.packet) == print_

    def came(self, incoming: Incoming) -> None:
        """Its packet id is another's now."""
        self._prints.pop(incoming.packet, None)

    def lost(self) -> None:
        """Packet ids outlive a connection."""

    def clear(self) -> None:
        """Forget all."""
        self._prints.clear()

    def expire(self, now: float) -> None:
        """Each is forgotten when its packet id is used again."""

    def __len__(self) -> int:
        return len(self._prints)


class ByContent:
    """Where packet ids do not last: the counts of two spans of time, the present one and the one before."""

    def __init__(self) -> None:
        self._now: Counter[Print] = Counter()
        self._before: Counter[Print] = Counter()
        self._count = 0  # of those in the present span
        self._until = 0.0
        self._may_come: Counter[Print] = Counter()

    def note(self, incoming: Incoming, print_: Print) -> None:
        """Count it."""
        if self._count >= ECHOES_MAX // 2:
            self._turn()
        self._now[print_] += 1
        self._count += 1

    def knows(self, incoming: Incoming, print_: Print) -> bool:
        """Whether one more equal one came before the last break than has come again since."""
        if not self._may_come[print_]:
            return False
        self._may_come[print_] -= 1
        return True

    def came(self, incoming: Incoming) -> None:
        """Packet ids say nothing here."""

    def lost(self) -> None:
        """All of them may come again, each once."""
        self._may_come = self._now + self._before

    def clear(self) -> None:
        """Forget all."""
        self._turn()
        self._turn()
        self._may_come.clear()

    def expire(self, now: float) -> None:
        """Begin another span when this one is over."""
        if now >= self._until:
            self._until = now + ECHO_KEPT_S
            self._turn()

    def _turn(self) -> None:
        self._before, self._now = self._now, Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._now.total() + self._before.total()

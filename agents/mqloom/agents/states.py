"""How a broker, or a cluster, stands towards sessions: the states of section 3.3.3, as tables.

    an edge (Figure 6)                                    a cluster, by its head (Figure 7)

          heavy                                                 an edge is N/A
     OK ----------> N/A                                    OK ----------------> N/A
     | <----------   |                                     | <----------------   |
     |     light     | began                               |   none is any more  | began
     | began         v                                     | began               v
     '-----------> BUSY <------------.                     '----------------> BUSY
                    | |              | began, if             ended, expired:   |
       unchanged:   | | changed,     | overloaded          OK <----------------'
     OK <-----------' | expired      |
                      v              |                     N/A at once if an edge is.
                  STABILIZING -------'                     Edges stabilise, clusters need not.
                      |   ^ unsteady '
       OK <-----------'   '--'
            steady

Heavy: a utilisation is over the lower overload threshold. What is OK and heavy is N/A at once, so "OK" after a session
or after stabilising means: OK or N/A, as it is measured.

What is late, doubled or lost cannot hurt: the end of a session that has ended already changes nothing, and one whose
end never comes expires.
"""

from enum import Enum, auto
from typing import Final

from mqloom.core.load import BalanceState

OK: Final = BalanceState.OK
BUSY: Final = BalanceState.BUSY
OVERLOADED: Final = BalanceState.OVERLOADED
STABILIZING: Final = BalanceState.STABILIZING


class Occurrence(Enum):
    """What can happen to a broker or a cluster."""

    LIGHT = auto()
    """No utilisation is over the lower overload threshold; of a cluster: no edge is N/A."""
    HEAVY = auto()
    """One is; of a cluster: an edge is N/A."""
    BEGAN = auto()
    """A session began, in which it gives load or takes it."""
    CHANGED = auto()
    """The session ended, and clients have moved."""
    UNCHANGED = auto()
    """The session ended, and nobody has moved."""
    EXPIRED = auto()
    """The session should have ended by now; whether anybody has moved is not known."""
    STEADY = auto()
    """Load has not fluctuated in a stabilise duration."""
    UNSTEADY = auto()
    """It has."""


Table = dict[tuple[BalanceState, Occurrence], BalanceState]

EDGE: Final[Table] = {
    (OK, Occurrence.LIGHT): OK,
    (OK, Occurrence.HEAVY): OVERLOADED,
    (OK, Occurrence.BEGAN): BUSY,
    (OK, Occurrence.CHANGED): OK,  # of a session that had ended: no longer ours
    (OK, Occurrence.UNCHANGED): OK,
    (OK, Occurrence.EXPIRED): OK,
    (OK, Occurrence.STEADY): OK,
    (OK, Occurrence.UNSTEADY): OK,
    (OVERLOADED, Occurrence.LIGHT): OK,
    (OVERLOADED, Occurrence.HEAVY): OVERLOADED,
    (OVERLOADED, Occurrence.BEGAN): BUSY,
    (OVERLOADED, Occurrence.CHANGED): OVERLOADED,
    (OVERLOADED, Occurrence.UNCHANGED): OVERLOADED,
    (OVERLOADED, Occurrence.EXPIRED): OVERLOADED,
    (OVERLOADED, Occurrence.STEADY): OVERLOADED,
    (OVERLOADED, Occurrence.UNSTEADY): OVERLOADED,
    # A broker in a session stays in it, whatever is measured.
    (BUSY, Occurrence.LIGHT): BUSY,
    (BUSY, Occurrence.HEAVY): BUSY,
    (BUSY, Occurrence.BEGAN): BUSY,
    (BUSY, Occurrence.CHANGED): STABILIZING,
    (BUSY, Occurrence.UNCHANGED): OK,
    (BUSY, Occurrence.EXPIRED): STABILIZING,  # clients may have moved, or still be on their way
    (BUSY, Occurrence.STEADY): BUSY,
    (BUSY, Occurrence.UNSTEADY): BUSY,
    (STABILIZING, Occurrence.LIGHT): STABILIZING,
    (STABILIZING, Occurrence.HEAVY): STABILIZING,
    (STABILIZING, Occurrence.BEGAN): BUSY,  # it gives load away when it is overloaded, and never takes any
    (STABILIZING, Occurrence.CHANGED): STABILIZING,
    (STABILIZING, Occurrence.UNCHANGED): STABILIZING,
    (STABILIZING, Occurrence.EXPIRED): STABILIZING,
    (STABILIZING, Occurrence.STEADY): OK,
    (STABILIZING, Occurrence.UNSTEADY): STABILIZING,
}
"""Figure 6."""

CLUSTER: Final[Table] = {
    (OK, Occurrence.LIGHT): OK,
    (OK, Occurrence.HEAVY): OVERLOADED,
    (OK, Occurrence.BEGAN): BUSY,
    (OK, Occurrence.CHANGED): OK,
    (OK, Occurrence.UNCHANGED): OK,
    (OK, Occurrence.EXPIRED): OK,
    (OVERLOADED, Occurrence.LIGHT): OK,
    (OVERLOADED, Occurrence.HEAVY): OVERLOADED,
    (OVERLOADED, Occurrence.BEGAN): BUSY,
    (OVERLOADED, Occurrence.CHANGED): OVERLOADED,
    (OVERLOADED, Occurrence.UNCHANGED): OVERLOADED,
    (OVERLOADED, Occurrence.EXPIRED): OVERLOADED,
    (BUSY, Occurrence.LIGHT): BUSY,
    (BUSY, Occurrence.HEAVY): BUSY,
    (BUSY, Occurrence.BEGAN): BUSY,
    (BUSY, Occurrence.CHANGED): OK,
    (BUSY, Occurrence.UNCHANGED): OK,
    (BUSY, Occurrence.EXPIRED): OK,
}
"""Figure 7: the same without STABILIZING. The figure is not in our copy of the paper; the text says "a subset"."""

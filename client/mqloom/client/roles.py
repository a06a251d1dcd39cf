"""What the legs of a travelling client are for, and the ways between: what happens, and which there are next.

    legs              event                                  next
    HOME              an order that counts                   HOME + TARGET    record: moving_to
    HOME              its broker refers us elsewhere         HOME + TARGET    the same, if we may go there
    HOME              not served for FAILOVER_S              HOME + TARGET    with another broker of the roster
    HOME + TARGET     the target serves us completely        OLD + HOME       old record: leaving_to
    HOME + TARGET     it refuses, or takes too long          HOME (+ ERASING) record as ever; the target's is deleted
    OLD + HOME        the old gateway has given us all       HOME             old record: moved_to; its session ends
    OLD + HOME        LINGER_S are over                      HOME             its session ends
    HOME + ERASING    connected again, or LINGER_S are over  HOME             its session ends
    HOME              a broker that was left has forgotten   HOME             record: not `left` any more

A later life begins with a leg, and with what it finds there:

    moving_to B       HOME + OLD         we stay; B is left, once we are served
    moved_from A      the same           A is left
    left A            the same           A has given us all, and may not have forgotten us
    leaving_to B      WAITING + TARGET   B first; if it is not there within REACH_S, we are served here
    moved_to B        the same           and if B says that we went on from there, we do
"""

from enum import Enum, auto


class Role(Enum):
    """What a leg is for."""

    HOME = auto()
    """We are served by it; there is one."""
    TARGET = auto()
    """We are about to be served by it."""
    OLD = auto()
    """We were served by it, and get what is under way to it."""
    WAITING = auto()
    """An earlier life has left it for another, which we try first."""
    ERASING = auto()
    """We were not served by it after all, and delete what we wrote there."""

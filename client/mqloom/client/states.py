"""Where a subscriber stands, and the ways between: what happens, what comes next, and what is done.

    state            event                                 next      and
    OFFLINE          Connected                             FINDING   subscribe to the status of gateways
    OFFLINE          Connected, and nothing is wanted *    IDLE
    IDLE             WishAdded                             FINDING   subscribe to the status of gateways
    FINDING          status: alive                         ASKING    subscribe to ctl and out, write the record
    FINDING          Woke: no status after LOOK_S          the same  ask who the gateway here is
    FINDING          who the gateway here is               the same  subscribe to its status
    FINDING          Woke: no gateway after FIND_S         CLOSED    Failed; only if there never was one
    ASKING           the last missing answer               SERVED
    ASKING           every subscription refused            CLOSED    delete the record, Failed
    ASKING           Woke: no answer after ANSWER_S        CLOSED    the same; only if there never was one
    ASKING, SERVED   WishAdded                             ASKING    write the record, not before CHANGE_S
    ASKING, SERVED   WishRemoved                           the same  the same; delete it if nothing is left
    ASKING, SERVED   Woke: a third of the lease is over    the same  write the record
    ASKING, SERVED   status: not alive                     FINDING
    ASKING, SERVED   status: alive in another epoch        ASKING    write the record
    ASKING, SERVED   `ended`, not asked for                ASKING    write the record, not before ASK_AGAIN_S
    ASKING, SERVED   CloseRequested                        CLOSING   delete the record
    OFFLINE - FINDING CloseRequested                       CLOSED    delete the record if it can be, Finished
    IDLE - SERVED    ConnectionLost                        OFFLINE
    CLOSING          the last `ended`, Woke after CLOSE_S,
                     CloseRequested, ConnectionLost        CLOSED    Finished
    CLOSED           anything                              CLOSED    nothing

    * and no record may stand here that asks for something: what was removed while we were away, or the gateway was, is
      still in ours; and an earlier life may have left one, where we are only to see to that.

One that adopts what an earlier life of it has wanted, if its broker had kept its session, reads that first, too:

    OFFLINE          Connected, the session was kept       FINDING   whatever is wanted; then READING
    READING          our own probe, or none after READ_S   ASKING    Adopted, write the record
    READING          the same, and nothing is wanted *     IDLE

One that is moved between brokers (it has a *journey*) reads first what an earlier life of it has left there, and may be
told to leave, when it is served elsewhere.

    FINDING          status: alive, the first time         READING   subscribe to the record, too; write a probe there
    READING          our own probe                         the same  JournalRead
    READING          Woke: no probe after READ_S           the same  write another, READ_TRIES times; then JournalRead,
                                                                     but at home, if publications come, not before
                                                                     READ_HELD_S without any, or READ_HELD_S_MAX
    READING          WishAdded, past READ_TRIES            the same  Unserved
    READING          Proceed                               ASKING    write the record; IDLE if nothing is wanted *
    ASKING, SERVED   Proceed                               the same  write the record
    READING - SERVED LeaveRequested                        LEAVING   write the record with `leaving_to`
    OFFLINE, FINDING LeaveRequested                        the same  later: LEAVING in place of ASKING
    OFFLINE - SERVED LeaveRequested, and nothing is wanted * CLOSED  Finished
    LEAVING          `ended` of all                        CLOSED    write where we are, Finished
    LEAVING          ConnectionLost, status, Woke          as ASKING

Envelopes are delivered in every state in which messages come, but CLOSED. Any other pair is the driver's mistake.
"""

from enum import Enum, auto


class State(Enum):
    """Where a subscriber stands; the table above has the ways between them."""

    OFFLINE = auto()
    IDLE = auto()
    FINDING = auto()
    READING = auto()
    ASKING = auto()
    SERVED = auto()
    LEAVING = auto()
    CLOSING = auto()
    CLOSED = auto()

"""Every bound of the client in one place; what happens at a bound is said beside it."""

from typing import Final

LEASE_S: Final = 60.0
"""For how long the gateway keeps the subscriptions of a client that has gone without a word; renewed at a third."""

SESSION_LEASE_S: Final = 86_400.0
"""The same for a client whose session its broker keeps: for so long what matches is kept there, too."""

READ_S: Final = 2.0
"""How long the record of an earlier life is waited for; then it is asked for again."""

READ_TRIES: Final = 5
"""How often it is asked for; then there is none, as far as we can tell, if no publications may stand before it."""

READ_HELD_S: Final = 60.0
"""How long it is waited for then where publications have come: an application may hold so many that nothing else comes.
If one more has come by then, it is asked for again."""

READ_HELD_S_MAX: Final = 600.0
"""How long that goes on; then there is none, as far as we can tell."""

LOOK_S: Final = 1.0
"""How long a gateway's status may take to come by itself; then we look who the gateway here is, and ask for its own."""

FIND_S: Final = 5.0
"""How long the first gateway is waited for; then it fails."""

ANSWER_S: Final = 30.0
"""How long the first answer is waited for; then it fails: the status may be left over from a gateway long gone."""

ASK_AGAIN_S: Final = 1.0
"""The least time between a record and the next that an `ended` causes: two clients of one name must not race."""

CHANGE_S: Final = 0.1
"""The least time between a record and the next that a change of our own causes; changes in between go together."""

ENDED_S: Final = 15.0
"""How long `ended` is waited for after a subscription was taken out of the record; then it counts as ended anyway."""

GONE_MAX: Final = 1_000
"""Names of ended subscriptions that are remembered; what still comes by an older one would be delivered."""

CLOSE_S: Final = 2.0
"""How long `ended` is waited for when closing; then it is over anyway."""

CONNECT_S: Final = 5.0
"""How long a broker may take to accept a connection, and to answer it; then it fails."""

TRY_AGAIN_S: Final = 0.2
"""The pause between two tries to reach a broker that is not there yet."""

ACKNOWLEDGE_S: Final = 10.0
"""How long a broker may take to acknowledge a publication; then it fails."""

HELD_S: Final = 1.0
"""How long a call with asyncio waits for its answer while messages wait that may be in its way; then it returns."""

LEAVE_S: Final = 2.0
"""How long the last publications are waited for before the connection is closed anyway."""

EXCHANGE_S: Final = 10.0
"""How long a call of the application waits while one connection is exchanged for another; then it goes on as it may."""

HAND_OVER_S: Final = 5.0
"""How long a broker that we leave may take to acknowledge what the application has published there; then it goes to the
next broker, too."""

PASSING_S: Final = 60
"""How long a broker keeps the session of a connection in the background, for a client that wants none to be kept (MQTT
5): long enough to come back to it; then nobody does."""

FORGET_S: Final = 60.0
"""How long a broker that we have left is tried until it has forgotten our session; then its own limit is to do that."""

RECONNECT_S_MAX: Final = 30
"""The longest pause between two tries to get a lost connection back; the first is a second."""

BACKLOG_MAX: Final = 10_000
"""Messages of QoS 0 that wait for a program with asyncio; past that they are dropped, and counted."""

HAPPENINGS_MAX: Final = 10_000
"""What waits for a loop that is busy, or has stopped, while other connections go on in the background; past that what
they bring at QoS 0 is dropped, and counted."""

UNACKNOWLEDGED_MAX: Final = 100
"""Publications sent and not acknowledged; past that `mqloom pub` waits for the oldest before it sends the next."""

MOVE_S: Final = 60.0
"""How long a move may take until we are served at its target, if no order says so; then we stay where we are."""

REACH_S: Final = 10.0
"""How long the broker where an earlier life has moved to may take; then we are served where we are, and try on."""

FAILOVER_S: Final = 30.0
"""How long our broker, or its gateway, may be away; then another of the roster is tried."""

REFER_S: Final = 30.0
"""The least time between two server references that are followed: brokers that refer to each other keep nobody busy."""

MEMORY_LOG_BYTES_MAX: Final = 1_048_576
"""Notes at the end of a memory file; past that the file is written anew, which leaves out what is done with."""

MEMORY_SEQUENCES_MAX: Final = 1_000_000
"""Publications in a memory file; past that those of the origins unheard of for longest are left out."""

MEMORY_BYTES_MAX: Final = 64 * 1_048_576
"""A memory file that is read; a larger one is none of ours, and is set aside."""

MEMORY_AGAIN_S: Final = 5.0
"""How long after a failure a memory file is not written; what is taken meanwhile goes into the next."""

LINGER_S: Final = 600.0
"""How long a broker that we have left is tried until it has given us what was under way; then that is given up."""

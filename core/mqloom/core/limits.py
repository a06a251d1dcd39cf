"""Every bound of the protocol in one place; what happens at a bound is said beside it.

The windows of publications (INTAKE_WINDOW, LINK_WINDOW, FLOW_QUEUE_MAX, LOCAL_WINDOW) count them and do not weigh them.
All that they hold of QoS 1 has come from some broker that was not sent the acknowledgement yet; so in bytes they are
bounded by what brokers hand over without one, which is for their operators to say, times the largest payload: see the
limits in docs/operations.md.
"""

from typing import Final

ID_LENGTH_MAX: Final = 128
"""Characters in a gateway's, client's or subscription's name; longer: refused."""

TOPIC_LENGTH_MAX: Final = 15_000
"""Characters in a topic or topic filter: with our prefix it stays under MQTT's 65,535 bytes; longer: not taken in."""

PAYLOAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""A larger publication stays on its own broker: it is not taken in, and counted."""

USER_PROPERTIES_MAX: Final = 64
"""A publication with more MQTT 5 user properties is not taken in, and counted."""

PROPERTY_LENGTH_MAX: Final = 4_096
"""Characters in a content type, or in the name or value of a user property; a publication with more is not taken in."""

FILTER_TEXT_MAX: Final = 8_192
"""Characters in a WHERE; longer: refused with a message."""

FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger frame is refused by its receiver."""

READ_BYTES_MAX: Final = FRAME_BYTES_MAX + 1024 * 1024
"""Bytes of one MQTT packet that a connection keeps; what is behind that is read, and forgotten. What is left is still
larger than any frame, publication or record may be: whoever it is for refuses it for that, and counts it."""

FRAME_BYTES_TARGET: Final = 256 * 1024
"""A sender starts another frame when this many bytes of payload are in one."""

FRAME_MESSAGES_MAX: Final = 1_024
"""A sender starts another frame after this many messages; a receiver refuses more."""

HOPS_MAX: Final = 64
"""A publication that crossed this many links is dropped, and counted, and so is the announcement of a subscription: the
primary network must have a cycle."""

CONTROL_BYTES_MAX: Final = 64 * 1024
"""The body of one control publication; an agent that sends a larger one is refused."""

TOLD_BYTES_MAX: Final = 64 * 1024
"""What an overlay tells a neighbour in one message; an overlay that says more is refused."""

CONTROL_HOPS_MAX: Final = 64
"""The largest time to live of a control publication, and from how far away an agent can want some."""

SUBJECT_VALUES_MAX: Final = 16
"""Values in the subject of a control publication; an agent that names more is refused."""

SUBJECT_TEXT_MAX: Final = 256
"""Characters in the name or in the text of one of them; longer: refused."""

CONTROL_WHERES_MAX: Final = 16
"""Filters by which an agent wants control publications; an agent that has more is refused."""

CONTROL_WHERE_TEXT_MAX: Final = 2_048
"""Characters in one of them; longer: refused."""

CONTROL_WANTS_MAX: Final = 4_096
"""Agents of other gateways of which a gateway knows what they want; further ones are refused, and counted: control
publications with a subject do not find them through here."""

PROFILE_SAMPLES_MAX: Final = 1_000
"""Publications in the profile that an agent asks for; one that asks for more is refused."""

PROFILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payload bytes of the samples of a profile; past that it ends with those that it has."""

PROFILE_SLICE: Final = 200
"""Subscriptions of a covering set that are tried on samples in one go, within a few ms even where filters are used for
the first time; the rest waits for the next waking."""

PROFILE_KEYS: Final = 50
"""Subscriptions that match a sample and take as long to sort as it takes to try one."""

COMPUTATIONS_MAX: Final = 4
"""Computations of agents that are under way at a gateway; a further one is answered with a problem at once."""

COMPUTE_S: Final = 120.0
"""How long one may take until it is answered with a problem; what comes of it then is passed over."""

AGENT_ANSWER_BYTES_MAX: Final = 512 * 1024
"""The answer of an agent to an operator; a longer one is refused, and the operator told so."""

HELD_MAX: Final = 50_000
"""Publications that a gateway holds at its start until it knows what its own clients want; past that those of QoS 0 are
dropped, and counted."""

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Payload bytes held likewise."""

SEEN_WINDOW: Final = 65_536
"""How far a publication may lag behind its origin's newest and still be told from a duplicate; older: dropped."""

SEEN_ORIGINS_MAX: Final = 4_096
"""Origins remembered for duplicate removal; past that the one unheard of for longest is forgotten."""

MARK_EVERY: Final = 1_024
"""After so many publications of its own a gateway tells all others its low-water mark."""

FENCE_EVERY_S: Final = 0.5
"""The least time between two fences, by which a gateway learns that its broker has read its acknowledgements."""

INTAKE_WINDOW: Final = 8_192
"""Own publications that are not taken care of yet; past that the intake is held until half of them are. More than wait
for a neighbour before they are parked: a neighbour that is away does not hold the others up."""

LINK_WINDOW: Final = 2_048
"""Publications sent to a neighbour that it has not taken care of; more wait."""

ACK_PLACES_MAX: Final = 2 * LINK_WINDOW
"""Publications that an acknowledgement names by themselves; more: refused."""

ASK_S: Final = 5.0
"""After how long without news of what it sent a gateway asks its neighbour: an acknowledgement may have been lost."""

FLOW_QUEUE_MAX: Final = 4_096
"""Publications that wait for a neighbour in memory; past that those of QoS 1 are parked on our own broker, and those of
QoS 0 dropped, and counted."""

SOFT_LINKS_MAX: Final = 256
"""Soft links of one gateway; an overlay that wants more is refused."""

GUESTS_MAX: Final = 1_024
"""Gateways that have soft links to us, as far as we remember; past that the one unheard of for longest is forgotten,
and begins anew."""

PORTRAIT_EVERY_S: Final = 5.0
"""The least time between two portraits of a gateway's links."""

PORTRAIT_LINKS_MAX: Final = 256
"""Links in a portrait; a gateway with more leaves out the last, candidates before others, and says how many."""

PORTRAIT_BYTES_MAX: Final = 512 * 1024
"""A larger portrait is not read."""

INTAKE_BYTES_MAX: Final = 256 * 1024
"""A larger record of what the session of a gateway's intake is subscribed to is not read."""

REPORT_EVERY_S: Final = 5.0
"""How often a gateway writes its report."""

SAMPLE_EVERY_S: Final = 1.0
"""How often a gateway looks at itself for it: its times are good to so much."""

REPORT_LINKS_MAX: Final = 256
"""Links in a report; a gateway with more leaves out the last, and says how many."""

REPORT_COUNTS_MAX: Final = 512
"""Counters, each by reason, in a report; more are left out, and it says how many."""

REPORT_BYTES_MAX: Final = 256 * 1024
"""A larger report is not read."""

METRICS_CONNECTIONS_MAX: Final = 16
"""Connections to a gateway's metrics at a time; more are closed at once."""

METRICS_REQUEST_BYTES_MAX: Final = 8 * 1024
"""A larger request for metrics is refused."""

METRICS_REQUEST_S: Final = 5.0
"""How long a request for metrics, and its answer, may take before the connection is closed."""

DOCTOR_MESSAGES_MAX: Final = 50_000
"""Messages that `mqloom doctor` lets a broker keep; it does not take more."""

DOCTOR_MESSAGE_BYTES: Final = 64
"""The size of each."""

DOCTOR_STEP_S: Final = 5.0
"""How long `mqloom doctor` waits for one answer of a broker; then there is none."""

DOCTOR_QUEUE_S: Final = 60.0
"""How long handing a broker the messages, and how long getting them back, may take."""

DOCTOR_BROKERS_MAX: Final = 8
"""Brokers that `mqloom doctor` examines at the same time; more wait."""

QUESTION_BYTES_MAX: Final = 256 * 1024
"""What somebody asks of a gateway's routes; larger: refused."""

WAYS_MAX: Final = 256
"""Anchors and ways in the answer to a question; more are left out, and counted in it."""

LOCAL_WINDOW: Final = 4_096
"""Messages on their way to our own broker; more wait. A driver takes at least so many."""

REFUSED_AFTER_S: Final = 5.0
"""After how long a message that our own broker acknowledged, and refused, is published again."""

REFUSED_TRIES_MAX: Final = 4
"""Times that it is published; then it goes to the gateway's dead topic, and past so many times there it is dropped, and
counted. Parks and a gateway's own place are tried for ever."""

RESEND_S: Final = 1.0
"""After how long frames without acknowledgement are sent again; each time in vain twice as long, up to 8 times."""

SILENCE_S: Final = 15.0
"""How long a neighbour that seems to be there may leave frames without acknowledgement before it counts as lost."""

ACK_DELAY_S: Final = 0.2
"""How long the acknowledgement that a frame has come waits for the one that it is taken care of, to go together."""

ACK_EVERY_S: Final = 0.010
"""The least time between two acknowledgements to one neighbour, in the long run: what is taken care of meanwhile goes
together."""

ACKS_AT_ONCE: Final = 16
"""Acknowledgements that go without waiting, after a time with fewer."""

FRAME_EVERY_S: Final = 0.002
"""The least time between two frames of publications to one neighbour, in the long run: those that come meanwhile go
together. What else there is to say is said at once, and takes them along."""

FRAME_LARGE: Final = 8
"""Publications of a frame behind which the next waits longer: on a link so busy a frame costs more than time."""

FRAME_LARGE_EVERY_S: Final = 0.005
"""How long it waits, in the long run, if it is not full sooner."""

FRAMES_AT_ONCE: Final = 16
"""Frames that go without waiting, after a time with fewer."""

GATHER_TIMES: Final = 5
"""So many times as long as a batch took to take in, from its beginning, the next one waits: without load hardly any."""

GATHER_S_MAX: Final = 0.0025
"""How long after the beginning of the last one it waits at most."""

PUBLISHED_EVERY_S: Final = 0.011
"""The least time between two looks at what our broker has acknowledged. More than ACK_EVERY_S: nothing waits twice."""

PUBLISHED_AT_ONCE: Final = 16
"""Times without waiting, after a time with fewer."""

FRAME_FULL: Final = 64
"""Publications that wait for no others any more: one byte of a frame's own is then little beside theirs."""

RESEND_FRAMES_MAX: Final = 256
"""Frames sent again in one go."""

EARLIER_PARKED_S: Final = 600.0
"""How long after our first marker what earlier epochs parked still counts, if the broker may send it again late."""

PARKED_RANGES_MAX: Final = 1_024
"""Ranges of numbers of parked frames that are done; past that the lowest is forgotten, and could come again."""

MARKER_S: Final = 10.0
"""How long the marker at the end of a park may take to come back before another is written: the broker may have lost
its store."""

REPLAY_WINDOW: Final = 1_024
"""How far a sealed frame may lag behind the newest of its sender and still be told from a copy; older: refused."""

CHALLENGE_EVERY_S: Final = 1.0
"""The least time between two challenges to one run of a gateway, by which it learns our nonce."""

REQUESTS_MAX: Final = 256
"""Sealed orders and questions whose numbers are remembered; what is older than all of these is refused."""

SESSIONS_MAX: Final = 4_096
"""Gateways whose nonces are known; frames of more are refused. None is forgotten: its old frames would count again."""

RECORD_BYTES_MAX: Final = 1024 * 1024
"""A client's subscription record; larger: refused."""

RECORD_SUBSCRIPTIONS_MAX: Final = 1_000
"""Subscriptions in one client's record; more: refused."""

MIRROR_CHUNKS: Final = 64
"""Retained messages over which the mirror of clients' records is spread; a change rewrites one of them."""

MIRROR_CHUNK_BYTES_MAX: Final = 1024 * 1024
"""Bytes in one of them; a record that does not fit is not mirrored, and counted: after a restart of the gateway its
client has to write it again."""

MIRROR_EVERY_S: Final = 0.2
"""The least time between two writes of the mirror; what changes meanwhile waits."""

RECORDS_PER_S: Final = 20.0
"""Records that one client may write in the long run; past that, and RECORDS_BURST at once, they are refused."""

RECORDS_BURST: Final = 200

ANSWERS_PER_S: Final = 100.0
"""Refusals of records, orders and questions that are answered, of all clients together; past that, and ANSWERS_BURST at
once, they are only counted."""

ANSWERS_BURST: Final = 1_000

QUESTIONS_PER_S: Final = 50.0
"""Questions about routes that are looked at; past that, and QUESTIONS_BURST at once, they are only counted."""

QUESTIONS_BURST: Final = 100

TOKEN_LENGTH_MAX: Final = 1_024
"""Characters in a client's token; longer: its record is refused."""

CLIENTS_MAX: Final = 100_000
"""Clients with subscriptions at one gateway; a newcomer past that is refused."""

GROUPS_GONE_MAX: Final = 10_000
"""Groups that have lost their last subscriber and wait to be told so in telemetry; further ones are not told."""

PLAIN_FILTERS_MAX: Final = 10_000
"""Topic filters of the plain clients of one broker; further ones are not federated, and counted."""

PLAIN_FILTERS_PER_CLIENT_MAX: Final = 1_000
"""Topic filters of one plain client; further ones are passed over, counted, and logged."""

ECHOES_MAX: Final = 65_536
"""Republished publications that the broker has not handed back yet; past that the oldest is forgotten, and taken for a
new one if it comes."""

ECHO_S: Final = 10.0
"""How long a republished publication of QoS 0, or the second copy of one of QoS 1, is expected to be handed back."""

ECHO_KEPT_S: Final = 600.0
"""How long one of QoS 1 is expected, if the broker does not say that it has lost our session. The time that the intake
is held does not count."""

LINK_GRACE_S: Final = 5.0
"""How long a link that is not there yet, or lost, is waited for before the federation goes on without it."""

HELLO_EVERY_S: Final = 2.0
"""How often a gateway greets a neighbour that has not answered."""

AGENT_RETRY_S: Final = 10.0
"""How long after it raised on waking an agent is woken again."""

ENDING_MAX: Final = 2_000
"""Subscriptions of one client that are ending; its next record is refused until fewer are."""

FLUSH_DEADLINE_S: Final = 10.0
"""How long an unsubscription waits for publications under way before it is carried out anyway."""

FLUSH_AGAIN_S: Final = 1.0
"""After what time the next wave is sent for a client that moves away, if one has not reached everybody."""

LEAVING_S: Final = 600.0
"""How long a client that moves away is served until a wave has reached everybody; then that ends anyway, counted."""

VISITED_MAX: Final = 8
"""Brokers where a client has been that its record names; past that the one left longest ago is not."""

POINTERS_MAX: Final = 100_000
"""Clients that have moved away and left word where they are; past that the oldest word is deleted."""

PATH_MAX: Final = 64
"""Gateways on the path of a move."""

PROBLEM_MAX: Final = 500
"""Characters in the reason for which a move must not be."""

MOVE_S: Final = 30.0
"""How long a move may take until the gateway stays where it is."""

FREEZE_S: Final = 600.0
"""How long soft links keep off the path of a move of which nothing more is heard: its gateway crashed, and for good."""

HOLD_S: Final = 3.0
"""How long what is for the old neighbour of a move is held at a time. It must be less than LINK_GRACE_S: what somebody
on the path has parked meanwhile would come too late."""

PARTED_MAX: Final = 64
"""Gateways from which a gateway has parted, as far as it remembers; past that the first is forgotten."""

PARTED_EVERY_S: Final = 1.0
"""The least time between two answers to one who believes itself a neighbour, and is not any more."""

PLACE_BYTES_MAX: Final = 256 * 1024
"""A larger record of a gateway's neighbours is not read."""

ORDER_S_MAX: Final = 3_600.0
"""How long an order to a client may be good for; one that is made for longer is refused."""

CLOCK_SKEW_S: Final = 60.0
"""How far the clocks of a client and of a gateway may differ; past that orders are refused, and it is said by
how much."""

ORDER_BYTES_MAX: Final = 8 * 1024
"""A larger order to a client, or answer to one, is refused."""

SESSIONS_OBEYED_MAX: Final = 1_024
"""Orders that a client has obeyed and that would still count, were they not remembered; further ones are refused."""

MIGRATION_S: Final = 60.0
"""How long a client may take until the broker to which it is moved serves it, if nothing is said; then it stays."""

MIGRATION_GRACE_S: Final = 30.0
"""How much longer a gateway waits for the last word of a client that leaves it; then it counts as silent."""

MIGRATION_JOBS_MAX: Final = 16
"""Requests of operators to move clients that one gateway works on; more are refused until one is done."""

MIGRATION_CLIENTS_MAX: Final = 1_000
"""Clients named in one request; more: refused."""

MIGRATION_WATCHERS_MAX: Final = 16
"""Operators who are told how far one drain is; past that the first is told no more."""

MIGRATION_PROBLEMS_MAX: Final = 20
"""Clients that stayed that an operator is told by name; further ones are counted."""

MIGRATION_WORD_S: Final = 0.5
"""The least time between two words to an operator about how far it is."""

MIGRATION_SILENCE_S: Final = 5.0
"""The most time between two of them, so that an operator knows that somebody is at work."""

AT_ONCE: Final = 50
"""Clients that are moved at the same time, if nothing else is said; more wait."""

AT_ONCE_MAX: Final = 1_000

DRAIN_TRIES_MAX: Final = 3
"""Orders to one client that stays, in one drain; then it is left where it is, until the drain is ordered again."""

DRAIN_REST_S: Final = 10.0
"""How long a client that stayed is left alone before the next."""

ROSTER_BROKERS_MAX: Final = 2_048
"""Brokers in a roster; a larger one is not read, and not written."""

ROSTER_BYTES_MAX: Final = 512 * 1024
"""A larger roster is not read."""

ROSTER_EVERY_S: Final = 1.0
"""The least time between two corrections of the roster on our broker, should somebody else write it."""

HOST_LENGTH_MAX: Final = 255
"""Characters in the name of a host in a roster."""

REFERENCE_LENGTH_MAX: Final = 4_096
"""Characters in a server reference of MQTT 5; a longer one is not read."""

REFERENCES_MAX: Final = 16
"""Places in a server reference that are looked at; the rest is left out."""

RELOADS_MAX: Final = 16
"""Operators who wait until a gateway has read its configuration again; more are refused."""

RELOAD_EVERY_S: Final = 1.0
"""The least time between two readings of the configuration; what is ordered meanwhile is one."""

DRIVER_BATCH_MAX: Final = 512
"""Publications or frames that a driver hands to a core in one event; the rest waits for the next."""

DRIVER_BACKLOG_MAX: Final = 50_000
"""Messages a driver holds for its core; past that those of QoS 0 are dropped and counted. Past half of it no more are
read from the network (with paho they are), unless the intake is paused: then what the broker hands over of QoS 1 is
taken, and only the broker's own window bounds it. To read nothing more would be no way out: by the same connection come
acknowledgements that others wait for, and whom we may be waiting for ourselves."""

DRIVER_BACKLOG_BYTES_MAX: Final = 256 * 1024 * 1024
"""Payload bytes likewise, and with the same exception."""

STATUS_EVERY_S: Final = 1.0
"""The least time between two corrections of our own status, should somebody else write it."""

LINK_QUEUE_MAX: Final = 10_000
"""Messages that wait for a broker: past half of it the gateway takes nothing in until a quarter is left, and while the
broker is away new ones past it are dropped, and counted."""

IN_FLIGHT_MAX: Final = 1_000
"""Messages of QoS 1 that a connection has written without their PUBACK, if the broker allows so many; more wait. With a
tenth of it both stood still for each other on a busy machine, where each gets its turn every few milliseconds only."""

PAHO_IN_FLIGHT_MAX: Final = 100
"""The same for paho's client, which is slower with more."""

PENDING_MAX: Final = 60_000
"""Messages of QoS 1 waiting for a broker that is there, or in flight; more are refused. MQTT has 65,535 packet ids."""

RECONNECT_S_MIN: Final = 1.0
"""How long at most a connection waits before the first try to come back, and half of it at least; then twice as long
each time."""

RECONNECT_S_MAX: Final = 15.0
"""How long at most it waits at all. It never gives up."""

ANSWER_S_MAX: Final = 5.0
"""How long a broker may take to say which MQTT it speaks; then it counts as away, and is tried again."""

UNANSWERED_MAX: Final = 2
"""Times that a broker may close the connection when asked for MQTT 5 before 3.1.1 is tried."""

LINK_QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that wait for the network to a broker; what happens is as with LINK_QUEUE_MAX, whichever is reached first."""

WRITE_BYTES_MAX: Final = 256 * 1024
"""Bytes that a connection hands to the network at a time; more wait, and are counted as waiting."""

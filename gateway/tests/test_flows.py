"""What waits for a neighbour: scripts for every mode."""

import pytest

from mqloom.core.ids import Conversation, PublicationId
from mqloom.core.limits import FLOW_QUEUE_MAX, FRAME_MESSAGES_MAX, MARKER_S
from mqloom.core.messages import Flush, Synced
from mqloom.core.publication import Publication
from mqloom.core.wire import Frame, decode, encode
from mqloom.gateway.custody import FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.flows import LITTLE, Mode
from mqloom.lab.flow_gate import US, FlowGate, sequences


def mode_of(bench: FlowGate) -> Mode:
    return bench.flow.mode


def markers(bench: FlowGate) -> list[int]:
    return [decode(data).conversation.number for _, data in bench.park if not decode(data).messages]


# ---- the modes ---------------------------------------------------------------------------------------------------


def test_it_begins_by_holding_because_something_may_be_in_the_park() -> None:
    bench = FlowGate()
    assert mode_of(bench) is Mode.HOLD
    bench.post(2)
    bench.up()
    assert bench.take() == []
    assert bench.flow.held == 2
    bench.give_back()
    assert sequences(bench.take()) == [0, 1]
    assert bench.park == []  # the marker is acknowledged


def test_what_a_former_life_parked_goes_out_first() -> None:
    bench = FlowGate()
    old = Publication(US, 0, 77, 0, 1, "t", b"", 1)
    bench.park.append((-1, encode(Frame(US, Conversation(0, 0), 0, (old,)))))
    bench.park.append((-2, encode(Frame(US, Conversation(0, 1), 0, ()))))  # its marker, which proves nothing
    bench.post()
    bench.up()
    assert bench.give_back(2) == [77]
    assert sequences(bench.take()) == [77]
    assert mode_of(bench) is Mode.HOLD
    bench.give_back()
    assert sequences(bench.take()) == [0]


def test_direct_goes_out_as_far_as_there_is_room_and_qos_0_takes_none() -> None:
    bench = FlowGate().direct()
    bench.post(2)
    bench.post(2, qos=0)
    bench.post_wave()
    bench.post(1)
    assert sequences(bench.take(1)) == [0]
    assert bench.take(0) == []
    entries = bench.take(1)
    assert sequences(entries) == [1, 2, 3]
    assert entries[-1].message == Flush(US, 1, 0)
    assert sequences(bench.take(1)) == [4]


def test_given_up_everything_of_qos_1_is_parked_and_the_rest_dropped_and_counted() -> None:
    bench = FlowGate().direct()
    bench.lose()
    bench.post(3)
    bench.post(2, qos=0)
    bench.post_wave()
    assert bench.park == []
    bench.give_up()
    assert len(bench.park) == 1  # one message for all three
    assert bench.of_clients() == [0, 1, 2]
    assert bench.counters.reasons("publications_dropped") == {"link down": 2}
    assert bench.counters.total("publications_parked") == 3
    assert bench.flow.held == 0
    bench.post()
    assert len(bench.park) == 2


def test_what_is_parked_is_acknowledged_only_when_the_broker_has_it() -> None:
    bench = FlowGate()
    bench.answers = False
    bench.give_up()
    bench.post(2)
    assert bench.of_clients() == []
    bench.answer()
    assert bench.of_clients() == [0, 1]


def test_large_batches_are_parked_in_messages_of_a_frame_each() -> None:
    bench = FlowGate()
    for _ in range(FRAME_MESSAGES_MAX + 1):
        bench.flow.post(Entry(Publication(US, 1, 0, 0, 1, "t", b"", 1), bench.custody.begin(FromBroker(0))))
    bench.give_up()
    assert [len(decode(data).messages) for _, data in bench.park] == [FRAME_MESSAGES_MAX, 1]
    assert len(bench.of_clients()) == FRAME_MESSAGES_MAX + 1


def test_the_park_is_drained_in_order_before_anything_newer_goes_out() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post(2)
    bench.post(1)
    bench.up()
    assert len(markers(bench)) == 1
    bench.post(1)  # into the park, behind the marker
    assert bench.give_back(2) == [0, 1, 2]
    assert mode_of(bench) is Mode.PARK
    assert sequences(bench.take()) == [0, 1, 2]
    bench.give_back(1)  # the marker: little is behind it
    assert mode_of(bench) is Mode.HOLD
    bench.post(1)  # waits in memory
    assert bench.take() == []
    assert bench.give_back(1) == [3]
    assert sequences(bench.take()) == [3]
    bench.give_back(1)  # the second marker: nothing is behind it
    assert mode_of(bench) is Mode.DIRECT
    assert sequences(bench.take()) == [4]


def test_a_parked_message_is_acknowledged_when_the_neighbour_has_taken_care_of_all_in_it() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post(1)
    bench.flow.post(Entry(Publication(US, 1, 7, 0, 1, "t", b"", 1), bench.custody.begin(FromBroker(7))))
    bench.post(1)  # together with the one before
    assert len(bench.park) == 2
    bench.up().give_back()
    entries = bench.take()
    bench.finish(entries[1:])
    assert len(bench.park) >= 3  # both, and a marker: acknowledged in order
    bench.finish(entries[:1])
    assert bench.park == []


def test_a_break_gives_back_what_was_not_taken_care_of_once_more() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post(2)
    bench.up().give_back()
    entries = bench.take()
    bench.lose()
    bench.flow.post_again(entries)  # what is in the park still comes from there
    assert bench.flow.held == 0
    bench.up()
    assert bench.give_back() == [0, 1]
    again = bench.take()
    assert sequences(again) == [0, 1]
    bench.finish(again)
    assert bench.park == []


def test_what_was_sent_in_vain_goes_first_when_the_link_is_back() -> None:
    bench = FlowGate().direct()
    bench.post(2)
    entries = bench.take()
    bench.post(1)
    bench.flow.post_again(entries)
    bench.lose()
    bench.up()
    assert bench.take() == []
    bench.give_back()
    assert sequences(bench.take()) == [0, 1, 2]


def test_when_too_much_waits_it_is_parked_and_counted() -> None:
    bench = FlowGate().direct()
    bench.post(FLOW_QUEUE_MAX)
    assert mode_of(bench) is Mode.DIRECT
    assert bench.of_clients() == []
    bench.post(1)
    assert mode_of(bench) is Mode.PARK
    assert bench.counters.reasons("flows_parked") == {"queue": 1}
    assert len(bench.of_clients()) == FLOW_QUEUE_MAX + 1
    assert len(markers(bench)) == 1  # the link is up: see when the park is empty
    bench.give_back()
    assert mode_of(bench) is Mode.DIRECT
    assert sequences(bench.take()) == list(range(FLOW_QUEUE_MAX + 1))


@pytest.mark.parametrize(("behind", "mode"), [(LITTLE, Mode.HOLD), (LITTLE + 1, Mode.PARK)])
def test_only_if_little_is_behind_the_marker_newer_ones_wait_in_memory(behind: int, mode: Mode) -> None:
    bench = FlowGate()
    bench.give_up()
    bench.up()
    bench.post(behind)
    bench.give_back(1)
    assert mode_of(bench) is mode
    assert len(markers(bench)) == 1  # another one


def test_what_waits_behind_a_marker_may_be_too_much_as_well() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.up()
    bench.post(1)
    bench.give_back(1)
    assert mode_of(bench) is Mode.HOLD
    bench.post(FLOW_QUEUE_MAX + 1)
    assert mode_of(bench) is Mode.PARK
    seen: list[int] = []
    while mode_of(bench) is not Mode.DIRECT:
        bench.give_back(1)
        seen += sequences(bench.take())
    assert seen == list(range(FLOW_QUEUE_MAX + 2))


# ---- markers -----------------------------------------------------------------------------------------------------


def test_a_marker_that_does_not_come_back_is_written_again() -> None:
    bench = FlowGate()
    bench.post()
    bench.up()
    assert bench.flow.deadline == MARKER_S
    bench.park.clear()  # the broker has lost its store
    bench.now = MARKER_S - 0.1
    bench.flow.wake(bench.now)
    assert bench.flow.deadline == MARKER_S
    bench.now = MARKER_S
    bench.flow.wake(bench.now)
    bench.drain()
    assert markers(bench) == [2]
    bench.give_back()
    assert bench.flow.deadline is None
    assert sequences(bench.take()) == [0]


def test_a_marker_is_waited_for_as_long_as_anything_comes_out_of_the_park() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post()
    bench.up()
    bench.now = MARKER_S - 1
    bench.give_back(1)
    assert bench.flow.deadline == 2 * MARKER_S - 1


def test_a_marker_that_was_written_again_counts_and_the_first_one_does_not() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.up()
    bench.now = MARKER_S
    bench.flow.wake(bench.now)
    bench.drain()
    assert markers(bench) == [1, 2]
    bench.give_back(1)
    assert mode_of(bench) is Mode.PARK
    bench.give_back(1)
    assert mode_of(bench) is Mode.DIRECT


def test_a_lost_link_waits_for_no_marker() -> None:
    bench = FlowGate().up()
    bench.lose()
    assert bench.flow.deadline is None
    bench.lose()  # told again


# ---- strange things in the park ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\xc1",
        encode(Frame(US, Conversation(1, 1), 0, (Synced(),))),
        encode(Frame(US, Conversation(9, 9), 0, ())),
    ],
)
def test_what_is_no_parked_publication_is_acknowledged_so_that_the_rest_goes_on(data: bytes) -> None:
    bench = FlowGate()
    bench.park.append((-1, data))
    bench.give_up()
    bench.post()
    bench.up().give_back()
    bench.finish(bench.take())
    assert bench.park == []
    assert mode_of(bench) is Mode.DIRECT


def test_what_comes_out_of_a_park_that_is_closed_comes_again() -> None:
    bench = FlowGate()
    data = encode(Frame(US, Conversation(1, 0), 0, (Publication(US, 1, 0, 0, 1, "t", b"", 1),)))
    assert bench.flow.parked(data, 1, 0.0) == ()
    assert bench.flow.drain(0.0) == []


def test_nothing_overtakes_what_came_out_of_the_park_and_waits_for_room() -> None:
    # A publication of QoS 0 has its origin's mark: a receiver would take what it overtook for done with.
    bench = FlowGate()
    bench.give_up()
    bench.post(2)
    bench.up().give_back()
    assert mode_of(bench) is Mode.DIRECT
    bench.post(1, qos=0)
    bench.post_wave()
    assert sequences(bench.take(1)) == [0]
    assert bench.take(0) == []
    entries = bench.take(1)
    assert sequences(entries) == [1, 2]
    assert entries[-1].message == Flush(US, 1, 0)


def test_ids_are_kept_through_the_park() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post()
    bench.up().give_back()
    (entry,) = bench.take()
    assert isinstance(entry.message, Publication)
    assert entry.message.id == PublicationId(US, 1, 0)
    assert entry.is_parked


# ---- while a primary link is moved ---------------------------------------------------------------------------------


def test_what_is_held_goes_out_as_far_as_it_was_there_and_the_rest_when_it_is_released() -> None:
    bench = FlowGate().direct()
    bench.post(2)
    bench.post_wave()
    bench.flow.hold()
    bench.post(2)
    bench.post(1, qos=0)
    assert sequences(bench.take(1)) == [0]
    assert len(bench.take()) == 2
    assert bench.take() == []
    bench.flow.release()
    assert sequences(bench.take()) == [2, 3, 4]


def test_what_comes_out_of_the_park_is_not_held() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post(1)
    bench.up()
    bench.flow.hold()
    bench.give_back()
    assert sequences(bench.take()) == [0]


def test_everything_that_waits_in_memory_can_be_given_away_in_order() -> None:
    bench = FlowGate()
    bench.give_up()
    bench.post(1)
    bench.up()
    bench.give_back(2)  # the publication and the first marker: little is behind it
    bench.give_back()
    bench.post(2)
    bench.flow.hold()
    assert sequences(bench.flow.take_all()) == [0, 1, 2]
    assert (bench.flow.take_all(), bench.flow.held) == ([], 0)
    bench.post(1)  # it is not held any more
    assert sequences(bench.take()) == [3]


def test_what_is_held_may_be_parked_until_it_is_decided_that_another_gets_it() -> None:
    bench = FlowGate().direct()
    bench.flow.hold()
    bench.post(2)
    bench.lose()
    bench.give_up()
    assert len(bench.park) == 1
    assert not bench.flow.is_clear


def test_what_another_neighbour_gets_is_never_parked() -> None:
    """The park would be discarded with the link, and what is in it lost."""
    bench = FlowGate().direct()
    bench.flow.hold()
    bench.flow.pin()
    bench.post(FLOW_QUEUE_MAX)
    bench.post(1, qos=0)
    bench.lose()
    bench.give_up()
    bench.post(1)
    assert bench.park == []
    assert bench.of_clients() == []
    assert sequences(bench.flow.take_all()) == [*range(FLOW_QUEUE_MAX), FLOW_QUEUE_MAX + 1]
    assert bench.counters.reasons("publications_dropped") == {"link down": 1}
    bench.give_up()  # for the next link there it is as before
    bench.post(1)
    assert len(bench.park) == 1

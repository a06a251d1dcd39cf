from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import DroppedRecord, Record, ServiceRecord, decode_batch, decode_records
from mqloom.core.telemetry_outbox import GATHER_S, IN_FLIGHT_MAX, RESEND_S, Kept, TelemetryOutbox

NORTH = GatewayId("north")


def outbox(held_max: int = 1_000_000) -> TelemetryOutbox:
    return TelemetryOutbox(NORTH, 7, lambda: 1_000.0, held_max)


def record(number: int) -> ServiceRecord:
    return ServiceRecord(0.0, number, 0.001, 1)


def read(batches: list[bytes]) -> dict[int, Record]:
    return {number: found for data in batches for number, found in decode_records(decode_batch(data))}


def test_records_wait_a_moment_for_others_and_then_travel_together() -> None:
    box = outbox()
    box.offer(record(1), 0.0)
    box.offer(record(2), 0.1)
    assert box.due(0.1) == []
    assert box.deadline == GATHER_S
    assert read(box.due(GATHER_S)) == {1: record(1), 2: record(2)}


def test_what_is_not_confirmed_is_sent_again_after_a_while_and_what_is_confirmed_never() -> None:
    box = outbox()
    box.offer(record(1), 0.0)
    first = box.due(0.0, all_of_it=True)
    assert box.due(RESEND_S - 0.1) == []
    assert box.due(RESEND_S) == first
    box.confirmed(Kept(NORTH, 7, 1))
    assert box.due(100.0) == []
    assert box.held_bytes == 0
    assert box.deadline is None


def test_after_a_lost_connection_everything_that_is_not_confirmed_is_sent_again_at_once() -> None:
    box = outbox()
    box.offer(record(1), 0.0)
    first = box.due(0.0, all_of_it=True)
    box.lost()
    assert box.due(0.1) == first


def test_it_is_settled_only_when_what_was_dropped_is_told_too() -> None:
    box = outbox(40)
    for number in range(4):
        box.offer(record(number), 0.0)
    assert box.dropped > 0
    box.due(0.0, all_of_it=True)
    box.confirmed(Kept(NORTH, 7, 4 - box.dropped))
    assert box.held_bytes == 0
    assert not box.is_settled
    [told] = read(box.due(1.0, all_of_it=True)).values()
    assert isinstance(told, DroppedRecord)
    box.confirmed(Kept(NORTH, 7, box.emitted))
    assert box.is_settled


def test_an_answer_about_another_gateway_or_another_start_confirms_nothing() -> None:
    box = outbox()
    box.offer(record(1), 0.0)
    box.due(0.0, all_of_it=True)
    box.confirmed(Kept(GatewayId("south"), 7, 1))
    box.confirmed(Kept(NORTH, 6, 1))
    assert box.held_bytes > 0


def test_only_so_many_batches_are_under_way_at_once() -> None:
    box = outbox()
    for number in range(IN_FLIGHT_MAX + 5):
        box.offer(record(number), 0.0)
        box.due(0.0, all_of_it=True)
    box.lost()
    assert len(box.due(0.0)) == IN_FLIGHT_MAX


@given(st.lists(st.sampled_from(["offer", "send", "confirm", "lose"]), max_size=200), st.integers(60, 400))
def test_every_record_is_kept_by_the_collector_or_told_as_dropped(steps: list[str], held_max: int) -> None:
    box, kept, now = outbox(held_max), {}, 0.0
    sent: list[bytes] = []

    def confirm() -> None:
        for data in sent:
            kept.update(read([data]))
        if sent:
            header = decode_batch(sent[-1]).header
            box.confirmed(Kept(NORTH, 7, header.first + header.count - 1))
        sent.clear()

    for number, step in enumerate(steps):
        now += 0.3
        if step == "offer":
            box.offer(record(number), now)
        elif step == "send":
            sent += box.due(now, all_of_it=True)
        elif step == "confirm":
            confirm()
        else:
            box.lost()
            sent.clear()
        assert box.held_bytes <= held_max + 100  # the envelope of a batch
    for _ in range(400):
        now += RESEND_S
        sent += box.due(now, all_of_it=True)
        confirm()
    told = {
        number
        for each in kept.values()
        if isinstance(each, DroppedRecord)
        for number in range(each.first, each.first + each.amount)
    }
    assert told.isdisjoint(kept)
    assert told | set(kept) == set(range(1, box.emitted + 1))
    assert len(told) == box.dropped

"""How often something leaves: alone, and as a node sends frames and acknowledgements by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.events import Woke
from mqloom.core.limits import ACK_EVERY_S, ACKS_AT_ONCE, FRAME_EVERY_S, FRAME_FULL, FRAMES_AT_ONCE
from mqloom.core.messages import Announce
from mqloom.core.publication import Publication
from mqloom.gateway.cadence import Cadence
from mqloom.lab.gate import ANN, A, B, Gate, acks, key, publication, sent, wakings, with_two
from mqloom.lab.woven import up

EVERY_S, AT_ONCE = 0.125, 3


def test_so_many_leave_at_once_and_then_one_each_interval() -> None:
    cadence = Cadence(EVERY_S, AT_ONCE)
    for _ in range(AT_ONCE):
        assert cadence.due_at <= 100.0
        cadence.went(100.0)
    assert cadence.due_at == pytest.approx(100.0 + EVERY_S)
    cadence.went(cadence.due_at)
    assert cadence.due_at == pytest.approx(100.0 + 2 * EVERY_S)


@given(st.lists(st.floats(0.0, 5 * EVERY_S), min_size=1, max_size=60))
def test_nobody_waits_longer_than_one_interval_and_nobody_who_keeps_it_waits(pauses: list[float]) -> None:
    hasty, patient, at = Cadence(EVERY_S, AT_ONCE), Cadence(EVERY_S, AT_ONCE), 0.0
    for pause in pauses:
        at += pause
        hasty.went(at)  # whether it is due or not
        assert hasty.due_at <= at + EVERY_S * 1.000001
    at = 0.0
    for pause in pauses:
        at += EVERY_S + pause
        assert patient.due_at <= at
        patient.went(at)


def burst() -> Gate:
    """Return a node that has just sent so many frames to A that the next waits."""
    gate = with_two()
    gate.now = 1.0
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    while sent(gate.publish(b"{}"), A):
        assert gate.places[A] <= FRAMES_AT_ONCE
    return gate


def publications(gate: Gate, *, now: float) -> int:
    gate.now = now
    return sum(isinstance(each, Publication) for each in sent(gate.handle(Woke()), A))


def test_frames_that_follow_each_other_fast_fill_up_and_wait_for_one_interval_at_most() -> None:
    gate = burst()
    assert gate.places[A] >= FRAMES_AT_ONCE - 1  # what the link has said before counts
    assert sent(gate.publish(b"{}", b"{}"), A) == []
    assert publications(gate, now=1.0 + FRAME_EVERY_S / 2) == 0
    assert publications(gate, now=1.0 + FRAME_EVERY_S * 1.01) == 3


def test_a_node_that_lets_a_frame_fill_up_asks_to_be_woken() -> None:
    gate = burst()
    gate.now = 1.0 + FRAME_EVERY_S * 1.01
    gate.handle(Woke())
    assert min(wakings(gate.publish(b"{}"))) <= gate.now + FRAME_EVERY_S


def test_below_the_cadence_every_publication_leaves_at_once() -> None:
    gate = burst()
    gate.now += 1.0
    for _ in range(100):
        gate.now += FRAME_EVERY_S
        assert len(sent(gate.publish(b"{}"), A)) >= 1
        gate.ack(A)


def test_a_frame_that_is_full_waits_for_nothing() -> None:
    gate = burst()
    assert len(sent(gate.publish(*[b"{}"] * FRAME_FULL), A)) == FRAME_FULL + 1


def test_what_else_is_said_waits_for_nothing_and_takes_publications_along() -> None:
    gate = burst()
    effects = gate.record(ANN, {"one": ("b/#", "")})
    assert [type(each) for each in sent(effects, A)] == [Announce, Publication]


def test_a_burst_to_one_neighbour_does_not_have_another_wait() -> None:
    gate = burst()
    gate.hear(B, Announce(key(B, 1), "b/#", ""))
    assert len(sent(gate.publish(b"{}", topic="b/b"), B)) == 1


def test_acknowledgements_that_follow_each_other_fast_are_said_together() -> None:
    gate = with_two()
    gate.now = 1.0
    said, number = 0, 0
    while acks(gate.hear(A, publication(number)), A):
        said, number = said + 1, number + 1
        assert said <= ACKS_AT_ONCE
    assert said >= ACKS_AT_ONCE - 2  # what the link has said before counts
    effects = gate.hear(A, publication(number + 1))
    assert acks(effects, A) == []
    gate.now = 1.0 + ACK_EVERY_S * 1.01
    [(_, done)] = acks(gate.handle(Woke()), A)
    assert done == number + 2


def test_soft_links_fill_frames_likewise() -> None:
    weft = up()
    while weft.post(1) and weft.frames:
        assert weft.posted <= FRAMES_AT_ONCE
    weft.post(1)
    assert weft.frames == []
    assert [len(frame.messages) for frame in weft.wait(FRAME_EVERY_S * 1.01).frames] == [2]

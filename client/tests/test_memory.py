"""What a memory file holds: against a memory that was never written down, and torn at every byte."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.client.memory import (
    FORMAT,
    MAGIC,
    Taken,
    UnreadableError,
    beginning,
    frame,
    new_seen,
    read,
    remember,
    taken_of,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.seen import HELD_TIMES, Seen, lasting_print_of

ME = ClientId("me")
A, B = GatewayId("A"), GatewayId("B")


def publication(
    sequence: int, *, origin: GatewayId = A, epoch: int = 1, low_water: int = 0, packet: int = 0, repeat: bool = False
) -> Publication:
    payload = b"%d" % packet
    return Publication(origin, epoch, sequence, low_water, 0, "t", payload, 1, packet=packet, repeat=repeat)


def is_known(seen: Seen, each: Publication) -> bool:
    return seen.earlier(each) is not None


@dataclass(frozen=True)
class Step:
    origin: GatewayId
    epoch: int
    sequence: int
    low_water: int
    is_written_anew: bool


steps = st.builds(
    Step, st.sampled_from([A, B]), st.integers(1, 3), st.integers(0, 50), st.integers(0, 50), st.booleans()
)


@given(st.lists(steps, max_size=60))
def test_a_later_life_knows_what_an_earlier_one_has_taken_wherever_the_file_was_written_anew(
    script: list[Step],
) -> None:
    plain = new_seen()
    mirror = new_seen()
    data = beginning(ME, mirror)
    for step in script:
        each = publication(
            step.sequence, origin=step.origin, epoch=step.epoch, low_water=step.low_water, packet=1 + step.sequence
        )
        if plain.earlier(each) is None:
            taken = taken_of(each, low_water=each.low_water)
            remember(mirror, taken)
            data += frame(taken)
        if step.is_written_anew:
            data = beginning(ME, mirror)
    later = new_seen()
    assert read(data, ME, later) == 0
    for origin in (A, B):
        for epoch in (1, 2, 3):
            for sequence in range(51):
                again = publication(sequence, origin=origin, epoch=epoch, packet=60_000)
                assert is_known(later, again) == is_known(plain, again)


def test_torn_at_any_byte_what_stands_before_counts_and_nothing_else() -> None:
    notes = [frame(taken_of(publication(sequence, packet=sequence), low_water=0)) for sequence in (5, 6, 7)]
    start = beginning(ME, new_seen())
    data = start + b"".join(notes)
    for end in range(len(start), len(data)):
        seen = new_seen()
        whole = [len(start) + sum(map(len, notes[:count])) for count in range(4)]
        count = max(index for index, position in enumerate(whole) if position <= end)
        assert read(data[:end], ME, seen) == end - whole[count]
        known = [sequence for sequence in (5, 6, 7) if is_known(seen, publication(sequence))]
        assert known == [5, 6, 7][:count]


def test_a_byte_that_is_not_what_it_was_ends_the_file_there() -> None:
    start = beginning(ME, new_seen())
    note = frame(taken_of(publication(5), low_water=0))
    for position in range(len(note)):
        changed = bytearray(start + note + note)
        changed[len(start) + position] ^= 1
        seen = new_seen()
        assert read(bytes(changed), ME, seen) > 0
        assert not is_known(seen, publication(5))


@pytest.mark.parametrize("end", [len(MAGIC), len(MAGIC) + 5, len(MAGIC) + 12])
def test_one_that_is_torn_in_its_first_part_is_of_no_use(end: int) -> None:
    with pytest.raises(UnreadableError):
        read(beginning(ME, new_seen())[:end], ME, new_seen())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is not a memory"),
        (b"PNG", "is not a memory"),
        (FORMAT + b"2\n", "is of another version"),
        (beginning(ClientId("you"), new_seen()), "is the memory of client 'you', and not of 'me'"),
    ],
)
def test_what_is_not_ours_is_refused_with_the_reason(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(data, ME, new_seen())


def test_what_a_gateway_repeats_after_its_restart_is_known_in_a_later_process() -> None:
    """Python's own hash is another one in each process: prints that are written down must not be made by it."""
    assert lasting_print_of(7, "t", b"payload") == 10_800_547_743_064_764_414
    later = new_seen()
    read(beginning(ME, new_seen()) + frame(taken_of(publication(5, packet=7), low_water=0)), ME, later)
    assert is_known(later, publication(1, epoch=2, packet=7, repeat=True))
    assert not is_known(later, publication(2, epoch=2, packet=8, repeat=True))


def test_a_repeat_that_came_before_what_it_repeats_is_known_by_it_in_a_later_life() -> None:
    later = new_seen()
    taken = taken_of(publication(1, epoch=2, packet=7, repeat=True), low_water=0)
    read(beginning(ME, new_seen()) + frame(taken), ME, later)
    assert is_known(later, publication(5, epoch=1, packet=7))


def test_while_marks_do_not_count_what_comes_by_the_slower_way_is_still_new_in_a_later_life() -> None:
    later = new_seen()
    data = beginning(ME, new_seen()) + frame(Taken(A, 1, 70_000, None, None))
    read(data, ME, later)
    assert not is_known(later, publication(100))
    assert HELD_TIMES > 1


def test_past_its_bound_a_file_leaves_out_the_origins_unheard_of_for_longest() -> None:
    seen = new_seen()
    for origin in (A, B):
        for sequence in range(3):
            seen.earlier(publication(sequence, origin=origin))
    assert [each.name for each in seen.dump(6)] == [A, B]
    assert [each.name for each in seen.dump(5)] == [B]
    assert seen.dump(2) == []

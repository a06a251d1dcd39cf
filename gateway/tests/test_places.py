"""Where a gateway stands: what is kept of it, what is read again, and what is told to whom has been left."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PARTED_EVERY_S, PARTED_MAX, PLACE_BYTES_MAX
from mqloom.core.records import Place, PlaceLink, decode_place, encode_place
from mqloom.gateway.journal import Journal
from mqloom.gateway.places import Places
from mqloom.lab.gate import US, A, B
from mqloom.lab.woven import C

EVERYBODY = [A, B, C, *(GatewayId(f"G{number}") for number in range(6))]


def places(*configured: GatewayId, counters: Counters | None = None) -> Places:
    return Places(US, configured or (A, B), Journal(counters or Counters()))


def read_again(kept: Places) -> Places:
    """Return the place of a later life."""
    later = places()
    later.read(kept.record().payload, EVERYBODY)
    return later


def test_before_any_move_the_configuration_says_who_the_neighbours_are() -> None:
    place = places()
    assert list(place.links.values()) == [PlaceLink(A), PlaceLink(B)]
    assert (place.number, place.left()) == (0, [])


def test_what_is_kept_is_kept_for_the_next_life_where_it_reads_it() -> None:
    record = places().record()
    assert (record.topic, record.qos, record.retain) == (layout.place(US), 1, True)


moves = st.lists(
    st.tuples(st.sampled_from(["swap", "add", "remove", "part"]), st.integers(0, 5), st.integers(1, 9)), max_size=9
)


@given(moves)
def test_a_later_life_is_where_the_earlier_one_was(script: list[tuple[str, int, int]]) -> None:
    place = places()
    for what, who, number in script:
        gateway = GatewayId(f"G{who}")
        match what:
            case "swap" if place.links:
                place.swap(next(iter(place.links)), PlaceLink(gateway, number, True))
            case "add":
                place.add(PlaceLink(gateway, number))
            case "remove":
                place.remove(gateway)
            case _:
                place.part(gateway, number)
    assume(place.links)
    later = read_again(place)
    assert list(later.links.items()) == list(place.links.items())
    assert (later.number, later.left()) == (place.number, place.left())
    assert list(map(later.has_parted, EVERYBODY)) == list(map(place.has_parted, EVERYBODY))
    assert later.record() == place.record()


def test_what_is_to_be_kept_after_a_swap_is_what_is_kept_after_it() -> None:
    place = places()
    link = PlaceLink(C, 3, True)
    before = place.record()
    ahead = place.record_after(A, link)
    assert place.record() == before
    place.swap(A, link)
    assert ahead == place.record()
    assert list(place.links) == [B, C]
    assert place.left() == [A]
    assert place.has_parted(A)
    assert not place.has_parted(C)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\xff", b"[" * 5_000, b" " * (PLACE_BYTES_MAX + 1), b'{"number": -1}', b'{"version": 2}']
)
def test_a_malformed_record_is_not_used(data: bytes) -> None:
    counters = Counters()
    place = places(counters=counters)
    place.read(data, ())
    assert list(place.links) == [A, B]
    assert counters.reasons("places_refused") == {"malformed": 1}


def test_the_order_of_the_links_in_the_configuration_does_not_matter() -> None:
    kept = places(A, B)
    kept.swap(A, PlaceLink(C, 1, True))
    place = places(B, A)
    assert place.read(kept.record().payload, EVERYBODY)
    assert list(place.links) == [B, C]


def test_nobody_is_a_neighbour_of_itself_whatever_is_kept() -> None:
    place = places()
    place.read(encode_place(Place(number=1, configured=(A, B), links=(PlaceLink(US, 1), PlaceLink(B)))), ())
    assert list(place.links) == [B]


def test_the_largest_number_that_was_heard_of_counts() -> None:
    place = places()
    place.heard_of(7)
    place.heard_of(3)
    assert place.number == 7
    place.part(C, 9)
    place.add(PlaceLink(C, 8))
    assert place.number == 9


def test_who_is_a_neighbour_again_has_not_parted_and_was_not_one() -> None:
    place = places()
    place.swap(A, PlaceLink(C, 1, True))
    place.swap(C, PlaceLink(A, 2, True))
    assert not place.has_parted(A)
    assert place.has_parted(C)
    assert place.left() == [C]


def test_one_that_we_tried_to_move_to_is_left_too() -> None:
    """A crash in the middle of a move leaves a park for it behind."""
    place = places()
    place.part(C, 1)
    assert read_again(place).left() == [C]


def test_past_the_bound_those_who_parted_first_are_forgotten() -> None:
    place = places()
    others = [GatewayId(f"G{number}") for number in range(PARTED_MAX + 1)]
    for number, other in enumerate(others, 1):
        place.add(PlaceLink(other, number))
        place.remove(other)
        place.part(other, number)
    kept = decode_place(place.record().payload)
    assert len(kept.parted) == len(kept.former) == PARTED_MAX
    assert not place.has_parted(others[0])
    assert all(place.has_parted(other) for other in others[1:])


def test_who_parts_again_is_the_last_to_be_forgotten() -> None:
    place = places()
    place.part(C, 1)
    for number in range(2, PARTED_MAX + 1):
        place.part(GatewayId(f"G{number}"), number)
    place.part(C, PARTED_MAX + 1)
    place.part(GatewayId("LAST"), PARTED_MAX + 2)
    assert place.has_parted(C)
    assert not place.has_parted(GatewayId("G2"))


def test_one_who_believes_itself_a_neighbour_is_told_now_and_then_by_which_move_it_is_none() -> None:
    place = places()
    assert place.parted_from(C, 1.0) == 0
    place.swap(A, PlaceLink(C, 4, True))
    assert place.parted_from(A, 1.0) == 4
    assert place.parted_from(A, 1.0 + PARTED_EVERY_S / 2) == 0
    assert place.parted_from(A, 1.0 + PARTED_EVERY_S) == 4
    assert place.parted_from(C, 9.0) == 0


@pytest.mark.parametrize(("number", "is_over"), [(4, False), (5, True), (6, True)])
def test_a_neighbour_that_parts_means_the_link_that_we_have_or_an_earlier_one(number: int, is_over: bool) -> None:
    place = places()
    place.add(PlaceLink(C, 5))
    assert place.is_over(C, number) is is_over
    assert not place.is_over(GatewayId("X"), number)

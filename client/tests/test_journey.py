"""What records say of moves, written and read by different lives of one client."""

import pytest
from msgspec.structs import replace

from mqloom.client.journey import POINTER_LEASE_S, Journey, journey_in, pointer_of, probe_of, record_of, wishes_in
from mqloom.core.records import Wish, decode_record

HOT = Wish(topics="stocks/#", where="volume > 3")


@pytest.mark.parametrize("said", ["moving_to", "leaving_to", "moved_to", "moved_from"])
def test_what_one_life_writes_of_a_move_the_next_reads(said: str) -> None:
    journey = replace(Journey(incarnation="one"), **{said: "B"})
    data = record_of({"hot": HOT}, journey, qos=1, lease_s=60.0, token="")
    assert journey_in(data) == journey
    assert wishes_in(data) == {"hot": HOT}


def test_a_pointer_says_where_and_asks_for_nothing_for_thirty_days() -> None:
    data = pointer_of(Journey(incarnation="one", moved_from="Z"), "B", "")
    assert journey_in(data) == Journey(incarnation="one", moved_to="B")
    assert wishes_in(data) == {}
    assert decode_record(data).lease_s == POINTER_LEASE_S == 30 * 86_400


def test_a_probe_changes_nothing_and_is_told_apart_by_its_life() -> None:
    one, other = probe_of(Journey(incarnation="one"), ""), probe_of(Journey(incarnation="two"), "")
    assert one != other
    assert decode_record(one).is_probe


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"subscriptions": 3}', b'{"subscriptions": {}, "news": 1}'])
def test_what_is_no_record_says_nothing(data: bytes) -> None:
    assert journey_in(data) is None
    assert wishes_in(data) == {}


def test_a_plain_clients_record_has_nothing_that_we_would_take_over() -> None:
    assert wishes_in(b'{"subscriptions": {"hot": {"topics": "stocks/#"}}, "format": "plain"}') == {}

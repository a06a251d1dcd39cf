"""Orders and rosters: what counts is obeyed once; whatever else comes moves nobody, and says why."""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import OrderError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import CLOCK_SKEW_S, ORDER_BYTES_MAX, ORDER_S_MAX, ROSTER_BYTES_MAX, SESSIONS_OBEYED_MAX
from mqloom.core.orders import (
    ROSTER_CONTEXT,
    Addressee,
    MoveOrder,
    OrderAnswer,
    OrderDesk,
    Roster,
    RosterBroker,
    decode_order_answer,
    encode_order_answer,
    is_order,
    objection,
    read_order,
    read_roster,
    sign_order,
    sign_roster,
)
from mqloom.core.signatures import OrderKey, PublicKey

KEY, OTHER = OrderKey(b"k" * 32), OrderKey(b"o" * 32)
WEST, EAST, NORTH = GatewayId("west"), GatewayId("east"), GatewayId("north")
DESK = ClientId("desk")
WALL = 1_790_000_000.0

ORDER = MoveOrder(
    federation="bank", client=DESK, incarnation="first", session="west.1.1", source=WEST, to=EAST,
    issued_at=WALL, expires_at=WALL + 30,
)  # fmt: skip
ROSTER = Roster(
    federation="bank",
    serial=5,
    brokers={WEST: RosterBroker(host="west.example"), EAST: RosterBroker(host="east.example", port=8883, tls=True)},
)
ADDRESSEE = Addressee(federation="bank", client=DESK, incarnation="first", at=WEST)


def desk(*keys: OrderKey, federation: str = "bank", incarnation: str = "first") -> OrderDesk:
    held = [key.public for key in keys or (KEY,)]
    return OrderDesk(client=DESK, incarnation=incarnation, keys=held, federation=federation)


def ready(*keys: OrderKey, incarnation: str = "first") -> OrderDesk:
    each = desk(*keys, incarnation=incarnation)
    each.take_roster(sign_roster(ROSTER, (keys or (KEY,))[0]), WALL)
    return each


def refusal(each: OrderDesk, data: bytes, at: GatewayId = WEST, wall: float = WALL) -> str:
    with pytest.raises(OrderError) as caught:
        each.take_order(data, at, wall)
    return caught.value.reason


def changed(**fields: object) -> bytes:
    return sign_order(msgspec.structs.replace(ORDER, **fields), KEY)


# ---- orders ------------------------------------------------------------------------------------------------------


def test_an_order_that_was_signed_for_us_counts() -> None:
    assert ready().take_order(sign_order(ORDER, KEY), WEST, WALL) == ORDER


def test_an_order_reads_as_documented() -> None:
    written = json.loads(sign_order(ORDER, KEY))
    assert written["key"] == KEY.public.name
    assert written["order"]["kind"] == "move"
    assert (written["order"]["from"], written["order"]["to"]) == ("west", "east")
    assert is_order(sign_order(ORDER, KEY))
    assert not is_order(b'{"answer":"established","name":"order"}')


SIGNED = sign_order(ORDER, KEY)


@given(place=st.integers(0, len(SIGNED) - 1), byte=st.integers(0, 255))
def test_an_order_with_any_byte_changed_moves_nobody(place: int, byte: int) -> None:
    data = bytearray(SIGNED)
    if data[place] == byte:
        return
    data[place] = byte
    assert refusal(ready(), bytes(data)) in {"malformed", "key", "forged"}


@given(place=st.integers(0, len(SIGNED)), more=st.binary(min_size=1, max_size=3))
def test_bytes_put_in_change_nothing_that_counts(place: int, more: bytes) -> None:
    reason = ""
    try:
        order = ready().take_order(SIGNED[:place] + more + SIGNED[place:], WEST, WALL)
    except OrderError as error:
        order, reason = None, error.reason
    assert order == ORDER or reason in {"malformed", "key", "forged"}  # white space around what was signed is harmless


@given(end=st.integers(0, len(SIGNED) - 1))
def test_half_an_order_moves_nobody(end: int) -> None:
    assert refusal(ready(), SIGNED[:end]) in {"malformed", "forged"}


@given(st.binary(max_size=300))
def test_noise_moves_nobody(data: bytes) -> None:
    assert refusal(ready(), data) == "malformed"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"federation": "other"}, "federation"),
        ({"client": "desk2"}, "client"),
        ({"incarnation": "second"}, "incarnation"),
        ({"source": "north"}, "elsewhere"),
        ({"to": "north"}, "target"),
        ({"to": "west"}, "target"),
        ({"issued_at": WALL + CLOCK_SKEW_S + 1, "expires_at": WALL + CLOCK_SKEW_S + 2}, "early"),
        ({"issued_at": WALL - 300, "expires_at": WALL - CLOCK_SKEW_S - 1}, "expired"),
        ({"expires_at": WALL + ORDER_S_MAX + 1}, "lasting"),
        ({"client": ""}, "malformed"),
        ({"session": "s" * 129}, "malformed"),
        ({"kind": "jump"}, "malformed"),
        ({"number": -1}, "malformed"),
        ({"expires_at": -1.0}, "malformed"),
    ],
)
def test_an_order_for_another_place_time_or_client_moves_nobody(fields: dict[str, object], reason: str) -> None:
    each = ready()
    assert refusal(each, changed(**fields)) == reason
    assert each.take_order(SIGNED, WEST, WALL) == ORDER  # and costs nothing


orders = st.builds(
    MoveOrder,
    federation=st.sampled_from(["bank", "shop"]),
    client=st.sampled_from([DESK, ClientId("Desk")]),
    incarnation=st.sampled_from(["first", "second"]),
    session=st.just("s"),
    source=st.sampled_from([WEST, NORTH]),
    to=st.sampled_from([WEST, EAST, NORTH]),
    issued_at=st.integers(-300, 300).map(lambda since: WALL + since),
    expires_at=st.integers(-300, 4_000).map(lambda since: WALL + since),
)


@given(order=orders | st.just(ORDER), is_obeyed=st.booleans(), has_roster=st.booleans())
def test_an_order_counts_if_and_only_if_all_is_as_it_should_be(
    order: MoveOrder, is_obeyed: bool, has_roster: bool
) -> None:
    whom = (order.federation, order.client, order.incarnation, order.source, order.to)
    counts = (
        whom == ("bank", "desk", "first", WEST, EAST)
        and order.issued_at <= WALL + CLOCK_SKEW_S
        and order.expires_at >= WALL - CLOCK_SKEW_S
        and order.expires_at - order.issued_at <= ORDER_S_MAX
        and not is_obeyed
        and has_roster
    )
    obeyed = [order.session] if is_obeyed else []
    found = objection(order, ADDRESSEE, ROSTER if has_roster else None, obeyed, WALL)
    assert (found is None) == counts


def test_an_order_is_obeyed_once_for_as_long_as_it_would_count() -> None:
    each = ready()
    each.take_order(SIGNED, WEST, WALL)
    assert refusal(each, SIGNED) == "replayed"
    assert refusal(each, SIGNED, wall=WALL + 30 + CLOCK_SKEW_S) == "replayed"
    assert refusal(each, SIGNED, wall=WALL + 31 + CLOCK_SKEW_S) == "expired"
    assert refusal(ready(incarnation="second"), SIGNED) == "incarnation"  # nor after a restart


def test_an_order_that_did_not_count_may_count_later() -> None:
    each = desk()
    assert refusal(each, SIGNED) == "roster"
    each.take_roster(sign_roster(ROSTER, KEY), WALL)
    assert each.take_order(SIGNED, WEST, WALL) == ORDER


def test_another_place_of_ours_than_the_order_names_is_no_place_to_leave() -> None:
    assert refusal(ready(), SIGNED, at=EAST) == "elsewhere"
    assert objection(ORDER, replace(ADDRESSEE, at=EAST), ROSTER, (), WALL) is not None


def test_orders_of_a_key_that_we_do_not_hold_move_nobody() -> None:
    forged = msgspec.json.decode(SIGNED)
    by_other = json.loads(sign_order(ORDER, OTHER))
    assert refusal(ready(), sign_order(ORDER, OTHER)) == "key"
    assert refusal(ready(), json.dumps({**forged, "signature": by_other["signature"]}).encode()) == "forged"
    assert refusal(ready(), sign_roster(ROSTER, KEY)) == "malformed"


def test_a_roster_does_not_count_as_an_order_nor_the_other_way_round() -> None:
    body = msgspec.json.encode(ORDER)
    signature = KEY.sign(ROSTER_CONTEXT, body)
    data = b'{"order":' + body + f',"key":"{KEY.public.name}","signature":"{signature}"}}'.encode()
    assert refusal(ready(), data) == "forged"


def test_while_keys_are_exchanged_orders_of_both_count() -> None:
    each = ready(KEY, OTHER)
    each.take_order(SIGNED, WEST, WALL)
    other = msgspec.structs.replace(ORDER, session="west.1.2")
    assert each.take_order(sign_order(other, OTHER), WEST, WALL) == other


def test_more_sessions_than_are_remembered_are_refused_until_some_are_over() -> None:
    each = ready()
    for number in range(SESSIONS_OBEYED_MAX):
        each.take_order(changed(session=f"s{number}"), WEST, WALL)
    assert refusal(each, SIGNED) == "crowded"
    late = WALL + 100
    assert each.take_order(changed(issued_at=late, expires_at=late + 30), WEST, late).session == ORDER.session


def test_an_order_too_large_to_be_one_is_not_read() -> None:
    assert refusal(ready(), SIGNED + b" " * ORDER_BYTES_MAX) == "malformed"


# ---- rosters -----------------------------------------------------------------------------------------------------


def roster_refusal(each: OrderDesk, data: bytes, wall: float = WALL) -> str:
    with pytest.raises(OrderError) as caught:
        each.take_roster(data, wall)
    return caught.value.reason


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_roster_with_any_byte_changed_counts_for_nothing(place: int, byte: int) -> None:
    data = bytearray(sign_roster(ROSTER, KEY))
    place %= len(data)
    if data[place] == byte:
        return
    data[place] = byte
    each = desk()
    assert roster_refusal(each, bytes(data)) in {"malformed", "key", "forged"}
    assert each.roster is None
    assert refusal(each, SIGNED) == "roster"


def test_a_roster_signed_with_a_wrong_key_moves_nobody() -> None:
    evil = Roster(federation="bank", serial=9, brokers={EAST: RosterBroker(host="evil.example")})
    each = ready()
    assert roster_refusal(each, sign_roster(evil, OTHER)) == "key"
    assert each.roster == ROSTER
    assert roster_refusal(each, b"{}") == "malformed"
    assert roster_refusal(each, b" " * (ROSTER_BYTES_MAX + 1)) == "malformed"


def test_of_two_rosters_the_newer_holds_in_whatever_order_they_come() -> None:
    newer = Roster(federation="bank", serial=6, brokers={**ROSTER.brokers, NORTH: RosterBroker(host="north.example")})
    each = ready()
    assert each.take_roster(sign_roster(newer, KEY), WALL) == newer
    assert roster_refusal(each, sign_roster(ROSTER, KEY)) == "outdated"
    assert each.roster == newer


def test_an_older_roster_that_says_the_same_is_no_offence() -> None:
    each = ready()
    same = msgspec.structs.replace(ROSTER, serial=3)
    assert each.take_roster(sign_roster(same, KEY), WALL) == ROSTER


def test_a_roster_of_another_federation_does_not_count() -> None:
    other = msgspec.structs.replace(ROSTER, federation="shop")
    assert roster_refusal(desk(), sign_roster(other, KEY)) == "federation"


def test_who_names_no_federation_belongs_to_the_one_of_the_first_roster() -> None:
    each = desk(federation="")
    assert refusal(each, SIGNED) == "federation"
    each.take_roster(sign_roster(ROSTER, KEY), WALL)
    assert roster_refusal(each, sign_roster(msgspec.structs.replace(ROSTER, federation="shop"), KEY)) == "federation"
    assert each.take_order(SIGNED, WEST, WALL) == ORDER


def test_a_roster_that_is_over_leads_nowhere() -> None:
    short = msgspec.structs.replace(ROSTER, valid_until=WALL)
    assert roster_refusal(desk(), sign_roster(short, KEY), WALL + CLOCK_SKEW_S + 1) == "expired"
    each = desk()
    each.take_roster(sign_roster(short, KEY), WALL)
    late = WALL + CLOCK_SKEW_S + 1
    assert refusal(each, changed(issued_at=late, expires_at=late + 1), wall=late) == "roster"


def test_a_roster_of_a_later_release_is_read() -> None:
    body = b'{"federation":"bank","serial":1,"brokers":{"west":{"host":"w","colour":"red"}},"weather":"fine"}'
    data = b'{"roster":' + body
    data += f',"key":"{KEY.public.name}","signature":"{KEY.sign(ROSTER_CONTEXT, body)}"}}'.encode()
    assert read_roster(data, [KEY.public]).brokers == {WEST: RosterBroker(host="w")}


def test_a_server_reference_is_found_in_the_roster_by_its_address() -> None:
    assert ROSTER.at("EAST.example", 8883) == EAST
    assert ROSTER.at("east.example", 1883) is None


def test_the_answer_of_a_client_is_read_as_it_is_written() -> None:
    answer = OrderAnswer(session="s", answer="stayed", problem="east does not answer")
    assert decode_order_answer(encode_order_answer(answer)) == answer
    for data in (b"{}", b'{"session":"s","answer":"flown"}', b" " * (ORDER_BYTES_MAX + 1)):
        with pytest.raises(OrderError, match="malformed"):
            decode_order_answer(data)


def test_without_any_key_nothing_counts() -> None:
    none: list[PublicKey] = []
    with pytest.raises(OrderError, match="we hold none"):
        read_order(SIGNED, none)

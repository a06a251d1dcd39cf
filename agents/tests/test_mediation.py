import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.mediation import (
    COVERING_MAX,
    PARTS_MAX,
    Cancel,
    Done,
    Ended,
    Keep,
    Kept,
    Mediation,
    Reply,
    Request,
    SessionId,
    covering_of,
    decode,
    encode,
    parts_of,
    subject_to,
    want_of,
)
from mqloom.core.errors import RemoteError
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.filter import Filter
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import CONTROL_BYTES_MAX
from mqloom.core.load import BalanceState
from mqloom.core.subscription import Subscription

SESSION = SessionId("a-1-1")
ESTIMATE = BrokerEstimate(
    input_rate=10.0,
    subscriptions=5,
    delay=DelayModel(0.001, 0.01),
    output_bytes_s=100.0,
    output_bytes_s_max=1000.0,
)


@pytest.mark.parametrize(
    "message",
    [
        Request(session=SESSION, metric="output", is_overload=True),
        Reply(session=SESSION, state=BalanceState.OVERLOADED),
        Reply(session=SESSION, state=BalanceState.OK, estimate=ESTIMATE, covering=(("#", "a > 1"),)),
        Keep(session=SESSION, is_moving=True),
        Kept(session=SESSION, is_known=False),
        Done(session=SESSION, moved=2, stayed=1, clients=(ClientId("x"), ClientId("y"))),
        Cancel(session=SESSION, reason="nobody is worth moving"),
        Ended(session=SESSION),
    ],
)
def test_what_is_said_is_what_is_heard(message: Mediation) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(RemoteError, match="no message of a load agent"):
        decode(b"\xc1" + body)  # a byte that MessagePack never uses
    with contextlib.suppress(RemoteError):  # nothing else
        decode(body)


@pytest.mark.parametrize(
    "odd",
    [
        {"input_rate": float("inf")},
        {"input_rate": -1.0},
        {"output_bytes_s_max": float("nan")},
        {"deliveries_s": 1e300},
        {"delay": DelayModel(1e300, 0.0)},
        {"delay": DelayModel(-0.1, 0.0)},
        {"delay": DelayModel(0.1, float("-inf"))},
    ],
)
def test_an_estimate_that_no_broker_can_have_is_refused(odd: dict[str, Any]) -> None:
    for message in (Reply(session=SESSION, state=BalanceState.OK), Request(session=SESSION, metric="input")):
        told = replace(message, estimate=dataclasses.replace(ESTIMATE, **odd))
        with pytest.raises(RemoteError, match="no broker can have"):
            decode(encode(told))


def test_the_line_of_a_delay_may_begin_below_nothing() -> None:
    steep = dataclasses.replace(ESTIMATE, delay=DelayModel(0.1, -0.3))
    message = Reply(session=SESSION, state=BalanceState.OK, estimate=steep)
    assert decode(encode(message)) == message


@pytest.mark.parametrize("gateway", ["edge1", "it's", "a b", "ü"])
def test_an_agent_wants_what_is_for_it_and_nothing_else(gateway: str) -> None:
    want = Filter.parse(want_of(GatewayId(gateway)))
    assert want.matches(subject_to("local", GatewayId(gateway)))
    assert want.matches(subject_to("global", GatewayId(gateway)))
    assert not want.matches(subject_to("local", GatewayId("another")))
    assert not want.matches({"class": "LOCAL_PIE", "cluster": gateway})


def test_a_covering_set_comes_back_from_its_parts() -> None:
    covering = [Subscription.parse("stocks/#", f"volume > {n}") for n in range(100)]
    parts, left_out = parts_of(covering)
    assert left_out == 0
    assert covering_of(text for part in parts for text in part) == covering


def test_an_empty_covering_set_is_one_empty_part() -> None:
    assert parts_of([]) == ([()], 0)


def test_every_part_fits_into_a_control_publication() -> None:
    long = "x" * 4_000
    covering = [Subscription.parse("#", f"name = '{long}{n}'") for n in range(80)]
    parts, left_out = parts_of(covering)
    assert 1 < len(parts) <= PARTS_MAX
    assert sum(map(len, parts)) + left_out == 80
    for number, part in enumerate(parts):
        reply = Reply(session=SESSION, state=BalanceState.OK, covering=part, part=number, parts=len(parts))
        assert len(encode(reply)) < CONTROL_BYTES_MAX


def test_a_set_that_is_too_large_is_cut_most_general_first() -> None:
    narrow = [Subscription.parse("#", f"a > {n} AND b = {n} AND c = 1") for n in range(COVERING_MAX)]
    general = [Subscription.parse("#", f"z{n} > 1") for n in range(10)]
    parts, left_out = parts_of([*narrow, *general])
    texts = {text for part in parts for text in part}
    assert left_out == 10
    assert {(each.topics, str(each.where)) for each in general} <= texts


def test_what_does_not_fit_into_any_part_is_left_out_and_counted() -> None:
    wide = [Subscription.parse("#", " OR ".join(f"a{n}{m} = '{'x' * 80}'" for m in range(60))) for n in range(100)]
    parts, left_out = parts_of(wide)
    assert len(parts) == PARTS_MAX
    assert left_out == 100 - sum(map(len, parts)) > 0


def test_a_subscription_that_cannot_be_read_is_left_out() -> None:
    assert covering_of([("#", "a >"), ("a/#/b", ""), ("#", "a > 1")]) == [Subscription.parse("#", "a > 1")]

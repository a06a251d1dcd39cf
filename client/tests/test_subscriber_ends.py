"""A subscriber before it has begun, and what it counts."""

import pytest

from mqloom.client.inbox import COUNTS
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import CloseRequested, Connected, Finished
from mqloom.core.ids import ClientId
from mqloom.core.records import Wish


def subscriber() -> Subscriber:
    return Subscriber(ClientId("me"), {"all": Wish(topics="stocks/#")})


@pytest.mark.parametrize("connected", [False, True])
def test_closing_before_a_gateway_is_found_is_simple(connected: bool) -> None:
    core = subscriber()
    if connected:
        core.handle(Connected(), 0.0)
    assert core.handle(CloseRequested(), 1.0) == [Finished()]


def test_every_count_has_a_meaning() -> None:
    assert set(subscriber().counts) == set(COUNTS)

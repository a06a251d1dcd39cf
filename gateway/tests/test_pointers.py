"""Words of clients that have moved away: each once, in time, and no more than there is room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import ClientId
from mqloom.gateway import pointers as pointers_module
from mqloom.gateway.pointers import Pointers

ANN, BOB, CAT = ClientId("ann"), ClientId("bob"), ClientId("cat")


def test_past_the_bound_those_noted_longest_ago_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointers_module, "POINTERS_MAX", 2)
    pointers = Pointers()
    for client, until in ((ANN, 60.0), (BOB, 70.0), (ANN, 80.0)):
        pointers.note(client, until)
    assert pointers.deadline == 70.0
    pointers.note(CAT, 50.0)
    assert pointers.deadline == 0.0
    assert pointers.pushed_out() == [BOB]  # ann has left word again since
    assert pointers.pushed_out() == []
    assert pointers.deadline == 50.0
    assert pointers.expired(100.0) == [CAT, ANN]
    assert len(pointers) == 0
    assert not pointers.deadline


@given(st.lists(st.tuples(st.sampled_from([ANN, BOB, CAT]), st.integers(0, 9)), max_size=60))
def test_whatever_is_noted_and_forgotten_it_is_over_when_its_last_lease_is(script: list[tuple[ClientId, int]]) -> None:
    pointers, plain = Pointers(), dict[ClientId, float]()
    for client, until in script:
        if until:
            pointers.note(client, float(until))
            plain[client] = float(until)
        else:
            pointers.forget(client)
            plain.pop(client, None)
        assert pointers.deadline == min(plain.values(), default=None)
    for now in range(10):
        over = {client for client, until in plain.items() if until <= now}
        assert set(pointers.expired(float(now))) == over
        for client in over:
            del plain[client]

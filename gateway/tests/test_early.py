"""What comes before records are read: kept in order, that of QoS 0 within bounds."""

import pytest

from mqloom.core.counters import Counters
from mqloom.gateway import early
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.early import Early
from mqloom.gateway.journal import Journal
from mqloom.lab.gate import A, publication


def test_it_comes_out_in_its_order_and_then_nothing_is_held() -> None:
    waiting = Early(Journal(Counters()))
    for number in range(3):
        waiting.hold(publication(number), None, A)
    assert not waiting.is_over
    assert [each.sequence for each, _, _ in waiting.end()] == [0, 1, 2]
    assert waiting.is_over


def test_past_the_bound_only_what_has_a_duty_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "HELD_MAX", 1)
    counters = Counters()
    waiting = Early(Journal(counters))
    duty = Custody().begin(FromBroker(1))
    waiting.hold(publication(0), None, A)
    waiting.hold(publication(1), None, A)
    waiting.hold(publication(2), duty, A)
    assert [each.sequence for each, _, _ in waiting.end()] == [0, 2]
    assert counters.reasons("publications_dropped") == {"start": 1}

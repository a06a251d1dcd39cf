"""The whole node: clients that are served elsewhere, and leave."""

import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import RecordReceived, Woke
from mqloom.core.limits import FLUSH_AGAIN_S, LEAVING_S
from mqloom.core.messages import Flush, Flushed, Withdraw
from mqloom.core.records import Answer, Record, Wish, encode_record
from mqloom.gateway import pointers as pointers_module
from mqloom.lab.gate import ANN, BOB, US, A, B, Gate, alone, answers, key, payloads, publication, sent, with_two

ONE = {"one": Wish(topics="a/#")}
ENDED = [Answer(answer="ended", name="one"), Answer(answer="ended")]


def leave(gate: Gate, lease_s: float = 60.0) -> list[Effect]:
    record = Record(subscriptions=ONE, format="frame", lease_s=lease_s, leaving_to="B")
    return gate.handle(RecordReceived(client=ANN, data=encode_record(record)))


def test_it_gets_what_is_under_way_and_is_told_when_that_is_all() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    effects = leave(gate)
    assert sent(effects, A) == sent(effects, B) == [Flush(US, 1, 1)]
    gate.hear(A, Flushed(US, 1, 1))
    effects = gate.hear(B, publication(), Flushed(US, 1, 1))
    assert payloads(effects) == [b'{"x": 7}']
    assert answers(effects) == ENDED
    topics = [effect.topic for effect in effects if isinstance(effect, PublishLocally)]
    assert topics == [layout.out(US, ANN), layout.control(US, ANN), layout.control(US, ANN)]
    assert sent(effects, A) == sent(effects, B) == [Withdraw(key(US, 1))]
    assert gate.node.subscription_counts() == (0, 0)


def test_a_gateway_that_has_restarted_serves_it_until_it_has_all() -> None:
    gate = with_two()
    leave(gate)
    gate.hear(A, Flushed(US, 1, 1))
    effects = gate.hear(B, publication(), Flushed(US, 1, 1))
    assert payloads(effects) == [b'{"x": 7}']
    assert answers(effects) == ENDED


def test_while_somebody_is_out_of_reach_it_is_served() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    leave(gate)
    gate.hear(A, Flushed(US, 1, 1))
    assert answers(gate.hear(B, Flushed(US, 1, 1, complete=False))) == []
    gate.ack(A)
    gate.ack(B)
    gate.now = FLUSH_AGAIN_S
    effects = gate.handle(Woke())
    assert sent(effects, A) == sent(effects, B) == [Flush(US, 1, 2)]
    assert payloads(gate.hear(A, publication())) == [b'{"x": 7}']
    gate.now = LEAVING_S
    gate.hear(A, Flushed(US, 1, 2))
    assert answers(gate.hear(B, Flushed(US, 1, 2, complete=False))) == ENDED
    assert gate.counted("flushes_expired") == {"patience": 1}


def test_said_again_it_changes_nothing_and_afterwards_it_is_answered_again() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    leave(gate)
    effects = leave(gate)
    assert sent(effects, A) == []
    gate.hear(A, Flushed(US, 1, 1))
    assert answers(gate.hear(B, Flushed(US, 1, 1))) == ENDED
    leave(gate)
    gate.hear(A, Flushed(US, 1, 2))
    assert answers(gate.hear(B, Flushed(US, 1, 2))) == ENDED


def test_without_a_subscription_it_is_told_at_once() -> None:
    gate = with_two()
    record = Record(subscriptions={}, leaving_to="B")
    assert answers(gate.handle(RecordReceived(client=ANN, data=encode_record(record)))) == [Answer(answer="ended")]


def test_one_that_stays_after_all_is_served_without_a_gap() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    leave(gate)
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(A, Flushed(US, 1, 1))
    effects = gate.hear(B, Flushed(US, 1, 1))
    assert Answer(answer="ended") not in answers(effects)
    assert payloads(gate.hear(A, publication())) == [b'{"x": 7}']


def test_its_word_where_it_is_stays_as_long_as_its_lease() -> None:
    gate = alone()
    record = Record(subscriptions={}, lease_s=60.0, moved_to="B")
    gate.handle(RecordReceived(client=ANN, data=encode_record(record)))
    deleted = PublishLocally(topic=layout.record(US, ANN), payload=b"", retain=True)
    gate.now = 59.0
    assert deleted not in gate.handle(Woke())
    gate.handle(RecordReceived(client=ANN, data=encode_record(record)))
    gate.now = 60.0
    assert deleted not in gate.handle(Woke())
    gate.now = 119.0
    assert deleted in gate.handle(Woke())
    gate.handle(RecordReceived(client=ANN, data=encode_record(record)))
    gate.record(ANN, {"one": ("a/#", "")})
    gate.now = 600.0
    assert deleted not in gate.handle(Woke())


def test_too_many_words_cost_the_oldest_which_is_deleted_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointers_module, "POINTERS_MAX", 1)
    gate = alone()
    record = Record(subscriptions={}, lease_s=60.0, moved_to="B")
    effects = []
    for client in (ANN, BOB):
        effects += gate.handle(RecordReceived(client=client, data=encode_record(record)))
        effects += gate.handle(Woke())
    assert PublishLocally(topic=layout.record(US, ANN), payload=b"", retain=True) in effects
    assert PublishLocally(topic=layout.record(US, BOB), payload=b"", retain=True) not in effects
    assert gate.node.counters.total("pointers_dropped") == 1

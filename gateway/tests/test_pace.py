"""What one client can make a gateway do, and how little of it others notice."""

from dataclasses import replace

import pytest

from mqloom.core.events import Asked, RecordReceived
from mqloom.core.ids import ClientId
from mqloom.core.limits import (
    ANSWERS_BURST,
    ANSWERS_PER_S,
    CLIENTS_MAX,
    QUESTIONS_BURST,
    RECORDS_BURST,
    RECORDS_PER_S,
)
from mqloom.core.records import Question, Record, Wish, encode_question, encode_record
from mqloom.gateway import pace as pace_module
from mqloom.gateway.interfaces import RecordRequest
from mqloom.gateway.pace import Pace
from mqloom.lab.gate import ANN, BOB, Gate, answers, parts_of

RECORD = encode_record(Record(subscriptions={"one": Wish(topics="a/#")}, token="secret"))


def paced() -> Gate:
    return Gate(replace(parts_of(), pace=Pace()))


def test_records_at_full_speed_are_refused_and_their_client_is_told_once() -> None:
    gate = paced()
    told = []
    for _ in range(RECORDS_BURST + 50):
        effects = gate.handle(RecordReceived(client=ANN, data=RECORD))
        told += [each for each in answers(effects) if each.answer == "refused"]
    assert gate.node.counters.reasons("subscriptions_refused") == {"rate": 50}
    assert [each.problem for each in told] == [
        f"over {RECORDS_PER_S:g} records a second: wait a little, and write the last one again"
    ]
    effects = gate.handle(RecordReceived(client=BOB, data=RECORD))
    assert [each.answer for each in answers(effects, BOB)] == ["established"]
    gate.now += 1.0
    effects = gate.handle(RecordReceived(client=ANN, data=RECORD))
    assert [each.answer for each in answers(effects)] == ["established"]


def test_malformed_records_by_many_names_are_counted_and_not_all_answered() -> None:
    gate = paced()
    answered = 0
    for number in range(ANSWERS_BURST + 500):
        effects = gate.handle(RecordReceived(client=ClientId(f"c{number}"), data=b"{"))
        answered += len(answers(effects, ClientId(f"c{number}")))
    assert answered == ANSWERS_BURST
    assert gate.node.counters.value("subscriptions_refused", "record") == ANSWERS_BURST + 500
    gate.now += 1.0
    effects = gate.handle(RecordReceived(client=ANN, data=b"{"))
    assert len(answers(effects)) == 1
    assert ANSWERS_PER_S >= 1


def test_questions_at_full_speed_are_counted() -> None:
    gate = paced()
    question = encode_question(Question(number=1, topic="a/b"))
    for _ in range(QUESTIONS_BURST + 7):
        gate.handle(Asked(client=ANN, data=question))
    assert gate.node.counters.reasons("questions_refused") == {"rate": 7}


def test_a_record_that_is_refused_changes_nothing_and_neither_does_its_deletion() -> None:
    seen: list[RecordRequest] = []

    def admit(request: RecordRequest) -> str | None:
        seen.append(request)
        return None if request.token == "secret" else "show your token"

    gate = Gate(replace(parts_of(), admit_record=admit, pace=Pace()))
    gate.handle(RecordReceived(client=ANN, data=RECORD))
    for data in (b"", encode_record(Record(subscriptions={}))):
        effects = gate.handle(RecordReceived(client=ANN, data=data))
        [answer] = answers(effects)
        assert (answer.answer, answer.problem) == ("refused", "show your token")
    assert gate.node.subscription_counts() == (1, 0)
    assert [(each.record_bytes > 0, each.subscriptions, each.changes_per_min) for each in seen] == [
        (True, 1, 1),
        (False, 0, 2),
        (True, 0, 3),
    ]
    effects = gate.handle(RecordReceived(client=ANN, data=encode_record(Record(subscriptions={}, token="secret"))))
    assert [answer.answer for answer in answers(effects)] == ["ended"]


def test_a_minute_of_a_client_begins_anew_and_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CLIENTS_MAX > 2
    monkeypatch.setattr(pace_module, "CLIENTS_MAX", 2)
    pace = Pace()
    for at in (0.0, 59.0, 60.0):
        pace.record(ANN, at)
    assert pace.changes(ANN) == 1
    for number in range(5):
        pace.record(ClientId(str(number)), 60.0)
        assert pace.is_to_be_told(ClientId(str(number)))
        assert not pace.is_to_be_told(ClientId(str(number)))
    assert pace.changes(ANN) == 0

"""The whole node: what becomes of clients' records."""

import dataclasses

import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import (
    BrokerKnown,
    RecordReceived,
    Woke,
)
from mqloom.core.ids import ClientId
from mqloom.core.limits import (
    FLUSH_DEADLINE_S,
    ID_LENGTH_MAX,
)
from mqloom.core.messages import (
    Announce,
    Established,
    Flush,
    Flushed,
    Withdraw,
)
from mqloom.core.mirrors import chunk_of, decode_chunk
from mqloom.core.records import Answer
from mqloom.core.topics import topic_matches
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway import clients as node_module
from mqloom.gateway.interfaces import (
    SubscribeRequest,
)
from mqloom.lab.gate import (
    ANN,
    BOB,
    US,
    A,
    B,
    Gate,
    alone,
    answers,
    delivered,
    key,
    local,
    parts_of,
    payloads,
    publication,
    sent,
    wakings,
    with_two,
)


def test_alone_a_subscription_is_established_at_once() -> None:
    effects = alone().record(ANN, {"one": ("a/#", "")})
    assert answers(effects) == [Answer(answer="established", name="one")]
    assert isinstance(effects[0], PublishLocally)
    assert (effects[0].qos, effects[0].retain) == (1, False)


def test_it_is_announced_and_established_when_both_neighbours_have_answered() -> None:
    gate = with_two()
    effects = gate.record(ANN, {"one": ("a/#", "x > 1")})
    assert answers(effects) == []
    for neighbour in (A, B):
        assert sent(effects, neighbour) == [Announce(key(US, 1), "a/#", "x > 1")]
    assert answers(gate.hear(A, Established(key(US, 1)))) == []
    assert answers(gate.hear(B, Established(key(US, 1)))) == [Answer(answer="established", name="one")]
    assert gate.node.counters.total("subscriptions_established") == 1


def test_a_bad_filter_is_answered_with_its_column_and_the_others_begin() -> None:
    gate = alone()
    effects = gate.record(ANN, {"bad": ("a/#", "x > > 1"), "good": ("a/#", "")})
    refused, established = answers(effects)
    assert (refused.answer, refused.name, refused.column) == ("refused", "bad", 5)
    assert refused.problem
    assert established == Answer(answer="established", name="good")
    assert gate.counted("subscriptions_refused") == {"filter": 1}


def test_a_bad_topic_filter_is_refused_by_name() -> None:
    gate = alone()
    (answer,) = answers(gate.record(ANN, {"bad": ("a/#/b", "")}))
    assert (answer.answer, answer.name) == ("refused", "bad")
    assert "a/#/b" in answer.problem
    assert gate.counted("subscriptions_refused") == {"topic": 1}
    assert gate.node.subscription_counts() == (0, 0)


def test_whom_admission_refuses_gets_its_reason() -> None:
    asked = []

    def admit(request: SubscribeRequest) -> str | None:
        asked.append((request.gateway, request.client, request.name, request.subscription.topics))
        return "not you" if request.client == ANN else None

    gate = Gate(parts_of(admit=admit))
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == [Answer(answer="refused", name="one", problem="not you")]
    assert answers(gate.record(BOB, {"one": ("b/#", "")}), BOB) == [Answer(answer="established", name="one")]
    assert asked == [(US, ANN, "one", "a/#"), (US, BOB, "one", "b/#")]
    assert gate.counted("subscriptions_refused") == {"admission": 1}


def test_a_malformed_record_is_refused_and_the_earlier_one_stays() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    (answer,) = answers(gate.handle(RecordReceived(client=ANN, data=b"nonsense")))
    assert (answer.answer, answer.name) == ("refused", "")
    assert payloads(gate.publish(b"{}")) == [b"{}"]
    assert gate.counted("subscriptions_refused") == {"record": 1}


def test_a_newcomer_past_the_bound_is_refused_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "CLIENTS_MAX", 1)
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    (answer,) = answers(gate.record(BOB, {"one": ("a/#", "")}), BOB)
    assert answer.answer == "refused"
    assert answers(gate.record(ANN, {"one": ("a/#", ""), "two": ("b", "")})) == [
        Answer(answer="established", name="one"),
        Answer(answer="established", name="two"),
    ]


def test_a_client_with_too_long_a_name_is_refused() -> None:
    gate = alone()
    gate.record(ClientId("x" * (ID_LENGTH_MAX + 1)), {"one": ("a/#", "")})
    assert gate.node.subscription_counts() == (0, 0)


def test_a_renewed_record_is_answered_again() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == [Answer(answer="established", name="one")]
    assert gate.node.counters.total("subscriptions_established") == 1


def test_a_renewed_record_is_not_answered_while_somebody_is_waited_for() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    assert answers(gate.record(ANN, {"one": ("a/#", "")})) == []


def test_alone_a_deleted_record_ends_at_once() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", ""), "two": ("b", "")})
    effects = gate.handle(RecordReceived(client=ANN, data=b""))
    assert answers(effects) == [Answer(answer="ended", name="one"), Answer(answer="ended", name="two")]
    assert payloads(gate.publish(b"{}")) == []
    assert gate.node.subscription_counts() == (0, 0)


def test_deleting_a_record_that_never_was_changes_nothing() -> None:
    assert local(alone().handle(RecordReceived(client=ANN, data=b""))) == []


def test_a_subscription_ends_behind_the_wave_and_delivers_until_then() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    effects = gate.handle(RecordReceived(client=ANN, data=b""))
    assert sent(effects, A) == sent(effects, B) == [Flush(US, 1, 1)]
    assert answers(effects) == []
    gate.hear(A, Flushed(US, 1, 1))
    effects = gate.hear(B, publication(), Flushed(US, 1, 1))
    assert payloads(effects) == [b'{"x": 7}']
    assert answers(effects) == [Answer(answer="ended", name="one")]
    assert sent(effects, A) == sent(effects, B) == [Withdraw(key(US, 1))]
    assert gate.node.subscription_counts() == (0, 0)


def test_a_subscription_ended_before_it_was_established_is_not_answered_as_such() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.handle(RecordReceived(client=ANN, data=b""))
    effects = [*gate.hear(A, Established(key(US, 1))), *gate.hear(B, Established(key(US, 1)))]
    assert answers(effects) == []


def test_a_wave_that_never_comes_back_ends_at_its_deadline() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.now = 1.0
    gate.handle(RecordReceived(client=ANN, data=b""))
    gate.now = 1.0 + FLUSH_DEADLINE_S
    assert answers(gate.handle(Woke())) == [Answer(answer="ended", name="one")]
    assert gate.node.counters.total("flushes_expired") == 1


def test_a_changed_filter_has_no_gap_and_delivers_once() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 1")})
    effects = gate.record(ANN, {"one": ("a/#", "x > 2")})
    assert sent(effects, A) == [Flush(US, 1, 1)]  # the new one is withheld under the old one
    effects = gate.hear(B, publication())
    assert [each.names for each in delivered(effects)] == [("one",)]
    gate.hear(A, Flushed(US, 1, 1))
    effects = gate.hear(B, Flushed(US, 1, 1))
    assert sent(effects, A) == [Announce(key(US, 2), "a/#", "x > 2"), Withdraw(key(US, 1))]
    assert payloads(gate.hear(B, publication(1))) == [b'{"x": 7}']


def test_a_changed_filter_is_not_answered_as_ended() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "x > 1")})
    said = [answer.answer for answer in answers(gate.record(ANN, {"one": ("a/#", "x > 2")}))]
    assert said == ["established"]


def test_a_lease_that_runs_out_ends_the_subscriptions() -> None:
    gate = alone()
    effects = gate.record(ANN, {"one": ("a/#", ""), "two": ("b", "")}, lease_s=30)
    assert wakings(effects) == [30.0]
    gate.now = 20.0
    assert wakings(gate.record(ANN, {"one": ("a/#", ""), "two": ("b", "")}, lease_s=30)) == [50.0]
    gate.now = 30.0
    assert answers(gate.handle(Woke())) == []
    gate.now = 50.0
    effects = gate.handle(Woke())
    assert [answer.answer for answer in answers(effects)] == ["ended", "ended"]
    deleted = PublishLocally(topic=layout.record(US, ANN), payload=b"", retain=True)
    assert deleted in effects  # else it would live once more after a restart
    assert gate.node.counters.total("subscriptions_expired") == 2
    assert gate.node.subscription_counts() == (0, 0)


def test_a_client_back_after_its_lease_begins_anew() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")}, lease_s=5)
    gate.now = 5.0
    gate.handle(Woke())
    gate.record(ANN, {"one": ("a/#", "")}, lease_s=5)
    gate.hear(A, Flushed(US, 1, 1))
    gate.hear(B, Flushed(US, 1, 1))
    assert gate.node.subscription_counts() == (1, 0)
    assert payloads(gate.publish(b"{}")) == [b"{}"]


def test_a_client_with_too_many_subscriptions_that_are_ending_must_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "ENDING_MAX", 1)
    gate = with_two()
    for step in range(3):  # two of them end, behind a wave that does not come back
        gate.record(ANN, {"one": (f"a/{step}", "")})
    (answer,) = answers(gate.record(ANN, {"one": ("a/9", "")}))
    assert (answer.answer, "too many changes" in answer.problem) == ("refused", True)
    assert gate.counted("subscriptions_refused") == {"record": 1}
    gate.now = 2 * FLUSH_DEADLINE_S
    gate.handle(Woke())
    gate.now = 4 * FLUSH_DEADLINE_S
    gate.handle(Woke())
    gate.record(ANN, {"one": ("a/9", "")})
    assert gate.counted("subscriptions_refused") == {"record": 1}


def test_a_subscription_to_topics_that_take_no_part_is_refused() -> None:
    gate = Gate(dataclasses.replace(parts_of(), data=("stocks/#",)))
    (answer,) = answers(gate.record(ANN, {"one": ("weather/#", "")}))
    assert answer.answer == "refused"
    assert "only stocks/# take part" in answer.problem
    assert [each.answer for each in answers(gate.record(ANN, {"one": ("+/a", "")}))] == ["established"]


# ---- a broker that replays nothing to a wildcard ------------------------------------------------------------------


def record_of(topics: str) -> bytes:
    return b'{"subscriptions": {"one": {"topics": "%s"}}}' % topics.encode()


def mirrored(effects: list[Effect]) -> dict[ClientId, bytes]:
    chunks = [payload for topic, payload in local(effects) if topic_matches(layout.mirrors(US), topic)]
    return {client: record for chunk in chunks for client, record in decode_chunk(chunk).items()}


def test_records_are_mirrored_before_they_are_answered_and_taken_out_when_they_end() -> None:
    gate = alone()
    gate.handle(BrokerKnown(traits=Traits(replays_to_wildcards=False)))
    effects = gate.handle(RecordReceived(client=ANN, data=record_of("a/#")))
    assert mirrored(effects) == {ANN: record_of("a/#")}
    topics = [topic for topic, _ in local(effects)]
    assert topics.index(layout.mirror(US, chunk_of(ANN))) < topics.index(layout.control(US, ANN))
    gate.now += 1.0
    effects = gate.handle(RecordReceived(client=ANN, data=b""))
    assert (layout.mirror(US, chunk_of(ANN)), b"") in local(effects)


def test_what_the_mirror_had_of_an_earlier_life_stands_until_its_client_writes_anew() -> None:
    gate = Gate(parts_of())
    known = BrokerKnown(traits=Traits(replays_to_wildcards=False), records=((ANN, record_of("a/#")),))
    assert mirrored(gate.handle(known)) == {ANN: record_of("a/#")}
    assert gate.node.subscription_counts() == (1, 0)
    gate.handle(RecordReceived(client=ANN, data=b""))
    assert gate.node.subscription_counts() == (0, 0)


def test_where_wildcards_are_replayed_nothing_is_mirrored() -> None:
    gate = alone()
    gate.handle(BrokerKnown(traits=USUAL))
    assert mirrored(gate.handle(RecordReceived(client=ANN, data=record_of("a/#")))) == {}

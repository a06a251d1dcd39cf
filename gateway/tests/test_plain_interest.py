"""Plain MQTT clients: what they want is announced, and republished for them once, under its own topic."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import IntakeOpened, InterestLearned, LocallyPublished, PublishesReceived
from mqloom.core.limits import PLAIN_FILTERS_MAX
from mqloom.core.messages import Announce, Flush, Flushed, Message, Withdraw
from mqloom.core.publication import Incoming, Publication
from mqloom.core.topics import topic_filters_intersect
from mqloom.gateway import plain_interest
from mqloom.lab.gate import (
    ANN,
    US,
    A,
    B,
    Gate,
    acknowledged,
    acks,
    key,
    parts_of,
    payloads,
    publication,
    sent,
    with_two,
)


def learn(gate: Gate, *filters: str) -> list[Effect]:
    return gate.handle(InterestLearned(filters=filters))


def republished(effects: Sequence[Effect]) -> list[PublishLocally]:
    return [each for each in effects if isinstance(each, PublishLocally) and each.republished]


def announced(messages: Sequence[Message]) -> list[str]:
    return [each.topics for each in messages if isinstance(each, Announce)]


def echo_of(effect: PublishLocally, receipt: int = 0) -> PublishesReceived:
    """Return how a broker without no-local hands back what was republished."""
    incoming = Incoming(
        topic=effect.topic, payload=effect.payload, qos=effect.qos, receipt=receipt, packet=receipt, again=False
    )
    return PublishesReceived(publications=(incoming,))


def test_what_plain_clients_want_is_announced_and_only_what_nothing_covers() -> None:
    gate = with_two()
    assert announced(sent(learn(gate, "a/#", "a/b"), A)) == ["a/#"]
    gate.hear(B, Announce(key(B, 1), "a/+", ""))
    assert announced(sent(learn(gate, "a/#", "c"), A)) == ["c"]


def test_whether_a_filter_touches_data_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def intersect(text: str, topics: str) -> bool:
        looked.append(text)
        return topic_filters_intersect(text, topics)

    monkeypatch.setattr(plain_interest, "topic_filters_intersect", intersect)
    gate = with_two()
    learn(gate, "a/#", "b")
    learn(gate, "a/#", "b", "c")
    assert sorted(looked) == ["a/#", "b", "c"]
    learn(gate, "c")
    learn(gate, "b", "c")  # forgotten with the last who wanted it
    assert sorted(looked) == ["a/#", "b", "b", "c"]


def test_what_they_want_no_more_is_withdrawn_behind_what_is_under_way() -> None:
    gate = with_two()
    learn(gate, "a/#")
    effects = learn(gate)
    (flush,) = [each for each in sent(effects, A) if isinstance(each, Flush)]
    assert len(republished(gate.hear(A, publication()))) == 1
    effects = [*gate.hear(A, Flushed(US, 1, flush.number)), *gate.hear(B, Flushed(US, 1, flush.number))]
    assert [type(each) for each in sent(effects, A)] == [Withdraw]
    assert republished(gate.hear(A, publication(1))) == []


def test_a_publication_of_another_gateway_is_republished_once_under_its_own_topic() -> None:
    gate = with_two()
    learn(gate, "a/#", "a/+", "#")
    (effect,) = republished(gate.hear(A, publication()))
    assert (effect.topic, effect.payload, effect.qos, effect.retain) == ("a/b", b'{"x": 7}', 1, False)
    assert gate.node.counters.total("publications_republished") == 1


def test_a_retained_one_is_republished_as_retained_with_all_its_properties() -> None:
    gate = with_two()
    learn(gate, "a/#")
    retained = Publication(A, 1, 0, 0, 1, "a/b", b"", 0, True, "text", (("k", "v"),))
    (effect,) = republished(gate.hear(A, retained))
    assert (effect.qos, effect.retain) == (0, True)
    assert (effect.content_type, effect.user_properties) == ("text", (("k", "v"),))


def test_the_retain_flag_crosses_as_it_was_published() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    incoming = Incoming(topic="a/b", payload=b"x", retain=True)
    (message,) = sent(gate.handle(PublishesReceived(publications=(incoming,))), B)
    assert isinstance(message, Publication)
    assert message.retain


def test_what_entered_here_is_not_republished_here() -> None:
    gate = with_two()
    learn(gate, "#")
    assert republished(gate.publish(b"{}")) == []


def test_subscribers_by_content_get_it_besides() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 5")})
    learn(gate, "a/#")
    effects = gate.hear(A, publication())
    assert len(republished(effects)) == 1
    assert payloads(effects) == [b'{"x": 7}']


def test_it_is_acknowledged_upstream_only_when_our_broker_has_it() -> None:
    gate = with_two()
    learn(gate, "a/#")
    gate.answers_local = False
    effects = gate.hear(A, publication())
    (effect,) = republished(effects)
    assert all(done == 0 for _, done in acks(effects, A))
    effects = gate.handle(LocallyPublished(numbers=(effect.number,)))
    assert [done for _, done in acks(effects, A)] == [1]


def test_what_the_broker_hands_back_goes_nowhere_and_is_acknowledged() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "#", ""))
    learn(gate, "a/#")
    (effect,) = republished(gate.hear(A, publication()))
    effects = gate.handle(echo_of(effect, receipt=1))
    assert sent(effects, B) == []
    assert acknowledged(effects) == [1]
    assert gate.node.counters.total("echoes") == 1
    assert gate.node.counters.total("publications_in") == 0
    assert len(sent(gate.handle(echo_of(effect, receipt=2)), B)) == 1  # a client said the same


def test_where_the_broker_hands_nothing_back_an_equal_publication_is_taken_in() -> None:
    gate = with_two()
    gate.handle(IntakeOpened(echoes=False))
    gate.hear(B, Announce(key(B, 1), "#", ""))
    learn(gate, "a/#")
    (effect,) = republished(gate.hear(A, publication()))
    assert len(sent(gate.handle(echo_of(effect, receipt=1)), B)) == 1


def test_a_replay_of_the_brokers_memory_is_no_echo_and_is_not_taken_in() -> None:
    gate = with_two()
    learn(gate, "a/#")
    (effect,) = republished(gate.hear(A, publication()))
    replay = Incoming(topic=effect.topic, payload=effect.payload, replayed=True)
    gate.handle(PublishesReceived(publications=(replay,)))
    assert gate.counted("publications_refused") == {"retained replay": 1}
    gate.handle(echo_of(effect, receipt=1))
    assert gate.node.counters.total("echoes") == 1


@pytest.mark.parametrize("topics", ["mqloom/#", "mqloom/v1/US/sub/+", "$SYS/#", "other/+"])
def test_filters_that_touch_no_data_are_passed_over(topics: str) -> None:
    gate = Gate(replace(parts_of(A), data=("a/#",))).up(A)
    assert announced(sent(learn(gate, topics), A)) == []
    assert gate.counted("interest_refused") == {}


def test_of_a_shared_subscription_the_filter_counts() -> None:
    gate = with_two()
    assert announced(sent(learn(gate, "$share/group/a/+", "$share/x"), A)) == ["a/+"]


def test_a_filter_that_mqtt_does_not_know_is_refused_and_counted_once() -> None:
    gate = with_two()
    for _ in range(3):
        assert announced(sent(learn(gate, "a/#/b", "a/b#"), A)) == []
    assert gate.counted("interest_refused") == {"topic": 2}


def test_past_the_bound_filters_are_not_federated_and_counted() -> None:
    gate = Gate()
    many = [f"a/{number}" for number in range(PLAIN_FILTERS_MAX + 2)]
    learn(gate, *many)
    learn(gate, *many)
    assert gate.counted("interest_refused") == {"too many": 2}
    learn(gate, *many[2:])
    assert gate.node.subscription_counts() == (PLAIN_FILTERS_MAX, 0)
    assert gate.counted("interest_refused") == {"too many": 2}


def test_what_the_adapter_has_passed_over_of_one_client_is_counted_once() -> None:
    gate = with_two()
    for passed_over in (3, 3, 10):
        gate.handle(InterestLearned(filters=("a",), passed_over=passed_over))
    assert gate.counted("interest_refused") == {"client": 10}


def test_what_the_configuration_federates_is_wanted_from_the_start_and_always() -> None:
    gate = Gate(replace(parts_of(A), federate=["a/#"]))
    gate.up(A)
    assert len(republished(gate.hear(A, publication()))) == 1
    learn(gate, "c")
    learn(gate)
    assert len(republished(gate.hear(A, publication(1)))) == 1


def test_what_was_learned_before_the_start_stays() -> None:
    gate = Gate(replace(parts_of(A), federate=["c"]))
    learn(gate, "a/#")
    gate.node._plain.start(["c"], 0.0)
    assert gate.node.subscription_counts() == (2, 0)

"""The whole node: where publications go, and what a bad codec or matcher costs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from mqloom.core import layout
from mqloom.core.effects import PublishLocally, SendFrame
from mqloom.core.events import (
    LinkLost,
    PublishesReceived,
    Woke,
)
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.limits import (
    HOPS_MAX,
    LINK_GRACE_S,
    PAYLOAD_BYTES_MAX,
    PROPERTY_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    USER_PROPERTIES_MAX,
)
from mqloom.core.messages import (
    Announce,
    Established,
)
from mqloom.core.publication import Incoming, Publication
from mqloom.core.subscription import Subscription
from mqloom.gateway.interfaces import (
    Codec,
    Content,
)
from mqloom.gateway.subscribers import Standing
from mqloom.lab.gate import (
    ANN,
    JSON,
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
    with_two,
)
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay


def test_a_publication_goes_to_local_subscribers_and_to_neighbours_that_want_it() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 1")})
    gate.hear(B, Announce(key(B, 1), "a/#", "x > 5"))
    effects = gate.publish(b'{"x": 1}', b'{"x": 2}', b'{"x": 6}')
    assert payloads(effects) == [b'{"x": 2}', b'{"x": 6}']
    assert sent(effects, A) == []
    assert sent(effects, B) == [Publication(US, 1, 2, 0, 1, "a/b", b'{"x": 6}', 1, packet=3)]
    total = gate.node.counters.total
    assert [total(name) for name in ("publications_in", "publications_matched", "publications_forwarded")] == [3, 2, 1]
    assert total("deliveries") == 2


def test_a_neighbours_publication_goes_on_but_never_back() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    effects = gate.hear(A, publication(hops=3))
    assert sent(effects, A) == []
    assert sent(effects, B) == [publication(hops=4)]
    assert gate.node.counters.total("publications_received") == 1


def test_duplicates_are_dropped() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    assert len(payloads(gate.hear(A, publication(), publication()))) == 1
    assert payloads(gate.hear(A, publication())) == []
    assert payloads(gate.hear(B, publication())) == []
    assert gate.node.counters.total("duplicates") == 3
    assert gate.node.counters.total("publications_received") == 1


def test_a_publication_on_the_urgent_stream_is_dropped_and_counted() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    assert payloads(gate.hear_urgently(A, publication(0), publication(1))) == []
    assert gate.counted("publications_dropped") == {"urgent": 2}


def test_our_own_publication_that_comes_back_is_dropped() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.publish(b"{}")
    assert payloads(gate.hear(A, publication(0, origin=US), publication(99, origin=US))) == []
    assert gate.node.counters.total("duplicates") == 2


def test_a_publication_that_crossed_too_many_links_is_delivered_here_and_goes_no_further() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    effects = gate.hear(A, publication(1, hops=HOPS_MAX), publication(2, hops=HOPS_MAX - 1))
    assert len(payloads(effects)) == 2
    assert sent(effects, B) == [publication(2, hops=HOPS_MAX)]
    assert gate.counted("publications_dropped") == {"hops": 1}


def test_a_publication_that_nobody_wants_stays_here() -> None:
    gate = with_two()
    effects = gate.publish(b"{}")
    assert [effect for effect in effects if isinstance(effect, SendFrame | PublishLocally)] == []
    assert gate.node.counters.total("publications_matched") == 0


REFUSED: dict[str, tuple[str, Incoming]] = {
    "a replay of the broker's memory": ("retained replay", Incoming(topic="a/b", payload=b"{}", replayed=True)),
    "a large payload": ("payload too large", Incoming(topic="a/b", payload=bytes(PAYLOAD_BYTES_MAX + 1))),
    "a long topic": ("topic too long", Incoming(topic="a/" + "b" * TOPIC_LENGTH_MAX, payload=b"{}")),
    "many properties": (
        "too many properties",
        Incoming(topic="a/b", payload=b"{}", user_properties=(("k", "v"),) * (USER_PROPERTIES_MAX + 1)),
    ),
    "a long property": (
        "too many properties",
        Incoming(topic="a/b", payload=b"{}", user_properties=(("k", "v" * (PROPERTY_LENGTH_MAX + 1)),)),
    ),
    "a long content type": (
        "too many properties",
        Incoming(topic="a/b", payload=b"{}", content_type="t" * (PROPERTY_LENGTH_MAX + 1)),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_taken_in_is_counted_and_the_rest_of_the_batch_goes_its_way(what: str) -> None:
    reason, incoming = REFUSED[what]
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    good = Incoming(topic="a/b", payload=b"good")
    assert payloads(gate.handle(PublishesReceived(publications=(incoming, good)))) == [b"good"]
    assert gate.counted("publications_refused") == {reason: 1}
    assert gate.node.counters.total("publications_in") == 1


def test_a_publication_without_a_topic_is_not_taken_in() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    assert delivered(gate.handle(PublishesReceived(publications=(Incoming(topic="", payload=b""),)))) == []
    assert gate.counted("publications_refused") == {"topic invalid": 1}


def test_what_is_taken_in_keeps_everything_a_client_gave_it() -> None:
    gate = alone()
    gate.record(ANN, {"one": ("a/#", "")})
    incoming = Incoming(
        topic="a/b",
        payload=b"{}",
        qos=1,
        content_type="application/json",
        user_properties=(("k", "v"),),
        receipt=1,
        packet=9,
    )
    (one,) = delivered(gate.handle(PublishesReceived(publications=(incoming,))))
    assert one.publication == Publication(
        US, 1, 0, 0, 0, "a/b", b"{}", 1, False, "application/json", (("k", "v"),), packet=9
    )


def test_a_publication_for_a_link_that_is_down_is_parked_and_counted() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.handle(LinkLost(neighbour=A))
    assert len(sent(gate.publish(b"{}"), A)) == 1  # within the grace it may still come
    gate.now = LINK_GRACE_S
    assert [topic for topic, _ in local(gate.handle(Woke()))] == [layout.park(US, A)]
    effects = gate.publish(b"{}", b"{}")
    assert sent(effects, A) == []
    assert [topic for topic, _ in local(effects)] == [layout.park(US, A)]
    assert gate.counted("publications_dropped") == {}
    assert gate.node.counters.total("publications_parked") == 3
    assert gate.node.counters.total("publications_forwarded") == 1


def test_a_publication_of_qos_0_for_a_link_that_is_down_is_dropped_and_counted() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.handle(LinkLost(neighbour=A))
    gate.now = LINK_GRACE_S
    gate.handle(Woke())
    effects = gate.handle(PublishesReceived(publications=(Incoming(topic="a/b", payload=b"{}"),) * 2))
    assert sent(effects, A) == []
    assert local(effects) == []
    assert gate.counted("publications_dropped") == {"link down": 2}
    assert gate.node.counters.total("publications_parked") == 0


def test_an_undecodable_payload_reaches_those_who_asked_by_topic_alone() -> None:
    gate = alone()
    gate.record(ANN, {"all": ("a/#", ""), "some": ("a/#", "x > 1"), "none": ("a/#", "x IS NULL")})
    assert [each.names for each in delivered(gate.publish(b"not json"))] == [("all",)]
    assert gate.counted("payloads_undecodable") == {"json": 1}


def test_a_payload_that_one_of_two_codecs_cannot_read_is_matched_on_what_the_other_reads() -> None:
    topic = Codec("topic", lambda publication: {"last": publication.topic[-1]})
    gate = Gate(parts_of(codecs=[("#", topic, JSON)]))
    gate.record(ANN, {"all": ("a/#", ""), "topic": ("a/#", "last = 'b'"), "both": ("a/#", "last = 'b' AND x = 1")})
    assert [each.names for each in delivered(gate.publish(b"not json"))] == [("all", "topic")]
    assert [each.names for each in delivered(gate.publish(b'{"x": 1}'))] == [("all", "both", "topic")]
    assert gate.counted("payloads_undecodable") == {"json": 1}


def test_a_new_filter_is_matched_on_what_no_filter_mentioned_before() -> None:
    gate = alone()
    payload = b'{"x": 1, "y": {"z": 2}, "rest": "%s"}' % (b"." * json_codec.PARTIAL_BYTES_MIN)
    wishes = {"x": ("a/#", "x = 1"), "y": ("a/#", "y.z = 2 AND x = 1"), "rest": ("a/#", "rest IS NULL")}
    for count in (1, 2, 3, 2, 1):
        gate.record(ANN, dict(list(wishes.items())[:count]))
        assert [each.names for each in delivered(gate.publish(payload))] == [("x", "y")[:count]]


def test_a_codec_that_raises_costs_its_own_payload_only() -> None:
    def fragile(publication: Publication) -> Mapping[str, object]:
        return {"x": {b"one": 1}[publication.payload]}

    gate = Gate(parts_of(codecs=[("a/#", Codec("fragile", fragile))]))
    gate.record(ANN, {"some": ("a/#", "x = 1")})
    assert payloads(gate.publish(b"two", b"one")) == [b"one"]
    assert gate.counted("plugin_failures") == {"fragile": 1}


def test_a_standing_subscription_republishes_and_is_announced() -> None:
    gate = Gate(parts_of(A, standing=[Standing("a/#", "x > 1", "mirror")])).up(A)
    assert gate.node.subscription_counts() == (1, 0)
    effects = gate.hear(A, publication(0, b'{"x": 7}'), publication(1, b'{"x": 0}'), Established(key(US, 1)))
    assert local(effects) == [("mirror/a/b", b'{"x": 7}')]
    assert gate.node.counters.total("subscriptions_established") == 1


class Fragile(ScanMatcher):
    """A matcher that fails on one topic."""

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        if any(content.topic == "a/poison" for content in batch):
            raise RuntimeError("a bug")
        return super().match(batch)


def test_a_publication_on_which_the_matcher_fails_twice_is_set_aside_and_the_rest_goes_on() -> None:
    gate = Gate(parts_of(matcher=Fragile()))
    gate.record(ANN, {"one": ("a/#", "")})
    batch = tuple(Incoming(topic=topic, payload=topic.encode()) for topic in ("a/1", "a/poison", "a/2"))
    effects = gate.handle(PublishesReceived(publications=batch))
    assert payloads(effects) == [b"a/1", b"a/2"]
    assert local(effects)[0] == ("mqloom/v1/US/dead/a/poison", b"a/poison")
    assert gate.counted("publications_dead") == {"plugin": 1}
    assert gate.counted("plugin_failures") == {"matcher": 2}


class Lazy(ScanMatcher):
    """A matcher that answers with something else than it should."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        return self.answer  # type: ignore[return-value]


def test_a_matcher_that_names_what_is_not_there_costs_only_that() -> None:
    gate = Gate(parts_of(matcher=Lazy([["nonsense"]])))
    gate.publish(b"{}")
    assert gate.counted("plugin_failures") == {"matcher": 1}
    assert gate.node.counters.total("publications_dead") == 0


@pytest.mark.parametrize("answer", [None, [], [None]])
def test_a_matcher_that_answers_nonsense_is_a_plugin_that_failed(answer: object) -> None:
    gate = Gate(parts_of(matcher=Lazy(answer)))
    gate.publish(b"{}")
    assert gate.node.counters.total("publications_dead") == 1


class Thrifty(ScanMatcher):
    """A matcher that has one list for all its answers."""

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        return self._one_by_one(super().match(batch))  # type: ignore[return-value]

    @staticmethod
    def _one_by_one(answers: Sequence[list[SubscriptionKey]]) -> Iterator[list[SubscriptionKey]]:
        answer: list[SubscriptionKey] = []
        for answer[:] in answers:
            yield answer


def test_a_matcher_may_use_its_answers_again() -> None:
    gate = Gate(parts_of(matcher=Thrifty()))
    gate.record(ANN, {"one": ("a/#", "x > 1")})
    assert payloads(gate.publish(b'{"x": 2}', b'{"x": 1}')) == [b'{"x": 2}']


class Generous(TreeOverlay):
    """An overlay that answers one by one."""

    def route(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        return iter(super().route(anchors, source))  # type: ignore[return-value]


def test_an_overlay_may_answer_one_by_one() -> None:
    gate = Gate(replace(parts_of(A), overlay=Generous(US, [A]))).up(A)
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    assert len(sent(gate.publish(b"{}"), A)) == 1


class Forgetful:
    """A matcher that can take nothing in, and let nothing go."""

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        raise RuntimeError("full")

    def remove(self, key: SubscriptionKey) -> None:
        raise RuntimeError("what?")

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        return [[] for _ in batch]


def test_subscriptions_that_the_matcher_cannot_take_are_refused() -> None:
    gate = Gate(parts_of(matcher=Forgetful()))
    first, second = answers(gate.record(ANN, {"one": ("a/#", ""), "two": ("a/#", "")}))
    assert (first.answer, first.name, second.answer, second.name) == ("refused", "one", "refused", "two")
    assert "matcher" in first.problem
    assert gate.node.subscription_counts() == (0, 0)
    gate.node.check()

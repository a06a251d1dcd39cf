"""Questions about routes: answered like a publication would be, and nothing else happens."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, Log, PublishLocally, SendFrame
from mqloom.core.events import Asked
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.messages import Announce
from mqloom.core.publication import Publication
from mqloom.core.records import Question, RouteAnswer, Way, decode_route, encode_question
from mqloom.core.subscription import Subscription
from mqloom.gateway.interfaces import Codec, Content, Explanation, LinkReport, Overlay
from mqloom.gateway.node import NodeParts
from mqloom.lab.gate import ANN, US, A, B, Gate, key, parts_of, with_two


class Plain:
    """An overlay that gives no reasons."""

    def spread(self, source: GatewayId | None) -> list[GatewayId]:
        return [each for each in (A, B) if each != source]

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> list[GatewayId]:
        return [each for each in (A, B) if each in wanted and each != source]


class Lying(Plain):
    """An overlay whose reasons name somebody to whom there is no link."""

    strategy = "S9"

    def links(self) -> Sequence[LinkReport]:
        return []

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        return Explanation("S9", None, (), (), {GatewayId("MOON"): ()}, ())


class Broken:
    """A matcher that fails on everything."""

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None: ...

    def remove(self, key: SubscriptionKey) -> None: ...

    def match(self, batch: Sequence[Content]) -> Sequence[Collection[SubscriptionKey]]:
        raise RuntimeError("no")


def ask(gate: Gate, data: bytes) -> tuple[RouteAnswer, list[Effect]]:
    effects = gate.handle(Asked(client=ANN, data=data))
    [answer] = [each for each in effects if isinstance(each, PublishLocally)]
    assert answer.topic == layout.control(US, ANN)
    return decode_route(answer.payload), effects


def about(payload: bytes, topic: str = "a/b") -> bytes:
    return encode_question(Question(number=7, topic=topic, payload=payload))


def test_the_answer_says_who_wants_it_and_on_which_links_it_would_leave() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 1")})
    gate.hear(B, Announce(key(B, 1), "a/#", "x > 5"), Announce(key(B, 2), "a/#", "x > 6"))
    before = gate.node.counters.snapshot()
    answer, effects = ask(gate, about(b'{"x": 7}'))
    ways = (Way(gateway=B, kind="primary", serves=(B,)),)
    assert answer == RouteAnswer(answer="route", number=7, strategy="S0", here=1, anchors={B: 2}, ways=ways)
    assert not any(isinstance(each, SendFrame) for each in effects)
    assert gate.node.counters.snapshot() == before
    assert ask(gate, about(b'{"x": 2}'))[0] == RouteAnswer(answer="route", number=7, strategy="S0", here=1)


def failing(publication: Publication) -> Mapping[str, object]:
    raise KeyError("forgotten")


def test_a_payload_that_cannot_be_read_is_told_to_who_asked_and_counted_nowhere() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 1"), "all": ("a/#", "")})
    before = gate.node.counters.snapshot()
    answer, effects = ask(gate, about(b"{x"))
    assert answer.here == 1
    [problem] = answer.undecoded
    assert problem.startswith("json: on 'a/b': ")
    assert gate.node.counters.snapshot() == before
    assert not any(isinstance(each, Log) for each in effects)
    gate.publish(b"{x")
    assert gate.node.counters.total("payloads_undecodable") == 1, "one that is published is counted all the same"


def test_a_codecs_own_mistake_stays_one_but_no_payload_is_counted_for_it() -> None:
    gate = Gate(parts_of(codecs=[("#", Codec("mine", failing))]))
    answer, _ = ask(gate, about(b"{}"))
    assert answer.undecoded == ("mine: on 'a/b': codec raised KeyError: 'forgotten'",)
    counters = gate.node.counters
    assert (counters.total("payloads_undecodable"), counters.total("plugin_failures")) == (0, 1)


def test_neighbours_that_have_not_said_what_they_want_get_everything() -> None:
    answer, _ = ask(Gate(parts_of(A, B)), about(b"{}"))
    assert answer.unheard == (A, B)
    assert [way.gateway for way in answer.ways] == [A, B]


class Rambling(Lying):
    """An overlay whose reasons are not of the right types."""

    def __init__(self, strategy: object = "S9", serves: object = (), bypassed: object = ()) -> None:
        self.said = (strategy, serves, bypassed)

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        strategy, serves, bypassed = self.said
        return Explanation(strategy, None, (), (), {B: serves}, bypassed)  # type: ignore[arg-type, dict-item] # so it is


@pytest.mark.parametrize(
    ("overlay", "failures"),
    [
        (Plain(), 0),
        (Lying(), 1),
        (Rambling(strategy=7), 1),
        (Rambling(serves=(5,)), 1),
        (Rambling(serves=(object(),)), 1),
        (Rambling(serves=None), 1),
        (Rambling(bypassed=None), 1),
    ],
)
def test_without_reasons_the_links_are_named_all_the_same(overlay: Overlay, failures: int) -> None:
    parts = parts_of(A, B)
    gate = Gate(
        NodeParts(gateway=US, epoch=1, neighbours=[A, B], matcher=parts.matcher, overlay=overlay, codecs=parts.codecs)
    ).up(A, B)
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    answer, _ = ask(gate, about(b"{}"))
    assert (answer.strategy, answer.ways) == ("", (Way(gateway=B, kind="primary"),))
    assert gate.node.counters.total("plugin_failures") == failures


@pytest.mark.parametrize(
    ("data", "reason", "problem"),
    [
        (b"what?", "malformed", "it must look like"),
        (about(b"", "a/+"), "topic", "a/+"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_counted(data: bytes, reason: str, problem: str) -> None:
    gate = with_two()
    answer, _ = ask(gate, data)
    assert answer.answer == "refused"
    assert problem in answer.problem
    assert gate.node.counters.reasons("questions_refused") == {reason: 1}


def test_a_topic_that_takes_no_part_is_refused() -> None:
    parts = parts_of(A)
    gate = Gate(
        NodeParts(
            gateway=US,
            epoch=1,
            neighbours=[A],
            matcher=parts.matcher,
            overlay=parts.overlay,
            codecs=parts.codecs,
            data=["stocks/#"],
        )
    )
    assert "only stocks/# take part" in ask(gate, about(b""))[0].problem


def test_a_matcher_that_fails_is_told_and_nothing_is_set_aside() -> None:
    gate = Gate(parts_of(matcher=Broken()))
    answer, effects = ask(gate, about(b"{}"))
    assert "the matcher failed" in answer.problem
    assert answer.number == 7
    assert gate.node.counters.total("publications_dead") == 0
    assert len([each for each in effects if isinstance(each, PublishLocally)]) == 1


def test_whoever_has_too_long_a_name_gets_no_answer() -> None:
    gate = with_two()
    effects = gate.handle(Asked(client=ClientId("x" * (ID_LENGTH_MAX + 1)), data=about(b"")))
    assert not any(isinstance(each, PublishLocally) for each in effects)
    assert gate.node.counters.reasons("questions_refused") == {"client": 1}

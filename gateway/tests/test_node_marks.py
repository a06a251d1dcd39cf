"""The whole node: how an origin's low-water mark comes to those whom its publications reach over soft links."""

import pytest

from mqloom.core.effects import Effect, PublishFence
from mqloom.core.events import FencePassed, LinkLost, PublishesReceived, Woke
from mqloom.core.limits import FENCE_EVERY_S, LINK_GRACE_S
from mqloom.core.messages import Announce, Mark
from mqloom.core.publication import Incoming, Publication
from mqloom.gateway import traffic
from mqloom.lab.gate import US, A, B, Gate, key, publication, sent, with_two

EVERY = 4


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MARK_EVERY", EVERY)


def close_all(gate: Gate, effects: list[Effect]) -> None:
    """Let the broker have read all acknowledgements."""
    for _ in range(3):
        for effect in effects:
            if isinstance(effect, PublishFence):
                gate.handle(FencePassed(number=effect.number))
        gate.now += FENCE_EVERY_S
        effects = gate.handle(Woke())


def test_after_some_publications_a_gateway_tells_its_mark() -> None:
    gate = with_two()
    close_all(gate, gate.publish(*[b"{}"] * EVERY))
    effects = gate.publish(b"{}")
    assert sent(effects, A) == sent(effects, B) == [Mark(US, gate.node._parts.epoch, EVERY)]
    assert sent(gate.publish(b"{}"), A) == []


def test_a_mark_goes_behind_the_publications_of_qos_0_that_are_below_it() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    incoming = tuple(Incoming(topic="a/b", payload=b"{}") for _ in range(EVERY))
    messages = sent(gate.handle(PublishesReceived(publications=incoming)), B)
    assert [type(message) for message in messages] == [Publication] * EVERY + [Mark]


def test_a_mark_travels_on_and_what_is_below_it_is_forgotten() -> None:
    gate = with_two()
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    for sequence in range(3):
        gate.hear(A, publication(sequence=sequence))
    seen = gate.node._traffic._seen
    first = publication(sequence=0)
    assert len(seen) == 3
    mark = Mark(first.origin, first.epoch, 2)
    assert sent(gate.hear(A, mark), B) == [mark]
    assert len(seen) == 1
    before = gate.node.counters.value("duplicates", "")
    gate.hear(A, first)
    assert gate.node.counters.value("duplicates", "") == before + 1


def test_a_mark_does_not_pass_what_is_parked() -> None:
    gate = with_two()
    gate.handle(LinkLost(neighbour=B))
    gate.now += LINK_GRACE_S
    gate.handle(Woke())
    assert sent(gate.hear(A, Mark(A, 1, 7)), B) == []


def test_our_own_mark_that_comes_back_goes_no_further() -> None:
    gate = with_two()
    assert sent(gate.hear(A, Mark(US, 1, 7)), B) == []

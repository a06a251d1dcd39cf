"""What a whole node counts for telemetry while publications go their way."""

from collections.abc import Collection

import pytest

from mqloom.core.ids import SubscriptionKey
from mqloom.core.messages import Announce
from mqloom.gateway.groups import Groups
from mqloom.gateway.tallies import SAMPLES_MAX, LinkTally, Tallied
from mqloom.lab.gate import ANN, A, B, Gate, key, publication, with_two


def watched() -> Gate:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "x > 1"), "two": ("a/#", "x > 4")})
    gate.hear(B, Announce(key(B, 1), "a/#", "x > 5"))
    gate.node.tally.window(0, 0.0)
    return gate


def links(tallied: Tallied) -> dict[str, LinkTally]:
    return {link.gateway: tally for link, tally in tallied.links}


def groups(tallied: Tallied) -> dict[str, tuple[int, float, float]]:
    return {
        str(group.subscription.where): (group.subscribers, group.publications, group.payload_bytes)
        for group in tallied.groups
    }


def test_each_group_is_counted_by_what_its_subscribers_got_and_links_by_what_went_over_them() -> None:
    gate = watched()
    gate.publish(b'{"x": 1}', b'{"x": 2}', b'{"x": 6}')
    tallied = gate.node.tally.window(10, 1.0)
    assert groups(tallied) == {"x > 1": (1, 2, 16), "x > 4": (1, 1, 8)}
    assert links(tallied) == {A: LinkTally(), B: LinkTally(sent=1, sent_bytes=len('{"x": 6}') + len("a/b"))}
    assert links(gate.node.tally.window(10, 1.0)) == {A: LinkTally(), B: LinkTally()}


def test_what_came_from_a_neighbour_and_nobody_here_wants_is_a_pure_forward() -> None:
    gate = watched()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.node.tally.window(0, 0.0)
    gate.hear(B, publication(1, b'{"x": 0}', B), publication(2, b'{"x": 2}', B))
    found = links(gate.node.tally.window(10, 1.0))
    assert (found[A].sent, found[A].pure_forwards) == (2, 1)
    assert (found[B].received, found[B].received_unwanted) == (2, 1)


def test_nothing_is_counted_before_the_first_window_nor_after_the_last() -> None:
    gate = with_two()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.publish(b'{"x": 1}')
    assert groups(gate.node.tally.window(10, 1.0)) == {"": (1, 0, 0)}
    gate.node.tally.stop()
    gate.publish(b'{"x": 1}')
    assert groups(gate.node.tally.window(10, 1.0)) == {"": (1, 0, 0)}


def test_under_load_samples_stand_for_all_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = watched()
    sampled = []
    matched = Groups.matched

    def note(self: Groups, keys: Collection[SubscriptionKey], payload_bytes: int, weight: float) -> None:
        sampled.append(weight)
        matched(self, keys, payload_bytes, weight)

    monkeypatch.setattr(Groups, "matched", note)
    batches, windows = 4 * SAMPLES_MAX // 50, 4
    every = some = sent = 0.0
    for _ in range(windows):
        sampled.clear()
        for batch in range(batches):  # two kinds of batches, in turns
            gate.publish(*[b'{"x": 9}' if batch % 2 else b'{"x": 2}'] * 50)
        tallied = gate.node.tally.window(10, 1.0)
        _, publications, payload_bytes = groups(tallied)["x > 1"]
        assert payload_bytes == publications * 8
        every += publications
        some += groups(tallied)["x > 4"][1]
        sent += links(tallied)[B].sent
        assert len(sampled) <= 2.5 * SAMPLES_MAX
    count = windows * batches * 50
    assert every == pytest.approx(count, rel=0.05)
    assert some == pytest.approx(count / 2, rel=0.15)
    assert sent == pytest.approx(count / 2, rel=0.15)

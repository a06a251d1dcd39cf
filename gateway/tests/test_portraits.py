"""What a node shows of its links: when, how often, how much, and with an overlay that cannot be relied on."""

from collections.abc import Collection, Sequence

import msgspec
import pytest

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.events import LinkLost, Woke
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PORTRAIT_BYTES_MAX, PORTRAIT_EVERY_S, PORTRAIT_LINKS_MAX
from mqloom.core.records import Portrait, decode_portrait
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import Explanation, LinkReport, Overlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.node import NodeParts
from mqloom.gateway.portraits import Painter
from mqloom.lab.gate import US, A, B, Gate, parts_of
from mqloom.plugins.tree_overlay import TreeOverlay


class Plain:
    """An overlay that does not describe itself."""

    def spread(self, source: GatewayId | None) -> list[GatewayId]:
        return [each for each in (A, B) if each != source]

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> list[GatewayId]:
        return [each for each in (A, B) if each in wanted and each != source]


class Boasting(Plain):
    """An overlay that describes itself as it is told to."""

    strategy = "S9"

    def __init__(self, reports: object) -> None:
        self.reports = reports

    def links(self) -> Sequence[LinkReport]:
        if isinstance(self.reports, Exception):
            raise self.reports
        return self.reports  # type: ignore[return-value]

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        raise NotImplementedError


def showing(overlay: Overlay) -> NodeParts:
    parts = parts_of(A, B)
    return NodeParts(
        gateway=US,
        epoch=1,
        neighbours=[A, B],
        matcher=parts.matcher,
        overlay=overlay,
        codecs=parts.codecs,
        shows_links=True,
    )


def portraits(effects: Sequence[Effect]) -> list[Portrait]:
    found = [each for each in effects if isinstance(each, PublishLocally) and each.topic == layout.portrait(US)]
    assert all(each.retain for each in found)
    return [decode_portrait(each.payload) for each in found]


def shown(gate: Gate) -> Portrait | None:
    """Let it be time, and return what is shown then."""
    gate.now += PORTRAIT_EVERY_S
    found = portraits(gate.handle(Woke()))
    return found[-1] if found else None


def up(portrait: Portrait | None) -> dict[GatewayId, bool]:
    assert portrait is not None
    return {link.gateway: link.up for link in portrait.links}


def test_a_link_that_comes_up_or_is_lost_is_shown_but_not_at_once() -> None:
    gate = Gate(showing(TreeOverlay(US, (A, B))))
    gate.up(A)
    portrait = shown(gate)
    assert up(portrait) == {A: True, B: False}
    assert portrait is not None
    assert (portrait.gateway, portrait.epoch, portrait.strategy, portrait.version) == (US, 1, "S0", 1)
    assert portraits(gate.handle(LinkLost(neighbour=A))) == []
    assert up(shown(gate)) == {A: False, B: False}


def test_what_has_not_changed_is_not_shown_again_and_nobody_is_woken_for_it() -> None:
    gate = Gate(showing(TreeOverlay(US, (A, B))))
    gate.up(A)
    assert shown(gate) is not None
    assert shown(gate) is None
    gate.handle(LinkLost(neighbour=A))
    effects = gate.up(A).handle(Woke())
    assert portraits(effects) == []
    assert shown(gate) is None, "lost and back before it was time to look"


def test_a_change_too_soon_after_the_last_is_shown_when_it_is_time() -> None:
    gate = Gate(showing(TreeOverlay(US, (A, B))))
    gate.up(A)
    gate.now += PORTRAIT_EVERY_S
    assert len(portraits(gate.handle(Woke()))) == 1
    gate.now += 1
    gate.up(B)
    assert portraits(gate.handle(Woke())) == []
    gate.now += PORTRAIT_EVERY_S - 1
    assert [up(each) for each in portraits(gate.handle(Woke()))] == [{A: True, B: True}]


class Counting(TreeOverlay):
    """Counts how often it is asked to describe itself."""

    asked = 0

    def links(self) -> list[LinkReport]:
        self.asked += 1
        return list(super().links())


def test_it_is_not_painted_more_often_when_nothing_comes_of_it() -> None:
    overlay = Counting(US, (A, B))
    painter = Painter(US, 1, {}, GuardedOverlay(US, overlay, (A, B), Journal(Counters())))
    for second in range(11):
        painter.note_change()
        painter.drain(float(second))
    assert overlay.asked == 3


def test_it_asks_to_be_woken_for_a_change_that_has_to_wait() -> None:
    overlay = TreeOverlay(US, (A, B))
    journal = Journal(Counters())
    painter = Painter(US, 1, {}, GuardedOverlay(US, overlay, (A, B), journal))
    assert painter.deadline is None
    painter.note_change()
    assert len(painter.drain(1.0)) == 1
    assert painter.deadline is None
    painter.note_change()
    assert painter.drain(2.0) == []
    assert painter.deadline == 1.0 + PORTRAIT_EVERY_S


def test_nodes_that_are_not_asked_to_show_nothing() -> None:
    gate = Gate(parts_of(A)).up(A)
    assert shown(gate) is None


def test_an_overlay_that_does_not_describe_itself_has_its_primary_links_shown() -> None:
    gate = Gate(showing(Plain()))
    gate.up(B)
    portrait = shown(gate)
    assert up(portrait) == {A: False, B: True}
    assert portrait is not None
    assert portrait.strategy == ""
    assert gate.node.counters.total("plugin_failures") == 0


@pytest.mark.parametrize(
    "links",
    [
        RuntimeError("no"),
        None,
        [5],
        [LinkReport(A, "primary", True, 1, -1, 0.0)],
        [LinkReport(A, "woven", True, 1, 0, 0.0)],  # type: ignore[arg-type]
        [LinkReport(A, "soft", True, 2, 0, float("inf"))],
        [LinkReport(GatewayId(""), "soft", True, 2, 0, 0.0)],
    ],
)
def test_an_overlay_that_fails_at_it_is_counted_and_the_primary_links_are_shown(links: object) -> None:
    gate = Gate(showing(Boasting(links)))
    gate.up(A)
    assert up(shown(gate)) == {A: True, B: False}
    assert gate.node.counters.reasons("plugin_failures")["overlay"] >= 1


def test_more_links_than_fit_are_left_out_and_counted() -> None:
    names = [GatewayId(f"{index:\u00e9>128}") for index in range(PORTRAIT_LINKS_MAX + 3)]
    overlay = Boasting([])
    gate = Gate(showing(overlay)).up(A)
    overlay.reports = [LinkReport(name, "candidate", False, 2, 2**62, 0.1) for name in names]
    portrait = shown(gate)
    assert portrait is not None
    assert len(portrait.links) == PORTRAIT_LINKS_MAX
    assert portrait.left_out == 3
    assert portrait.strategy == "S9"


def test_of_too_many_links_candidates_are_left_out_first_and_primary_ones_never() -> None:
    names = [GatewayId(f"P{index}") for index in range(PORTRAIT_LINKS_MAX)]
    overlay = Boasting([])
    gate = Gate(showing(overlay)).up(A)
    candidates = [LinkReport(name, "candidate", False, 2, 0, 0.0) for name in names]
    overlay.reports = [
        *candidates,
        LinkReport(names[0], "soft", True, 2, 0, 0.0),
        LinkReport(A, "primary", True, 1, 0, 0),
    ]
    portrait = shown(gate)
    assert portrait is not None
    assert [link.kind for link in portrait.links[:3]] == ["primary", "soft", "candidate"]
    assert portrait.left_out == 2


def test_the_largest_portrait_can_be_read() -> None:
    names = [GatewayId("\0" * 128) for _ in range(PORTRAIT_LINKS_MAX)]
    overlay = Boasting([])
    gate = Gate(showing(overlay)).up(A)
    overlay.reports = [LinkReport(name, "candidate", False, 2**40, 2**62, 1 / 3) for name in names]
    portrait = shown(gate)
    assert portrait is not None
    assert len(msgspec.json.encode(portrait)) < PORTRAIT_BYTES_MAX

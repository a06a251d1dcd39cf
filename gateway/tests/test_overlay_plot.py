"""The picture of a federation's links."""

from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from mqloom.core.ids import GatewayId
from mqloom.core.records import PaintedLink, Portrait
from mqloom.gateway.overlay_plot import CANDIDATES_MAX, _links, draw, place
from mqloom.gateway.overlay_view import Gallery

A, B, C, D = (GatewayId(name) for name in "ABCD")
STAR = {A: [B, C, D], B: [A], C: [A], D: [A]}


def test_a_chain_is_a_line_from_one_end_to_the_other() -> None:
    places = place({B: [A, C], A: [B], C: [B, D], D: [C]})
    assert sorted(places.values()) == [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]
    assert abs(places[A][0] - places[D][0]) == 3


def test_no_two_gateways_stand_in_the_same_place() -> None:
    assert len(set(place(STAR).values())) == 4
    assert place({A: []}) == {A: (0.0, 0.0)}


def gallery(candidates: int) -> Gallery:
    links = (
        PaintedLink(gateway=A, kind="primary", up=False, distance=1),
        PaintedLink(gateway=C, kind="soft", up=True, distance=2, publications=4, gain=1),
        PaintedLink(gateway=GatewayId("ELSEWHERE"), kind="soft", up=True, distance=2),
        *(PaintedLink(gateway=D, kind="candidate", up=False, distance=2),) * candidates,
    )
    return Gallery({B: Portrait(gateway=B, epoch=1, strategy="S2", links=links)}, {C: "away"})


def test_a_picture_is_drawn_with_those_missing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "links.svg"
    with rc_context({"svg.fonttype": "none"}):
        draw(STAR, gallery(1), "a star", path)
    text = path.read_text("utf-8")
    for word in ("a star", ">A<", ">D<", "not seen", ">candidate<"):
        assert word in text, word
    assert "ELSEWHERE" not in text


@pytest.mark.parametrize(
    ("candidates", "arcs", "label"),
    [
        (CANDIDATES_MAX, CANDIDATES_MAX + 1, "candidate"),
        (CANDIDATES_MAX + 1, 1, f"candidate: {CANDIDATES_MAX + 1}, not drawn"),
    ],
)
def test_too_many_candidates_are_not_drawn_and_the_legend_says_so(candidates: int, arcs: int, label: str) -> None:
    axes = Figure().subplots()
    _links(axes, place(STAR), gallery(candidates))
    assert len(axes.texts) == arcs  # an arrow is an annotation without text
    assert label in axes.get_legend_handles_labels()[1]

"""The picture of a federation's links."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def test_a_link_that_only_one_end_knows_of_is_placed() -> None:
    """After a move from A to C, whose gateway does not run: the configuration, which is asked for it, has the old."""
    places = place({A: [B], B: [A], C: [B], D: [A]})
    assert places == place({A: [B, D], B: [A, C], C: [B], D: [A]})
    assert places == place({A: [B, D], B: [C]})


def test_parts_that_are_not_connected_stand_below_each_other() -> None:
    places = place({A: [B], B: [A], C: [], D: [GatewayId("E")]})
    assert len(set(places.values())) == 5
    heights = [{places[each][1] for each in part} for part in ((A, B), (C,), (D, GatewayId("E")))]
    assert heights == [{0.0}, {1.0}, {2.0}]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), st.integers(1, 10))
def test_everybody_has_a_place_of_its_own_whatever_the_links_are(links: list[tuple[int, int]], count: int) -> None:
    tree: dict[GatewayId, list[GatewayId]] = {GatewayId(str(each)): [] for each in range(count)}
    for one, other in links:
        if one != other:
            tree.setdefault(GatewayId(str(one)), []).append(GatewayId(str(other)))
    places = place(tree)
    assert places.keys() == {*tree, *(each for others in tree.values() for each in others)}
    assert len(set(places.values())) == len(places)


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


def test_after_a_move_one_whose_gateway_does_not_run_is_drawn_too(tmp_path: Path) -> None:
    """A has moved from B to C; B does not run, so what is known of it is the configuration, which names A."""
    links = (PaintedLink(gateway=C, kind="primary", up=True, distance=1),)
    shown = Gallery({A: Portrait(gateway=A, epoch=1, strategy="S2", links=links)}, {B: "away", C: "away"})
    path = tmp_path / "links.svg"
    with rc_context({"svg.fonttype": "none"}):
        draw({A: [C], B: [A, D], C: [D], D: []}, shown, "moved", path)
    assert all(f">{each}<" in path.read_text("utf-8") for each in (A, B, C, D))


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

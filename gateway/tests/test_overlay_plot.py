"""The picture of a federation's links."""

from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.records import PaintedLink, Portrait
from mqloom.gateway.overlay_plot import CANDIDATES_MAX, draw, place
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


@pytest.mark.parametrize("candidates", [1, CANDIDATES_MAX + 1])
def test_a_picture_is_drawn_with_those_missing_in_it(tmp_path: Path, candidates: int) -> None:
    links = (
        PaintedLink(gateway=A, kind="primary", up=False, distance=1),
        PaintedLink(gateway=C, kind="soft", up=True, distance=2, publications=4, gain=1),
        PaintedLink(gateway=GatewayId("ELSEWHERE"), kind="soft", up=True, distance=2),
        *(PaintedLink(gateway=D, kind="candidate", up=False, distance=2),) * candidates,
    )
    path = tmp_path / "links.png"
    draw(STAR, Gallery({B: Portrait(gateway=B, epoch=1, strategy="S2", links=links)}, {C: "away"}), "a star", path)
    assert path.stat().st_size > 5_000

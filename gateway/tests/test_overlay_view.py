"""What is read from a broker about links, believed or not, and how it is told."""

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.records import PaintedLink, Portrait, Status, encode_portrait, encode_status
from mqloom.gateway.overlay_view import Gallery, as_rows, as_table, read_portrait

A, B, C = (GatewayId(name) for name in "ABC")
LINKS = (
    PaintedLink(gateway=B, kind="primary", up=True, distance=1, publications=1_200),
    PaintedLink(gateway=C, kind="soft", up=False, distance=2, publications=7, gain=12.34),
    PaintedLink(gateway=GatewayId("D"), kind="candidate", up=False, distance=3, gain=0.5),
)
PORTRAIT = Portrait(gateway=A, epoch=5, strategy="S2", links=LINKS)


def status(*, alive: bool = True, epoch: int = 5) -> bytes:
    return encode_status(Status(alive=alive, gateway=A, version="0.1.0", epoch=epoch))


def test_what_a_living_gateway_shows_is_believed() -> None:
    assert read_portrait(A, status(), encode_portrait(PORTRAIT)) == PORTRAIT


@pytest.mark.parametrize(
    ("said", "shown", "problem"),
    [
        (None, None, "knows of no gateway"),
        (b"{", encode_portrait(PORTRAIT), "status cannot be read"),
        (status(alive=False), encode_portrait(PORTRAIT), "is not running"),
        (status(), None, "shows no links; is it, with version 0.1.0, older"),
        (status(), b"", "shows no links"),
        (status(), b'{"version":2}', "cannot be read"),
        (status(epoch=6), encode_portrait(PORTRAIT), "of an earlier run"),
    ],
)
def test_why_nothing_is_shown_is_said(said: bytes | None, shown: bytes | None, problem: str) -> None:
    found = read_portrait(A, said, shown)
    assert isinstance(found, str)
    assert problem in found


def test_the_table_has_a_line_for_every_link() -> None:
    assert as_table("shop", Gallery({A: PORTRAIT}, {})).splitlines() == [
        "FROM  TO  KIND       STATE  HOPS  PUBLICATIONS  GAIN",
        "A     B   primary    up        1         1,200     -",
        "A     C   soft       down      2             7  12.3",
        "A     D   candidate  -         3             0   0.5",
        "",
        "federation shop: 1 gateway, strategy S2; links 1 primary, 1 soft, 1 candidate (each from one end)",
    ]


def test_links_that_were_left_out_are_counted() -> None:
    portrait = Portrait(gateway=A, epoch=5, strategy="", links=(), left_out=3)
    assert as_table("shop", Gallery({A: portrait}, {})).endswith("3 more links are not shown: there are too many")


def test_programs_get_the_same() -> None:
    rows = as_rows(Gallery({A: PORTRAIT}, {B: "away"}))
    assert rows["strategies"] == {"A": "S2"}
    assert rows["problems"] == {"B": "away"}
    assert rows["left_out"] == {"A": 0}
    assert isinstance(rows["links"], list)
    assert rows["links"][1] == {
        "from": "A", "to": "C", "kind": "soft", "up": False, "hops": 2, "publications": 7, "gain": 12.34
    }  # fmt: skip

"""What docs/operations.md shows of `mqloom overlay show`, `status` and `route` is what these print."""

import re
from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.core.records import PaintedLink, Portrait, RouteAnswer, Status, Way
from mqloom.core.reports import Report, ReportedLink
from mqloom.gateway.command_route import explain
from mqloom.gateway.overlay_view import Gallery, as_table
from mqloom.gateway.status_view import Overview, Reported, as_tables

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def shown(command: str) -> list[str]:
    """Return the lines that the page shows below a command."""
    found = re.search(rf"^\$ {re.escape(command)} .*?\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found, command
    return found[1].splitlines()


def read(line: str) -> tuple[GatewayId, PaintedLink]:
    """Return who has a link, and the link, of a line of the table."""
    gateway, to, kind, state, hops, publications, gain = line.split()
    link = PaintedLink(
        gateway=GatewayId(to),
        kind=kind,  # type: ignore[arg-type] # a kind that there is not is another table
        up=state == "up",
        distance=int(hops),
        publications=int(publications),
        gain=0.0 if gain == "-" else float(gain),
    )
    return GatewayId(gateway), link


def test_the_table_of_links_is_printed_like_that() -> None:
    lines = [line for line in shown("mqloom overlay show") if line != "..."]
    links: dict[GatewayId, list[PaintedLink]] = {}
    for line in lines[1:-2]:
        gateway, link = read(line)
        links.setdefault(gateway, []).append(link)
    portraits = {
        gateway: Portrait(gateway=gateway, epoch=1, strategy="S2", links=tuple(each)) for gateway, each in links.items()
    }
    *table, counts = as_table("demo", Gallery(portraits, {})).splitlines()
    assert lines[:-1] == table
    assert re.sub(r"\d+", "#", lines[-1]) == re.sub(r"\d+", "#", counts)  # the page leaves some links out


def test_the_state_of_a_federation_is_printed_like_that() -> None:
    link = ReportedLink(gateway=GatewayId("east"), kind="primary", state="down", since=4_700, waiting=2, parked=1_234)
    report = Report(
        gateway=GatewayId("west"),
        epoch=1_000_000,
        at=8_300.0,
        links=(link,),
        held=3,
        lag_s=1.25,
        clients=3,
        subscriptions_here=4,
        subscriptions_elsewhere=9,
        counts={"frames_refused.sender": 5},
    )
    status = Status(alive=True, gateway=report.gateway, version="0.1.0", epoch=report.epoch)
    overview = Overview({report.gateway: Reported(status, report)}, {link.gateway: "is not running"})
    assert as_tables("exchange", overview).splitlines() == shown("mqloom status")


def test_the_way_of_a_publication_is_told_like_that() -> None:
    east, hub, island = (GatewayId(name) for name in ("EAST", "HUB", "ISLAND"))
    answer = RouteAnswer(
        answer="route",
        strategy="S2",
        here=2,
        anchors={east: 1, hub: 1, island: 1},
        ways=(Way(gateway=hub, kind="soft", serves=(east, hub, island)),),
    )
    assert explain(GatewayId("COAST"), answer).splitlines() == shown("mqloom route")

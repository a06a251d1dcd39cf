"""Reports worked out from looks at a gateway: since when, how many are parked, how old the oldest is."""

from mqloom.core.ids import GatewayId
from mqloom.core.limits import REPORT_COUNTS_MAX, REPORT_LINKS_MAX
from mqloom.gateway.holdings import Holdings, Look, Parking, Progress
from mqloom.gateway.links import LinkState
from mqloom.gateway.reporting import Reporting

EMPTY = Parking(False, 0)
A, B, SOFT = map(GatewayId, ("A", "B", "SOFT"))


def look(
    state: LinkState = LinkState.UP,
    park: Parking = EMPTY,
    oldest: int | None = None,
    upcoming: int = 0,
    flows: dict[GatewayId, int] | None = None,
) -> Look:
    holdings = Holdings(3, 2, 1, {B: 7} if flows is None else flows)
    return Look({B: state}, holdings, {B: park}, Progress(oldest, upcoming), 4, 5, 6)


def reporting() -> Reporting:
    return Reporting(A, 1, 100.0)


def test_a_link_is_dated_with_the_look_that_saw_it_change() -> None:
    each = reporting()
    for at, state in ((101.0, LinkState.CONNECTING), (102.0, LinkState.UP), (103.0, LinkState.UP)):
        each.note(look(state), at)
    report = each.report(look(), {}, 103.0)
    assert [(link.gateway, link.kind, link.state, link.since, link.waiting) for link in report.links] == [
        (B, "primary", "up", 102.0, 7)
    ]
    each.note(look(LinkState.DOWN), 104.0)
    (link,) = each.report(look(LinkState.DOWN), {}, 104.0).links
    assert (link.state, link.since) == ("down", 104.0)
    assert (report.held, report.intake, report.deliveries, report.clients) == (3, 2, 1, 6)


def test_what_is_parked_counts_until_the_park_is_known_to_be_empty() -> None:
    each = reporting()
    seen = []
    parks = (Parking(True, 5), Parking(True, 9), Parking(True, 0), Parking(True, 2), Parking(False, 0))
    for second, park in enumerate(parks):
        each.note(look(park=park), 101.0 + second)
        seen.append(each.report(look(park=park), {}, 101.0 + second).links[0].parked)
    assert seen == [5, 9, 9, 9, 0]


def test_the_lag_is_the_age_of_the_oldest_publication_that_is_not_taken_care_of() -> None:
    each = reporting()
    lags = []
    for at, oldest, upcoming in (
        (101.0, None, 0),
        (102.0, 0, 10),
        (103.0, 5, 20),
        (104.0, 12, 20),
        (105.0, 12, 20),
        (106.0, None, 20),
        (107.0, 20, 21),
    ):
        each.note(look(oldest=oldest, upcoming=upcoming), at)
        lags.append(each.report(look(), {}, at).lag_s)
    # Each came after the last look at which its number was yet to be given.
    assert lags == [0.0, 1.0, 2.0, 2.0, 3.0, 0.0, 1.0]


def test_a_gateway_that_idles_remembers_no_old_looks() -> None:
    each = reporting()
    for second in range(1_000):
        each.note(look(upcoming=second), 100.0 + second)
    assert len(each._looks) <= 2


def test_soft_links_come_last_and_what_is_too_much_is_left_out_and_counted() -> None:
    each = reporting()
    many = {SOFT: 1, B: 7} | {GatewayId(f"soft-{number}"): 0 for number in range(REPORT_LINKS_MAX)}
    seen = look(flows=many)
    each.note(seen, 101.0)
    counts = {f"frames_refused.{number:04}": 1 for number in range(REPORT_COUNTS_MAX + 3)}
    broker = {f"messages/{number}": 1.0 for number in range(REPORT_COUNTS_MAX + 3)}
    report = each.report(seen, counts, 101.0, None, broker)
    assert len(report.broker) == REPORT_COUNTS_MAX
    assert [(link.gateway, link.kind, link.state) for link in report.links[:2]] == [
        (B, "primary", "up"),
        (SOFT, "soft", "up"),
    ]
    assert (len(report.links), report.links_left_out) == (REPORT_LINKS_MAX, 2)
    assert (len(report.counts), report.counts_left_out) == (REPORT_COUNTS_MAX, 3)

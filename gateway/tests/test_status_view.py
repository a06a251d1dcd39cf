"""What `mqloom status` makes of what brokers keep: tables, an object, and why something is not to be believed."""

from mqloom.core.ids import GatewayId
from mqloom.core.records import Status, encode_status
from mqloom.core.reports import Report, ReportedLink, encode_report
from mqloom.gateway.status_view import Overview, Reported, as_rows, as_tables, read_report

A, B = map(GatewayId, ("A", "B"))
STATUS = Status(alive=True, gateway=A, version="0.1.0", epoch=1_000_000)
LINK = ReportedLink(gateway=B, kind="primary", state="down", since=4_700.0, waiting=2, parked=1_234)
REPORT = Report(
    gateway=A,
    epoch=1_000_000,
    at=8_300.0,
    links=(LINK,),
    held=3,
    lag_s=1.25,
    broker={"heap/current": 33_752.0},
    counts={"frames_refused.key": 5, "publications_in": 9, "publications_dead": 1},
)
OVERVIEW = Overview({A: Reported(STATUS, REPORT)}, {B: "it does not answer"})


def test_the_tables_show_gateways_links_and_failures_by_reason() -> None:
    assert (
        as_tables("exchange", OVERVIEW)
        == """\
GATEWAY  VERSION   RUNS FOR  CLIENTS  SUBSCRIPTIONS  HELD  INTAKE  DELIVERIES    LAG
A        0.1.0    2 h 1 min        0          0 + 0     3       0           0  1.2 s

FROM  TO  KIND     STATE  FOR  WAITING  PARKED
A     B   primary  down   1 h        2   1,234

GATEWAY  COUNTER            REASON  COUNT
A        frames_refused     key         5
A        publications_dead  -           1

federation exchange: 1 of 2 gateways run, 1 link is not up"""
    )


def test_the_object_has_the_same() -> None:
    rows = as_rows("exchange", OVERVIEW)
    assert rows["well"] is False
    (gateway,) = rows["gateways"]  # type: ignore[misc]
    assert gateway["broker"] == {"heap/current": 33_752.0}  # type: ignore[has-type]
    assert rows["failures"] == [
        {"gateway": A, "counter": "frames_refused", "reason": "key", "count": 5},
        {"gateway": A, "counter": "publications_dead", "reason": "-", "count": 1},
    ]
    assert rows["problems"] == {B: "it does not answer"}


def test_a_broker_that_is_drained_is_named() -> None:
    drained = Report(gateway=A, epoch=1_000_000, at=1.0, links=(), clients=1_200, migrating=50, draining=True)
    text = as_tables("exchange", Overview({A: Reported(STATUS, drained, is_drained=True)}, {}))
    assert "\n\nA is being drained: 1,200 clients there, 50 on their way\n\n" in text
    last = Report(gateway=A, epoch=1_000_000, at=1.0, links=(), clients=1, migrating=1, draining=True)
    text = as_tables("exchange", Overview({A: Reported(STATUS, last, is_drained=True)}, {}))
    assert "\n\nA is being drained: 1 client there, 1 on their way\n\n" in text


def test_the_mark_tells_of_a_drain_before_the_report_does_and_of_its_end() -> None:
    before = encode_report(Report(gateway=A, epoch=1_000_000, at=1.0, links=(), clients=3))
    reported = read_report(A, encode_status(STATUS), before, b"a mark")
    assert isinstance(reported, Reported)
    overview = Overview({A: reported}, {})
    text = "A has the mark of a drain that its gateway does not report: if that lasts for over 10 s, it does not"
    assert f"\n\n{text} obey the mark, and `mqloom undrain A` removes it\n\n" in as_tables("exchange", overview)
    assert as_rows("exchange", overview)["gateways"][0]["draining"]  # type: ignore[index]
    later = encode_report(Report(gateway=A, epoch=1_000_000, at=1.0, links=(), draining=True))
    for mark in (None, b""):
        reported = read_report(A, encode_status(STATUS), later, mark)
        assert isinstance(reported, Reported)
        assert "drained" not in as_tables("exchange", Overview({A: reported}, {}))


def test_a_federation_is_well_when_all_run_and_all_links_are_up() -> None:
    up = Report(gateway=A, epoch=1_000_000, at=1.0, links=())
    assert Overview({A: Reported(STATUS, up)}, {}).is_well
    assert not Overview({A: Reported(STATUS, REPORT)}, {}).is_well
    assert not Overview({A: Reported(STATUS, up)}, {B: "gone"}).is_well


def test_why_a_report_is_not_believed_is_said() -> None:
    status, report = encode_status(STATUS), encode_report(REPORT)
    assert read_report(A, status, report) == Reported(STATUS, REPORT)
    dead = encode_status(Status(alive=False, gateway=A, version="0.1.0", epoch=1))
    later = encode_status(Status(alive=True, gateway=A, version="0.1.0", epoch=2_000_000))
    for found, words in (
        (read_report(A, None, report), "knows of no gateway"),
        (read_report(A, b"{}", report), "status cannot be read"),
        (read_report(A, dead, report), "is not running"),
        (read_report(A, status, b""), "reports nothing yet"),
        (read_report(A, status, b"{}"), "report cannot be read"),
        (read_report(A, later, report), "of an earlier run"),
        (read_report(B, status, report), "of an earlier run"),
    ):
        assert isinstance(found, str)
        assert words in found

"""Reports are read as they were written; what is too large, of another version or no report at all is refused."""

import pytest

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import REPORT_BYTES_MAX
from mqloom.core.reports import Report, ReportedLink, decode_report, encode_report

LINK = ReportedLink(gateway=GatewayId("B"), kind="primary", state="down", since=3.5, waiting=2, parked=9)
REPORT = Report(gateway=GatewayId("A"), epoch=7, at=12.5, links=(LINK,), counts={"frames_refused.park": 1})


def test_a_report_is_read_as_it_was_written_and_later_fields_are_passed_over() -> None:
    assert decode_report(encode_report(REPORT)) == REPORT
    assert decode_report(encode_report(REPORT).replace(b"{", b'{"news":[1],', 1)) == REPORT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        encode_report(REPORT).replace(b'"version":1', b'"version":2'),
        encode_report(REPORT).replace(b'"down"', b'"sideways"'),
        encode_report(REPORT) + b" " * REPORT_BYTES_MAX,
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_report(data)

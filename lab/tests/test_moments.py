"""A client that is moved, with a fault at every moment."""

import json

import pytest

from mqloom.client import traveller
from mqloom.core.command import main
from mqloom.lab.moments import FAULTS, NAME, moments, run_moments


def test_there_are_moments_enough_and_at_some_of_them_nothing_is_found() -> None:
    assert len(moments()) > 300
    report = run_moments(len(moments()) // 4)
    assert report.problem is None
    assert report.runs == report.moments * len(FAULTS) >= 4 * len(FAULTS)


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_at_no_moment_anything_is_found() -> None:
    report = run_moments(1)
    assert (report.problem, report.moments) == (None, len(moments()))


def test_a_client_that_forgets_where_it_came_from_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traveller.Traveller, "_run_errands", lambda *_: None)
    assert main(["lab", "exhaust", "--only", NAME, "--json"]) == 1
    [report] = json.loads(capsys.readouterr().out)["scopes"]
    assert "sessions at" in report["problem"] or "messages held" in report["problem"]
    assert report["trace"]

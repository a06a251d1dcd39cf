"""The experiment on duplicate removal notices what it is for."""

import pytest

from mqloom.core import seen
from mqloom.core.seen import Seen
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import seen_memory


def missed() -> set[str]:
    return {row.name for row in seen_memory.run(1, True, tell_nobody).rows if not row.ok}


def test_it_notices_entries_that_are_never_cleared_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "TRIM_MIN", 1_024)
    assert missed() == {"entries held, at most", "the same, second half over first half"}


def test_it_notices_what_is_forgotten_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_memory, "Seen", lambda: Seen(window=200))
    assert "new ones taken for duplicates" in missed()


def test_it_notices_what_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "first_time", lambda *_: True)
    assert "duplicates let through" in missed()

"""The experiment on lost stores notices what it is for."""

import pytest

from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import store_loss
from mqloom.lab.world import Losses, World


def test_it_notices_what_is_lost_without_having_been_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "losses", lambda self: Losses())
    monkeypatch.setattr(store_loss, "AFTER_QUICK_S", (20.0,))
    missed = {row.name for row in store_loss.run(1, True, tell_nobody).rows if not row.ok}
    assert missed == {"without: missed by all", "without: against the promise"}


def test_the_longer_the_link_is_down_the_more_is_in_the_store() -> None:
    picture = store_loss.run(1, True, tell_nobody).picture
    assert picture is not None
    missed, held = picture.panels[0].curves
    assert [height for _, height in held.points] == sorted(height for _, height in held.points)
    assert held.points[-1][1] > 50
    assert all(few <= many for (_, few), (_, many) in zip(missed.points, held.points, strict=True))

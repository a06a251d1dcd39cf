"""Pictures of reports."""

from pathlib import Path

import pytest

from mqloom.lab.experiment import Curve, Panel, Picture
from mqloom.lab.report_plot import draw

PICTURE = Picture(
    x_label="seconds",
    panels=(
        Panel("held", (Curve("held", ((0.0, 0.0), (1.0, 5.0))), Curve("bound", ((0.0, 9.0), (1.0, 9.0)), "bound"))),
        Panel("delay", (Curve("mean", ((0.0, 0.1), (1.0, 100.0))), Curve("nothing yet", ())), logarithmic=True),
        Panel("seen", (Curve("seen", ((0.0, 0.1), (1.0, 100.0)), "dots"),)),
    ),
    spans=((0.2, 0.6, "link down"),),
)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture.{suffix}"
    draw(PICTURE, "an experiment", path)
    assert path.stat().st_size > 5_000

"""Whether a picture can be drawn, found out before minutes are spent on what it would show."""

from importlib.util import find_spec
from pathlib import Path

from mqloom.core.errors import LocalError


class PlotError(LocalError):
    """No picture can be drawn here."""


def check_plot(path: Path) -> None:
    """Raise PlotError if nothing can be drawn or written there."""
    if find_spec("matplotlib") is None:
        raise PlotError("--plot needs matplotlib: pip install 'mqloom[plot]'")
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PlotError(f"--plot {path}: the name of the picture ends in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise PlotError(f"--plot {path}: there is no folder {path.resolve().parent}")

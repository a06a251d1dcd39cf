"""A bar on standard error that shows how far a long run is."""

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mqloom.lab.experiment import Tell, tell_nobody


@contextlib.contextmanager
def progress_bar(name: str) -> Iterator[Tell]:
    """Give a function that moves the bar; it shows nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield tell_nobody
        return
    columns = (
        TextColumn(name, markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)

        def tell(share: float, text: str) -> None:
            progress.update(task, completed=share, description=text)

        yield tell

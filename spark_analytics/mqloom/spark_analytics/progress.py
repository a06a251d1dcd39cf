"""Shows on standard error how far a long job is, where somebody looks; else a line for each step.

Spark's own bar shows the tasks of each step below it.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Final, TextIO

WIDTH: Final = 24


@contextlib.contextmanager
def progress(name: str, stream: TextIO | None = None) -> Iterator[Callable[[float, str], None]]:
    """Give a function that is told which share is done and what is done now."""
    target = sys.stderr if stream is None else stream
    is_seen = target.isatty()
    last = ""

    def tell(share: float, text: str) -> None:
        nonlocal last
        if is_seen:
            done = round(WIDTH * min(max(share, 0.0), 1.0))
            line = f"{name} {'#' * done}{'.' * (WIDTH - done)} {share:4.0%}  {text}"
            target.write(f"\r\x1b[2K{line}")
        elif text != last:
            target.write(f"{name}: {share:4.0%} {text}\n")
        last = text
        target.flush()

    try:
        yield tell
    finally:
        if is_seen:
            target.write("\r\x1b[2K")
            target.flush()

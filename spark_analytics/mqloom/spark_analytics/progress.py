"""Shows on standard error how far a long job is: a bar where somebody looks, else a line for each step and tenth."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Final, TextIO

WIDTH: Final = 24
LOGGED_PARTS: Final = 10
"""Of a step that goes on a log has a line for each tenth of the whole."""


class Progress:
    """A bar, or lines of a log: is called with the share that is done and what is done now."""

    def __init__(self, name: str, stream: TextIO, *, is_logged: bool) -> None:
        self._name = name
        self._stream = stream
        self._is_seen = stream.isatty()
        self._is_logged = is_logged
        self._share = self._upto = 0.0
        self._text = ""
        self._logged = ("", 0)

    def __call__(self, share: float, text: str, upto: float | None = None) -> None:
        """Begin a step; with `upto` the share goes on to there with the tasks of the step."""
        self._share, self._upto, self._text = share, share if upto is None else upto, text
        self._write(share, text)

    def tasks(self, done: int, tasks: int) -> None:
        """Tell how far the step is."""
        share = self._share + (self._upto - self._share) * done / tasks
        self._write(share, self._text, f": {done:,} of {tasks:,} tasks")

    def _write(self, share: float, text: str, detail: str = "") -> None:
        logged = text, int(share * LOGGED_PARTS + 1e-9)
        if self._is_seen:
            done = round(WIDTH * min(max(share, 0.0), 1.0))
            line = f"{self._name} {'#' * done}{'.' * (WIDTH - done)} {share:4.0%}  {text}{detail}"
            self._stream.write(f"\r\x1b[2K{line}")
            self._stream.flush()
        elif self._is_logged and logged != self._logged:
            self._logged = logged
            self._stream.write(f"{self._name}: {share:4.0%} {text}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Take the bar away."""
        if self._is_seen:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


@contextlib.contextmanager
def progress(name: str, stream: TextIO | None = None, *, is_logged: bool = True) -> Iterator[Progress]:
    """Give what is told how far a job is; without `is_logged` it shows nothing where nobody looks."""
    found = Progress(name, sys.stderr if stream is None else stream, is_logged=is_logged)
    try:
        yield found
    finally:
        found.clear()

"""Where telemetry is to be read: a folder at hand, or a collector's address; in a form that travels to executors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.asking import Asking
from mqloom.spark_analytics.ranges import LocalRanges, Ranges


@dataclass(frozen=True, slots=True)
class Place:
    """A spool, by its absolute path or by the address at which its collector serves readers."""

    spool: str = ""
    endpoint: str = ""

    @contextmanager
    def ranges(self) -> Iterator[Ranges]:
        """Open it for reading."""
        if self.spool:
            yield LocalRanges(Path(self.spool))
            return
        asking = Asking(self.endpoint)
        try:
            yield asking.ranges()
        finally:
            asking.close()

    def __str__(self) -> str:
        return self.spool or self.endpoint


def place_of(spool: str | Path | None, endpoint: str | None) -> Place:
    """Return where to read; raises LocalError unless it is exactly one place.

    Paths become absolute here, for executors have other working directories.
    """
    if bool(spool) == bool(endpoint):
        raise LocalError("telemetry is read from one place: give a folder (spool) or an address (endpoint)")
    return Place(spool=str(Path(spool).absolute())) if spool else Place(endpoint=endpoint or "")

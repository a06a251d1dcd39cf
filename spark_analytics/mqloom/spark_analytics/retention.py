"""How long the spool keeps what it has: by age and by size, decided by the collector alone.

Whole segments go, the oldest first, and never the last. Readers do not hold them back: a query that is further behind
than what is kept gets an error that says so.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from mqloom.spark_analytics.spool import segments_of


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds since a segment was last written, and bytes of all segments; 0 is no bound."""

    age_s: float = 0.0
    bytes_max: int = 0

    def keep_from(self, folder: Path, now: float) -> int:
        """Return the position before which everything may go; `now` is a Unix time. Raises OSError."""
        segments = [(position, path.stat()) for position, path in segments_of(folder)]
        total = sum(stat.st_size for _, stat in segments)
        keep = segments[0][0] if segments else 0
        for (_, stat), (following, _) in pairwise(segments):
            is_old = bool(self.age_s) and stat.st_mtime < now - self.age_s
            is_too_much = bool(self.bytes_max) and total > self.bytes_max
            if not (is_old or is_too_much):
                break
            total -= stat.st_size
            keep = following
        return keep


KEEP_ALL: Final = Retention()

"""What counts as full and as overloaded: the same for findings and forecasts as for alerts.

The two thresholds are those of the load agents (`overload_low` and `overload_high`, docs/balancing.md): above the first
a broker takes no more load, above the second it gives some away.
"""

from typing import Final

from mqloom.spark_analytics.alerts import RESOURCES as ALERTED
from mqloom.spark_analytics.alerts import Limits

FULL: Final = Limits().end_ratio
"""A resource that is used by more has no room left: load agents give such a broker nothing more."""

OVERLOADED: Final = Limits().begin_ratio
"""From this on a broker gives load away at once, if it can."""

RESOURCES: Final = {name: column for name, (column, _) in ALERTED.items()}
"""What can be full, and the column of load records that tells."""

WORDS: Final = {"input": "input", "output": "output", "cpu": "processor", "memory": "memory"}
"""Resources as people call them."""

REMEDIES: Final = {
    "input": "move subscribers whose publications nobody else there wants, or add a broker",
    "output": "move subscribers to a broker that can send more, or raise what this one can send",
    "cpu": "move subscribers away, or give the broker's machine more processor",
    "memory": "move subscribers away, or give the broker's machine more memory",
}
"""What to do when a resource is full."""

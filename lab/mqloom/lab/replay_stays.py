"""Where and when subscribers of a recording came, and when they left: without the moves that load agents made.

A group of subscribers has a number at each broker, by time. When all of them together become more, some have come, to
where it grew; when they become fewer, those who came last have left. A number that goes down at one broker and up at
another is a move, and moves are what a replay makes by itself. While somebody moves it is at both: so only what stays
for a while counts.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.lab.padres_workload import Stay

LASTING: Final = 3
"""Steps of time for which a group must have so many subscribers for them to count."""

Numbers = NDArray[np.int64]


def stays_of(counts: Mapping[GatewayId, Numbers], step_s: float) -> list[Stay]:
    """Return the stays of one group; `counts` has its number of subscribers at each broker, step by step."""
    total = np.asarray(sum(counts.values()))
    lasting = np.minimum.reduce([_shifted(total, steps) for steps in range(LASTING)])
    here: list[tuple[float, GatewayId]] = []
    left: list[Stay] = []
    for step in range(len(lasting)):
        missing = int(lasting[step]) - len(here)
        for _ in range(-missing):
            since, broker = here.pop()
            left.append(Stay(since, step * step_s, broker))
        if missing > 0:
            here += [(step * step_s, broker) for broker in _grown(counts, step, missing)]
    return [*left, *(Stay(since, float("inf"), broker) for since, broker in here)]


def _shifted(values: Numbers, steps: int) -> Numbers:
    """Return what comes so many steps later; at the end the last."""
    return np.concatenate([values[steps:], np.repeat(values[-1:], steps)])


def _grown(counts: Mapping[GatewayId, Numbers], step: int, missing: int) -> list[GatewayId]:
    """Return where so many came: where there are more than a step before, most of them first."""
    grown = {broker: int(values[step]) - (int(values[step - 1]) if step else 0) for broker, values in counts.items()}
    found: list[GatewayId] = []
    for broker in sorted(grown, key=lambda broker: (-grown[broker], broker)):
        found += [broker] * max(0, min(grown[broker], missing - len(found)))
    fullest = max(sorted(counts), key=lambda broker: int(counts[broker][step]))
    return found + [fullest] * (missing - len(found))

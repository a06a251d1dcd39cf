"""What each broker is like at its busy hours, in the terms of the load agents' estimators.

The busy level is what a broker's buckets of the last week reach in the busiest twentieth of them: an answer about an
average hour would be no answer about capacity.
"""

from typing import Final

import numpy as np

from mqloom.core.estimators import BrokerEstimate, DelayModel, estimate_of
from mqloom.core.load import Load
from mqloom.spark_analytics.capacity.frames import Columns, split
from mqloom.spark_analytics.capacity.service import ServiceModel

RECENT_S: Final = 7 * 86_400.0
BUSY: Final = 0.95
MEMORY_FIT_LEAST: Final = 0.5
"""How much of the memory's variation subscriptions must explain before some of it counts as theirs."""


def busy_estimates(
    over_time: Columns, utilisation: Columns, models: dict[str, ServiceModel]
) -> dict[str, BrokerEstimate]:
    """Return an estimate for each broker, from collected `utilisation_over_time` and `utilisation`."""
    memory = dict(zip(map(str, utilisation["gateway"]), _memory_each(utilisation), strict=True))
    found = {}
    for gateway, series in split(over_time, "gateway").items():
        load = _busy_load(series)
        model = models.get(gateway)
        delay = model.delay if model is not None else DelayModel(0.0, load.delay_s)
        found[gateway] = estimate_of(load, delay, memory.get(gateway, 0.0))
    return found


def _memory_each(utilisation: Columns) -> list[float]:
    return [
        float(each) if each is not None and each > 0 and fits is not None and fits >= MEMORY_FIT_LEAST else 0.0
        for each, fits in zip(utilisation["memory_each"], utilisation["memory_fit"], strict=True)
    ]


def _busy_load(series: Columns) -> Load:
    times = series["bucket_at"].astype(np.float64)
    recent = times >= times.max() - RECENT_S

    def busy(name: str) -> float:
        return float(np.quantile(series[name][recent].astype(np.float64), BUSY))

    last = int(np.argmax(times))
    rate, input_ratio = busy("input_rate"), busy("input_mean")
    return Load(
        input_ratio=input_ratio,
        # The delay that goes with both: equation 1 holds at the busy level, too.
        delay_s=input_ratio / rate if rate else busy("delay_mean"),
        output_ratio=busy("output_mean"),
        input_rate=rate,
        output_bytes_s=busy("output_bytes_s"),
        output_bytes_s_max=float(series["output_bytes_s_max"][last]),
        subscriptions=round(float(series["subscriptions"][last])),
        cpu_ratio=busy("cpu_mean"),
        memory_ratio=busy("memory_mean"),
    )

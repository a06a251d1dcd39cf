"""What each broker is like at its busy hours, in the terms of the load agents' estimators.

The busy level is what a broker's buckets of the last week reach in the busiest twentieth of them: an answer about an
average hour would be no answer about capacity. Work is told by deliveries where a gateway counts them now, as it is for
the agents; and as they do it in a session (`OwnLoad.taught`), a broker that has had about one amount of work takes from
another what a delivery costs.
"""

import math
from typing import Final

import numpy as np

from mqloom.core.estimators import BrokerEstimate, DelayModel, estimate_of, informed
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
    counting = counting_of(utilisation)
    found = {}
    for gateway, series in split(over_time, "gateway").items():
        load = _busy_load(series, counts_deliveries=gateway in counting)
        model = models.get(gateway)
        delay = model.delay if model is not None else DelayModel(0.0, load.delay_s)
        is_known = model is not None and not model.is_proportional
        found[gateway] = estimate_of(load, delay, memory.get(gateway, 0.0), is_slope_known=is_known)
    return _taught(found, models)


def busy_clients(over_time: Columns) -> dict[str, int]:
    """Return how many clients each broker had at its busy hours; from collected `utilisation_over_time`.

    What they took is known of these hours: shared among as many as there ever were it would be too little for each.
    """
    return {gateway: math.ceil(_busy(series, "clients")) for gateway, series in split(over_time, "gateway").items()}


def counting_of(utilisation: Columns) -> set[str]:
    """Return the brokers that told their deliveries in their last window."""
    rows = zip(utilisation["gateway"], utilisation["counts_deliveries"], strict=True)
    return {str(gateway) for gateway, counts in rows if counts}


def _taught(found: dict[str, BrokerEstimate], models: dict[str, ServiceModel]) -> dict[str, BrokerEstimate]:
    """Return the estimates with what a delivery costs from whoever has seen most, where a broker cannot know it."""
    knowing = [name for name, each in found.items() if each.deliveries_s is not None and each.is_slope_known]
    if not knowing:
        return found
    teacher = found[max(knowing, key=lambda name: (models[name].samples, name))]
    return {
        name: each if each.deliveries_s is None or each.is_slope_known else informed(each, teacher)
        for name, each in found.items()
    }


def _memory_each(utilisation: Columns) -> list[float]:
    return [
        float(each) if each is not None and each > 0 and fits is not None and fits >= MEMORY_FIT_LEAST else 0.0
        for each, fits in zip(utilisation["memory_each"], utilisation["memory_fit"], strict=True)
    ]


def _busy(series: Columns, name: str) -> float:
    """Return what is reached in the busiest twentieth of the last week."""
    times = series["bucket_at"].astype(np.float64)
    recent = times >= times.max() - RECENT_S
    return float(np.nanquantile(series[name][recent].astype(np.float64), BUSY))


def _busy_load(series: Columns, *, counts_deliveries: bool) -> Load:
    def busy(name: str) -> float:
        return _busy(series, name)

    last = int(np.argmax(series["bucket_at"].astype(np.float64)))
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
        deliveries_s=busy("deliveries_s") if counts_deliveries else None,
    )

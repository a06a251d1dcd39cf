"""Weeks of telemetry by formula, with a known truth: daily pattern, weekends, noise, and growth where planted.

What is planted is known exactly, so an analysis can be checked: which broker's which resource grows, and when its
busiest hour is full. A federation in which nothing is planted is quiet: it swings from day to night, rests at weekends
and is noisy, and nobody needs to do anything about it.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import GroupRecord, LinkRecord, LoadRecord, Record, ServiceRecord

Resource = Literal["input", "output", "memory"]

DAY_S: Final = 86_400.0
START_AT: Final = 1_772_409_600.0
"""Monday, 2 March 2026, 00:00 UTC."""
WINDOW_S: Final = 600.0
TRAFFIC_S: Final = 3_600.0
SWING: Final = 0.35
WEEKEND: Final = 0.85
NOISE: Final = 0.06
LASTING: Final = 0.8
"""How much of the noise of a window is still there in the next."""
BASE_S: Final = 0.0004
SLOPE_S: Final = 0.000002
"""What a publication costs, and in addition for each subscription."""
WANTED: Final = 0.05
"""The share of publications that a subscription wants: so many deliveries each costs, for each subscription."""
BYTES_S_MAX: Final = 1_000_000.0
MEMORY_BESIDE: Final = 0.15
MEMORY_EACH: Final = 0.0002
SYMBOLS: Final = ("IBM", "YHOO", "MSFT", "AAPL", "ORCL", "SUNW", "DELL", "INTC")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What grows, by which share of what it was at first a day."""

    broker: GatewayId
    resource: Resource
    per_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Weeks:
    """A federation as a star around its first broker, and what is planted."""

    seed: int
    days: int = 21
    brokers: tuple[GatewayId, ...] = tuple(map(GatewayId, ("HUB", "NORTH", "EAST", "SOUTH", "WEST")))
    growth: tuple[Growth, ...] = ()
    heavy: dict[GatewayId, float] = field(default_factory=dict)
    """Brokers that carry so many times as much as they would."""

    @property
    def end_at(self) -> float:
        """When it ends, in Unix time."""
        return START_AT + self.days * DAY_S


@dataclass(slots=True)
class _Broker:
    """What is drawn of one broker."""

    output: float
    """Its output utilisation on a mean day at first."""
    rate: float
    subscriptions: int
    hot_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What one broker does in each window; the records are made of it."""

    times: Floats
    """The ends of the windows, in Unix time."""
    input: Floats
    output: Floats
    memory: Floats
    rate: Floats
    delay_s: Floats
    subscriptions: Floats


def weeks(plan: Weeks) -> dict[GatewayId, list[Record]]:
    """Return the records of each broker, in the order of time."""
    drawn = _drawn(plan)[0]
    return {name: _records(plan, name, drawn[name], each) for name, each in series(plan).items()}


def series(plan: Weeks) -> dict[GatewayId, Series]:
    """Return the same as numbers only, which is much faster: for whoever looks at hundreds of seeds."""
    drawn, generator = _drawn(plan)
    return {name: _series(plan, name, drawn[name], generator) for name in plan.brokers}


def full_at(plan: Weeks, growth: Growth, full: float) -> float:
    """Return when the busiest hour of a working day is as full as that, without noise; in Unix time."""
    broker = _drawn(plan)[0][growth.broker]
    heavy = plan.heavy.get(growth.broker, 1.0)
    hour = np.sinc(3_600 / DAY_S)  # the mean of the busiest hour is a little less than its peak
    swing = 1 + SWING * hour
    if growth.resource == "output":
        at_first = broker.output * heavy * swing
    elif growth.resource == "input":
        at_first = broker.rate * heavy * swing * (BASE_S + SLOPE_S * broker.subscriptions)
    else:
        each = MEMORY_EACH * broker.subscriptions
        return START_AT + (full - MEMORY_BESIDE - each) / (each * growth.per_day) * DAY_S
    return START_AT + (full / at_first - 1) / growth.per_day * DAY_S


def _drawn(plan: Weeks) -> tuple[dict[GatewayId, _Broker], np.random.Generator]:
    """Return the brokers, and the generator from which all else is drawn after them."""
    generator = np.random.default_rng(plan.seed)
    return {name: _draw(generator) for name in plan.brokers}, generator


def _draw(generator: np.random.Generator) -> _Broker:
    return _Broker(
        output=float(generator.uniform(0.26, 0.38)),
        rate=float(generator.uniform(120, 200)),
        subscriptions=int(generator.integers(300, 500)),
        hot_hour=float(generator.uniform(12, 16)),
    )


def _series(plan: Weeks, name: GatewayId, broker: _Broker, generator: np.random.Generator) -> Series:
    times: Floats = START_AT + WINDOW_S * np.arange(1, int(plan.days * DAY_S / WINDOW_S) + 1, dtype=np.float64)
    middle: Floats = times - WINDOW_S / 2
    days = (middle - START_AT) / DAY_S
    swing = _swing(middle, broker.hot_hour) * plan.heavy.get(name, 1.0)
    grows = {each.resource: 1 + each.per_day * days for each in plan.growth if each.broker == name}
    even = np.ones_like(days)
    output = broker.output * swing * grows.get("output", even) * _noise(generator, len(days))
    rate = broker.rate * swing * grows.get("input", even) * _noise(generator, len(days))
    drift = 1 + 0.06 * np.sin(days / 3 + broker.hot_hour)
    subscriptions = np.round(broker.subscriptions * drift * grows.get("memory", even))
    delay_s = BASE_S + SLOPE_S * subscriptions
    seen_s = delay_s * np.exp(generator.normal(0, 0.03, len(days)))
    memory = MEMORY_BESIDE + MEMORY_EACH * subscriptions + generator.normal(0, 0.003, len(days))
    return Series(
        times=times,
        input=rate * seen_s,
        output=output,
        memory=memory,
        rate=rate,
        delay_s=seen_s,
        subscriptions=subscriptions,
    )


def _records(plan: Weeks, name: GatewayId, broker: _Broker, found: Series) -> list[Record]:
    rate, seen_s, output, subscriptions = found.rate, found.delay_s, found.output, found.subscriptions
    records: list[Record] = []
    for place in range(len(found.times)):
        at = float(found.times[place])
        ratio = float(found.input[place])
        records.append(
            LoadRecord(
                at=at,
                window_s=WINDOW_S,
                input_ratio=ratio,
                delay_s=float(seen_s[place]),
                output_ratio=float(output[place]),
                cpu_ratio=ratio + 0.03,
                memory_ratio=float(found.memory[place]),
                input_rate=float(rate[place]),
                output_bytes_s=float(output[place]) * BYTES_S_MAX,
                output_bytes_s_max=BYTES_S_MAX,
                subscriptions=int(subscriptions[place]),
                clients=int(subscriptions[place]) // 2,
                deliveries_s=WANTED * float(rate[place] * subscriptions[place]),
            )
        )
        publications = round(float(rate[place]) * WINDOW_S)
        number = int(subscriptions[place])
        given = round(WANTED * number * publications)
        records.append(ServiceRecord(at, number, float(seen_s[place]), publications, given))
        if not at % TRAFFIC_S:
            records += _traffic(plan, name, broker, at, float(rate[place]), float(output[place]))
    return records


def _swing(middle: Floats, hot_hour: float) -> Floats:
    """Return the daily pattern, its peak at the hot hour, and weekends (the first day of Unix time was a Thursday)."""
    hours = (middle % DAY_S) / 3_600
    swing: Floats = 1 + SWING * np.cos(2 * np.pi * (hours - hot_hour) / 24)
    is_weekend = (np.floor(middle / DAY_S) + 3) % 7 >= 5
    return np.where(is_weekend, WEEKEND, 1.0) * swing


def _noise(generator: np.random.Generator, count: int) -> Floats:
    """Return factors around one that wander: each window has most of the noise of the one before."""
    fresh = generator.normal(0, NOISE * np.sqrt(1 - LASTING**2), count)
    found = np.empty(count)
    last = generator.normal(0, NOISE)
    for place in range(count):
        last = LASTING * last + fresh[place]
        found[place] = last
    return np.exp(found - NOISE**2 / 2)


def _traffic(plan: Weeks, name: GatewayId, broker: _Broker, at: float, rate: float, output: float) -> list[Record]:
    """Return what links and groups had in the last hour: most of what comes over links is wanted."""
    hub = plan.brokers[0]
    peers = plan.brokers[1:] if name == hub else (hub,)
    share = 0.6 / len(peers)
    sent = round(rate * TRAFFIC_S * share)
    records: list[Record] = [
        LinkRecord(
            at=at,
            window_s=TRAFFIC_S,
            peer=peer,
            kind="primary",
            is_up=True,
            sent=sent,
            pure_forwards=sent // 10 if name == hub else 0,
            sent_bytes=sent * 220,
            received=sent,
            received_unwanted=sent // 12,
        )
        for peer in peers
    ]
    count = broker.subscriptions // 2
    for place, symbol in enumerate(SYMBOLS):
        subscribers = max(1, count // (2 + 2 * place))
        publications = round(rate * TRAFFIC_S / 20)
        size = round(output * BYTES_S_MAX * TRAFFIC_S / len(SYMBOLS) / subscribers)
        records.append(GroupRecord(at, TRAFFIC_S, "stocks/#", f"symbol = '{symbol}'", subscribers, publications, size))
    return records

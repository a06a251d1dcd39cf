"""When telemetry begins and ends, and who is silent at the end, whatever single clocks say.

Times are those of the gateways' own clocks, and one that is wrong must not decide for all. What tells is the order in
which records came to the collector, their positions. Somebody whose last times are old although its records come among
the newest is not silent: one of two clocks is wrong, and the majority is right. And times that lie apart from most,
although what has them came among these, or that lie apart by a year, as 1970 does where a machine has no time yet, are
left out.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mqloom.spark_analytics.capacity.dates import DAY_S
from mqloom.spark_analytics.capacity.frames import Columns, columns, frame_of
from mqloom.spark_analytics.capacity.silence import is_long, late_of

APART_DAYS: Final = 2
"""Times lie apart if there are so many days between of which nobody told anything."""
APART_DAYS_MAX: Final = 365
"""What lies apart by so much is left out in whatever order it came."""
SPARSE: Final = 2.0
"""Whether times lie apart is looked at where the whole is longer by this factor than what any gateway told of."""


def ends_columns() -> list[Column]:
    """Return what is to be known of the load records of each gateway: how many, when, and where the last one is."""
    at = f.unix_micros("at")
    return [
        f.count("*").alias("windows"),
        f.avg("window_s").alias("window_s"),
        (f.min(at) / 1e6).alias("first_at"),
        (f.max(at) / 1e6).alias("last_at"),
        f.max("position").alias("last_position"),
        (f.max_by(at, "position") / 1e6).alias("told_at"),
    ]


@dataclass(frozen=True, slots=True)
class WrongClock:
    """One gateway whose times are not those of the others."""

    gateway: str
    ahead_s: float
    """By how much it is ahead; negative: behind."""
    is_past: bool
    """Whether it was so for a while, and not at the end."""


@dataclass(slots=True)
class Extent:
    """From when to when there is telemetry, without what wrong clocks have told."""

    start_at: float
    end_at: float
    silent: dict[str, float] = field(default_factory=dict)
    """Who tells nothing any more, and when it did last."""
    wrong: list[WrongClock] = field(default_factory=list)
    is_cut: bool = False
    """Whether there are records outside."""

    def within(self, load: DataFrame) -> DataFrame:
        """Return the load records that count."""
        at = f.unix_micros("at") / 1e6
        return load.where(at.between(self.start_at, self.end_at)) if self.is_cut else load


def extent_of(load: DataFrame, ends: Columns) -> Extent:
    """Return when load records begin and end, which is looked up again only if something is odd.

    `ends` are the collected columns of `ends_of`, which `utilisation` has too, of one gateway at least.
    """
    found = Extent(*_bounds(ends))
    told = ends["windows"].astype(np.float64) * ends["window_s"].astype(np.float64)
    if found.end_at - found.start_at > max(SPARSE * float(told.max()), APART_DAYS * DAY_S):
        _leave_out_apart(load, found)
        if found.is_cut:
            ends = columns(ends_of(found.within(load)))
    _compare(found.within(load), ends, found)
    return found


def ends_of(load: DataFrame) -> DataFrame:
    """Return what `extent_of` wants to know of each gateway."""
    return load.groupBy("gateway").agg(*ends_columns())


def _bounds(ends: Columns) -> tuple[float, float]:
    return float(ends["first_at"].min()), float(ends["last_at"].max())


def _leave_out_apart(load: DataFrame, found: Extent) -> None:
    """Leave out the days that cannot be right: those apart from most that came among these, or are a year apart."""
    seconds = f.unix_micros("at") / 1e6
    days = columns(
        load.groupBy(f.floor(seconds / DAY_S).alias("day")).agg(
            f.count("*").alias("windows"),
            f.min(seconds).alias("first_at"),
            f.max(seconds).alias("last_at"),
            f.min("position").alias("first_position"),
            f.max("position").alias("last_position"),
        )
    )
    day = days["day"].astype(np.int64)
    order = np.argsort(day, kind="stable")
    stretch = np.empty(len(day), np.int64)
    stretch[order] = np.cumsum(np.diff(day[order], prepend=day[order][0]) > APART_DAYS)
    main = int(np.argmax(np.bincount(stretch, days["windows"].astype(np.float64))))
    kept = stretch == main
    among = days["first_position"][kept].min(), days["last_position"][kept].max()
    for number in [*range(main - 1, -1, -1), *range(main + 1, int(stretch.max()) + 1)]:
        these = stretch == number
        if number < main:
            gap_days = day[kept].min() - day[these].max()
            is_among = days["last_position"][these].max() > among[0]
        else:
            gap_days = day[these].min() - day[kept].max()
            is_among = days["first_position"][these].min() < among[1]
        if not is_among and gap_days <= APART_DAYS_MAX:
            kept |= these
            continue
        ahead_s = float(gap_days * DAY_S) * (-1 if number < main else 1)
        left_out = seconds.between(
            *(float(each) for each in (days["first_at"][these].min(), days["last_at"][these].max()))
        )
        names = columns(load.where(left_out).select("gateway").distinct())["gateway"]
        found.wrong += [WrongClock(gateway, ahead_s, is_past=True) for gateway in sorted(map(str, names))]
    found.is_cut = not bool(kept.all())
    found.start_at = float(days["first_at"][kept].astype(np.float64).min())
    found.end_at = float(days["last_at"][kept].astype(np.float64).max())


def _compare(load: DataFrame, ends: Columns, found: Extent) -> None:
    """Find the end by the majority's clocks, and who is silent before it."""
    last_at, told_at, window_s = (_by_gateway(ends, name) for name in ("last_at", "told_at", "window_s"))
    known = dict(ends)
    while True:
        late = late_of(known)
        latest = max(known["gateway"], key=lambda each: (last_at[str(each)], str(each)))
        found.end_at = last_at[str(latest)]
        if not late:
            return
        off_s = _off(load, str(latest), late, ends)
        if 2 * len(off_s) < len(known["gateway"]) - (len(late) - len(off_s)):
            found.silent = {broker: at for broker, at in late.items() if broker not in off_s}
            found.wrong += [WrongClock(broker, -each, is_past=False) for broker, each in sorted(off_s.items())]
            return
        # As many or more are there and behind: then it is the latest that is ahead.
        is_past = is_long(last_at[str(latest)] - told_at[str(latest)], window_s[str(latest)])
        found.wrong.append(WrongClock(str(latest), float(np.median(list(off_s.values()))), is_past))
        found.is_cut = True
        kept = known["gateway"] != latest
        known = {name: values[kept] for name, values in known.items()}


def _by_gateway(ends: Columns, name: str) -> dict[str, float]:
    return dict(zip(map(str, ends["gateway"]), ends[name].tolist(), strict=True))


def _off(load: DataFrame, latest: str, late: dict[str, float], ends: Columns) -> dict[str, float]:
    """Return of those whose last times are old, but who are there at the end, by how much they are behind the latest.

    When somebody was there last is told by what the latest had told when that one's last record came.
    """
    places, window_s = (_by_gateway(ends, name) for name in ("last_position", "window_s"))
    asked = frame_of(load.sparkSession, [(each, int(places[each])) for each in late], "late string, upto long")
    told = load.where(f.col("gateway") == latest).join(f.broadcast(asked), f.col("position") <= f.col("upto"))
    heard = columns(told.groupBy("late").agg((f.max(f.unix_micros("at")) / 1e6).alias("at")))
    heard_at = dict(zip(map(str, heard["late"]), heard["at"].tolist(), strict=True))
    end_at = _by_gateway(ends, "last_at")[latest]
    return {
        broker: at - last_at
        for broker, last_at in late.items()
        if (at := heard_at.get(broker)) is not None and not is_long(end_at - at, window_s[broker])
    }

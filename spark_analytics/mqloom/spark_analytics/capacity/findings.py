"""What somebody should know or do, in plain words, the most urgent first; in a quiet federation, nothing.

Each rule is a function from the analysis to findings, and says nothing unless what it sees is beyond chance: a
threshold for how much, and one for how long or how often.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from mqloom.spark_analytics.alerts import Limits
from mqloom.spark_analytics.capacity.analysis import Analysis, latest
from mqloom.spark_analytics.capacity.balancing import is_ordinary
from mqloom.spark_analytics.capacity.dates import DAY_S, day, length, moment
from mqloom.spark_analytics.capacity.estimates import RECENT_S
from mqloom.spark_analytics.capacity.frames import Columns, split
from mqloom.spark_analytics.capacity.overloads import Overload, overloads_of
from mqloom.spark_analytics.capacity.thresholds import OVERLOADED, REMEDIES, RESOURCES, WORDS
from mqloom.spark_analytics.capacity.utilisation import HOUR_S

Urgency = Literal["now", "soon", "plan"]

LIMITS: Final = Limits()
"""Those of alerts."""

URGENCIES: Final[dict[Urgency, str]] = {
    "now": "It hurts already.",
    "soon": "It will hurt within weeks, or costs something every day.",
    "plan": "Worth knowing when you plan.",
}

SOON_DAYS: Final = 30.0
UNEVEN_SHARE: Final = 0.25
"""Imbalance counts if it is there in the last quarter of the time, of which no more than a week is looked at."""
UNEVEN_LEAST: Final = 0.2
"""By how much a broker must be fuller than the mean of the others."""
UNEVEN_FACTOR: Final = 1.5
UNEVEN_SAME: Final = 0.6
"""In which share of that time it must be the same broker."""
FORWARDS_LEAST: Final = 1.0
YIELD_LEAST: Final = 0.5
SAVED_LEAST: Final = 0.1
SAVING_FROM: Final = 0.5
"""What aggregating would save is told of brokers whose input is used by this much: others can do without."""
DOWN_MOST: Final = 0.02
DROPPED_MOST: Final = 0.01
FINDINGS_MAX: Final = 100
"""More are not listed; what is most urgent comes first."""


class CapacityFinding(Struct, frozen=True, kw_only=True):
    """One thing to know."""

    kind: str
    urgency: Urgency
    broker: str
    title: str
    evidence: str
    action: str
    section: str
    """Where the report has more about it."""
    severity: float
    """Of two that are equally urgent the one with more comes first."""


def findings_of(analysis: Analysis) -> list[CapacityFinding]:
    """Return all of them, ranked."""
    found = [each for rule in RULES for each in rule(analysis) if each.broker not in analysis.silent]
    found += _silent(analysis)  # of whom there is nothing else to do
    order = list(URGENCIES)
    found.sort(key=lambda each: (order.index(each.urgency), -each.severity, each.kind, each.broker))
    return found[:FINDINGS_MAX]


def _silent(analysis: Analysis) -> Iterator[CapacityFinding]:
    for broker, last_at in analysis.silent.items():
        yield CapacityFinding(
            kind="silent",
            urgency="soon" if last_at >= analysis.end_at - RECENT_S else "plan",
            broker=broker,
            title=f"{broker} tells nothing any more, since {moment(last_at)} UTC",
            evidence=f"Others told something for another {length(analysis.end_at - last_at)}. It is in no answer about "
            "what is to come: nobody is sent there, and it has no room.",
            action="If it was taken away, this is as it should be. Else look whether its gateway runs, and reaches the "
            "collector.",
            section="utilisation",
            severity=1 / (1 + (analysis.end_at - last_at) / DAY_S),
        )


def _overloads(analysis: Analysis) -> Iterator[CapacityFinding]:
    table, by_broker = analysis.utilisation, _overloads_by_broker(analysis)
    for place, broker in enumerate(analysis.brokers):
        found = by_broker.get(broker, [])
        if not found:
            continue
        lasting = [each for each in found if each.is_lasting]
        still = bool(lasting)
        most = max(lasting or found, key=lambda each: (each.windows, float(table[f"{each.resource}_p95"][place])))
        resource, seconds = most.resource, most.windows * float(table["window_s"][place])
        worst = float(table[f"{resource}_max"][place])
        yield CapacityFinding(
            kind="overload",
            urgency="now" if still else "soon",
            broker=broker,
            title=f"{broker} {'is' if still else 'was'} overloaded: its {WORDS[resource]} reached {worst:.0%}",
            evidence=f"Its {WORDS[resource]} was used by {OVERLOADED:.0%} and more for {length(seconds)}, "
            f"{most.share:.0%} of {'the last day' if most.is_of_last_day else 'the time that was looked at'}. "
            + _until(analysis, most),
            action=f"{REMEDIES[resource].capitalize()}." + _room(analysis, broker),
            section="utilisation",
            severity=worst,
        )


def _overloads_by_broker(analysis: Analysis) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for each in overloads_of(analysis):
        found.setdefault(each.gateway, []).append(each)
    return found


def _until(analysis: Analysis, overload: Overload) -> str:
    if not overload.is_lasting:
        return f"At the end it was no longer so; the last time was {moment(overload.last_at)} UTC."
    before_s = analysis.end_at - overload.last_at
    if before_s < 2 * HOUR_S:
        return "It was so until the end."
    return f"The last time was {length(before_s)} before the end."


def _full(analysis: Analysis) -> Iterator[CapacityFinding]:
    """What is full at busy hours, whether it grows or not, if that is not told as overload already."""
    growing = {(each.gateway, each.resource): each.trend for each in analysis.forecasts}
    overloads = _overloads_by_broker(analysis)
    for broker, series in split(analysis.daily, "gateway").items():
        if broker not in analysis.estimates:
            continue
        levels = _busy_levels(analysis, broker, series, overloads.get(broker, []))
        levels |= {
            name: max(level, growing[broker, name].peak) for name, level in levels.items() if (broker, name) in growing
        }
        resource = max(levels, key=lambda name: levels[name], default="")
        if not resource or levels[resource] <= analysis.full:
            continue
        trend, level = growing.get((broker, resource)), levels[resource]
        grows = f" That grows by {trend.growth_per_day * 100:.2f} points a day." if trend is not None else ""
        yield CapacityFinding(
            kind="full",
            urgency="soon",
            broker=broker,
            title=f"{broker} is full at its busiest hours: its {WORDS[resource]} is used by {level:.0%}",
            evidence=f"From {analysis.full:.0%} on there is no room left, and whatever comes in addition waits."
            + grows,
            action=f"{REMEDIES[resource].capitalize()}." + _room(analysis, broker),
            section="utilisation" if trend is None else "forecast",
            severity=2 + level,  # what is full comes before what will be
        )


def _busy_levels(analysis: Analysis, broker: str, series: Columns, overloads: Iterable[Overload]) -> dict[str, float]:
    """Return how full each resource is at busy hours; none where that is overload, nought where it was a spike."""
    recent_at = analysis.end_at - RECENT_S
    recent = series["bucket_at"].astype(np.float64) >= recent_at
    lately = {each.resource for each in overloads if each.last_at >= recent_at}
    levels = {}
    for name, column in RESOURCES.items():
        if name not in lately:  # overload long ago is not in the busy level, which is of the last week
            often = int((series[f"{name}_mean"][recent].astype(np.float64) > analysis.full).sum())
            levels[name] = float(getattr(analysis.estimates[broker], column)) if often >= LIMITS.windows else 0.0
    return levels


def _room(analysis: Analysis, broker: str) -> str:
    others = [each for each in analysis.headroom if each.gateway in analysis.members and each.room > 0]
    others = [each for each in others if each.gateway != broker]
    if not others:
        return " No other broker has room."
    best = max(others, key=lambda each: (-round(each.utilisation, 2), each.room, each.gateway))
    return f" {best.gateway} has most room: it is used by {best.utilisation:.0%} at busy hours."


def _forecasts(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.forecasts:
        trend = each.trend
        days = (each.full_at - analysis.end_at) / DAY_S
        if trend.peak > analysis.full:  # it is full now: `_full`, or overload
            continue
        assert trend.full_from is not None
        until = f"and {day(trend.full_to)}" if trend.full_to is not None else "and a time too far ahead to say"
        yield CapacityFinding(
            kind="growth",
            urgency="soon" if days <= SOON_DAYS else "plan",
            broker=each.gateway,
            title=f"{each.gateway} will be full on {day(each.full_at)}: its {WORDS[each.resource]} grows",
            evidence=f"At the busiest hour of the day (about {trend.peak_hour}:00 UTC) its {WORDS[each.resource]} is "
            f"used by {trend.peak:.0%}, and that grows by {trend.growth_per_day * 100:.2f} points a day. It "
            f"reaches {analysis.full:.0%} between {day(trend.full_from)} {until}, nine times in ten.",
            action=f"Before {day(trend.full_from)}: {REMEDIES[each.resource]}." + _room(analysis, each.gateway),
            section="forecast",
            severity=1 + 1 / (1 + max(0.0, days)),  # a date comes before what has none
        )


def _imbalance(analysis: Analysis) -> Iterator[CapacityFinding]:
    last = latest(analysis.imbalance, UNEVEN_SHARE, RECENT_S)
    for metric in ("utilisation",):
        chosen = last["metric"] == metric
        if not chosen.any():
            continue
        most, others = (last[name][chosen].astype(np.float64) for name in ("most", "others"))
        factor = float(np.median(last["most_over_mean"][chosen].astype(np.float64)))
        apart = float(np.median(most - others))
        broker, times = Counter(map(str, last["broker"][chosen])).most_common(1)[0]
        if apart < UNEVEN_LEAST or factor < UNEVEN_FACTOR or times < UNEVEN_SAME * chosen.sum():
            continue
        variation = float(np.median(last["variation"][chosen].astype(np.float64)))
        yield CapacityFinding(
            kind="imbalance",
            urgency="soon",
            broker=broker,
            title=f"{broker} carries much more than the others",
            evidence=f"It is used by {np.median(most):.0%}, the others by {np.median(others):.0%} on average: "
            f"{factor:.1f} times the mean, with a coefficient of variation of {variation:.2f}.",
            action='Let load agents move subscribers (mode = "on"), or lower local_ratio if they run.'
            + _room(analysis, broker),
            section="utilisation",
            severity=apart,
        )


def _failures(analysis: Analysis) -> Iterator[CapacityFinding]:
    bad = {}
    for scenario in analysis.scenarios:
        broker = scenario.name.removesuffix(" fails")
        if broker == scenario.name or _is_overloaded(analysis, broker):
            continue  # that its load is too much is so without any failure: first things first
        fuller = [each for each in scenario.full_ones if each.before is None or each.after > each.before]
        if fuller:
            bad[broker] = max(fuller, key=lambda each: (each.after, each.gateway))
    if not bad:
        return
    broker, worst = max(bad.items(), key=lambda each: (each[1].after, each[0]))
    names = ", ".join(sorted(bad))
    which = f"This is so for {len(bad)} brokers: {names}." if len(bad) > 1 else "This is so for no other broker."
    yield CapacityFinding(
        kind="failure",
        urgency="plan",
        broker=broker,
        title=f"If {broker} fails, the others cannot take its subscribers",
        evidence=f"{worst.gateway} would be used by {worst.after:.0%} ({WORDS[worst.resource]}) at busy hours. {which}",
        action="Add a broker, or make the others stronger; the report says what one more would change.",
        section="what-if",
        severity=worst.after,
    )


def _is_overloaded(analysis: Analysis, broker: str) -> bool:
    return broker in analysis.estimates and analysis.estimates[broker].utilisation >= OVERLOADED


def _predictions(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.balancing.predictions:
        if not each.is_failing:
            continue
        changes = [change for change in analysis.balancing.changes if change.gateway == each.gateway]
        leaning = "less" if each.bias > 0 else "more"
        leans = f", and mostly {leaning} came" if abs(each.bias) > each.error / 2 else ", now more, now less"
        what = {"input": "input", "match": "matching delay", "output": "output"}[each.metric]
        yield CapacityFinding(
            kind="prediction",
            urgency="soon",
            broker=each.gateway,
            title=f"What load agents predict for {each.gateway} does not come true",
            evidence=f"In {each.sessions} sessions the {what} predicted was wrong by {each.error:.0%} (median){leans}.",
            action=" ".join(_changes([(change.setting, change.direction) for change in changes])),
            section="balancing",
            severity=each.error,
        )


def _changes(found: list[tuple[str, str]]) -> Iterator[str]:
    for setting, direction in dict.fromkeys(found):
        yield f"{direction.capitalize()} {setting}."


def _undone(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.balancing.undone:
        if is_ordinary(each):
            continue
        settings = [(change.setting, change.direction) for change in analysis.balancing.changes if not change.gateway]
        yield CapacityFinding(
            kind="undone",
            urgency="soon",
            broker=each.gateway,
            title=f"{each.gateway} and {each.partner} give each other the same load to and fro",
            evidence=f"{each.undone} of {each.sessions} sessions for {each.metric} gave back what the one before took.",
            action=" ".join(_changes(settings)),
            section="balancing",
            severity=each.share,
        )


def _links(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.links:
        if each.kind == "candidate":
            continue
        was_down, lately = 1 - each.up_share > DOWN_MOST, 1 - each.up_share_lately > DOWN_MOST
        if not (was_down or lately):
            continue
        is_down = lately and not each.is_up
        share, of = (1 - each.up_share_lately, "the last day") if lately else (1 - each.up_share, "the time")
        state = "is down: it was so" if is_down else "was down"
        yield CapacityFinding(
            kind="link",
            urgency="now" if is_down else "soon",
            broker=each.gateway,
            title=f"The link {each.name} {state} for {share:.0%} of {of}",
            evidence="Publications for the brokers behind it waited, parked on the broker before it.",
            action=f"Look at the network between them, and at the log of the gateway {each.gateway}.",
            section="overlay",
            severity=share,
        )


def _forwards(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.passings:
        if each.yields is None or each.yields >= YIELD_LEAST or each.pure_forwards_s < FORWARDS_LEAST:
            continue
        best = next(iter(analysis.candidates), None)
        hint = f" A soft link from {best.gateway} to {best.peer} would be worth most." if best else ""
        yield CapacityFinding(
            kind="forwards",
            urgency="plan",
            broker=each.gateway,
            title=f"{each.gateway} mostly hands on what nobody there wants",
            evidence=f"Of {each.received_s:,.1f} publications a second that come to it over links, "
            f"{each.unwanted_s:,.1f} are wanted by nobody there: a yield of {each.yields:.0%}.",
            action=f'Let the overlay weave soft links around it (strategy = "S2").{hint}',
            section="overlay",
            severity=each.pure_forwards_s,
        )


def _redundancy(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.redundancy:
        model = analysis.models.get(each.gateway)
        is_known = model is not None and (model.is_by_deliveries or not model.is_proportional)
        if is_known and each.saved_ratio >= SAVED_LEAST and each.input_ratio >= SAVING_FROM:
            yield CapacityFinding(
                kind="redundancy",
                urgency="plan",
                broker=each.gateway,
                title=f"{each.gateway} matches {each.subscriptions:,} subscriptions where {each.needed:,} would do",
                evidence=f"The others are covered by these. Aggregated, a publication would take "
                f"{each.delay_needed_s * 1000:.2f} ms and not {each.delay_s * 1000:.2f}, and its input "
                f"{each.input_needed_ratio:.0%} and not {each.input_ratio:.0%}.",
                action="Aggregate them: one shared subscription for all who want the same.",
                section="redundancy",
                severity=each.saved_ratio,
            )


def _telemetry(analysis: Analysis) -> Iterator[CapacityFinding]:
    share = analysis.dropped / (analysis.dropped + analysis.records_all)
    if share > DROPPED_MOST:
        yield CapacityFinding(
            kind="telemetry",
            urgency="soon",
            broker="",
            title="Some telemetry is missing",
            evidence=f"Gateways dropped {analysis.dropped:,} records that the collector did not take in time: "
            f"{share:.0%} of all.",
            action="Look whether the collector runs, and has room on its disk. What is said here may be off.",
            section="about",
            severity=share,
        )


def _clocks(analysis: Analysis) -> Iterator[CapacityFinding]:
    for each in analysis.wrong_clocks:
        off = f"{length(abs(each.ahead_s))} {'ahead' if each.ahead_s > 0 else 'behind'}"
        yield CapacityFinding(
            kind="clock",
            urgency="soon",
            broker=each.gateway,
            title=f"The clock of {each.gateway} {'was' if each.is_past else 'is'} {off}",
            evidence="By the order in which records came to the collector, and the times of others. "
            + ("What it told of these times is left out." if each.is_past else "What is said of it here may be off."),
            action="Have its machine set its clock by the network (NTP).",
            section="about",
            severity=1 / (1 + each.is_past),
        )


RULES: Final[tuple[Callable[[Analysis], Iterator[CapacityFinding]], ...]] = (
    _overloads,
    _full,
    _forecasts,
    _imbalance,
    _failures,
    _predictions,
    _undone,
    _links,
    _forwards,
    _redundancy,
    _telemetry,
    _clocks,
)

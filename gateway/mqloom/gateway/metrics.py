"""A gateway's counters and its report in Prometheus' text format (version 0.0.4).

Names follow its conventions: `mqloom_` in front, base units, `_total` behind what only grows. A counter that is kept by
reason has one series for each reason that is known beforehand or has occurred, with the reason as a label, and one
without, of what was counted without a reason. All are there from the start: only so a first count is seen as a rise.
Every series names its gateway.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from mqloom.core.counters import COUNTERS, REASONS
from mqloom.core.load import Load
from mqloom.core.reports import Report, ReportedLink

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
Series = tuple[Labels, float]


class Process(NamedTuple):
    """What the operating system says of the gateway's process; None: it does not."""

    cpu_s: float
    resident_bytes: int | None


class Family(NamedTuple):
    """One metric with all its series."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    series: tuple[Series, ...]


def render(report: Report, version: str, *, is_served: bool, process: Process) -> str:
    """Return the whole page; `is_served` is whether our own broker is connected."""
    lines: list[str] = []
    for family in families(report, version, is_served=is_served, process=process):
        if family.series:
            lines.append(f"# HELP {family.name} {_escaped(family.meaning, quotes=False)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += [f"{family.name}{_labels(report, labels)} {_number(value)}" for labels, value in family.series]
    return "\n".join([*lines, ""])


def families(report: Report, version: str, *, is_served: bool, process: Process) -> list[Family]:
    """Return all metrics: of the gateway, of its links, its counters, its process."""
    started_s = report.epoch / 1_000
    return [
        _gauge("mqloom_build_info", "the version of the gateway; always 1", 1, ("version", version)),
        _gauge("mqloom_start_time_seconds", "when the gateway was started, Unix time", started_s),
        _gauge("mqloom_broker_up", "whether the gateway's own broker is connected", is_served),
        _gauge("mqloom_held_publications", "publications of QoS 1 in the gateway's custody", report.held),
        _gauge("mqloom_intake_publications", "those among them that its own broker keeps until then", report.intake),
        _gauge("mqloom_deliveries_waiting", "messages its own broker has not acknowledged", report.deliveries),
        _gauge("mqloom_lag_seconds", "age of its own broker's oldest publication not taken care of", report.lag_s),
        _gauge("mqloom_clients", "clients that have subscribed here by content", report.clients),
        Family(
            "mqloom_subscriptions",
            "gauge",
            "subscriptions known: of its own clients (here), of other gateways' (elsewhere)",
            (((("of", "here"),), report.subscriptions_here), ((("of", "elsewhere"),), report.subscriptions_elsewhere)),
        ),
        *_loads(report.load),
        *_broker(report.broker),
        *_links(report),
        *_counters(report.counts),
        Family("process_cpu_seconds_total", "counter", "user and system CPU time", (((), process.cpu_s),)),
        _gauge("process_start_time_seconds", "when the process was started, Unix time", started_s),
        Family(
            "process_resident_memory_bytes",
            "gauge",
            "resident memory",
            () if process.resident_bytes is None else (((), process.resident_bytes),),
        ),
    ]


def _gauge(name: str, meaning: str, value: float, *labels: tuple[str, str]) -> Family:
    return Family(name, "gauge", meaning, ((labels, value),))


def _loads(load: Load | None) -> Iterable[Family]:
    if load is None:
        return
    yield _gauge("mqloom_load_input_ratio", "input utilisation in the last window; 1 is full", load.input_ratio)
    yield _gauge("mqloom_load_matching_delay_seconds", "time spent on one publication", load.delay_s)
    yield _gauge("mqloom_load_output_ratio", "output utilisation in the last window; 1 is full", load.output_ratio)
    yield _gauge("mqloom_load_input_publications_per_second", "publications that came in", load.input_rate)
    yield _gauge("mqloom_load_output_bytes_per_second", "bytes sent to its own clients", load.output_bytes_s)
    yield _gauge("mqloom_load_cpu_ratio", "of one processor, by the gateway's process", load.cpu_ratio)
    yield _gauge("mqloom_load_memory_ratio", "of memory_bytes_max, or of the machine's", load.memory_ratio)


def _broker(figures: Mapping[str, float]) -> Iterable[Family]:
    if figures:
        values = tuple(((("name", name),), value) for name, value in figures.items())
        yield Family("mqloom_broker_figure", "gauge", "what the broker says of itself, by its own names", values)


def _links(report: Report) -> Iterable[Family]:
    figures: tuple[tuple[str, str, Callable[[ReportedLink], float]], ...] = (
        ("mqloom_link_up", "whether the link to a neighbour is up", lambda link: link.state == "up"),
        ("mqloom_link_changed_timestamp_seconds", "since when it is or is not, Unix time", lambda link: link.since),
        ("mqloom_link_waiting_publications", "publications of QoS 1 for it, in memory", lambda link: link.waiting),
        ("mqloom_link_parked_publications", "at least so many are parked for it", lambda link: link.parked),
    )
    for name, meaning, figure in figures:
        series = tuple(((("neighbour", link.gateway), ("kind", link.kind)), figure(link)) for link in report.links)
        yield Family(name, "gauge", meaning, series)


def _counters(counts: Mapping[str, int]) -> Iterable[Family]:
    by_name = {name: dict.fromkeys(("", *REASONS.get(name, ())), 0) for name in COUNTERS}
    for key, count in counts.items():
        name, _, reason = key.partition(".")
        by_name[name][reason] = count
    for name, by_reason in by_name.items():
        series = (((("reason", reason),) if reason else (), count) for reason, count in by_reason.items())
        yield Family(f"mqloom_{name}_total", "counter", COUNTERS[name], tuple(series))


def _labels(report: Report, labels: Labels) -> str:
    pairs = (("gateway", report.gateway), *labels)
    return "{" + ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in pairs) + "}"


def _escaped(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return repr(float(value)) if isinstance(value, float) else str(int(value))

"""A federation as its gateways report it: what was read, what is missing and why, and tables of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mqloom.core.counters import is_failure
from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import REPORT_EVERY_S
from mqloom.core.load import Load
from mqloom.core.records import Status
from mqloom.core.reports import Report, decode_report
from mqloom.core.wording import counted
from mqloom.gateway.status_reading import running_status

GATEWAYS: Final = ("GATEWAY", "VERSION", "RUNS FOR", "CLIENTS", "SUBSCRIPTIONS", "HELD", "INTAKE", "DELIVERIES", "LAG")
LOADS: Final = ("GATEWAY", "INPUT", "DELAY", "OUTPUT", "CPU", "MEMORY", "IN", "OUT")
LINKS: Final = ("FROM", "TO", "KIND", "STATE", "FOR", "WAITING", "PARKED")
FAILURES: Final = ("GATEWAY", "COUNTER", "REASON", "COUNT")


class Reported(NamedTuple):
    """What one gateway says: its status, its report, and whether its broker keeps the mark of a drain.

    The mark is there when `mqloom drain` has been answered, and gone when `mqloom undrain` has; the report comes later.
    """

    status: Status
    report: Report
    is_drained: bool = False


class Overview(NamedTuple):
    """What the gateways of a federation say, and for those that say nothing a sentence that tells why."""

    gateways: Mapping[GatewayId, Reported]
    problems: Mapping[GatewayId, str]

    @property
    def is_well(self) -> bool:
        """Whether every gateway runs, and every primary link is up."""
        return not self.problems and not list(self.broken_links())

    def broken_links(self) -> Iterator[tuple[GatewayId, GatewayId]]:
        """Yield the primary links that are not up, each as the gateway that says so and the other end."""
        for gateway, (_, report, _) in self.gateways.items():
            yield from ((gateway, link.gateway) for link in report.links if link.state != "up")


def read_report(
    gateway: GatewayId, status: bytes | None, report: bytes | None, mark: bytes | None = None
) -> Reported | str:
    """Return what a gateway says, or why that is not to be believed, from what its broker keeps."""
    said = running_status(status)
    if isinstance(said, str):
        return said
    if not report:
        return f"the gateway runs but reports nothing yet; try again in some seconds (its version is {said.version})"
    try:
        told = decode_report(report)
    except RecordError as error:
        return f"its report cannot be read: {error.problem}; is it of another version?"
    if (told.gateway, told.epoch) != (gateway, said.epoch):
        return "its report is of an earlier run; try again in some seconds"
    return Reported(said, told, bool(mark))


def as_rows(name: str, overview: Overview) -> dict[str, object]:
    """Return all of it for programs."""
    return {
        "federation": name,
        "well": overview.is_well,
        "gateways": [
            {
                "gateway": gateway,
                "alive": True,
                "version": status.version,
                "epoch": status.epoch,
                "since": status.epoch / 1_000,
                "at": report.at,
                "held": report.held,
                "intake": report.intake,
                "deliveries": report.deliveries,
                "lag_s": report.lag_s,
                "clients": report.clients,
                "migrating": report.migrating,
                "draining": is_drained,
                "subscriptions_here": report.subscriptions_here,
                "subscriptions_elsewhere": report.subscriptions_elsewhere,
                "load": None if report.load is None else msgspec.structs.asdict(report.load),
                "broker": report.broker,
            }
            for gateway, (status, report, is_drained) in overview.gateways.items()
        ],
        "links": [
            {
                "from": gateway,
                "to": link.gateway,
                "kind": link.kind,
                "state": link.state,
                "since": link.since,
                "waiting": link.waiting,
                "parked": link.parked,
            }
            for gateway, (_, report, _) in overview.gateways.items()
            for link in report.links
        ],
        "failures": [
            {"gateway": gateway, "counter": counter, "reason": reason, "count": int(count.replace(",", ""))}
            for gateway, counter, reason, count in _failures(overview)
        ],
        "problems": dict(overview.problems),
    }


def as_tables(name: str, overview: Overview) -> str:
    """Return all of it for people: gateways, links, and what was refused or lost, if anything was."""
    gateways: list[tuple[str, ...]] = [GATEWAYS]
    links: list[tuple[str, ...]] = [LINKS]
    for gateway, (status, report, _) in overview.gateways.items():
        subscriptions = f"{report.subscriptions_here:,} + {report.subscriptions_elsewhere:,}"
        counts = (report.held, report.intake, report.deliveries)
        started_s = report.at - status.epoch / 1_000
        row = (gateway, status.version, _span(started_s), f"{report.clients:,}", subscriptions)
        gateways.append((*row, *(f"{count:,}" for count in counts), f"{report.lag_s:.1f} s"))
        for link in report.links:
            row = (gateway, link.gateway, link.kind, link.state, _span(report.at - link.since))
            links.append((*row, f"{link.waiting:,}", f"{link.parked:,}"))
    parts = [_aligned(gateways, 2)]
    loads = [LOADS, *(_load(name, each.report.load) for name, each in overview.gateways.items() if each.report.load)]
    if len(loads) > 1:
        parts.append(_aligned(loads, 1))
    if len(links) > 1:
        parts.append(_aligned(links, 4))
    failures = [FAILURES, *_failures(overview)]
    if len(failures) > 1:
        parts.append(_aligned(failures, 3))
    states = f"{len(overview.gateways):,} of {len(overview.gateways) + len(overview.problems):,} gateways run"
    broken = len(list(overview.broken_links()))
    is_not_up = "1 link is not up" if broken == 1 else f"{broken:,} links are not up"
    verdict = f"federation {name}: {states}" + (f", {is_not_up}" if broken else "")
    drained = [
        f"{gateway} {_drain(gateway, report)}"
        for gateway, (_, report, is_drained) in overview.gateways.items()
        if is_drained
    ]
    if drained:
        parts.append(drained)
    return "\n\n".join(["\n".join(part) for part in parts] + [verdict])


def _drain(gateway: GatewayId, report: Report) -> str:
    """Return how far a drain is; neither a mark nor a report says which of them is the older one."""
    if report.draining:
        return f"is being drained: {counted(report.clients, 'client')} there, {report.migrating:,} on their way"
    text = f"has the mark of a drain that its gateway does not report: if that lasts for over {2 * REPORT_EVERY_S:g} s"
    return f"{text}, it does not obey the mark, and `mqloom undrain {gateway}` removes it"


def _load(gateway: GatewayId, load: Load) -> tuple[str, ...]:
    ratios = (f"{ratio:.0%}" for ratio in (load.output_ratio, load.cpu_ratio, load.memory_ratio))
    delay = f"{load.delay_s * 1_000:,.2f} ms"
    flow = f"{load.input_rate:,.1f}/s", f"{load.output_bytes_s:,.0f} B/s"
    return (gateway, f"{load.input_ratio:.0%}", delay, *ratios, *flow)


def _failures(overview: Overview) -> list[tuple[str, str, str, str]]:
    rows = []
    for gateway, (_, report, _) in overview.gateways.items():
        for key, count in report.counts.items():
            counter, _, reason = key.partition(".")
            if is_failure(counter):
                rows.append((str(gateway), counter, reason or "-", f"{count:,}"))
    return rows


def _span(seconds: float) -> str:
    """Return a length of time as people say it, in two units at most."""
    whole = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for place, (unit, size) in enumerate(units):
        if whole >= size:
            rest = (whole % size) // units[place + 1][1] if unit != "s" else 0
            return f"{whole // size} {unit}" + (f" {rest} {units[place + 1][0]}" if rest else "")
    return "0 s"


def _aligned(rows: Sequence[tuple[str, ...]], words: int) -> list[str]:
    """Return the rows in columns, the first so many to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if place < words else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines

"""What a spool of telemetry says about a federation, gathered for a replay: by gateway and time, in plain lists."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Final, NamedTuple

from mqloom.core.errors import LocalError, TelemetryError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    ConfigurationRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    Record,
    ServiceRecord,
    decode_batch,
    salvage_records,
)
from mqloom.gateway.configuration import TelemetryTable
from mqloom.spark_analytics.segments import Gap
from mqloom.spark_analytics.spool import SpoolReader

RECORDS_MAX: Final = 5_000_000
"""Records that are held at once; of a longer recording a day is to be chosen."""

BALANCE = "plugins.settings.balance"
GROUPS_MAX = "telemetry.groups_max"
VERSION = "version"
"""Told with everything else: of a gateway that has told it, what it did not tell is as it is by default."""


GROUPS_MAX_DEFAULT: Final = TelemetryTable().groups_max


class ReplayError(LocalError):
    """A recording that cannot be replayed; says why."""


@dataclass(slots=True)
class Recorded:
    """What one gateway has told."""

    loads: list[LoadRecord] = field(default_factory=list)
    services: list[ServiceRecord] = field(default_factory=list)
    groups: dict[float, list[GroupRecord]] = field(default_factory=dict)
    """By the end of their window."""
    peers: dict[GatewayId, None] = field(default_factory=dict)
    """Over primary links, in the order in which they were first told."""
    settings: dict[str, str] = field(default_factory=dict)

    def take(self, record: Record) -> bool:
        """Note a record, if it is of a kind that a replay needs; say whether it is held."""
        match record:
            case LoadRecord():
                self.loads.append(record)
            case ServiceRecord():
                self.services.append(record)
            case GroupRecord():
                self.groups.setdefault(record.at, []).append(record)
            case LinkRecord() if record.kind == "primary":
                self.peers.setdefault(record.peer)
            case ConfigurationRecord():
                self.settings[record.what] = record.after
        return isinstance(record, LoadRecord | ServiceRecord | GroupRecord)

    @property
    def groups_max(self) -> int:
        """How many groups are told of in one window; a window with fewer tells of all."""
        return int(self.settings.get(GROUPS_MAX) or GROUPS_MAX_DEFAULT)


@dataclass(frozen=True, slots=True)
class Recording:
    """What all gateways have told."""

    gateways: dict[GatewayId, Recorded]
    problems: tuple[str, ...] = ()
    """What of the spool could not be read."""

    @property
    def balance(self) -> dict[str, object]:
        """The settings of the load agents, as they were last; empty if nobody told."""
        for recorded in self.gateways.values():
            if recorded.settings.get(BALANCE):
                try:
                    found = json.loads(recorded.settings[BALANCE])
                except ValueError:  # it was too long to be told whole
                    continue
                return dict(found)
        return {}

    @property
    def is_balance_known(self) -> bool:
        """Whether the settings of the load agents are recorded, if only as those by default."""
        told = [recorded.settings for recorded in self.gateways.values()]
        return bool(self.balance) or any(VERSION in each and not each.get(BALANCE) for each in told)

    @property
    def notes(self) -> list[str]:
        """What is supposed for want of a record: gateways tell their configuration at each start, and once a day."""
        found = []
        if not self.is_balance_known:
            found.append("the settings of the load agents are not recorded: those by default were used")
        unknown = [name for name, recorded in self.gateways.items() if GROUPS_MAX not in recorded.settings]
        if unknown:
            names = f"{unknown[0]} and {len(unknown) - 1} more" if len(unknown) > 1 else unknown[0]
            supposed = f"{GROUPS_MAX_DEFAULT:,}, as by default, is supposed"
            found.append(f"how many groups of subscribers {names} tells of at most is not recorded: {supposed}")
        return found

    @property
    def window_s(self) -> float:
        """The window of the meters, as most of them had it: the agents' own settings do not name it."""
        return median_low(load.window_s for recorded in self.gateways.values() for load in recorded.loads)


class Span(NamedTuple):
    """A time, in Unix time: from the first up to the second."""

    begin: float = 0.0
    end: float = math.inf

    def has(self, record: Record) -> bool:
        """Say whether a record counts: it is of this time, or a setting from before."""
        return record.at < self.end and (record.at >= self.begin or isinstance(record, ConfigurationRecord))


ALWAYS: Final = Span()


def read_recording(folder: Path, tell: Callable[[float, str], None], span: Span = ALWAYS) -> Recording:
    """Return what is in a spool; what is damaged is left out, and named. Raises SpoolError, ReplayError."""
    reader = SpoolReader(folder)
    begin, end = reader.bounds()
    gateways: dict[GatewayId, Recorded] = {}
    problems = []
    held = 0
    for part in reader.parts(begin, end):
        if isinstance(part, Gap):
            problems.append(part.problem)
            continue
        try:
            batch = decode_batch(part.data)
            records, malformed = salvage_records(batch)
        except TelemetryError as error:
            problems.append(f"position {part.position}: {error.problem}")
            continue
        problems += [f"record {number} of {batch.header.gateway}: {problem}" for number, problem in malformed]
        recorded = gateways.setdefault(batch.header.gateway, Recorded())
        held += sum([recorded.take(record) for _, record in records if span.has(record)])
        if held > RECORDS_MAX:
            raise ReplayError(f"{folder}: more than {RECORDS_MAX:,} records of load and groups: choose one day (--day)")
        tell((part.position - begin) / max(1, end - begin), "reading")
    gateways = {name: gateways[name] for name in sorted(gateways) if gateways[name].loads}
    if not gateways:
        when = "" if span == ALWAYS else " of that day"
        raise ReplayError(
            f"{folder}: there is no load{when} in it: let gateways run for a few windows, and collect again"
        )
    return Recording(gateways, tuple(problems))


def deliveries(records: Iterable[GroupRecord]) -> int:
    """Return how many copies went to subscribers."""
    return sum(record.publications * record.subscribers for record in records)

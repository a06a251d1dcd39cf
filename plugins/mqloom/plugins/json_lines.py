"""Telemetry sink `json_lines`: appends a gateway's counters to a file, one line of JSON each time; and its records.

    [plugins.settings.json_lines]
    file = "/var/log/mqloom/{gateway}.jsonl"
    records_file = "/var/log/mqloom/{gateway}-records.jsonl"
    bytes_max = 67108864

Records come if `telemetry.plugins` is on. Without a file nothing is written. At `bytes_max` the file is renamed to
FILE.1, in place of an older one, and begun anew: the two together never take more than twice that. `{gateway}` is the
broker's id, so that gateways on one machine, which share a configuration, do not share a file. A path is relative to
where the gateway was started.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import KINDS, Record
from mqloom.core.topics import encode_id
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import CounterRecord, Settings
from mqloom.gateway.tables import explain_settings


class JsonLinesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to write, and how much at most."""

    file: str = ""
    records_file: str = ""
    bytes_max: Annotated[int, Meta(ge=65_536)] = 64 * 1024 * 1024


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return explain_settings(JsonLinesSettings, settings)


@hookimpl
def mqloom_record(settings: Settings, record: CounterRecord) -> None:
    """Append the record."""
    wanted = msgspec.convert(dict(settings), JsonLinesSettings)
    if wanted.file:
        append(_path(wanted.file, record.gateway), msgspec.json.encode(record) + b"\n", wanted.bytes_max)


@hookimpl
def mqloom_telemetry(settings: Settings, gateway: GatewayId, records: Sequence[Record]) -> None:
    """Append typed records, each a line with its kind and fields."""
    wanted = msgspec.convert(dict(settings), JsonLinesSettings)
    if wanted.records_file:
        lines = [msgspec.json.encode({"gateway": gateway, **_told(record)}) + b"\n" for record in records]
        append(_path(wanted.records_file, gateway), b"".join(lines), wanted.bytes_max)


def _told(record: Record) -> dict[str, object]:
    kind = next(name for name, each in KINDS.items() if type(record) is each)
    return {"kind": kind, **msgspec.structs.asdict(record)}


def _path(text: str, gateway: GatewayId) -> Path:
    return Path(text.replace("{gateway}", encode_id(gateway)))


def append(path: Path, line: bytes, bytes_max: int) -> None:
    """Append lines to a file, which is first put aside if it would grow past the bound; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        size = file.tell()
        if size == 0 or size + len(line) <= bytes_max:
            file.write(line)
            return
    os.replace(path, path.with_name(f"{path.name}.1"))
    path.write_bytes(line)

import json
from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import Record, RefusalRecord, ServiceRecord
from mqloom.gateway.interfaces import CounterRecord
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import json_lines
from mqloom.plugins.json_lines import append


def manager(**settings: object) -> Manager:
    return Manager([LoadedPlugin("json_lines", "test", json_lines)], {"json_lines": settings})


def record(sinks: Manager, gateway: str = "north", at: float = 1.5) -> None:
    def fail(plugin: str, hook: str, error: Exception) -> None:
        raise error

    sinks.record(CounterRecord(GatewayId(gateway), at, {"publications_in": 3, "duplicates": 1}), fail)


def test_each_record_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    sinks = manager(file=str(path))
    record(sinks)
    record(sinks, at=2.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"gateway": "north", "at": at, "counters": {"publications_in": 3, "duplicates": 1}} for at in (1.5, 2.5)
    ]


def test_typed_records_are_lines_of_their_own_with_kind_and_fields(tmp_path: Path) -> None:
    path = tmp_path / "new" / "north.jsonl"
    sinks = manager(records_file=str(tmp_path / "new" / "{gateway}.jsonl"))

    def fail(plugin: str, hook: str, error: Exception) -> None:
        raise error

    records: list[Record] = [ServiceRecord(1.5, 7, 0.25, 3), RefusalRecord(2.5, "frames_refused", "key", 4)]
    sinks.telemetry(GatewayId("north"), records, fail)
    sinks.telemetry(GatewayId("north"), [], fail)
    record(sinks)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {
            "gateway": "north",
            "kind": "service",
            "at": 1.5,
            "subscriptions": 7,
            "service_s": 0.25,
            "publications": 3,
            "deliveries": None,
        },
        {"gateway": "north", "kind": "refusal", "at": 2.5, "counter": "frames_refused", "reason": "key", "amount": 4},
    ]


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record(manager())
    record(manager(bytes_max=65_536))
    assert list(tmp_path.iterdir()) == []


def test_gateways_write_to_files_of_their_own(tmp_path: Path) -> None:
    sinks = manager(file=str(tmp_path / "new" / "{gateway}.jsonl"))
    record(sinks, "north")
    record(sinks, "../../south")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["%2E%2E%2F%2E%2E%2Fsouth.jsonl", "north.jsonl"]


def test_a_full_file_is_put_aside_once_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    for number in range(10):
        append(path, b"%03d\n" % number, bytes_max=12)
    assert path.read_bytes() == b"009\n"
    assert (tmp_path / "counters.jsonl.1").read_bytes() == b"006\n007\n008\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_line_longer_than_the_bound_has_a_file_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    for line in (b"short\n", b"far too long\n", b"last\n"):
        append(path, line, bytes_max=8)
    assert path.read_bytes() == b"last\n"
    assert (tmp_path / "counters.jsonl.1").read_bytes() == b"far too long\n"


def test_a_file_that_cannot_be_written_is_the_gateways_to_count(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        record(manager(file=str(tmp_path)))


def test_mistakes_in_the_settings_are_explained() -> None:
    assert manager(fil="x", bytes_max=1).settings_problems() == [
        "plugins.settings.json_lines: unknown key 'fil'; did you mean 'file'?",
        "plugins.settings.json_lines: bytes_max: expected a whole number >= 65536",
    ]

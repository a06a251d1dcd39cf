import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.lab import replay_example, replay_recording
from mqloom.lab.command_lab_replay import changes_of
from mqloom.lab.replay_example import make_spool
from mqloom.lab.replay_recording import ReplayError, Span, read_recording

PERIODS = ["local_pie_s=5", "stabilise_s=10", "local_detect_min_s=5", "local_detect_max_s=10", "press_samples=16"]


def replayed(spool: Path, capsys: pytest.CaptureFixture[str], *changes: str) -> tuple[Any, dict[str, Any]]:
    """Return the whole answer, and what it says of each broker."""
    words = [word for change in (*PERIODS, *changes) for word in ("--set", change)]
    assert main(["lab", "replay", str(spool), "--json", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["lost"] == 0
    return answer, {broker["broker"]: broker for broker in answer["brokers"]}


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return make_spool(tmp_path, windows=90, subscribers=40, rate=8.0)


def test_without_moves_it_is_as_it_was_and_with_load_agents_load_is_spread(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer, found = replayed(spool, capsys)
    weak, strong = found["WEAK"], found["STRONG"]
    assert abs(weak["recorded"]["output_mean"] - weak["unmoved"]["output_mean"]) < 0.1
    assert weak["replayed"]["output_mean"] < weak["unmoved"]["output_mean"]
    assert strong["replayed"]["output_mean"] > strong["unmoved"]["output_mean"] == 0
    assert answer["moved"] > 0
    assert (weak["subscribers"] + strong["subscribers"], strong["subscribers"] > 0) == (40, True)


def test_with_triggers_that_nothing_reaches_nobody_is_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half_full = make_spool(tmp_path, windows=90, subscribers=40, rate=4.0)
    answer, found = replayed(half_full, capsys, "local_ratio=1000", "local_delay=1000")
    assert answer["settings"]["local_ratio"] == 1000
    assert (answer["moved"], found["WEAK"]["subscribers"]) == (0, 40)
    assert replayed(half_full, capsys)[0]["moved"] > 0


def test_a_table_is_printed_for_people(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "replay", str(spool), "--set", "local_ratio=0.3"]) == 0
    printed = capsys.readouterr().out
    assert "replay with local_ratio=0.3" in printed
    assert "sessions of load balancing would have moved" in printed


def test_of_a_long_recording_one_day_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spool = make_spool(tmp_path, windows=90, subscribers=40, rate=8.0)
    first = read_recording(spool, lambda *_: None).gateways[GatewayId("WEAK")].loads[0].at
    midday = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d")
    assert main(["lab", "replay", str(spool), "--json", "--day", midday, "--set", "local_ratio=0.3"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] > 0
    assert main(["lab", "replay", str(spool), "--day", "1999-12-31"]) == 1
    assert "there is no load of that day in it" in capsys.readouterr().err
    half = Span(first + 300.0)
    loads = read_recording(spool, lambda *_: None, half).gateways[GatewayId("WEAK")].loads
    assert min(load.at for load in loads) >= first + 300.0
    assert read_recording(spool, lambda *_: None, half).balance == read_recording(spool, lambda *_: None).balance


def test_settings_that_are_not_recorded_are_not_told_as_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["lab", "replay", "--day", "1970-01-12"]
    assert main([*words, str(make_spool(tmp_path / "known"))]) == 0
    known = capsys.readouterr().out
    assert "the recorded settings" in known
    assert "not recorded" not in known
    monkeypatch.setattr(replay_example, "SETTINGS", {})
    assert main([*words, str(make_spool(tmp_path / "unknown"))]) == 0
    unknown = " ".join(capsys.readouterr().out.split())
    assert "replay with the settings by default" in unknown
    assert "the settings of the load agents are not recorded: those by default were used" in unknown
    assert "groups of subscribers HUB and 2 more tells of at most is not recorded: 1,000" in unknown
    monkeypatch.setattr(replay_example, "SETTINGS", {"version": '"1"', "telemetry.groups_max": "1000"})
    assert main([*words, str(make_spool(tmp_path / "default"))]) == 0  # told all, and these agents have no settings
    assert "not recorded" not in capsys.readouterr().out


def test_a_recording_that_does_not_fit_is_told(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_recording, "RECORDS_MAX", 100)
    with pytest.raises(ReplayError, match=r"more than 100 records of load and groups: choose one day \(--day\)"):
        read_recording(spool, lambda *_: None)


def test_settings_are_read_as_json_or_text_and_mistakes_are_told(
    tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert changes_of(["local_ratio=0.2", "mode=on", "press_samples=7"]) == {
        "local_ratio": 0.2,
        "mode": "on",
        "press_samples": 7,
    }
    for words, problem in ((["local_ration=1"], "did you mean 'local_ratio'"), (["local_ratio"], "is not KEY=VALUE")):
        assert main(["lab", "replay", str(spool), "--set", *words]) == 1
        assert problem in capsys.readouterr().err
    assert main(["lab", "replay", str(tmp_path / "nowhere")]) == 1
    assert "is no spool" in capsys.readouterr().err

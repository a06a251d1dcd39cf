import io
import sys
from pathlib import Path

import pytest

from mqloom.core.command import main

GOOD = """
[federation]
name = "good"
data = ["stocks/#"]
[[brokers]]
id = "a"
[[brokers]]
id = "b"
port = 1884
[[links]]
between = ["a", "b"]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "federation.toml"
    path.write_text(text)
    return str(path)


def test_a_good_file_is_drawn_and_said_to_be_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, GOOD)
    assert main(["check", path]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("hint: federation.key_file: the federation has no key")
    assert printed.out.splitlines() == [
        "federation good, matcher content, overlay tree",
        "  data   stocks/#",
        "  codec  json for #",
        "",
        "a  127.0.0.1:1883, mqtt",
        "└── b  127.0.0.1:1884, mqtt",
        "",
        f"{path}: ok, 2 brokers, 1 link",
    ]


def test_what_is_hardly_meant_is_hinted_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hybrid = '[plugins.settings.tree_overlay]\nstrategy = "SH"\n'
    path = write(tmp_path, GOOD.replace('id = "a"', 'id = "a"\noverlay_settings = {uplink_per_s = 50}') + hybrid)
    assert main(["check", path]) == 0
    assert capsys.readouterr().err.splitlines()[-1:] == [
        "hint: overlay tree at b: strategy SH without uplink_per_s is S2: say how many copies a second it can send"
    ]


def test_every_mistake_is_printed_and_nothing_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, GOOD.replace("port", "prot").replace("stocks/#", "#") + "[[links]]\nbetween = ['a', 'c']")
    assert main(["check", path]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"mqloom check: {path}: 3 mistakes",
        "  - brokers#2: unknown key 'prot'; did you mean 'port'?",
        "  - federation.data#1: '#' includes mqloom/, which is ours: name only the topics that carry data",
        "  - links#2: there is no broker 'c'; known are 'a', 'b'",
    ]


def test_a_plugin_that_does_not_load_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plugins.d").mkdir()
    (tmp_path / "plugins.d" / "broken.py").write_text("raise RuntimeError('no luck')")
    assert main(["check", write(tmp_path, GOOD)]) == 1
    assert "plugin 'broken' (file" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "gone.toml")]) == 1
    assert "there is no such file; `mqloom init` writes a commented starter" in capsys.readouterr().err


def test_a_terminal_without_boxes_gets_plain_strokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["check", write(tmp_path, GOOD)]) == 0
    assert b"\n`-- b  127.0.0.1:1884, mqtt\n" in raw.getvalue()

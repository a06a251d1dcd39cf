import re
import tomllib
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.gateway.command_init import starter
from mqloom.gateway.configuration import TABLES, read_draft
from mqloom.gateway.configuration_checks import load_federation


def uncommented() -> str:
    """Return the starter with all its settings taken out of their comments."""
    return re.sub(r"^#(?=[\w\[])", "", starter(), flags=re.MULTILINE)


def test_the_starter_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.toml"
    assert main(["init", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: written; edit it, then: mqloom check {path}\n"
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out.endswith(": ok, 2 brokers, 1 link\n")


def test_without_a_name_the_file_is_federation_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert (tmp_path / "federation.toml").read_text(encoding="utf-8") == starter()


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    assert main(["init", str(path)]) == 1
    assert path.read_text() == "precious"
    assert "there is such a file already; --force overwrites it" in capsys.readouterr().err


def test_a_file_that_is_there_is_overwritten_by_force(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    assert main(["init", str(path), "--force"]) == 0
    assert path.read_text(encoding="utf-8") == starter()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "gone" / "federation.toml")]) == 1
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_every_key_is_in_the_starter() -> None:
    document = tomllib.loads(uncommented())
    for name, kind in TABLES.items():
        tables = document[name] if isinstance(document[name], list) else [document[name]]
        assert {key for table in tables for key in table} == set(kind.__struct_fields__), name


def test_what_is_commented_out_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(starter(), encoding="utf-8")
    commented = read_draft(path).finish()
    path.write_text(uncommented(), encoding="utf-8")
    everything = load_federation(path).configuration
    assert everything.federation == commented.federation
    assert everything.brokers == commented.brokers
    assert everything.codecs == commented.codecs
    assert everything.subscriptions == commented.subscriptions
    assert everything.plugins.directory == commented.plugins.directory
    assert (everything.plugins.files, everything.plugins.disabled) == ([], [])

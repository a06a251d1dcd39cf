import json
from pathlib import Path

import pytest

from mqloom.core.command import main

PLUGIN = """
from mqloom.gateway.hookspecs import hookimpl

@hookimpl
def mqloom_record(record): ...

@hookimpl
def mqloom_admit(): ...
"""


def configured(folder: Path, text: str = "") -> str:
    (folder / "plugins.d").mkdir()
    (folder / "plugins.d" / "dropped.py").write_text(PLUGIN)
    path = folder / "federation.toml"
    path.write_text(text)
    return str(path)


def test_without_a_configuration_the_installed_plugins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "SOURCE", "HOOKS"]
    assert [row.split()[0] for row in rows] == sorted(row.split()[0] for row in rows)
    assert any(row.startswith("json_codec ") and row.endswith("  mqloom_codec") for row in rows)


def test_the_columns_are_aligned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "-c", configured(tmp_path)]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    column = header.index("HOOKS")
    assert {row[column - 2 : column + 7] for row in rows} == {"  mqloom_"}


def test_a_dropped_file_is_listed_with_its_path_and_hooks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "--json", "-c", configured(tmp_path)]) == 0
    listed = {plugin["name"]: plugin for plugin in json.loads(capsys.readouterr().out)}
    assert listed["dropped"] == {
        "name": "dropped",
        "source": f"file {tmp_path / 'plugins.d' / 'dropped.py'}",
        "hooks": ["mqloom_admit", "mqloom_record"],
    }
    assert "json_codec" in listed


def test_a_disabled_plugin_is_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configured(tmp_path, "[plugins]\ndisabled = ['json_codec', 'dropped']")
    assert main(["plugins", "--json", "-c", path]) == 0
    assert not {"json_codec", "dropped"} & {plugin["name"] for plugin in json.loads(capsys.readouterr().out)}


def test_mistakes_elsewhere_in_the_configuration_do_not_matter(tmp_path: Path) -> None:
    assert main(["plugins", "-c", configured(tmp_path, "[nonsense]\n")]) == 0


def test_a_mistake_in_the_plugins_table_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "-c", configured(tmp_path, "[plugins]\nfile = 'x.py'\n")]) == 1
    assert "plugins: unknown key 'file'; did you mean 'files'?" in capsys.readouterr().err


def test_a_plugin_that_does_not_load_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configured(tmp_path, "[plugins]\nfiles = ['gone.py']\n")
    assert main(["plugins", "-c", path]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"mqloom plugins: plugin 'gone' (file {tmp_path / 'gone.py'}): there is no such file\n"

"""docs/lab.md names every experiment, and its example is an experiment of 30 lines that runs."""

import re
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.lab import command_lab
from mqloom.lab.catalogue import EXPERIMENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lab.md").read_text("utf-8")
EXAMPLE = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "experiment = " in block)


@pytest.mark.parametrize("name", [each.name for each in EXPERIMENTS])
def test_every_experiment_is_described(name: str) -> None:
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("name", command_lab.SUBCOMMANDS)
def test_every_subcommand_is_shown(name: str) -> None:
    assert f"mqloom lab {name}" in PAGE


@pytest.mark.parametrize("name", ["--seed", "--quick", "--json", "--plot", "--runs", "--traces"])
def test_every_option_is_described(name: str) -> None:
    assert re.search(rf"^\| `{name}\b", PAGE, re.MULTILINE)


def test_the_example_has_30_lines_at_most() -> None:
    assert len(EXAMPLE.splitlines()) <= 30


def test_the_example_runs_and_reaches_its_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(EXAMPLE)
    assert main(["lab", "run", str(tmp_path / "mine.py"), "--quick"]) == 0
    assert "all 2 targets reached" in capsys.readouterr().out


def test_the_page_is_linked() -> None:
    assert "(docs/lab.md)" in (ROOT / "README.md").read_text("utf-8")
    assert "(docs/lab.md)" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")

"""docs/lab.md names every experiment, its example of 30 lines runs, and what is shown there looks like what is printed.

Figures may differ from those in the pages: a better gateway need not change them. Words may not.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqloom.core.command import main
from mqloom.lab import command_lab
from mqloom.lab.catalogue import EXPERIMENTS
from mqloom.lab.command_lab_exhaust import line, verdict
from mqloom.lab.exhaust import Report, run_exhaust
from mqloom.lab.moments import FAULTS, NAME, QUICK_STRIDE, MomentsReport, moments
from mqloom.lab.small_scope import QUICK
from mqloom.lab.storm import StormReport, summary

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


def shown(page: str, command: str) -> list[str]:
    """Return the lines that a page shows below a command."""
    found = re.search(rf"^\$ {re.escape(command)}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert found, command
    return found[1].splitlines()


def shape(line: str) -> str:
    """Return a line without its figures and its spaces, and without the names of who is numbered."""
    return " ".join(re.sub(r"(?<![A-Za-z])[Gcp]?\d[\d,.]*", "#", line).split())


def shapes(lines: Iterable[str]) -> list[str]:
    return [found for line in lines if (found := shape(line))]


def test_shapes_tell_words_apart_and_no_figures() -> None:
    assert shape("c1 at G0 missed p232,  at 18.2391") == shape("c2 at G3 missed p7, at 9")
    assert shape("1 run, 0 failed") != shape("1 runs, 0 failed")


def test_the_example_prints_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(EXAMPLE)
    assert main(["lab", "run", str(tmp_path / "mine.py")]) == 0
    assert shapes(capsys.readouterr().out.splitlines()) == shapes(shown(PAGE, "mqloom lab run ./mine.py"))


def test_an_experiment_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "store-loss", "--quick"]) == 0
    assert shapes(capsys.readouterr().out.splitlines()) == shapes(shown(PAGE, "mqloom lab run store-loss --quick"))


def test_a_storm_that_passes_is_told_as_shown() -> None:
    sums = {"hops": 120_286, "expected": 14_190, "delivered": 15_572, "with_agents": 4, "sessions": 5}
    spoilt = {"doubled": 15, "late": 81, "lost": 361}
    report = StormReport(
        seed=1, runs=20, failed=0, lost=0, held_by_lost_stores=0, controls_spoilt=spoilt, reports=[], **sums
    )
    assert [summary(report)] == shown(PAGE, "mqloom lab storm --runs 20")
    lossy = summary(replace(report, lost=50, held_by_lost_stores=48, with_agents=0))
    assert lossy.endswith(" hops; stores that were lost held 48 messages, so that 50 deliveries were missed")


@pytest.mark.full
def test_a_storm_that_fails_is_told_as_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "mqloom lab storm --runs 1 --seed 7 --broken forgetting-parked --traces traces"
    assert main(command.split()[1:]) == 1
    assert shapes(capsys.readouterr().out.splitlines()) == shapes(shown(PAGE, command))
    traced = set(shapes(Path("traces/storm-7.txt").read_text("utf-8").splitlines()))
    quoted = re.findall(r"^ +\d+\.\d{4}  .*", PAGE, re.MULTILINE)
    assert quoted
    assert set(shapes(quoted)) <= traced


def test_everything_in_a_small_scope_is_told_as_shown() -> None:
    *lines, dots, moved, last = shown((ROOT / "docs" / "exhaust.md").read_text("utf-8"), "mqloom lab exhaust")
    told = [line(run_exhaust(scope)) for scope in QUICK[:2]]
    assert shapes(lines[:2]) == shapes(told)
    assert [text.partition(": ")[0] for text in lines] == [scope.name for scope in QUICK[: len(lines)]]
    complete = Report(scope="s", states=1, transitions=1, rests=1, gateway_states=1, steps=1, is_complete=True)
    count = len(moments()[::QUICK_STRIDE])
    told_of_moments = line(MomentsReport(scope=NAME, moments=count, runs=count * len(FAULTS)))
    assert (dots, moved, last) == ("...", told_of_moments, verdict([complete] * (len(QUICK) + 1)))


def test_every_paper_that_is_named_is_listed_and_pages_link_to_the_list() -> None:
    listed = set(re.findall(r"^\| (\d{3}) \|", (ROOT / "docs" / "papers.md").read_text("utf-8"), re.MULTILINE))
    assert len(listed) == 5
    files = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*/mqloom/**/*.py"), *ROOT.glob("*/tests/*.py")]
    texts = {path: path.read_text("utf-8") for path in files}
    named = {path: set(re.findall(r"paper (\d{3})", text, re.IGNORECASE)) for path, text in texts.items()}
    assert set().union(*named.values()) <= listed
    pages = [path for path, numbers in named.items() if numbers and path.suffix == ".md" and path.stem != "papers"]
    assert len(pages) >= 4
    assert [path.name for path in pages if "(papers.md)" not in texts[path]] == []


def test_the_page_is_linked() -> None:
    assert "(docs/lab.md)" in (ROOT / "README.md").read_text("utf-8")
    assert "(docs/lab.md)" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")

"""Experiments by name and by file, and what is said when there is none."""

import re
from pathlib import Path

import pytest

from mqloom.lab.catalogue import EXPERIMENTS, ExperimentError, find
from mqloom.lab.experiment import tell_nobody

MINE = """
from dataclasses import dataclass
from mqloom.lab.experiment import Experiment, Report, exactly

@dataclass
class Coin:
    side: int

def run(seed, quick, tell):
    return Report(rows=(exactly("side", Coin(seed % 2).side, 1),))

experiment = Experiment(name="coin", summary="falls", source="nobody", run=run)
"""


def written(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text)
    return str(folder / "mine.py")


def test_names_are_unique_and_fit_for_a_command_line() -> None:
    names = [each.name for each in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert all(each.summary and each.source for each in EXPERIMENTS)


def test_every_experiment_is_found_by_its_name() -> None:
    assert [find(each.name) for each in EXPERIMENTS] == list(EXPERIMENTS)


def test_a_file_may_hold_an_experiment(tmp_path: Path) -> None:
    found = find(written(tmp_path, MINE))
    assert found.name == "coin"
    assert found.run(1, False, tell_nobody).ok
    assert not found.run(2, False, tell_nobody).ok


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ExperimentError, match="did you mean 'seen-memory'"):
        find("seen-memroy")


def test_a_name_like_no_other_is_answered_with_where_to_look() -> None:
    with pytest.raises(ExperimentError, match="mqloom lab list"):
        find("xyzzy")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "it has no `experiment`"),
        ("experiment = 5", "its `experiment` is a int, not a mqloom.lab.experiment.Experiment"),
        ("experiment = (", "it cannot be loaded: SyntaxError"),
        ("import nonexistent_module", "it cannot be loaded: ModuleNotFoundError: No module named 'nonexistent_module'"),
        ("1 / 0", "it cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_file_that_holds_none_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(said)):
        find(written(tmp_path, text))


def test_no_file_and_no_python_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="there is no such file"):
        find("./nowhere.py")
    (tmp_path / "mine.txt").write_text(MINE)
    with pytest.raises(ExperimentError, match=r"its name ends in \.py"):
        find(str(tmp_path / "mine.txt"))

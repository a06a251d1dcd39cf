"""The command `mqloom lab`: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from mqloom.core.command import main
from mqloom.lab.catalogue import EXPERIMENTS

LONG = {
    "padres-local",
    "padres-random",
    "padres-global",
    "padres-churn",
    "padres-pie",
    "padres-estimate",
    "padres-scale",
    "publiy-sparse",
    "publiy-dense",
    "publiy-delay",
    "publiy-capped",
    "publiy-throughput",
    "publiy-social",
    "publiy-covering",
}
"""Experiments whose small version takes ten seconds or more."""

MINE = """
import random
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, exactly

def run(seed, quick, tell):
    tell(0.5, "half way")
    points = ((0.0, 0.0), (1.0, float(seed)))
    return Report(
        rows=(exactly("side", seed % 2, 1, bound=seed / 3, unit="coins"),),
        picture=Picture(x_label="x", panels=(Panel("y", (Curve("c", points),)),)) if quick else None,
    )

experiment = Experiment(name="coin", summary="falls", source="nobody", run=run)
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


def test_the_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    text = capsys.readouterr().out
    assert main(["lab", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [each["name"] for each in listed] == [each.name for each in EXPERIMENTS]
    assert all(each["name"] in text for each in listed)


def test_a_reached_target_is_0_and_a_missed_one_1(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", mine, "--seed", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main(["lab", "run", mine, "--seed", "2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "experiment": "coin",
        "seed": 2,
        "quick": False,
        "rows": [
            {
                "name": "side",
                "paper": None,
                "ours": 0,
                "unit": "coins",
                "bound": 0.666667,
                "target": "1",
                "ok": False,
            }
        ],
        "ok": False,
    }
    assert main(["lab", "run", mine, "--seed", "2"]) == 1
    shown = capsys.readouterr()
    assert "MISSED" in shown.out
    assert shown.err == ""


def test_a_picture_is_drawn_where_it_was_asked_for(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coin.png"
    assert main(["lab", "run", mine, "--quick", "--plot", str(path)]) == 0
    assert f"drawn: {path}" in "".join(capsys.readouterr().out.splitlines())
    assert path.stat().st_size > 1_000
    assert main(["lab", "run", mine, "--quick", "--json", "--plot", str(path)]) == 0
    json.loads(capsys.readouterr().out)


def test_without_matplotlib_it_is_said_before_anything_is_run(
    mine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mqloom.core.plotting.find_spec", lambda name: None)
    assert main(["lab", "run", mine, "--plot", "coin.png"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "pip install 'mqloom[plot]'" in shown.err


def test_an_experiment_without_a_picture_says_so(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", mine, "--plot", "coin.png"]) == 1
    assert "coin has no picture to draw" in capsys.readouterr().err
    assert not Path("coin.png").exists()


def test_a_run_that_returns_no_report_is_a_clear_error(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").write_text(Path(mine).read_text().replace("    return Report", "    return 5\n    Report"))
    assert main(["lab", "run", str(tmp_path / "other.py")]) == 1
    assert "its run returned a int, not a Report" in capsys.readouterr().err


def test_an_unknown_experiment_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "seen-memroy"]) == 1
    assert (
        capsys.readouterr().err == "mqloom lab: seen-memroy: there is no such experiment; did you mean 'seen-memory'?\n"
    )


def test_a_seed_that_is_no_number_and_no_subcommand_are_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "seen-memory", "--seed", "x"]) == 2
    assert main(["lab"]) == 2
    assert "list" in capsys.readouterr().err


def marked(name: str) -> ParameterSet:
    """Return an experiment's name, marked if even its small version takes over ten seconds."""
    return pytest.param(name, marks=[pytest.mark.full, pytest.mark.timeout(300)] if name in LONG else [])


def started(name: str, hash_seed: str) -> subprocess.Popen[bytes]:
    words = ["lab", "run", name, "--quick", "--json", "--seed", "3"]
    script = f"import sys; from mqloom.core.command import main; sys.exit(main({words!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)


@pytest.mark.parametrize("name", [marked(each.name) for each in EXPERIMENTS if not each.measures_time])
def test_the_same_seed_gives_the_same_bytes_whatever_the_order_of_sets(name: str) -> None:
    processes = [started(name, hash_seed) for hash_seed in ("1", "2")]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second
    assert json.loads(first)["experiment"] == name
    assert [process.returncode for process in processes] == [0, 0]


@pytest.mark.parametrize("name", [marked(each.name) for each in EXPERIMENTS])
def test_every_experiment_reaches_its_targets_with_quick(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lab", "run", name, "--quick", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [row for row in answer["rows"] if not row["ok"]] == []
    assert code == 0
    assert any(row["target"] for row in answer["rows"])

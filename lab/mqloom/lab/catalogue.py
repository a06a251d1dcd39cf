"""Finds experiments: those that ship with MQLoom by name, and anybody's own by file."""

import difflib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Final

from mqloom.core.errors import LocalError
from mqloom.lab.experiment import Experiment
from mqloom.lab.experiments import (
    custody_outage,
    lab_speed,
    padres_churn,
    padres_estimate,
    padres_global,
    padres_local,
    padres_pie,
    padres_random,
    padres_scale,
    publiy_capped,
    publiy_cost,
    publiy_covering,
    publiy_delay,
    publiy_hops,
    publiy_move,
    publiy_social,
    publiy_throughput,
    seen_memory,
    store_loss,
)

EXPERIMENTS: Final = (
    custody_outage.experiment,
    store_loss.experiment,
    seen_memory.experiment,
    lab_speed.experiment,
    publiy_hops.sparse,
    publiy_hops.dense,
    publiy_delay.experiment,
    publiy_cost.experiment,
    publiy_capped.experiment,
    publiy_throughput.experiment,
    publiy_move.experiment,
    publiy_social.experiment,
    publiy_covering.experiment,
    padres_local.experiment,
    padres_random.experiment,
    padres_global.experiment,
    padres_churn.experiment,
    padres_pie.experiment,
    padres_estimate.experiment,
    padres_scale.experiment,
)
"""All that ship with MQLoom, in the order in which they are listed."""


class ExperimentError(LocalError):
    """There is no such experiment, or its file does not hold one; `name` as it was asked for."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"{name}: {problem}")


def find(name: str) -> Experiment:
    """Return an experiment by its name, or by the path of a Python file that has one called `experiment`.

    Raises ExperimentError.
    """
    if name.endswith(".py") or "/" in name:
        return _from_file(Path(name))
    known = {each.name: each for each in EXPERIMENTS}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`mqloom lab list` shows all; one of your own is a path, ./mine.py"
    raise ExperimentError(name, f"there is no such experiment; {hint}")


def _from_file(path: Path) -> Experiment:
    if not path.is_file():
        raise ExperimentError(str(path), "there is no such file")
    module_name = "mqloom_experiment_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ExperimentError(str(path), "it is no Python file: its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up while it is still being run
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise ExperimentError(str(path), f"it cannot be loaded: {type(error).__name__}: {error}") from error
    found = getattr(module, "experiment", None)
    if found is None:
        raise ExperimentError(str(path), "it has no `experiment`: experiment = Experiment(name=..., run=...)")
    if not isinstance(found, Experiment):
        kind = type(found).__name__
        raise ExperimentError(str(path), f"its `experiment` is a {kind}, not a mqloom.lab.experiment.Experiment")
    return found

"""The experiments of paper 000 at sizes of seconds: load agents balance, nothing is lost, and a seed gives one report.

That each reaches its targets with `--quick`, and gives the same bytes for a seed, `test_command_lab` sees to, in
`tox -e full`.
"""

import dataclasses
from types import ModuleType

import pytest

from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import (
    padres_churn,
    padres_estimate,
    padres_global,
    padres_local,
    padres_pie,
    padres_random,
    padres_scale,
)
from mqloom.lab.padres_play import play
from mqloom.lab.padres_setups import CHAIN, HETEROGENEOUS, SIMULATION
from mqloom.lab.report_view import as_json

STAR = dataclasses.replace(HETEROGENEOUS, subscribers=150, join_s=60.0, change_at=240.0, length_s=300.0)


def test_load_that_joins_one_broker_spreads_and_nothing_is_lost_or_repeated() -> None:
    narrow = {name: broker._replace(bytes_s=broker.bytes_s / 4) for name, broker in STAR.brokers.items()}
    outcome = play(dataclasses.replace(STAR, brokers=narrow), 1, tell_nobody)
    assert outcome.sessions
    assert sum(outcome.subscribers(edge) > 0 for edge in STAR.edges) >= 3
    assert sum(outcome.subscribers(edge) for edge in STAR.edges) == 150
    assert outcome.ledger.owed > 10_000
    assert (outcome.ledger.lost, outcome.ledger.repeated) == (0, 0)
    assert outcome.messages("PIE", 0.0, 300.0) > 0


def test_setups_are_those_of_the_paper() -> None:
    assert (SIMULATION.publishers, SIMULATION.subscribers, SIMULATION.change_at) == (40, 2_000, 3_000.0)
    assert CHAIN.change_at == 8_000.0
    assert len(CHAIN.brokers) == 12


@pytest.mark.full
@pytest.mark.parametrize(
    "module",
    [padres_churn, padres_estimate, padres_global, padres_local, padres_pie, padres_random, padres_scale],
    ids=lambda module: str(module.experiment.name),
)
def test_the_same_seed_gives_the_same_report_and_picture(module: ModuleType) -> None:
    first, again = (module.experiment.run(2, True, tell_nobody) for _ in range(2))
    assert as_json(module.experiment, 2, True, first) == as_json(module.experiment, 2, True, again)
    assert first.picture == again.picture is not None

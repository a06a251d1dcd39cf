"""What docs/balancing.md and docs/hooks.md say of offloads is what these do."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.load import Metric
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadTask
from mqloom.lab.offload_tasks import table_one
from mqloom.plugins.offload import input_offload, match_offload, output_offload
from mqloom.plugins.offload.ledger import Ledger

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "balancing.md").read_text(encoding="utf-8").partition("\n## Whom to move\n")[2].partition("\n## ")[0]


def row(first: str) -> list[str]:
    """Return the other cells of the one row that has this cell, and figures in it."""
    found = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |") and re.search(r"\d", line)]
    (line,) = found
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def state(broker: BrokerEstimate) -> str:
    return f"input {broker.input_ratio:.2f}, delay {broker.delay_s * 1000:.0f} ms, output {broker.output_ratio:.2f}"


def test_the_groups_of_the_example_are_those_of_the_paper() -> None:
    task = table_one("input", random.Random(1))
    ledger = Ledger(task)
    for place, name in enumerate("abcd"):
        bits = f"`{int(task.profile.bits[place][0]):06b}`"
        rates = [f"{each[place]:.1f}/s" for each in (ledger.bytes_s / 100, ledger.added, ledger.reduced)]
        assert row(name)[1:] == [str(len(task.profile.groups[place].clients)), bits, *rates]
    assert f"`{int(task.profile.accepting[0]):06b}`" in PAGE
    for name, broker in (("offloading", task.local), ("accepting", task.remote)):
        told = [f"{broker.input_ratio:.2f}", f"{broker.delay_s * 1000:.0f} ms", f"{broker.output_ratio:.2f}"]
        assert row(name) == told


@pytest.mark.parametrize(
    ("metric", "choose"),
    [("input", input_offload.choose), ("match", match_offload.choose), ("output", output_offload.choose)],
)
def test_the_example_ends_as_it_says(metric: Metric, choose: Callable[[OffloadTask], OffloadChoice]) -> None:
    choice = choose(table_one(metric, random.Random(1)))
    moved = ", ".join(f"{card.number} of {'abcd'[card.group]}" for card in choice.cards)
    assert row(f"`{metric}`") == [moved, state(choice.local), state(choice.remote)]


def test_the_example_of_the_hook_can_be_loaded_and_chooses_one() -> None:
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")
    (block,) = re.findall(
        r"```python\n(.*?)```", page.partition("\n## mqloom_offload")[2].partition("\n## ")[0], re.DOTALL
    )
    plugin = ModuleType("one")
    exec(block, vars(plugin))
    kinds = Manager([LoadedPlugin("one", "docs", plugin)], {}).offloads()
    assert len(kinds["one"].choose(table_one("output", random.Random(1))).clients) == 1


def test_those_that_ship_are_found_by_the_names_in_the_page() -> None:
    modules = [input_offload, match_offload, output_offload]
    plugins = [LoadedPlugin(module.__name__, "test", module) for module in modules]
    assert list(Manager(plugins, {}).offloads()) == ["input", "match", "output"]

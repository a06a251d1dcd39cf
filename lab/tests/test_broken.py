"""Whatever custody rests on: without it, a storm notices."""

from pathlib import Path

import pytest

from mqloom.lab.broken import BROKEN, everywhere
from mqloom.lab.storm import run_seed

RUNS_MAX = 40
OF_AGENTS = ("waiting-for-ever",)
"""What only shows where there are load agents."""
UNSEEN = ("mark-unheeded", "moving-unpassed", "moving-unkept", "moving-without-aliases")
"""What a storm cannot see: memory that grows shows after millions of publications. And what so few runs seldom see: a
move that goes wrong only when one message is late at the right moment; `test_exhaust` sees that."""


def runs_until_it_is_noticed(name: str) -> int | None:
    """Return in which run a broken variant is noticed first; None if it is not."""
    with everywhere(BROKEN[name]):
        for number in range(RUNS_MAX):
            if run_seed(1 + number, agents=name in OF_AGENTS).findings:
                return number + 1
    return None


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in UNSEEN])
def test_a_storm_notices_what_is_broken_on_purpose(name: str) -> None:
    assert runs_until_it_is_noticed(name) is not None


def test_what_was_broken_is_whole_again() -> None:
    assert run_seed(1).findings == []


def test_every_variant_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lab.md").read_text("utf-8")
    assert [name for name in BROKEN if f"`{name}`" not in text] == []

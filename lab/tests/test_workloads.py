import random
from collections import Counter
from itertools import pairwise

import pytest

from mqloom.core.filter import Comparison, Filter, Like, Membership, Or, Presence
from mqloom.core.filter.syntax import predicates
from mqloom.lab.stocks import TEMPLATES, interest
from mqloom.lab.workloads import BOX_HOT_SPOTS, BOX_LENGTH, BOX_WIDTH, WORKLOADS, Workload, build_workload


@pytest.fixture(scope="module")
def stock() -> Workload:
    return build_workload("stock", 5_000, 60, seed=1)


@pytest.fixture(scope="module")
def box() -> Workload:
    return build_workload("box", 5_000, 200, seed=1)


def share_that_matches(workload: Workload) -> float:
    matches = sum(each.matches(event) for each in workload.filters for event in workload.events)
    return matches / len(workload.filters) / len(workload.events)


def template_of(where: Filter) -> str:
    compared = {each.path: each for each in predicates(where.tree) if isinstance(each, Comparison)}
    assert compared.pop("class").value == "STOCK"
    symbol = compared.pop("symbol", None)
    if not compared:
        return "all" if symbol is None else "symbol"
    ((path, comparison),) = compared.items()
    assert comparison.operator == {"high": ">", "low": "<", "volume": ">"}[path]
    return path if symbol is not None else f"any {path}"


def test_the_templates_of_stock_have_the_papers_shares(stock: Workload) -> None:
    found = Counter(template_of(each) for each in stock.filters)
    assert set(found) == set(TEMPLATES)
    for template, percent in TEMPLATES.items():
        assert found[template] / len(stock.filters) == pytest.approx(percent / 100, abs=0.02)
    symbols = {each.value for where in stock.filters for each in predicates(where.tree) if each.path == "symbol"}  # type: ignore[union-attr]
    assert len(symbols) == 100


def test_about_four_in_a_hundred_subscriptions_match_a_quote(stock: Workload) -> None:
    assert share_that_matches(stock) == pytest.approx(0.041, abs=0.006)


def test_the_filters_of_stock_are_those_that_parsing_their_text_gives(stock: Workload) -> None:
    randomness = random.Random("1 subscriptions")
    assert [Filter.parse(interest(randomness).where) for _ in range(500)] == stock.filters[:500]


def test_a_box_has_four_ranges_of_the_width_around_centres_in_the_range(box: Workload) -> None:
    for where in box.filters:
        bounds = [each for each in predicates(where.tree) if isinstance(each, Comparison)]
        assert [each.path for each in bounds[::2]] == list(BOX_HOT_SPOTS)
        for low, high in zip(bounds[::2], bounds[1::2], strict=True):
            assert (low.operator, high.operator, low.path) == (">=", "<", high.path)
            assert isinstance(low.value, int)
            assert high.value == low.value + BOX_WIDTH
            assert 0 <= low.value + BOX_WIDTH // 2 < BOX_LENGTH


def test_the_hot_spots_of_the_dimensions_differ(box: Workload) -> None:
    def mean(index: int) -> float:
        lows = [where.tree.parts[index * 2].value for where in box.filters]  # type: ignore[union-attr]
        return float(sum(lows)) / len(lows)  # type: ignore[arg-type]

    means = [mean(index) for index in range(4)]
    assert all(higher - lower > 50 for lower, higher in pairwise(means))


def test_about_a_third_of_a_percent_of_the_boxes_match_a_point(box: Workload) -> None:
    assert share_that_matches(box) == pytest.approx(0.0035, abs=0.0007)


def test_a_tenth_of_mixed_uses_the_rest_of_the_language() -> None:
    workload = build_workload("mixed", 5_000, 200, seed=1)
    plain = {each.text for each in workload.filters if all(isinstance(part, Comparison) for part in each_part(each))}
    unusual = [each for each in workload.filters if each.text not in plain or "exchange" in each.text]
    assert len(unusual) / 5_000 == pytest.approx(0.1 * 5 / 6, abs=0.02)  # NOT leaves a plain conjunction
    parts = {type(part) for each in unusual for part in each_part(each)}
    assert {Or, Like, Membership, Presence} <= parts
    assert {True, None} == {event.get("halted") for event in workload.events}
    used = [each for each in unusual if any(each.matches(event) for event in workload.events)]
    assert len(used) > len(unusual) / 2, "filters that nothing matches would measure nothing"


def each_part(where: Filter) -> tuple[object, ...]:
    return getattr(where.tree, "parts", (where.tree,))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_workload(name: str) -> None:
    assert build_workload(name, 50, 20, seed=3) == build_workload(name, 50, 20, seed=3)
    assert build_workload(name, 50, 20, seed=3) != build_workload(name, 50, 20, seed=4)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_events_are_the_same_at_every_size(name: str) -> None:
    small, large = build_workload(name, 5, 20, seed=3), build_workload(name, 50, 30, seed=3)
    assert small.events == large.events[:20]
    assert small.filters == large.filters[:5]

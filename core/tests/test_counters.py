"""What a gateway counts."""

import ast
from pathlib import Path

import pytest

from mqloom.core.counters import BY_PLUGIN, COUNTERS, REASONS, Counters, is_failure


def test_a_new_gateway_has_counted_nothing() -> None:
    counters = Counters()
    assert counters.snapshot() == {}
    assert counters.total("duplicates") == 0
    assert counters.value("frames_refused", "version") == 0
    assert counters.reasons("frames_refused") == {}


def test_the_total_is_over_all_reasons() -> None:
    counters = Counters()
    counters.add("frames_refused", "version")
    counters.add("frames_refused", "malformed", 4)
    counters.add("frames_refused", "version")
    counters.add("duplicates")
    assert counters.total("frames_refused") == 6
    assert counters.value("frames_refused", "version") == 2
    assert counters.reasons("frames_refused") == {"malformed": 4, "version": 2}


def test_a_snapshot_names_counters_and_reasons_in_order() -> None:
    counters = Counters()
    counters.add("publications_in", amount=3)
    counters.add("frames_refused", "version")
    assert list(counters.snapshot().items()) == [("frames_refused.version", 1), ("publications_in", 3)]


def test_counting_none_is_no_count() -> None:
    counters = Counters()
    counters.add("duplicates", amount=0)
    assert counters.snapshot() == {}


def test_asking_for_a_count_makes_none() -> None:
    counters = Counters()
    counters.value("frames_refused", "version")
    assert counters.snapshot() == {}


def test_an_unknown_counter_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="nonsense"):
        Counters().add("nonsense")
    with pytest.raises(AssertionError, match="nonsense"):
        Counters().total("nonsense")


def test_every_counter_says_what_it_means() -> None:
    assert all(name.isidentifier() and meaning for name, meaning in COUNTERS.items())


def test_every_failure_is_counted_by_reason() -> None:
    assert [name for name in COUNTERS if is_failure(name) and name not in (*REASONS, *BY_PLUGIN)] == []
    counters = Counters()
    counters.add("duplicates")
    counters.check()
    counters.add("publications_dropped")
    with pytest.raises(AssertionError, match="publications_dropped"):
        counters.check()


def test_every_reason_that_the_source_names_is_known_beforehand() -> None:
    """Whoever alerts on a rise must have the series before the first count."""
    root = Path(__file__).parents[2]
    named: set[tuple[str, str]] = set()
    for file in [*root.glob("core/mqloom/**/*.py"), *root.glob("gateway/mqloom/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "refuse":
                texts = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
                if len(texts) == 2:
                    named.add((str(texts[0]), str(texts[1])))
    assert len(named) > 20
    assert [(name, reason) for name, reason in sorted(named) if reason not in (*REASONS.get(name, ()), "matcher")] == []


def test_a_reason_that_was_not_known_beforehand_is_our_own_mistake_unless_it_is_a_plugin() -> None:
    counters = Counters()
    counters.add("frames_refused", "forged")
    counters.add("plugin_failures", "acme")
    counters.add("publications_in")
    counters.check()
    counters.add("frames_refused", "nonsense")
    with pytest.raises(AssertionError, match="nonsense"):
        counters.check()


def test_reasons_are_of_counters_and_each_once() -> None:
    assert REASONS.keys() <= COUNTERS.keys()
    assert all(len(set(reasons)) == len(reasons) for reasons in REASONS.values())

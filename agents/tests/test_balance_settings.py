import pytest

from mqloom.agents.averages import AVERAGE_WINDOWS_MAX
from mqloom.agents.settings import BalanceSettings, read_settings, settings_hints, settings_problems
from mqloom.core.limits import PROFILE_SAMPLES_MAX


def test_without_settings_nothing_is_moved_and_table_iii_holds() -> None:
    settings = read_settings({})
    assert settings.mode == "off"
    assert (settings.pie_s("local"), settings.pie_s("global")) == (30, 60)
    assert (settings.overload_low, settings.overload_high) == (0.9, 0.95)
    assert [settings.trigger("local", metric) for metric in ("input", "match", "output")] == [0.1, 0.1, 0.1]
    assert [settings.trigger("global", metric) for metric in ("input", "match", "output")] == [0.15, 0.15, 0.15]
    assert (settings.detect_s("local"), settings.detect_s("global")) == ((20, 40), (50, 70))
    assert (settings.press_samples, settings.press_timeout_s, settings.balance) == (50, 30, 0.005)
    assert settings_hints({}) == []


def test_each_metric_is_lowered_by_the_plugin_of_its_name_unless_said_otherwise() -> None:
    assert BalanceSettings().offload_kind("match") == "match"
    assert read_settings({"offload": "random"}).offload_kind("output") == "random"
    partly = read_settings({"offload": {"input": "mine"}})
    assert (partly.offload_kind("input"), partly.offload_kind("output")) == ("mine", "output")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"overload_low": 0.97}, "overload_low: 0.97 is more than overload_high, 0.95"),
        ({"local_detect_min_s": 50}, "local_detect_min_s: 50 is more than local_detect_max_s, 40"),
        ({"global_detect_max_s": 10}, "global_detect_min_s: 50 is more than global_detect_max_s, 10"),
        ({"local_pie": 30}, "unknown key 'local_pie'; did you mean 'local_pie_s'?"),
        ({"mode": "yes"}, "mode"),
        ({"delay_factor_s": 0}, "delay_factor_s"),
        ({"pie_history": 0}, "pie_history"),
        ({"offload": {"inptu": "input"}}, "offload"),
        ({"press_samples": PROFILE_SAMPLES_MAX + 1}, "press_samples"),
        ({"press_samples_max": PROFILE_SAMPLES_MAX + 1}, "press_samples_max"),
    ],
)
def test_nonsense_is_explained(settings: dict[str, object], problem: str) -> None:
    problems = settings_problems(settings)
    assert len(problems) == 1
    assert problem in problems[0]
    with pytest.raises(ValueError, match="balance: "):
        read_settings(settings)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"global_pie_s": 20}, "global_pie_s"),
        ({"local_detect_min_s": 10}, "local_detect_min_s"),
        ({"global_ratio": 0.05}, "global_ratio"),
        ({"global_delay": 0.05}, "global_delay"),
        ({"local_ratio": 0.95, "global_ratio": 0.95}, "local_ratio"),
        ({"mode": "on", "stabilise_s": 15}, "stabilise_s"),
    ],
)
def test_what_is_hardly_meant_is_pointed_out(settings: dict[str, object], hint: str) -> None:
    assert hint in " ".join(settings_hints(settings))


def test_the_windows_of_a_period_are_one_at_least_and_bounded() -> None:
    assert BalanceSettings().pie_windows("local") == 3
    assert BalanceSettings(window_s=3600.0).pie_windows("global") == 1
    assert BalanceSettings(window_s=0.001).pie_windows("global") == AVERAGE_WINDOWS_MAX

from msgspec.structs import replace

from mqloom.agents.averages import AVERAGE_WINDOWS_MAX, Average, is_sound, mean_load
from mqloom.agents.settings import BalanceSettings
from mqloom.core.load import Load


def load_of(figure: float) -> Load:
    return Load(
        input_ratio=figure,
        delay_s=figure / 10,
        output_ratio=figure * 2,
        input_rate=figure * 100,
        output_bytes_s=figure * 1_000,
        output_bytes_s_max=1_000.0,
        subscriptions=round(figure * 10),
        cpu_ratio=figure,
        memory_ratio=figure / 2,
    )


def test_every_figure_of_a_mean_is_the_mean_of_that_figure() -> None:
    assert mean_load([load_of(0.0), load_of(1.0)]) == load_of(0.5)


def test_deliveries_have_a_mean_where_all_count_them() -> None:
    counted = [replace(load_of(1.0), deliveries_s=each) for each in (1.0, 2.0)]
    assert mean_load(counted).deliveries_s == 1.5
    assert mean_load([*counted, load_of(1.0)]).deliveries_s is None
    assert is_sound(counted[0])
    assert not is_sound(replace(load_of(1.0), deliveries_s=-1.0))


def test_an_average_is_of_what_came_since_it_was_taken() -> None:
    average = Average()
    assert average.load is None
    average.add(load_of(0.0))
    average.add(load_of(1.0))
    assert average.load == load_of(0.5)
    assert average.take() == load_of(0.5)
    assert average.take() is None
    average.add(load_of(1.0))
    assert average.take() == load_of(1.0)


def test_an_average_that_nobody_takes_is_of_the_last_windows() -> None:
    average = Average()
    average.add(load_of(100.0))
    for _ in range(AVERAGE_WINDOWS_MAX):
        average.add(load_of(1.0))
    assert average.take() == load_of(1.0)


def test_a_load_is_sound_when_a_meter_can_have_measured_it() -> None:
    assert is_sound(load_of(5.0))
    assert not is_sound(load_of(-0.1))
    for absurd in (float("inf"), float("nan"), 1e16):
        assert not is_sound(replace(load_of(1.0), delay_s=absurd))
    assert not is_sound(replace(load_of(1.0), subscriptions=10**400))


def test_an_average_of_a_period_forgets_what_was_before_it() -> None:
    average = Average(BalanceSettings().pie_windows("local"))
    for _ in range(30):
        average.add(load_of(0.1))
    for _ in range(3):
        average.add(load_of(1.0))
    assert average.load is not None
    assert average.load.input_ratio == 1.0

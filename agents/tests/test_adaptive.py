import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.adaptive import PATIENCE, AdaptivePie, all_wheres
from mqloom.agents.detector import Detector
from mqloom.agents.pie import Pie, PieAsk, PiePublisher, subject_of
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import BUSY, OK, OVERLOADED
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, Load

SETTINGS = BalanceSettings()
B1, B2 = GatewayId("B1"), GatewayId("B2")
HALF = Load(
    input_ratio=0.5,
    delay_s=0.03,
    output_ratio=0.5,
    input_rate=50,
    output_bytes_s=500,
    output_bytes_s_max=1_000,
    subscriptions=100,
)


def says(input_ratio: float, delay_s: float = 0.03, output_ratio: float = 0.5, cluster: str = "C1") -> Pie:
    load = replace(HALF, input_ratio=input_ratio, delay_s=delay_s, output_ratio=output_ratio)
    return Pie(level="local", broker=B2, cluster=cluster, load=load, state=OK)


def hears(wheres: Sequence[str], message: Pie | PieAsk) -> bool:
    subject = subject_of(message)
    return any(Filter.parse(where).matches(subject) for where in wheres)


def adaptive(settings: BalanceSettings = SETTINGS, clusters: Sequence[str] = ("C1",)) -> AdaptivePie:
    return AdaptivePie("local", B1, clusters, settings)


def settled(load: Load = HALF, settings: BalanceSettings = SETTINGS) -> AdaptivePie:
    made = adaptive(settings)
    assert made.check(load, OK, []) is not None
    return made


def test_at_the_start_nobody_is_lighter_and_overload_is_heard_of_everybody() -> None:
    wheres = adaptive().wheres
    assert wheres == (
        "class = 'LOCAL_ASK' AND cluster = 'C1'",
        "class = 'LOCAL_PIE' AND cluster = 'C1' AND overload = TRUE",
    )
    assert not hears(wheres, says(0.0, 0.0, 0.0))
    assert hears(wheres, replace(says(3.0, 3.0, 3.0), is_news_of_overload=True))


def test_there_is_a_filter_for_each_figure_at_what_we_have_less_the_trigger() -> None:
    wanted = adaptive().check(HALF, OK, [])
    assert wanted is not None
    assert wanted.wheres[2:] == (
        "class = 'LOCAL_PIE' AND cluster = 'C1' AND input < 0.4",
        "class = 'LOCAL_PIE' AND cluster = 'C1' AND delay < 0.02",
        "class = 'LOCAL_PIE' AND cluster = 'C1' AND output < 0.4",
    )
    assert hears(wanted.wheres, says(0.39))
    assert hears(wanted.wheres, says(0.9, 0.019, 0.9))
    assert not hears(wanted.wheres, says(0.41, 0.021, 0.41))
    assert not hears(wanted.wheres, says(0.1, cluster="C2"))


def test_clusters_have_their_own_triggers_and_name_no_cluster() -> None:
    head = AdaptivePie("global", B1, ("B1",), SETTINGS)
    wanted = head.check(HALF, OK, [])
    assert wanted is not None
    assert wanted.wheres[0] == "class = 'GLOBAL_ASK'"
    assert wanted.wheres[2] == "class = 'GLOBAL_PIE' AND input < 0.35"
    assert hears(wanted.wheres, replace(says(0.3, cluster="C9"), level="global"))


def test_the_deviation_of_what_was_published_widens_the_bound_up_to_one() -> None:
    ours = adaptive()
    for figure in (0.3, 0.5, 0.7):
        ours.published(replace(HALF, input_ratio=figure))
    ours.check(HALF, OK, [])
    assert ours.bounds["input"] == pytest.approx(0.4 + statistics.pstdev((0.3, 0.5, 0.7)), abs=1e-6)
    assert ours.bounds["output"] == 0.4
    wild = adaptive()
    for figure in (0.0, 3.0) * 5:
        wild.published(replace(HALF, input_ratio=figure))
    wild.check(HALF, OK, [])
    assert wild.bounds["input"] == 1.0


def test_only_the_last_of_the_history_counts() -> None:
    ours = adaptive()
    ours.published(replace(HALF, input_ratio=3.0))
    for _ in range(SETTINGS.pie_history):
        ours.published(HALF)
    ours.check(HALF, OK, [])
    assert ours.bounds["input"] == 0.4


def test_a_filter_is_widened_when_it_lags_by_a_trigger_and_those_in_between_are_asked() -> None:
    ours = settled()
    assert ours.check(replace(HALF, input_ratio=0.59), OK, []) is None
    wanted = ours.check(replace(HALF, input_ratio=0.61), OK, [])
    assert wanted is not None
    assert ours.bounds["input"] == 0.51
    assert wanted.ask is not None
    assert wanted.ask.ranges == (("input", 0.4, 0.51),)
    assert (wanted.ask.broker, wanted.ask.cluster) == (B1, "C1")
    assert hears(adaptive().wheres, wanted.ask)


def test_a_bound_of_less_than_a_trigger_is_not_worth_a_first_filter() -> None:
    ours = settled(replace(HALF, input_ratio=0.19))
    assert ours.bounds["input"] == 0.0
    assert ours.bounds["output"] == 0.4


def test_a_smaller_lag_follows_sooner() -> None:
    ours = settled(settings=BalanceSettings(adaptive_lag=0.25))
    for _ in range(PATIENCE):
        assert ours.check(replace(HALF, input_ratio=0.52), OK, []) is None
    assert [ours.check(replace(HALF, input_ratio=0.53), OK, []) for _ in range(PATIENCE - 1)] == [None] * (PATIENCE - 1)
    assert ours.check(replace(HALF, input_ratio=0.53), OK, []) is not None
    without = settled(settings=BalanceSettings(adaptive_lag=0.0))
    assert without.check(HALF, OK, []) is None


def test_a_lag_that_comes_and_goes_changes_no_filter() -> None:
    ours = settled()
    for figure in (0.55, 0.55, 0.5) * PATIENCE:
        assert ours.check(replace(HALF, input_ratio=figure), OK, []) is None


def test_a_filter_is_narrowed_only_when_that_keeps_somebody_away() -> None:
    lighter = replace(HALF, input_ratio=0.3)
    assert settled().check(lighter, OK, []) is None
    assert settled().check(lighter, OK, [says(0.1), says(0.2), says(0.4), says(0.6)]) is None
    ours = settled()
    wanted = ours.check(lighter, OK, [says(0.3)])
    assert wanted is not None
    assert ours.bounds["input"] == 0.2
    assert wanted.ask is None


def test_what_was_heard_holds_while_it_would_be_heard_if_it_changed() -> None:
    ours = adaptive(clusters=("C1", B1))
    ours.check(HALF, OK, [])
    assert ours.hears(says(0.39, 0.9, 0.9))
    assert not ours.hears(says(0.41))
    assert ours.hears(says(0.96))  # that it is overloaded, and no longer, comes to everybody
    assert ours.hears(says(0.9, cluster=B1))
    assert adaptive(BalanceSettings(adaptive_pie=False)).hears(says(0.9))


def test_what_changes_is_about_the_cluster_of_the_head_alone_so_that_what_that_wants_covers_it() -> None:
    ours = adaptive(clusters=("C1", B1))
    before = set(ours.wheres)
    ours.check(HALF, OK, [])
    head = [Filter.parse(where) for where in all_wheres("local", ("C1",))]
    changed = set(ours.wheres) - before
    assert len(changed) == 3
    assert all(any(each.covers(Filter.parse(where)) for each in head) for where in changed)
    assert hears(ours.wheres, says(0.9, 0.9, 0.9, cluster="B1"))  # a neighbour that takes us for its head


def test_the_overloaded_hear_of_everybody_who_is_ok_at_once() -> None:
    for load, state in (
        (replace(HALF, memory_ratio=0.91), OVERLOADED),
        (replace(HALF, cpu_ratio=0.96), BUSY),
    ):
        ours = settled(replace(HALF, input_ratio=0.1, delay_s=0.0, output_ratio=0.1))
        assert not hears(ours.wheres, says(0.89, 1.0, 0.89))
        wanted = ours.check(load, state, [])
        assert wanted is not None
        assert hears(wanted.wheres, says(0.89, 1.0, 0.89))
        assert wanted.ask is not None
        assert wanted.ask.is_for(says(0.89, 1.0, 0.89).load)
        assert ours.check(load, state, []) is None


def test_in_a_session_between_clusters_those_of_the_other_are_heard_and_asked() -> None:
    ours = settled()
    ours.move(("C1", "O'Hare"))
    wanted = ours.check(HALF, OK, [])
    assert wanted is not None
    assert hears(wanted.wheres, says(0.3, cluster="O'Hare"))
    assert wanted.ask is not None
    assert wanted.ask.ranges == (("input", 0.0, 0.4), ("match", 0.0, 0.02), ("output", 0.0, 0.4))
    ours.move(("C1", "O'Hare"))
    assert ours.check(HALF, OK, []) is None
    ours.move(("C1",))
    back = ours.check(HALF, OK, [])
    assert back is not None
    assert not hears(back.wheres, says(0.3, cluster="O'Hare"))


def test_without_adaptive_pie_everybody_of_the_cluster_is_heard_and_nothing_ever_changes() -> None:
    ours = adaptive(BalanceSettings(adaptive_pie=False), ("C1", "B1"))
    wanted = ours.check(HALF, OK, [])
    assert wanted is not None
    assert wanted.ask is None
    assert wanted.wheres == all_wheres("local", ("C1", "B1"))
    assert hears(wanted.wheres, says(3.0, 3.0, 3.0))
    assert hears(wanted.wheres, says(3.0, cluster="B1"))
    assert not hears(wanted.wheres, says(0.0, cluster="C2"))
    assert ours.check(replace(HALF, input_ratio=3.0), OVERLOADED, []) is None


FIGURES = st.floats(0.0, 1.5)
LOADS = st.builds(
    lambda i, d, o: replace(HALF, input_ratio=i, delay_s=d / 10, output_ratio=o), FIGURES, FIGURES, FIGURES
)


@hypothesis_settings(deadline=None)
@given(st.lists(LOADS, min_size=1, max_size=20), LOADS)
def test_without_lag_every_partner_of_the_detector_is_heard_soon(history: list[Load], other: Load) -> None:
    settings = BalanceSettings(adaptive_lag=0.0)
    ours, pie = adaptive(settings), replace(says(0.5), load=other)
    for load in history:
        ours.check(load, OK, [pie])
        ours.published(load)
    load = history[-1]
    for _ in range(PATIENCE):
        ours.check(load, OVERLOADED if load.utilisation > settings.overload_low else OK, [pie])
    if other.utilisation > settings.overload_low:
        return  # would not be OK
    found = Detector("local", settings, random.Random(1), 0.0).detect(load, [pie], 30.0)
    if any(other.of(action.metric) < 1 for action in found.actions):
        assert hears(ours.wheres, pie)


@hypothesis_settings(deadline=None)
@given(st.lists(LOADS, min_size=1, max_size=20), st.lists(LOADS, max_size=5))
def test_bounds_stay_between_0_and_1_and_no_filter_lags_by_more_than_a_trigger(
    history: list[Load], others: list[Load]
) -> None:
    ours, pies = settled(history[0]), [replace(says(0.5), load=load) for load in others]
    for load in history:
        ours.check(load, OK, pies)
        ours.published(load)
        assert all(0 <= bound <= 1 for bound in ours.bounds.values())
    ours.check(history[-1], OK, pies)
    for metric in METRICS:
        trigger = 0.01 if metric == "match" else 0.1
        assert ours.bounds[metric] > min(1.0, history[-1].of(metric) - trigger) - trigger - 1e-6


@hypothesis_settings(deadline=None)
@given(st.lists(LOADS, min_size=2, max_size=10), LOADS)
def test_who_holds_a_pie_under_its_filters_gets_the_one_that_corrects_it(history: list[Load], load: Load) -> None:
    wheres = settled(load).wheres
    theirs, now, held = PiePublisher("local", B2, "C1", SETTINGS), 0.0, None
    for figure in history:
        pie = theirs.due(figure, OK, [], now)
        now += SETTINGS.local_pie_s
        if pie is None:
            continue
        if held is not None and hears(wheres, replace(held, least=None, is_news_of_overload=False)):
            assert hears(wheres, pie)
        held = pie

import random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.detector import REQUEST_DETECTIONS, YIELDS_MAX, Action, Detection, Detector, GlobalRequests
from mqloom.agents.pie import Pie
from mqloom.agents.settings import LEVELS, BalanceSettings, Level
from mqloom.agents.standing import STABILISE_PERIODS_MAX
from mqloom.agents.states import BUSY, OK, OVERLOADED, STABILIZING
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, BalanceState, Load, Metric, difference

SETTINGS = BalanceSettings()
B2, B3, B4 = GatewayId("B2"), GatewayId("B3"), GatewayId("B4")
HALF: Final = Load(
    input_ratio=0.5,
    delay_s=0.01,
    output_ratio=0.5,
    input_rate=50,
    output_bytes_s=500,
    output_bytes_s_max=1_000,
    subscriptions=100,
)


def detector(level: Level = "local") -> Detector:
    return Detector(level, SETTINGS, random.Random(1), 0.0)


def says(
    broker: GatewayId, input_ratio: float = 0.5, state: BalanceState = OK, *, output: float = 0.5, delay_s: float = 0.01
) -> Pie:
    load = replace(HALF, input_ratio=input_ratio, output_ratio=output, delay_s=delay_s)
    return Pie(level="local", broker=broker, cluster="B0", load=load, state=state)


def rounded(found: Detection) -> tuple[Action, ...]:
    return tuple(action._replace(difference=round(action.difference, 6)) for action in found.actions)


def state_of(ours: Detector) -> BalanceState:
    return ours.state


def test_equals_are_left_alone() -> None:
    found = detector().detect(HALF, [says(B2), says(B3, 0.41)], 30.0)
    assert found.actions == ()
    assert not found.asks_globally
    assert found.text == "not overloaded; no partner among B2 OK, B3 OK"


def test_step_2_lists_every_difference_over_its_trigger_the_largest_first() -> None:
    found = detector().detect(HALF, [says(B2, 0.3), says(B3, 0.45, output=0.1), says(B4, delay_s=0.0)], 30.0)
    assert rounded(found) == (
        Action(B3, "output", 0.4, False),
        Action(B2, "input", 0.2, False),
    )
    assert "best of 2: B3, 0.40 less output" in found.text
    slow = replace(HALF, delay_s=0.03)
    assert rounded(detector().detect(slow, [says(B2)], 30.0)) == (Action(B2, "match", 0.2, False),)


def test_nobody_gives_load_to_one_who_has_more() -> None:
    assert detector().detect(HALF, [says(B2, 0.9, output=0.9, delay_s=1.0)], 30.0).actions == ()


def test_clusters_need_a_larger_difference() -> None:
    assert detector().detect(HALF, [says(B2, 0.34)], 30.0).actions
    assert not detector("global").detect(HALF, [says(B2, 0.34)], 30.0).actions
    assert detector("global").detect(HALF, [says(B2, 0.27)], 30.0).actions


def test_a_difference_of_little_more_than_a_trigger_has_to_last() -> None:
    ours = detector()
    found = [bool(ours.detect(HALF, [says(B2, 0.38)], 30.0 * number).actions) for number in range(1, 5)]
    assert found == [False, False, True, True]
    ours.began(130.0)
    ours.ended(140.0, changed=True)  # what was before is no longer so
    for number in range(STABILISE_PERIODS_MAX):
        ours.advance(200.0 + number * SETTINGS.stabilise_s)
    assert state_of(ours) is OK
    found = [bool(ours.detect(HALF, [says(B2, 0.38)], 1_000.0 + 30.0 * number).actions) for number in range(1, 4)]
    assert found == [False, False, True]


def test_a_partner_that_was_busy_meanwhile_is_looked_at_anew() -> None:
    ours = detector()
    states = [OK, OK, BUSY, OK, OK, OK]
    found = [bool(ours.detect(HALF, [says(B2, 0.38, state)], 30.0).actions) for state in states]
    assert found == [False] * 5 + [True]


def test_in_need_no_difference_has_to_last() -> None:
    assert detector("global").detect(HALF, [says(B2, 0.49)], 30.0, requested=True).actions


@pytest.mark.parametrize(
    ("resource", "metric"),
    [("input_ratio", "input"), ("output_ratio", "output"), ("cpu_ratio", "match"), ("memory_ratio", "match")],
)
def test_step_1_offloads_what_is_overloaded_whatever_the_difference(resource: str, metric: Metric) -> None:
    ours = detector()
    load = replace(HALF, **{resource: 0.96})
    partner = says(B2, 0.89, output=0.89)
    partner = replace(partner, load=replace(partner.load, cpu_ratio=0.89, memory_ratio=0.89))
    found = ours.detect(load, [partner], 30.0)
    assert rounded(found) == (Action(B2, metric, 0.07, True),)
    assert state_of(ours) is OVERLOADED
    assert found.text.startswith(f"overloaded: {resource.removesuffix('_ratio')} 0.96; ")


def test_step_1_sorts_by_the_overloaded_resource_and_names_a_partner_once_for_each_metric() -> None:
    load = replace(HALF, output_ratio=1.2, cpu_ratio=1.0, memory_ratio=1.1)
    found = detector().detect(load, [says(B2, output=0.2), says(B3, 0.0, output=0.8)], 30.0)
    assert rounded(found) == (
        Action(B2, "match", 1.1, True),
        Action(B3, "match", 1.1, True),
        Action(B2, "output", 1.0, True),
        Action(B3, "output", 0.4, True),
    )


def test_between_the_thresholds_a_broker_takes_nothing_and_still_balances() -> None:
    ours = detector()
    found = ours.detect(replace(HALF, input_ratio=0.92), [says(B2, 0.3)], 30.0)
    assert state_of(ours) is OVERLOADED
    assert rounded(found) == (Action(B2, "input", 0.62, False),)


def test_two_that_are_overloaded_a_little_do_not_wait_for_each_other() -> None:
    found = detector().detect(replace(HALF, input_ratio=0.92), [says(B2, 0.3), says(B3, 0.93, OVERLOADED)], 30.0)
    assert found.actions


@pytest.mark.parametrize("state", [BUSY, OVERLOADED, STABILIZING])
def test_who_is_not_ok_is_not_asked(state: BalanceState) -> None:
    for load in (HALF, replace(HALF, input_ratio=2.0)):
        assert detector().detect(load, [says(B2, 0.0, state)], 30.0).actions == ()


def test_who_is_overloaded_comes_first_but_not_for_ever() -> None:
    ours, others = detector(), [says(B2, 0.3), says(B3, 1.2, BUSY)]
    for number in range(YIELDS_MAX):
        found = ours.detect(HALF, others, 30.0 * number)
        assert (found.actions, found.text) == ((), "B3 is overloaded and comes first")
    assert ours.detect(HALF, others, 30.0 * YIELDS_MAX).actions
    assert not ours.detect(HALF, others, 30.0 * YIELDS_MAX + 30).actions
    assert ours.detect(replace(HALF, input_ratio=0.96), others, 30.0 * YIELDS_MAX + 60).actions


def test_nobody_waits_for_one_whose_memory_alone_is_full() -> None:
    full = says(B3, 0.5, OVERLOADED)
    full = replace(full, load=replace(full.load, memory_ratio=0.99))
    assert detector().detect(HALF, [says(B2, 0.3), full], 30.0).actions
    head = detector("global")
    head.watched([full], 0.0)
    assert state_of(head) is OVERLOADED
    assert head.detect(HALF, [says(B2, 0.2)], 60.0).actions


def test_nobody_waits_for_an_overloaded_one_that_may_be_gone() -> None:
    others = [says(B2, 0.3), says(B3, 1.2, OVERLOADED)]
    assert not detector().detect(HALF, others, 30.0).actions
    assert detector().detect(HALF, others, 30.0, silent=[B3]).actions


def test_a_memory_that_subscribers_do_not_fill_makes_a_broker_take_nobody_and_starts_nothing() -> None:
    for memory in (0.92, 0.99):
        ours = detector()
        load = replace(HALF, memory_ratio=memory)
        found = ours.detect(load, [says(B2, 0.45, OVERLOADED)], 30.0, can_free_memory=False)
        assert state_of(ours) is OVERLOADED
        assert found == Detection((), False, "not overloaded; no partner among B2 N/A")
        assert detector().detect(load, [says(B2, 0.3)], 30.0, can_free_memory=False).actions  # step 2, as ever
        busy = replace(load, input_ratio=0.99)
        assert detector().detect(busy, [], 30.0, can_free_memory=False).asks_globally


def test_an_overloaded_edge_with_nobody_ok_asks_for_global_balancing() -> None:
    for figure in (0.92, 0.96):
        load = replace(HALF, input_ratio=figure)
        assert detector().detect(load, [says(B2, 0.91, OVERLOADED)], 30.0).asks_globally
        assert detector().detect(load, [], 30.0).asks_globally
        assert not detector().detect(load, [says(B2, 0.89)], 30.0).asks_globally
        assert not detector("global").detect(load, [], 30.0).asks_globally
    assert not detector().detect(HALF, [], 30.0).asks_globally


def test_in_a_session_nothing_is_detected() -> None:
    ours = detector()
    ours.began(0.0, until=100.0)
    assert not ours.is_due(90.0)
    assert ours.next_at == 100.0
    assert ours.detect(replace(HALF, input_ratio=2.0), [says(B2)], 30.0).actions == ()


def test_while_stabilizing_only_overload_starts_a_session() -> None:
    ours = detector()
    ours.began(0.0)
    ours.ended(1.0, changed=True)
    assert state_of(ours) is STABILIZING
    assert ours.detect(HALF, [says(B2, 0.0)], 20.0).actions == ()
    assert ours.detect(replace(HALF, input_ratio=0.96), [says(B2, 0.0)], 21.0).actions
    assert state_of(ours) is STABILIZING


def test_what_was_measured_before_clients_moved_decides_nothing_after_it() -> None:
    ours = detector()
    ours.began(0.0)
    ours.ended(100.0, changed=True)
    assert not ours.is_due(119.9)
    assert ours.next_at >= 120.0
    ours.sampled(replace(HALF, output_ratio=2.0), 109.0)  # a window that began before
    assert ours.average is None
    ours.sampled(HALF, 119.0)
    assert ours.average == HALF
    assert ours.is_due(120.0)


def test_what_was_measured_before_a_session_that_moved_nobody_still_counts_after_it() -> None:
    ours = detector()
    ours.sampled(replace(HALF, output_ratio=0.9), 10.0)
    ours.began(12.0)
    ours.sampled(HALF, 20.0)
    ours.ended(25.0, changed=False)
    ours.sampled(replace(HALF, output_ratio=0.1), 30.0)
    assert ours.average is not None
    assert ours.average.output_ratio == pytest.approx(0.5)


def test_too_much_load_is_noticed_at_once_and_its_end_by_a_detection() -> None:
    ours = detector()
    ours.sampled(replace(HALF, cpu_ratio=0.96), 10.0)
    assert state_of(ours) is OVERLOADED
    ours.sampled(HALF, 20.0)
    assert state_of(ours) is OVERLOADED
    assert ours.average is not None
    assert ours.average.cpu_ratio == pytest.approx(0.48)
    ours.detect(ours.average, [], 30.0)
    assert state_of(ours) is OK
    assert ours.average is None


def test_a_cluster_is_overloaded_when_one_of_its_edges_is() -> None:
    head = detector("global")
    head.watched([says(B2), says(B3, 0.5, OVERLOADED)], 0.0)
    assert state_of(head) is OVERLOADED
    head.watched([says(B2), says(B3, 0.91, BUSY)], 1.0)
    assert state_of(head) is OVERLOADED
    head.watched([says(B2), says(B3)], 2.0)
    assert state_of(head) is OK


def test_the_edges_of_a_cluster_help_each_other_first() -> None:
    head = detector("global")
    head.watched([says(B2, 0.0), says(B3, 1.5)], 0.0)
    for number in range(YIELDS_MAX):
        assert not head.detect(replace(HALF, input_ratio=0.75), [says(B4, 0.0)], 60.0 * number).actions
    assert head.detect(replace(HALF, input_ratio=0.75), [says(B4, 0.0)], 60.0 * YIELDS_MAX).actions


def test_when_its_edges_ask_a_cluster_gives_to_whoever_has_less() -> None:
    head = detector("global")
    head.watched([says(B2, 0.96, OVERLOADED)], 0.0)
    found = head.detect(HALF, [says(B3, 0.45), says(B4, 0.0, BUSY)], 60.0, requested=True)
    assert rounded(found) == (Action(B3, "input", 0.05, True),)


def test_detections_come_at_random_within_their_bounds() -> None:
    for level in LEVELS:
        least, most = SETTINGS.detect_s(level)
        ours, now, waits = detector(level), 0.0, []
        for _ in range(100):
            waits.append(ours.next_at - now)
            now = ours.next_at
            assert ours.is_due(now)
            ours.detect(HALF, [], now)
        assert least <= min(waits) < least + 2
        assert most - 2 < max(waits) <= most


def test_requests_of_edges_add_up_and_one_that_came_twice_counts_once() -> None:
    requests = GlobalRequests(SETTINGS)
    assert not requests.asked(B2, 1, 0.0)
    assert not requests.asked(B2, 2, 1.0)
    assert not requests.asked(B3, 1, 2.0)
    assert requests.asked(B2, 3, 30.0)
    assert requests.asked(B3, 2, 40.0)
    requests.clear()
    assert not requests.asked(B2, 4, 100.0)


def test_a_copy_of_a_request_that_comes_late_does_not_count() -> None:
    requests = GlobalRequests(SETTINGS)
    for copy in range(SETTINGS.global_requests + 1):
        assert not requests.asked(B2, 1, 29.0 * copy)
    requests.clear()
    requests.asked(B2, 1, 100.0)
    assert not requests.asked(B2, 2, 101.0)
    assert not requests.asked(B2, 3, 131.0)
    assert requests.asked(B2, 4, 161.0)


def test_old_requests_do_not_count() -> None:
    requests = GlobalRequests(SETTINGS)
    keep_s = REQUEST_DETECTIONS * SETTINGS.global_requests * SETTINGS.local_detect_max_s
    requests.asked(B2, 1, 0.0)
    requests.asked(B2, 2, 30.0)
    assert not requests.asked(B2, 3, keep_s + 1)
    assert requests.asked(B2, 4, keep_s + 20)


RATIOS = st.floats(0.0, 2.0)
LOADS = st.builds(
    lambda i, d, o, c, m: replace(HALF, input_ratio=i, delay_s=d, output_ratio=o, cpu_ratio=c, memory_ratio=m),
    RATIOS,
    st.floats(0.0, 0.2),
    RATIOS,
    RATIOS,
    RATIOS,
)
PIES = st.builds(
    lambda number, load, state: Pie(
        level="local", broker=GatewayId(f"N{number}"), cluster="B0", load=load, state=state
    ),
    st.integers(0, 9),
    LOADS,
    st.sampled_from(BalanceState),
)


@settings(deadline=None)
@given(
    st.sampled_from(LEVELS),
    LOADS,
    st.lists(PIES, max_size=8, unique_by=lambda pie: pie.broker),
    st.booleans(),
)
def test_the_list_is_sorted_and_has_only_ok_partners_with_less_load(
    level: Level, load: Load, others: list[Pie], requested: bool
) -> None:
    found = detector(level).detect(load, others, 30.0, requested=requested)
    assert [action.difference for action in found.actions] == sorted(
        (action.difference for action in found.actions), reverse=True
    )
    assert len({(action.partner, action.metric) for action in found.actions}) == len(found.actions)
    loads = {pie.broker: pie.load for pie in others if pie.state is OK}
    overloaded = load.utilisation > SETTINGS.overload_high
    for partner, metric, less, is_overload in found.actions:
        assert partner in loads
        assert is_overload == (overloaded or requested)
        assert less > (0 if is_overload else SETTINGS.trigger(level, metric))
        if not is_overload:
            assert less == difference(metric, load.of(metric), loads[partner].of(metric), SETTINGS.delay_factor_s)
    if not overloaded and not requested:
        pressing = (max(pie.load.input_ratio, pie.load.output_ratio, pie.load.cpu_ratio) for pie in others)
        blocked = max(pressing, default=0.0) > SETTINGS.overload_high
        expected = {
            (partner, metric)
            for partner, other in loads.items()
            for metric in METRICS
            if difference(metric, load.of(metric), other.of(metric), SETTINGS.delay_factor_s)
            > SETTINGS.trigger(level, metric)
        }
        assert {(action.partner, action.metric) for action in found.actions} == (set() if blocked else expected)


@settings(deadline=None)
@given(
    st.sampled_from(LEVELS),
    st.floats(0.0, 1e7),
    st.lists(st.tuples(st.sampled_from(["began", "ended", "sampled", "nothing"]), LOADS), max_size=20),
)
def test_at_the_time_that_it_names_a_detector_does_something_and_names_a_later_one(
    level: Level, begin: float, events: list[tuple[str, Load]]
) -> None:
    ours, now = Detector(level, SETTINGS, random.Random(1), begin), begin
    for what, load in events:
        if what == "began":
            ours.began(now, until=now + 60)
        elif what == "ended":
            ours.ended(now, changed=True)
        elif what == "sampled" and level == "local":
            ours.sampled(load, now)
        now = max(now, ours.next_at)
        ours.advance(now)
        if ours.is_due(now):
            ours.detect(load, [], now)
        assert ours.next_at > now

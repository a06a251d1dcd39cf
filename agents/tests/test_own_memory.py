"""What a subscription takes of the memory, as it comes and as it goes."""

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.own_load import OwnLoad
from mqloom.agents.own_memory import CHANGE_MIN, WINDOWS_MAX, OwnMemory, with_memory
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.load import Load


def window(subscriptions: int, memory: float) -> Load:
    return replace(IDLE, subscriptions=subscriptions, memory_ratio=memory, input_rate=10.0, delay_s=0.001)


def learnt(*windows: tuple[int, float]) -> OwnMemory:
    memory = OwnMemory()
    for subscriptions, ratio in windows:
        memory.sampled(window(subscriptions, ratio))
    return memory


def each(memory: OwnMemory, subscriptions: int = 100, *, is_taking: bool = False) -> float:
    return memory.each(window(subscriptions, 0.9), is_taking=is_taking)


def still(subscriptions: int, memory: float) -> list[tuple[int, float]]:
    return [(subscriptions, memory)] * 5


def test_as_long_as_the_number_of_subscriptions_is_the_same_nothing_is_known() -> None:
    assert each(learnt(*[(100, 0.01 * number) for number in range(90)])) == 0.0


def test_what_subscriptions_take_is_what_is_fuller_when_they_have_come() -> None:
    memory = learnt(*still(0, 0.3), (60, 0.3), (100, 0.4), *still(100, 0.5))  # which is told late
    assert each(memory) == pytest.approx(0.002)


def test_what_changes_while_they_stay_is_not_theirs() -> None:
    memory = learnt(*still(0, 0.1), *still(0, 0.3), *still(100, 0.5), *still(100, 0.8), *still(100, 0.9))
    assert each(memory) == pytest.approx(0.002)


def test_who_keeps_what_subscriptions_have_freed_knows_that_their_going_is_no_help() -> None:
    memory = learnt(*still(0, 0.3), *still(100, 0.5), *still(50, 0.5))
    assert each(memory) == 0.0
    assert each(memory, is_taking=True) == pytest.approx(0.002)


def test_few_that_come_or_go_teach_nothing() -> None:
    assert each(learnt(*still(0, 0.3), *still(CHANGE_MIN - 1, 0.9))) == 0.0
    assert each(learnt(*still(1_000, 0.3), *still(1_040, 0.9))) == 0.0


def test_a_change_that_does_not_end_is_looked_at_all_the_same() -> None:
    memory = learnt(*[(10 * number, 0.3 + 0.01 * number) for number in range(WINDOWS_MAX)])
    assert each(memory) == pytest.approx(0.001)


def test_all_together_they_take_no_more_than_there_is() -> None:
    memory = learnt(*still(0, 0.1), *still(10, 0.9))
    assert memory.each(window(100, 0.5), is_taking=False) == pytest.approx(0.005)
    assert memory.each(window(0, 0.5), is_taking=True) == pytest.approx(0.08)


def test_an_estimate_tells_it_and_whether_memory_can_be_freed() -> None:
    settings = BalanceSettings(mode="on")
    for before, is_freed in ((0.5, True), (0.92, False)):
        own = OwnLoad(settings)
        for number, (subscriptions, ratio) in enumerate([*still(0, before), *still(100, 0.97)]):
            own.sampled(window(subscriptions, ratio), 10.0 * number)
        estimate = own.estimate()
        assert estimate is not None
        assert estimate.memory_each == pytest.approx((0.97 - before) / 100)
        assert estimate.memory_ratio == pytest.approx(0.97)
        assert own.can_free_memory == is_freed


ESTIMATE = BrokerEstimate(
    input_rate=10.0,
    subscriptions=100,
    delay=DelayModel(0.001, 0.0),
    output_bytes_s=1.0,
    output_bytes_s_max=2.0,
    memory_beside=0.2,
    memory_each=0.001,
)


def test_a_broker_that_cannot_know_it_goes_by_ours_and_uses_what_it_said() -> None:
    empty = changed(ESTIMATE, subscriptions=0, memory_each=0.0)
    assert with_memory(empty, ESTIMATE) == changed(empty, memory_each=0.001)
    little = changed(ESTIMATE, memory_beside=0.05, memory_each=0.0)
    found = with_memory(little, ESTIMATE)
    assert found.memory_ratio == pytest.approx(0.05)
    assert found.memory_each == pytest.approx(0.0005)


def test_a_broker_that_knows_it_or_measures_no_memory_is_believed() -> None:
    for other in (changed(ESTIMATE, memory_each=0.005), changed(ESTIMATE, memory_beside=0.0, memory_each=0.0)):
        assert with_memory(other, ESTIMATE) is other

from msgspec.structs import replace

from mqloom.agents.balanced import are_balanced, balanced_with
from mqloom.agents.pie import Pie
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load

SETTINGS = BalanceSettings()
HALF = Load(
    input_ratio=0.5,
    delay_s=0.01,
    output_ratio=0.5,
    input_rate=50,
    output_bytes_s=500,
    output_bytes_s_max=1_000,
    subscriptions=100,
)


def says(broker: str, input_ratio: float, *balanced: str, state: BalanceState = BalanceState.OK) -> Pie:
    return Pie(
        level="local",
        broker=GatewayId(broker),
        cluster="C1" if broker < "B3" else "C2",
        load=replace(HALF, input_ratio=input_ratio),
        state=state,
        balanced=tuple(GatewayId(name) for name in balanced),
    )


def test_an_edge_is_balanced_with_whom_it_would_give_nothing_to() -> None:
    others = [says("B2", 0.39), says("B3", 0.41), says("B4", 2.0)]
    assert balanced_with(HALF, others, SETTINGS) == ("B3", "B4")
    assert balanced_with(replace(HALF, delay_s=0.03), others, SETTINGS) == ()


def test_a_session_between_clusters_is_over_when_no_edge_is_heavier_than_any_other() -> None:
    assert are_balanced([says("B1", 0.5), says("B2", 0.45), says("B3", 0.42)], SETTINGS)
    assert not are_balanced([says("B1", 0.5), says("B2", 0.45), says("B3", 0.35)], SETTINGS)


def test_what_an_edge_says_itself_counts_more_than_what_was_published() -> None:
    assert are_balanced([says("B1", 0.5, "B3"), says("B3", 0.39)], SETTINGS)
    assert not are_balanced([says("B1", 0.5), says("B3", 0.39, "B1")], SETTINGS)


def test_while_an_edge_is_in_a_session_or_settles_it_is_too_early_to_tell() -> None:
    for state in (BalanceState.BUSY, BalanceState.STABILIZING):
        assert not are_balanced([says("B1", 0.5), says("B3", 0.5, state=state)], SETTINGS)
    assert are_balanced([says("B1", 0.95, state=BalanceState.OVERLOADED), says("B3", 0.9)], SETTINGS)

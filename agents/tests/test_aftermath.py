from msgspec.structs import replace

from mqloom.agents.aftermath import Aftermath, told
from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import Decision, Decisions
from mqloom.agents.mediation import SessionId, Settled
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import BUSY, OK, STABILIZING
from mqloom.core.ids import GatewayId

B = GatewayId("b")
SETTINGS = BalanceSettings(mode="on", window_s=10.0, stabilise_s=30.0)


def after(*, is_offloading: bool = True) -> tuple[Aftermath, Decision]:
    decisions = Decisions()
    decision = Decision(
        level="local", is_offloading=is_offloading, began_at=0.0, ended_at=100.0, session="s", partner=B, moved=3
    )
    aftermath = Aftermath(SETTINGS, decisions)
    aftermath.begin(decisions.add(decision))
    return aftermath, decision


def test_what_came_is_the_mean_of_the_last_stabilise_duration() -> None:
    aftermath, decision = after()
    for now, output in ((105, 0.9), (115, 0.5), (125, 0.3), (135, 0.3), (145, 0.3)):
        aftermath.sampled(replace(IDLE, output_ratio=output), now)
        assert aftermath.settle(STABILIZING) is None
    assert aftermath.settle(OK) is decision
    assert decision.observed is not None
    assert abs(decision.observed.output_ratio - 0.3) < 1e-9
    assert aftermath.settle(OK) is None


def test_another_session_hides_what_came_of_the_last() -> None:
    aftermath, decision = after()
    aftermath.sampled(IDLE, 115.0)
    assert aftermath.settle(BUSY) is None
    aftermath.drop()
    assert aftermath.settle(OK) is None
    assert decision.observed is None


def test_without_a_window_nothing_is_known() -> None:
    aftermath, _ = after()
    assert aftermath.settle(OK) is None


def test_the_accepting_broker_tells_and_the_offloading_one_listens_to_its_partner_once() -> None:
    aftermath, decision = after(is_offloading=False)
    aftermath.sampled(IDLE, 115.0)
    assert aftermath.settle(OK) is decision
    message = told(decision)
    assert message == Settled(session=SessionId("s"), load=IDLE)
    offloading, kept = after()
    assert offloading.settled(message, GatewayId("stranger")) is None
    assert offloading.settled(message, B) is kept
    assert offloading.settled(message, B) is None
    assert kept.observed_partner == IDLE
    assert aftermath.settled(message, B) is None

import math

from mqloom.agents.aftermath import Aftermath
from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import Decision, Decisions
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import OK
from mqloom.agents.telling import Telling
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.core.telemetry import MigrationRecord, Record

B = GatewayId("b")


def load(output: float) -> Load:
    return Load(
        input_ratio=0.4,
        delay_s=0.04,
        output_ratio=output,
        input_rate=10.0,
        output_bytes_s=output,
        output_bytes_s_max=1.0,
        subscriptions=50,
    )


def estimate(output: float) -> BrokerEstimate:
    delay = DelayModel(0.001, 0.0)
    return BrokerEstimate(input_rate=10.0, subscriptions=50, delay=delay, output_bytes_s=output, output_bytes_s_max=1.0)


def decided(decisions: Decisions, session: str, *, is_offloading: bool = True, moved: int = 3) -> Decision:
    decision = Decision(
        level="local",
        is_offloading=is_offloading,
        began_at=0.0,
        ended_at=100.0,
        session=session,
        partner=B,
        metric="output",
        moved=moved,
        chosen=4,
        predicted=estimate(0.3),
        predicted_partner=estimate(0.6),
    )
    return decisions.add(decision)


def migrations(records: list[Record]) -> list[MigrationRecord]:
    return [record for record in records if isinstance(record, MigrationRecord)]


def test_each_side_is_told_once_when_it_is_known_what_came() -> None:
    decisions = Decisions()
    telling, decision = Telling(decisions), decided(decisions, "s")
    assert telling.records(1.0) == []
    decision.observed = load(0.25)
    [own] = migrations(list(telling.records(2.0)))
    assert (own.at, own.session, own.metric, own.partner, own.asked, own.moved) == (2.0, "s", "output", B, 4, 3)
    assert (own.predicted_output, own.observed_output, own.is_offloading) == (0.3, 0.25, True)
    assert telling.records(3.0) == []
    decision.observed_partner = load(0.7)
    [other] = migrations(list(telling.records(4.0)))
    assert (other.predicted_output, other.observed_output, other.is_offloading) == (0.6, 0.7, False)
    assert telling.records(5.0) == []


def test_a_session_that_was_followed_too_soon_is_told_without_what_came() -> None:
    decisions = Decisions()
    telling, decision = Telling(decisions), decided(decisions, "s")
    aftermath = Aftermath(BalanceSettings(mode="on"), decisions)
    aftermath.begin(decision)
    aftermath.sampled(IDLE, 1_000.0)
    aftermath.drop()
    assert aftermath.settle(OK) is None
    [own] = migrations(list(telling.records(2.0)))
    assert own.predicted_output == 0.3
    assert math.isnan(own.observed_output)


def test_who_took_clients_and_sessions_without_a_move_tell_nothing() -> None:
    decisions = Decisions()
    for decision in (decided(decisions, "s", is_offloading=False), decided(decisions, "t", moved=0)):
        decision.observed = decision.observed_partner = load(0.2)
    assert Telling(decisions).records(1.0) == []


def test_what_is_remembered_of_sessions_is_bounded_by_what_is_kept_of_them() -> None:
    decisions = Decisions()
    telling = Telling(decisions)
    for number in range(1_000):
        decided(decisions, str(number)).observed = load(0.2)
        assert len(telling.records(1.0)) == 1
    assert len(telling._told) <= 100

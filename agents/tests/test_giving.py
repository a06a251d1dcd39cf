import random

import pytest
from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import Decision
from mqloom.agents.giving import MOVE_S_MAX, GaveUp, Giving, Ready
from mqloom.agents.mediation import SessionId
from mqloom.agents.sessions import Agreed, Candidate
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    ClientsMoved,
    Compute,
    Computed,
    MoveClients,
    ProfileTaken,
    Sample,
    TakeProfile,
)
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask

B, X, Y = GatewayId("b"), ClientId("x"), ClientId("y")
KEY = SubscriptionKey(GatewayId("a"), 1, 1)
WANTED = Subscription.parse("#", "a > 1")
ESTIMATE = BrokerEstimate(
    input_rate=8.0, subscriptions=2, delay=DelayModel(0.001, 0.0), output_bytes_s=100.0, output_bytes_s_max=200.0
)
SAMPLES = [Sample([KEY], is_wanted_there=False, size=10)] * 4


class Asked:
    """An offload that answers what it is told to, and remembers what it was asked."""

    def __init__(self, *clients: ClientId) -> None:
        self.clients = clients
        self.task: OffloadTask | None = None

    def choose(self, task: OffloadTask) -> OffloadChoice:
        self.task = task
        return OffloadChoice(list(self.clients), [], task.local, task.remote, "as told")


def giving(asked: Asked, *, is_advice: bool = False, is_overload: bool = False) -> Giving:
    agreed = Agreed(SessionId("s"), Candidate(B, "output", is_overload), ESTIMATE, [("#", "b = 1"), ("#", "??")], 0)
    decision = Decision(level="local", is_offloading=True, began_at=0.0, is_advice=is_advice)
    return Giving(agreed, OffloadKind("told", asked.choose), BalanceSettings(mode="on"), decision)


def ready(*movable: ClientId, moves_max: int = 100) -> Ready:
    return Ready(ESTIMATE, {X: {KEY: WANTED}, Y: {}}, movable, moves_max, random.Random(1))


def chosen(session: Giving, *movable: ClientId, moves_max: int = 100, took_s: float = 2.0) -> object:
    """Let a session run up to the order; return that, or why there is none."""
    reading = session.begin()
    assert isinstance(reading, Compute)
    sampling = session.take(Computed(reading.token, reading.function()), ready)
    assert isinstance(sampling, TakeProfile)
    assert list(sampling.covering) == [Subscription.parse("#", "b = 1")]
    assert (sampling.samples, sampling.timeout_s) == (50, 30.0)
    taken = ProfileTaken(sampling.token, SAMPLES, took_s)
    choosing = session.take(taken, lambda: ready(*movable, moves_max=moves_max))
    if not isinstance(choosing, Compute):
        return choosing
    return session.take(Computed(choosing.token, choosing.function()), ready)


def test_a_session_goes_from_covering_set_to_profile_to_choice_to_move() -> None:
    asked = Asked(X)
    session = giving(asked)
    order = chosen(session, X, Y)
    assert isinstance(order, MoveClients)
    assert (order.clients, order.to, order.timeout_s) == ((X,), B, 5.0)
    assert session.is_end(ClientsMoved(order.token, [X], {}))
    assert not session.is_end(ClientsMoved("another/move", [X], {}))
    assert asked.task is not None
    assert asked.task.metric == "output"
    assert asked.task.bounds.moves_max == 100


@pytest.mark.parametrize(("took_s", "rate"), [(2.0, 8.0), (20.0, 0.2)])
def test_a_long_sampling_tells_the_rate_and_a_short_one_leaves_it_to_the_meters(took_s: float, rate: float) -> None:
    asked = Asked(X)
    chosen(giving(asked), X, took_s=took_s)
    assert asked.task is not None
    assert asked.task.profile.input_rate == rate


@pytest.mark.parametrize(("rate", "samples"), [(0.1, 50), (12.0, 120), (4_000.0, 250)])
def test_as_many_are_sampled_as_come_in_a_window_between_two_bounds(rate: float, samples: int) -> None:
    session = giving(Asked(X))
    session.decision.own = replace(IDLE, input_rate=rate)
    reading = session.begin()
    assert isinstance(reading, Compute)
    sampling = session.take(Computed(reading.token, reading.function()), ready)
    assert isinstance(sampling, TakeProfile)
    assert sampling.samples == samples


def test_answers_of_other_sessions_are_dropped() -> None:
    session = giving(Asked(X))
    assert session.take(Computed("t/covering", []), ready) is None
    assert session.take(ProfileTaken("t/profile", SAMPLES, 1.0), ready) is None


def test_without_publications_clients_or_budget_nobody_is_moved() -> None:
    session = giving(Asked(X))
    assert isinstance(session.take(ProfileTaken("s/profile", [], 30.0), lambda: ready(X)), GaveUp)
    assert isinstance(chosen(giving(Asked(X))), GaveUp)
    assert isinstance(chosen(giving(Asked(X)), X, moves_max=0), GaveUp)
    nobody = chosen(giving(Asked()), X)
    assert isinstance(nobody, GaveUp)
    assert "as told" in nobody.reason
    assert not nobody.is_failure


@pytest.mark.parametrize("clients", [(X, X), (Y,), (X, ClientId("z"))])
def test_a_choice_of_somebody_twice_or_not_to_be_moved_is_a_failure(clients: tuple[ClientId, ...]) -> None:
    outcome = chosen(giving(Asked(*clients)), X)
    assert isinstance(outcome, GaveUp)
    assert outcome.is_failure


def test_what_fails_beside_the_event_loop_is_told() -> None:
    session = giving(Asked(X))
    outcome = session.take(Computed("s/covering", None, "out of memory"), ready)
    assert isinstance(outcome, GaveUp)
    assert "out of memory" in outcome.reason
    assert outcome.is_failure
    outcome = session.take(Computed("s/choice", None, "ZeroDivisionError"), ready)
    assert isinstance(outcome, GaveUp)
    assert "told failed: ZeroDivisionError" in outcome.reason


def test_advice_ends_before_the_move_with_everything_known() -> None:
    session = giving(Asked(X), is_advice=True)
    outcome = chosen(session, X)
    assert isinstance(outcome, GaveUp)
    assert session.decision.chosen == 1
    assert session.decision.predicted is not None


def test_the_time_for_a_move_grows_with_the_clients_up_to_a_bound() -> None:
    session = giving(Asked(X))
    assert session.move_s(3) == 15.0
    assert session.move_s(100_000) == MOVE_S_MAX

"""What an edge learns about itself, as it tells it to whoever asks it to take load, and about who came."""

import random
from collections.abc import Collection, Mapping, Sequence

import pytest

from mqloom.agents.decisions import Decisions
from mqloom.agents.edge import Edge
from mqloom.agents.fairness import Fairness
from mqloom.agents.mediation import Done, Keep, Reply, Request, SessionId, decode
from mqloom.agents.mediator import LEASE_S
from mqloom.agents.peer import Peer
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.load import Load
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import ClientsMoved, PublishControl
from mqloom.gateway.offload_interfaces import OffloadKind

US, HEAD, OTHER = GatewayId("us"), GatewayId("head"), GatewayId("other")
SLOPE_S, BASE_S = 0.0001, 0.001


class Nothing:
    """A gateway without clients."""

    def neighbours(self) -> Sequence[GatewayId]:
        return [HEAD]

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        return {}

    def movable(self) -> Collection[ClientId]:
        return []

    def is_draining(self) -> bool:
        return False

    def covering_set(self) -> Sequence[Subscription]:
        return []

    def offload(self, name: str) -> OffloadKind | None:
        return None


SETTINGS = BalanceSettings(mode="on")


@pytest.fixture
def fairness() -> Fairness:
    return Fairness(SETTINGS)


@pytest.fixture
def edge(fairness: Fairness) -> Edge:
    parts = (Nothing(), random.Random(1), Decisions(), fairness, 0.0)
    return Edge(Peer(US, [HEAD], SETTINGS), SETTINGS, *parts)


def load(subscriptions: int, delay_s: float) -> Load:
    return Load(
        input_ratio=10 * delay_s,
        delay_s=delay_s,
        output_ratio=0.1,
        input_rate=10.0,
        output_bytes_s=1.0,
        output_bytes_s_max=10.0,
        subscriptions=subscriptions,
    )


def cost_s(subscriptions: float) -> float:
    return BASE_S + SLOPE_S * subscriptions


def told(edge: Edge, now: float) -> BrokerEstimate:
    request = Request(session=SessionId("s"), metric="output")
    effects = edge.received(request, OTHER, now)
    replies = [decode(each.body) for each in effects if isinstance(each, PublishControl)]
    (reply,) = [each for each in replies if isinstance(each, Reply)]
    assert reply.estimate is not None
    return reply.estimate


def test_a_window_in_which_many_came_at_once_teaches_nothing_about_matching(edge: Edge) -> None:
    windows = [(100, cost_s(100))] * 2 + [(400, cost_s(150))] + [(400, cost_s(400))] * 2
    for number, (subscriptions, delay_s) in enumerate(windows, 1):  # the third has 100 most of the time, 400 at its end
        edge.sampled(load(subscriptions, delay_s), 10.0 * number)
    assert told(edge, 51.0).delay.slope_s == pytest.approx(SLOPE_S)


def test_where_few_come_the_delay_is_that_of_the_middle_of_the_window(edge: Edge) -> None:
    for number in range(1, 8):
        edge.sampled(load(20 * number, cost_s(20 * number - 10)), 10.0 * number)
    assert told(edge, 71.0).delay.slope_s == pytest.approx(SLOPE_S)


def test_who_is_late_rests_as_who_has_moved_does_at_either_broker(edge: Edge, fairness: Fairness) -> None:
    moved, late, stays = (ClientId(name) for name in ("moved", "late", "stays"))
    edge.answered(ClientsMoved("s/move", [moved], {late: "on its way", stays: "not me"}, [late]), 10.0)
    assert fairness.rested([moved, late, stays], 11.0) == [stays]


def test_clients_of_whom_it_hears_late_that_they_came_rest_all_the_same(edge: Edge, fairness: Fairness) -> None:
    edge.sampled(load(5, 0.001), 10.0)
    session = SessionId("other-1-1")
    edge.received(Request(session=session, metric="output"), OTHER, 11.0)
    edge.received(Keep(session=session, is_moving=True), OTHER, 12.0)
    edge.turn(12.0 + LEASE_S)
    assert edge.mediator.is_free
    client = ClientId("x")
    assert fairness.rested([client], 39.0) == [client]
    edge.received(Done(session=session, moved=1, clients=(client,)), OTHER, 40.0)
    assert fairness.rested([client], 41.0) == []

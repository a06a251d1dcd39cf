"""What an edge learns about itself, and tells whoever asks it to take load; about who came; and whom it tries."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest
from msgspec.structs import replace

from mqloom.agents.decisions import Decisions
from mqloom.agents.edge import Edge
from mqloom.agents.fairness import Fairness
from mqloom.agents.mediation import UNKNOWN, Cancel, Done, Help, Keep, Kept, Reply, Request, Said, SessionId, decode
from mqloom.agents.mediator import LEASE_S
from mqloom.agents.peer import Peer
from mqloom.agents.pie import Pie
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.load import BalanceState, Load
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    ClientsMoved,
    Compute,
    Computed,
    ProfileTaken,
    PublishControl,
    Sample,
    TakeProfile,
)
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask

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


@pytest.mark.parametrize(
    ("moved", "named", "resting"),
    [
        (1, ["x"], ["x"]),  # and y has come by itself
        (1, ["x", "late"], ["late", "x"]),
        (2, ["x"], ["x", "y"]),  # one that came is not named
        (UNKNOWN, [], ["x", "y"]),
        (0, [], []),
    ],
)
def test_who_came_in_a_session_rests_and_not_who_came_by_itself(
    fairness: Fairness, moved: int, named: list[str], resting: list[str]
) -> None:
    here: dict[ClientId, Mapping[SubscriptionKey, Subscription]] = {}

    class Filling(Nothing):
        def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
            return here

    edge = Edge(Peer(US, [HEAD], SETTINGS), SETTINGS, Filling(), random.Random(1), Decisions(), fairness, 0.0)
    edge.sampled(load(5, 0.001), 10.0)
    session = SessionId("other-1-1")
    edge.received(Request(session=session, metric="output"), OTHER, 11.0)
    edge.received(Keep(session=session, is_moving=True), OTHER, 12.0)
    here |= {ClientId("x"): {}, ClientId("y"): {}}
    edge.received(Done(session=session, moved=moved, clients=tuple(map(ClientId, named))), OTHER, 13.0)
    assert edge.mediator.is_free
    all_clients = [ClientId(name) for name in ("late", "x", "y")]
    assert sorted(set(all_clients) - set(fairness.rested(all_clients, 14.0))) == resting


# ---- what an overloaded edge tries, and when it asks for help -----------------------------------------------------

ESTIMATE = BrokerEstimate(
    input_rate=10.0, subscriptions=5, delay=DelayModel(0.001, 0.0), output_bytes_s=1.0, output_bytes_s_max=10.0
)
CLIENT, KEY = ClientId("c"), SubscriptionKey(US, 1, 1)


class Crowded(Nothing):
    """A gateway with a client that may be moved, and an offload that finds nobody worth it."""

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        return {CLIENT: {KEY: Subscription.parse("#", "a > 1")}}

    def movable(self) -> Collection[ClientId]:
        return [CLIENT]

    def offload(self, name: str) -> OffloadKind | None:
        def nobody(task: OffloadTask) -> OffloadChoice:
            return OffloadChoice([], [], task.local, task.remote, "nobody fits")

        return OffloadKind(name, nobody)


def said(effects: Sequence[AgentEffect]) -> list[Said]:
    return [decode(each.body) for each in effects if isinstance(each, PublishControl)]


class Script:
    """An edge whose output is full, and one partner that says to be OK all the time."""

    def __init__(self) -> None:
        parts = (Crowded(), random.Random(1), Decisions(), Fairness(SETTINGS), 0.0)
        self.edge = Edge(Peer(US, [HEAD], SETTINGS), SETTINGS, *parts)
        self.now = 0.0
        self.asked = 0
        """How often it has asked its head for help."""

    def until(self, found: Callable[[list[Said]], bool], within_s: float) -> list[Said]:
        """Let time pass until it says something; only what it says."""
        end = self.now + within_s
        while self.now < end:
            self.now += 1.0
            effects = self.turn()
            if found(effects):
                return effects
        return []

    def turn(self) -> list[Said]:
        full = replace(load(5, 0.001), output_ratio=1.2)
        effects = self.edge.sampled(full, self.now) if self.now % 10 == 0 else self.edge.turn(self.now)
        pie = Pie(level="local", broker=OTHER, cluster=HEAD, load=load(5, 0.001), state=BalanceState.OK)
        effects = [*effects, *self.edge.received(pie, OTHER, self.now)]
        self.asked += sum(isinstance(each, Help) for each in said(effects))
        return said(effects)

    def request(self, within_s: float = 100.0) -> Request | None:
        """Let it ask its partner."""
        messages = self.until(lambda all_said: any(isinstance(each, Request) for each in all_said), within_s)
        return next((each for each in messages if isinstance(each, Request)), None)

    def session(self) -> SessionId:
        """Let it ask its partner, who says yes, and read what that wants."""
        request = self.request()
        assert request is not None
        reply = Reply(session=request.session, state=BalanceState.OK, estimate=ESTIMATE)
        (compute,) = [each for each in self.hear(reply) if isinstance(each, Compute)]
        effects = self.edge.answered(Computed(compute.token, compute.function()), self.now)
        assert any(isinstance(each, TakeProfile) for each in effects)
        return request.session

    def hear(self, message: Said) -> list[AgentEffect]:
        return self.edge.received(message, OTHER, self.now)

    def profiled(self, session: SessionId, samples: Sequence[Sample]) -> None:
        """Hand it a profile, and compute what it asks for."""
        for effect in self.edge.answered(ProfileTaken(f"{session}/profile", samples, 10.0), self.now):
            if isinstance(effect, Compute):
                self.edge.answered(Computed(effect.token, effect.function()), self.now)
        assert self.edge.mediator.is_free


SOON_S = SETTINGS.local_detect_max_s + 1.0
SAMPLES = [Sample([KEY], False, 100)] * 50


@pytest.mark.parametrize("ending", ["silent", "gone"])
def test_who_is_overloaded_tries_a_partner_again_at_once_that_was_away_for_a_moment(ending: str) -> None:
    script = Script()
    session = script.session()
    if ending == "gone":
        script.hear(Kept(session=session, is_known=False))
    else:
        farewells = script.until(lambda each: any(isinstance(one, Cancel) for one in each), LEASE_S + 1.0)
        assert farewells
    assert script.edge.mediator.is_free
    assert script.request(SOON_S) is not None
    assert not script.asked


def test_who_is_overloaded_tries_again_soon_what_has_brought_nothing_and_asks_nobody_for_help() -> None:
    script = Script()
    script.profiled(script.session(), [])  # nothing was published meanwhile
    assert script.request(2 * SOON_S) is not None
    assert not script.asked


def test_if_nobody_is_worth_moving_to_any_partner_help_is_asked_for() -> None:
    script = Script()
    script.profiled(script.session(), SAMPLES)
    assert script.request(2 * SOON_S) is not None
    assert script.asked == 1


def test_if_all_partners_refuse_whatever_their_state_is_help_is_asked_for() -> None:
    script = Script()
    for number in range(2):
        request = script.request(2 * SOON_S)
        assert request is not None
        refusal = Reply(session=request.session, state=BalanceState.OK, refusal="it is being drained")
        script.asked += sum(isinstance(each, Help) for each in said(script.hear(refusal)))
        assert script.asked == 2 * number + 1  # at once, and at the detection that leaves it be

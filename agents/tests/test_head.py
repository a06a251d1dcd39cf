import random
from collections.abc import Sequence

from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import Decisions
from mqloom.agents.head import HEAR_LEASE_S, HEAR_S, REST_DETECTIONS, SESSION_DETECTIONS, Head
from mqloom.agents.mediation import Cancel, Done, Hear, Help, Kept, Reply, Request, Said, SessionId, decode, want_in
from mqloom.agents.peer import Peer
from mqloom.agents.pie import SILENT_PERIODS, Pie, PieAsk
from mqloom.agents.settings import BalanceSettings
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState
from mqloom.gateway.agent_interfaces import AgentEffect, PublishControl

H1, H2, E1, E2, E3 = (GatewayId(name) for name in ("h1", "h2", "e1", "e2", "e3"))
SETTINGS = BalanceSettings(mode="on")
OK, OVERLOADED = BalanceState.OK, BalanceState.OVERLOADED


def head(settings: BalanceSettings = SETTINGS, decisions: Decisions | None = None) -> Head:
    return Head(Peer(H1, [E1, E2, E3, H2], settings), settings, random.Random(1), decisions or Decisions(), 0.0)


def local(broker: GatewayId, cluster: str, output: float, state: BalanceState = OK) -> Pie:
    return Pie(level="local", broker=broker, cluster=cluster, load=replace(IDLE, output_ratio=output), state=state)


def wide(output: float = 0.0, state: BalanceState = OK) -> Pie:
    return Pie(level="global", broker=H2, cluster="h2", load=replace(IDLE, output_ratio=output), state=state)


def said(effects: Sequence[AgentEffect]) -> list[Said]:
    return [decode(each.body) for each in effects if isinstance(each, PublishControl)]


def of(kind: type, effects: Sequence[AgentEffect]) -> list[Said]:
    return [each for each in said(effects) if isinstance(each, kind)]


def asked(one: Head, output: float = 0.6) -> tuple[Request, float]:
    """Let a head with a loaded edge find a lighter cluster."""
    one.received(local(E1, "h1", output), E1, 1.0)
    one.received(wide(), H2, 2.0)
    now = 2.0
    while now < 100:
        now = max(one.next_at, now + 0.1)
        requests = of(Request, one.turn(now))
        if requests:
            (request,) = requests
            assert isinstance(request, Request)
            return request, now
    raise AssertionError("nobody was asked")


def agreed(one: Head, edges: int = 0) -> tuple[SessionId, float]:
    request, now = asked(one)
    one.received(Reply(session=request.session, state=OK, cluster="h2", edges=edges), H2, now)
    assert one.state is BalanceState.BUSY
    return request.session, now


def test_the_mean_of_the_edges_is_told_to_the_clusters_beside() -> None:
    one = head()
    one.received(local(E1, "h1", 0.4), E1, 1.0)
    (pie,) = of(Pie, one.received(local(E2, "h1", 0.8, OVERLOADED), E2, 61.0))
    assert isinstance(pie, Pie)
    assert (pie.level, pie.broker, pie.cluster, pie.state) == ("global", H1, "h1", OVERLOADED)
    assert abs(pie.load.output_ratio - 0.6) < 1e-9


def test_clusters_that_do_not_answer_are_let_be_for_a_while() -> None:
    one = head()
    request, now = asked(one)
    while one.mediator.session is None and not one.mediator.is_free:
        now = one.next_at
        one.turn(now)
    rested = now + REST_DETECTIONS * SETTINGS.global_detect_max_s
    while now < rested - 100.0:
        one.received(local(E1, "h1", 0.6), E1, now)
        one.received(wide(), H2, now)
        now += 10.0
        assert not of(Request, one.turn(now))
    assert request.cluster == "h1"


def test_an_edge_that_has_died_overloaded_keeps_its_cluster_no_longer_than_its_keep_alive() -> None:
    one = head()
    one.received(local(E2, "h1", 1.2, OVERLOADED), E2, 1.0)
    silent_at = 1.0 + SILENT_PERIODS * SETTINGS.local_pie_s
    said_last: list[Said] = []
    for now in range(2, int(silent_at) + 62):
        said_last += of(Pie, one.received(local(E1, "h1", 0.4), E1, float(now)))
        assert (one.state is OVERLOADED) == (now <= silent_at)
    assert isinstance(said_last[-1], Pie)
    assert abs(said_last[-1].load.output_ratio - 0.4) < 1e-9


def test_an_edge_that_is_no_neighbour_any_more_does_not_count() -> None:
    peer = Peer(H1, [E1, E2, H2], SETTINGS)
    one = Head(peer, SETTINGS, random.Random(1), Decisions(), 0.0)
    one.received(local(E1, "h1", 0.4), E1, 1.0)
    one.received(local(E2, "h1", 1.2, OVERLOADED), E2, 1.0)
    assert not peer.change([E1, H2])
    one.turn(2.0)
    assert one.state is OK


def test_an_edge_that_has_died_in_a_session_does_not_keep_it_from_ending() -> None:
    one = head()
    session, now = agreed(one)
    one.received(local(E2, "h2", 0.1, BalanceState.BUSY), E2, now + 1)
    for step in range(1, 80):
        at = now + 5.0 * step
        one.received(Kept(session=session, is_known=True), H2, at)
        one.received(local(E3, "h2", 0.55), E3, at)
        one.received(local(E1, "h1", 0.55), E1, at)
        if one.mediator.is_free:
            break
    assert SILENT_PERIODS * SETTINGS.local_pie_s <= at - now <= SILENT_PERIODS * SETTINGS.local_pie_s + 10.0


def test_a_session_between_clusters_lets_edges_hear_each_other() -> None:
    one = head()
    request, now = asked(one)
    assert request.cluster == "h1"
    effects = one.received(Reply(session=request.session, state=OK, cluster="h2"), H2, now)
    assert of(Hear, effects) == [Hear(session=request.session, cluster="h1", other="h2", lease_s=HEAR_LEASE_S)]
    assert any(Filter.parse(where).matches({"class": "LOCAL_PIE", "cluster": "h2"}) for where in one.wheres)
    assert of(Hear, one.received(Kept(session=request.session, is_known=True), H2, now + HEAR_S))


def test_it_is_over_when_all_edges_are_balanced() -> None:
    one = head()
    session, now = agreed(one)
    one.received(local(E2, "h2", 0.1), E2, now + 1)
    for step in range(1, 10):
        one.received(Kept(session=session, is_known=True), H2, now + step * 5)
        assert not of(Done, one.turn(now + step * 5))
    one.received(local(E1, "h1", 0.35), E1, now + 46)
    effects = one.received(local(E2, "h2", 0.35), E2, now + 47)
    assert of(Done, effects)
    assert of(Hear, effects) == [Hear(session=session, cluster="h1", other="h2", lease_s=0.0)]
    assert one.mediator.is_free
    assert not any(Filter.parse(where).matches({"class": "LOCAL_PIE", "cluster": "h2"}) for where in one.wheres)


def test_it_is_not_over_before_all_edges_of_the_other_cluster_were_heard() -> None:
    one = head()
    session, now = agreed(one, edges=2)
    for step in range(1, 10):
        one.received(Kept(session=session, is_known=True), H2, now + step * 5)
        one.received(local(E2, "h2", 0.55), E2, now + step * 5)
    assert not one.mediator.is_free
    one.received(local(E3, "h2", 0.55), E3, now + 46)
    assert one.mediator.is_free


def test_who_agrees_tells_how_many_edges_it_has() -> None:
    one = head()
    for edge in (E1, E3):
        one.received(local(edge, "h1", 0.1), edge, 1.0)
    (reply,) = of(Reply, one.received(Request(session=SessionId("h2-1-1"), metric="output", cluster="h2"), H2, 2.0))
    assert isinstance(reply, Reply)
    assert reply.edges == 2


def test_it_is_over_when_time_is_up_and_then_the_other_is_let_be_for_a_while() -> None:
    one = head()
    session, began = agreed(one)
    now = began
    while not one.mediator.is_free:
        now += 5.0
        one.received(Kept(session=session, is_known=True), H2, now)
        assert now < began + 2_000
    assert now - began <= SESSION_DETECTIONS * SETTINGS.local_detect_max_s + 5
    rested = now + REST_DETECTIONS * SETTINGS.global_detect_max_s
    one.received(local(E1, "h1", 0.6), E1, now)
    one.received(wide(), H2, now)
    while now < rested - 10:
        now = max(one.next_at, now + 1.0)
        if now < rested:
            assert not of(Request, one.turn(now))


def test_a_cluster_with_an_overloaded_edge_takes_nothing() -> None:
    one = head()
    one.received(local(E1, "h1", 0.93, OVERLOADED), E1, 1.0)
    (reply,) = of(Reply, one.received(Request(session=SessionId("h2-1-1"), metric="output", cluster="h2"), H2, 2.0))
    assert isinstance(reply, Reply)
    assert reply.state is OVERLOADED
    assert not reply.is_accepted


def test_a_cluster_without_edges_takes_nothing() -> None:
    (reply,) = of(Reply, head().received(Request(session=SessionId("h2-1-1"), metric="output"), H2, 2.0))
    assert isinstance(reply, Reply)
    assert "no edges" in reply.refusal


def test_who_accepts_hears_the_other_cluster_until_it_is_cancelled() -> None:
    one = head()
    one.received(local(E1, "h1", 0.1), E1, 1.0)
    session = SessionId("h2-1-1")
    effects = one.received(Request(session=session, metric="output", cluster="far"), H2, 2.0)
    (hear,) = of(Hear, effects)
    assert isinstance(hear, Hear)
    assert hear.other == "far"
    effects = one.received(Cancel(session=session), H2, 3.0)
    assert of(Hear, effects) == [Hear(session=session, cluster="h1", other="far", lease_s=0.0)]
    assert one.mediator.is_free


def test_three_edges_in_need_start_a_session_at_once() -> None:
    one = head()
    one.received(local(E1, "h1", 0.97, OVERLOADED), E1, 1.0)
    one.received(wide(0.5), H2, 2.0)
    asks = [of(Request, one.received(Help(cluster="h1", number=number), E1, 3.0 + number * 12)) for number in range(3)]
    assert [len(each) for each in asks] == [0, 0, 1]


def need(one: Head, since: float) -> list[Said]:
    """Let an edge ask three times, and a copy of each come."""
    return [
        request
        for number in range(3)
        for _ in range(2)
        for request in of(
            Request, one.received(Help(cluster="h1", number=int(since) + number), E1, since + number * 12)
        )
    ]


def test_edges_that_are_not_overloaded_any_more_start_no_session() -> None:
    one = head()
    one.received(local(E1, "h1", 0.5, OVERLOADED), E1, 1.0)
    one.received(wide(0.45), H2, 2.0)
    one.received(local(E1, "h1", 0.5), E1, 2.5)
    assert not need(one, 3.0)
    one.received(local(E1, "h1", 0.5, OVERLOADED), E1, 40.0)
    assert need(one, 50.0)


def test_a_session_of_clusters_is_told_as_for_overload_if_their_mean_or_an_edge_is_overloaded() -> None:
    for output, is_overload in ((0.97, True), (0.6, False)):
        decisions = Decisions()
        request, _ = asked(head(decisions=decisions), output)
        assert [each.is_overload for each in decisions.last()] == [request.is_overload] == [is_overload]
    decisions = Decisions()
    one = head(decisions=decisions)
    one.received(local(E1, "h1", 0.5, OVERLOADED), E1, 1.0)
    one.received(wide(0.45), H2, 2.0)
    assert need(one, 3.0)
    assert [each.is_overload for each in decisions.last()] == [True]


def test_who_takes_load_tells_that_it_was_for_overload_too() -> None:
    for is_overload in (True, False):
        decisions = Decisions()
        one = head(decisions=decisions)
        one.received(local(E1, "h1", 0.1), E1, 1.0)
        request = Request(session=SessionId("h2-1-1"), metric="output", cluster="far", is_overload=is_overload)
        one.received(request, H2, 2.0)
        assert [each.is_overload for each in decisions.last()] == [is_overload]


def test_what_was_asked_in_a_session_is_forgotten_when_it_ends() -> None:
    one = head()
    session, now = agreed(one)
    one.received(local(E1, "h1", 0.5, OVERLOADED), E1, now + 1)
    one.received(wide(0.45), H2, now + 1)
    one.received(Kept(session=session, is_known=True), H2, now + 12)
    assert not need(one, now + 3)
    effects = one.received(local(E2, "h2", 0.5), E2, now + 30)  # all are balanced
    assert of(Done, effects)
    assert not of(Request, [*effects, *one.turn(now + 31)])


def test_help_for_another_cluster_does_not_count() -> None:
    one = head()
    one.received(local(E1, "h1", 0.97, OVERLOADED), E1, 1.0)
    one.received(wide(0.5), H2, 2.0)
    for number in range(4):
        assert not of(Request, one.received(Help(cluster="another", number=number), E1, 3.0 + number * 12))


def test_a_head_without_edges_hands_on_what_it_hears_and_what_it_has_heard() -> None:
    one = head()
    assert not of(Pie, one.received(wide(0.3), H2, 1.0))
    (pie,) = of(Pie, one.turn(100.0))
    assert isinstance(pie, Pie)
    assert (pie.broker, pie.via) == (H2, (H1,))
    (again,) = of(Pie, one.received(wide(0.4), H2, 101.0))
    assert isinstance(again, Pie)
    assert again.load.output_ratio == 0.4
    ask = PieAsk(level="global", broker=GatewayId("h3"), cluster="h3", ranges=(("output", 0.0, 0.5),))
    assert of(Pie, one.received(ask, GatewayId("h3"), 102.0))
    assert not of(Pie, one.received(again, H1, 103.0))


def test_a_head_that_knows_of_no_other_cluster_wants_to_hear_of_any_and_then_of_lighter_ones() -> None:
    one = head()
    one.received(local(E1, "h1", 0.3), E1, 1.0)
    before = one.wheres
    one.received(local(E1, "h1", 0.9), E1, 100.0)
    one.turn(200.0)
    assert one.wheres == before
    assert "class = 'GLOBAL_PIE'" in before
    one.received(wide(0.1), H2, 201.0)
    assert "class = 'GLOBAL_PIE'" not in one.wheres


def test_a_head_tells_an_edge_that_begins_to_hear_others_what_these_said_last_and_nobody_else() -> None:
    wheres = [want_in("HEAR", "h1"), "class = 'LOCAL_PIE' AND cluster = 'h1' AND output < 0.5"]
    for settings, is_told in ((SETTINGS, True), (BalanceSettings(mode="on", cluster="h1", role="head"), False)):
        one = head(settings)
        for edge, output in ((E1, 0.3), (E2, 0.4), (E3, 0.8)):
            one.received(local(edge, "h1", output), edge, 1.0)
        effects = one.wanted(E1, wheres, 2.0, is_new=False)
        told = [each for each in effects if isinstance(each, PublishControl) and each.subject["class"] == "SESSION"]
        assert [decode(each.body) for each in told] == ([local(E2, "h1", 0.4)] if is_told else [])
        assert all(each.subject["to"] == E1 and each.hops == 1 for each in told)


def test_a_head_is_asked_for_nothing_that_it_sees_by_filters() -> None:
    one = head()
    for edge, output in ((E1, 0.3), (E2, 0.4)):
        one.received(local(edge, "h1", output), edge, 1.0)
    ask = PieAsk(level="local", broker=E1, cluster="h1", ranges=(("output", 0.0, 0.5),))
    assert not [each for each in of(Pie, one.received(ask, E1, 2.0)) if isinstance(each, Pie) and each.level == "local"]


def test_advice_ends_a_session_between_clusters_before_anybody_hears_anything() -> None:
    one = head(BalanceSettings(mode="advise"))
    request, now = asked(one)
    assert request.is_advice
    effects = one.received(Reply(session=request.session, state=OK, cluster="h2"), H2, now)
    assert of(Cancel, effects)
    assert not of(Hear, effects)


def test_advice_that_another_cluster_asks_for_lets_our_edges_hear_nobody() -> None:
    one = head()
    one.received(local(E1, "h1", 0.1), E1, 1.0)
    request = Request(session=SessionId("h2-1-1"), metric="output", cluster="far", is_advice=True)
    effects = one.received(request, H2, 2.0)
    assert [reply.is_accepted for reply in of(Reply, effects) if isinstance(reply, Reply)] == [True]
    assert not of(Hear, effects)
    assert one.state is OK
    assert not of(Hear, one.received(Cancel(session=request.session), H2, 3.0))

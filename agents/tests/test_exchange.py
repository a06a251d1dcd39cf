from collections.abc import Sequence

from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.exchange import HEARINGS_TOLD, LocalExchange
from mqloom.agents.mediation import Hear, Said, SessionId, decode
from mqloom.agents.peer import Peer
from mqloom.agents.pie import Pie, PieAsk
from mqloom.agents.settings import BalanceSettings
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState
from mqloom.gateway.agent_interfaces import AgentEffect, PublishControl

HERE, HEAD, FAR = GatewayId("here"), GatewayId("head"), GatewayId("far")
OK = BalanceState.OK
SESSION = SessionId("head-1-1")


def exchange(**settings: object) -> LocalExchange:
    read = BalanceSettings(mode="on", **settings)  # type: ignore[arg-type]
    return LocalExchange(Peer(HERE, [HEAD], read), read)


def said(effects: Sequence[AgentEffect]) -> list[tuple[Said, int]]:
    return [(decode(each.body), each.hops) for each in effects if isinstance(each, PublishControl)]


def pie_of(broker: str, cluster: str) -> Pie:
    return Pie(level="local", broker=GatewayId(broker), cluster=cluster, load=IDLE, state=OK)


def hear(lease_s: float = 60.0, session: SessionId = SESSION) -> Hear:
    return Hear(session=session, cluster="head", other="far", lease_s=lease_s)


def started(output_ratio: float = 0.0) -> LocalExchange:
    one = exchange()
    one.sampled(replace(IDLE, output_ratio=output_ratio))
    one.turn(OK, 0.0)
    return one


def test_the_first_window_is_told_at_once_to_the_own_cluster() -> None:
    one = exchange()
    assert one.turn(OK, 0.0) == []
    one.sampled(IDLE)
    ((pie, hops),) = said(one.turn(OK, 1.0))
    assert isinstance(pie, Pie)
    assert (pie.broker, pie.cluster, hops) == ("here", "head", 2)
    assert said(one.turn(OK, 2.0)) == []


def test_pie_counts_only_from_who_it_is_about() -> None:
    one = started(0.6)
    one.took(pie_of("liar", "head"), GatewayId("another"), 1.0)
    one.took(pie_of("honest", "head"), GatewayId("honest"), 1.0)
    assert [pie.broker for pie in one.others(2.0)] == ["honest"]


def test_pie_that_the_head_remembers_counts_as_if_it_came_from_who_it_is_about() -> None:
    one = started(0.6)
    one.took(pie_of("other", "head"), HEAD, 1.0)
    assert [pie.broker for pie in one.others(2.0)] == ["other"]


def test_what_was_heard_counts_only_as_long_as_it_would_be_heard_if_it_changed() -> None:
    one = started(0.6)
    for broker, output in (("lighter", 0.3), ("between", 0.47)):
        pie = pie_of(broker, "head")
        one.took(replace(pie, load=replace(IDLE, output_ratio=output, input_ratio=0.5)), GatewayId(broker), 1.0)
    assert [pie.broker for pie in one.others(2.0)] == ["between", "lighter"]
    one.changed()
    one.sampled(replace(IDLE, output_ratio=0.5))
    one.turn(OK, 40.0)
    assert [pie.broker for pie in one.others(41.0)] == ["lighter"]
    one.changed()
    one.sampled(replace(IDLE, output_ratio=0.7))
    one.turn(OK, 80.0)
    assert [pie.broker for pie in one.others(81.0)] == ["between", "lighter"]


def test_what_was_missed_is_asked_for_only_where_no_head_is_known_to_have_heard_it() -> None:
    for one, asked in ((exchange(), []), (exchange(cluster="mine"), [8])):
        one.sampled(replace(IDLE, output_ratio=0.6))
        asks = [hops for message, hops in said(one.turn(OK, 0.0)) if isinstance(message, PieAsk)]
        assert asks == asked
        assert any("output < 0.5" in where for where in one.wheres)
    hearing = started()
    hearing.sampled(replace(IDLE, output_ratio=0.6))
    asks = [hops for message, hops in said(hearing.hear(hear(), 1.0)) if isinstance(message, PieAsk)]
    assert asks == [11]


def test_an_edge_hears_another_cluster_only_while_it_is_told_to() -> None:
    one = started(0.6)
    one.took(pie_of("e", "far"), GatewayId("e"), 1.0)
    assert one.others(1.0) == []
    one.hear(hear(), 2.0)
    assert one.is_hearing
    assert [pie.broker for pie in one.others(3.0)] == ["e"]
    assert any(Filter.parse(where).matches({"class": "LOCAL_ASK", "cluster": "far"}) for where in one.wheres)
    one.hear(hear(lease_s=0.0), 4.0)
    assert not one.is_hearing
    assert one.others(4.0) == []
    assert not any(Filter.parse(where).matches({"class": "LOCAL_ASK", "cluster": "far"}) for where in one.wheres)


def test_a_lease_that_is_not_renewed_runs_out() -> None:
    one = started()
    one.hear(hear(), 2.0)
    one.hear(hear(), 30.0)
    one.turn(OK, 89.9)
    assert one.is_hearing
    assert one.next_at is not None
    assert one.next_at <= 90.0
    one.turn(OK, 90.0)
    assert not one.is_hearing


def test_the_end_of_an_earlier_session_does_not_end_the_one_that_lasts() -> None:
    one = started()
    one.hear(hear(), 2.0)
    one.hear(hear(session=SessionId("head-2-2")), 3.0)
    one.hear(hear(lease_s=0.0), 4.0)
    assert one.is_hearing


def test_who_begins_to_hear_tells_its_load_as_far_as_the_other_cluster_is() -> None:
    one = started()
    told = 0
    for number in range(5):
        one.hear(hear(), 10.0 + number * 10)
        pies = [(pie, hops) for pie, hops in said(one.turn(OK, 10.0 + number * 10)) if isinstance(pie, Pie)]
        assert all(hops > 2 for _, hops in pies)
        told += len(pies)
    assert told == HEARINGS_TOLD


def test_orders_for_others_are_not_obeyed() -> None:
    one = started()
    one.hear(Hear(session=SESSION, cluster="another", other="far", lease_s=60.0), 1.0)
    one.hear(Hear(session=SESSION, cluster="head", other="head", lease_s=60.0), 1.0)
    assert not one.is_hearing


def test_who_is_asked_says_it_again() -> None:
    one = started()
    one.asked(PieAsk(level="local", broker=FAR, cluster="head", ranges=(("input", 0.0, 1.0),)))
    assert [type(message) for message, _ in said(one.turn(OK, 10.0))] == [Pie]

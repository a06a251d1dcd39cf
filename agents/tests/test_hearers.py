from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.hearers import Hearers
from mqloom.agents.mediation import want_in
from mqloom.agents.pie import BOARD_BROKERS_MAX, ENGAGED, Pie, PiePublisher, subject_of
from mqloom.agents.settings import BalanceSettings
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState

E1, E2, E3 = GatewayId("e1"), GatewayId("e2"), GatewayId("e3")


def says(broker: GatewayId, output: float, least: float | None = None) -> Pie:
    load = replace(IDLE, output_ratio=output)
    figures = None if least is None else (0.0, 0.0, least)
    return Pie(level="local", broker=broker, cluster="C1", load=load, state=BalanceState.OK, least=figures)


def under(output: float, cluster: str = "C1") -> list[str]:
    return [want_in("HEAR", cluster), f"class = 'LOCAL_PIE' AND cluster = 'C1' AND output < {output}"]


EDGES = (says(E1, 0.9), says(E2, 0.3), says(E3, 0.6))


def test_who_widens_its_filters_is_told_what_it_begins_to_hear_and_only_that() -> None:
    hearers = Hearers("C1")
    assert hearers.wanted(E1, under(0.2), EDGES, is_new=True) == []
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == [EDGES[1]]
    assert hearers.wanted(E1, under(0.7), EDGES, is_new=False) == [EDGES[2]]
    assert hearers.wanted(E1, under(1.0), EDGES, is_new=False) == []  # of itself it knows


def test_what_it_has_heard_is_not_told_again() -> None:
    hearers = Hearers("C1")
    hearers.wanted(E1, under(0.5), (), is_new=True)
    hearers.said(EDGES[1])
    hearers.said(EDGES[2])
    assert hearers.wanted(E1, under(0.1), EDGES, is_new=False) == []
    assert hearers.wanted(E1, under(0.7), EDGES, is_new=False) == [EDGES[2]]


def test_what_has_changed_while_filters_were_narrow_is_told() -> None:
    hearers = Hearers("C1")
    hearers.wanted(E1, under(0.5), (), is_new=True)
    hearers.said(says(E2, 0.3))
    hearers.wanted(E1, under(0.1), EDGES, is_new=False)
    changed = says(E2, 0.4, 0.3)
    hearers.said(changed)
    assert hearers.wanted(E1, under(0.5), (EDGES[0], changed), is_new=False) == [changed]


def test_who_holds_what_is_not_true_any_more_is_told_although_its_filters_would_not_let_that_through() -> None:
    hearers = Hearers("C1")
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=True) == [EDGES[1]]
    hearers.wanted(E1, under(0.1), EDGES, is_new=False)
    heavier = says(E2, 0.8, 0.3)
    hearers.said(heavier)
    assert hearers.wanted(E1, under(0.2), (EDGES[0], heavier), is_new=False) == []
    assert hearers.wanted(E1, under(0.5), (EDGES[0], heavier), is_new=False) == [heavier]


def test_a_correction_of_what_was_not_heard_is_not_told() -> None:
    hearers = Hearers("C1")
    hearers.wanted(E1, under(0.2), (), is_new=True)
    assert hearers.wanted(E1, under(0.5), (says(E2, 0.8, 0.3),), is_new=False) == []


def test_who_begins_anew_has_heard_nothing() -> None:
    hearers = Hearers("C1")
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=True) == [EDGES[1]]
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == []
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=True) == [EDGES[1]]
    assert hearers.wanted(E1, [], EDGES, is_new=False) == []
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == [EDGES[1]]


def test_only_edges_of_the_own_cluster_are_told_anything() -> None:
    hearers = Hearers("C1")
    assert hearers.wanted(GatewayId("head"), under(0.5)[1:], EDGES, is_new=True) == []
    assert hearers.wanted(GatewayId("other"), under(0.5, "C2"), EDGES, is_new=True) == []


def test_who_is_no_neighbour_any_more_is_forgotten() -> None:
    hearers = Hearers("C1")
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=True) == [EDGES[1]]
    hearers.keep([E1, E2])
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == []
    hearers.keep([E2])
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == [EDGES[1]]


def test_an_edge_has_heard_of_no_more_brokers_than_are_kept() -> None:
    hearers = Hearers("C1")
    hearers.wanted(E1, under(0.5), (), is_new=True)
    hearers.said(says(E2, 0.3))
    for number in range(BOARD_BROKERS_MAX):
        hearers.said(says(GatewayId(f"f{number}"), 0.3))
    newest = says(GatewayId(f"f{BOARD_BROKERS_MAX - 1}"), 0.3)
    assert hearers.wanted(E1, under(0.5), (EDGES[1], newest), is_new=False) == [EDGES[1]]


def test_what_edges_of_other_clusters_say_is_none_of_it() -> None:
    hearers = Hearers("C1")
    hearers.wanted(E1, [*under(0.5), "class = 'LOCAL_PIE'"], (), is_new=True)
    hearers.said(replace(EDGES[1], cluster="C2"))
    assert hearers.wanted(E1, under(0.5), EDGES, is_new=False) == [EDGES[1]]


LOADS = st.sampled_from([0.05, 0.2, 0.4, 0.6, 0.8, 1.2])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from((E2, E3)), LOADS, st.sampled_from(BalanceState)),
        st.tuples(st.just(E1), LOADS, st.none()),
    ),
    max_size=30,
)


@hypothesis_settings(deadline=None)
@given(STEPS)
def test_what_an_edge_holds_under_its_filters_is_what_was_said_last(
    steps: list[tuple[GatewayId, float, BalanceState | None]],
) -> None:
    settings = BalanceSettings()
    hearers, wheres = Hearers("C1"), under(0.5)
    publishers = {broker: PiePublisher("local", broker, "C1", settings) for broker in (E2, E3)}
    last: dict[GatewayId, Pie] = {}
    held: dict[GatewayId, Pie] = {}
    hearers.wanted(E1, wheres, (), is_new=True)
    for number, (who, figure, state) in enumerate(steps):
        if state is None:
            wheres = [*under(figure), "class = 'LOCAL_PIE' AND cluster = 'C1' AND overload = TRUE"]
            held |= {pie.broker: pie for pie in hearers.wanted(E1, wheres, tuple(last.values()), is_new=False)}
        elif pie := publishers[who].due(replace(IDLE, output_ratio=figure), state, [], 30.0 * number):
            last[who] = pie
            hearers.said(pie)
            if lets_through(wheres, pie):
                held[who] = pie
        for broker, pie in last.items():
            mine = held.get(broker)
            if pie.state not in ENGAGED and would_come(wheres, pie):
                assert mine == pie
            if mine is not None and mine.state not in ENGAGED and would_come(wheres, mine):
                assert mine == pie


def lets_through(wheres: list[str], pie: Pie) -> bool:
    subject = subject_of(pie)
    return any(Filter.parse(where).matches(subject) for where in wheres)


def would_come(wheres: list[str], pie: Pie) -> bool:
    """By its figures: of overload everybody is told that it begins and ends, and not what was said meanwhile."""
    return lets_through(wheres, replace(pie, least=None, is_news_of_overload=False))

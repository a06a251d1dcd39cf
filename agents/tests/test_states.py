import pytest

from mqloom.agents.states import BUSY, CLUSTER, EDGE, OK, OVERLOADED, STABILIZING, Occurrence, Table

FROM_MEASURING = {Occurrence.STEADY, Occurrence.UNSTEADY}
ENDINGS = (Occurrence.CHANGED, Occurrence.UNCHANGED, Occurrence.EXPIRED)


@pytest.mark.parametrize(
    ("table", "states", "occurrences"),
    [
        (EDGE, {OK, BUSY, OVERLOADED, STABILIZING}, set(Occurrence)),
        (CLUSTER, {OK, BUSY, OVERLOADED}, set(Occurrence) - FROM_MEASURING),
    ],
    ids=["edge", "cluster"],
)
def test_a_table_is_total_and_stays_within_its_states(
    table: Table, states: set[object], occurrences: set[Occurrence]
) -> None:
    assert set(table) == {(state, occurrence) for state in states for occurrence in occurrences}
    assert set(table.values()) == states


@pytest.mark.parametrize("table", [EDGE, CLUSTER], ids=["edge", "cluster"])
def test_every_end_of_a_session_leaves_busy_and_no_end_is_noticed_twice(table: Table) -> None:
    for first in ENDINGS:
        after = table[BUSY, first]
        assert after is not BUSY
        for second in ENDINGS:
            assert table[after, second] is after


def test_only_sessions_make_busy_and_only_they_make_stabilizing() -> None:
    for (state, occurrence), after in EDGE.items():
        if after is BUSY:
            assert state is BUSY or occurrence is Occurrence.BEGAN
        if after is STABILIZING:
            assert state in (BUSY, STABILIZING)


def test_a_cluster_does_as_an_edge_that_has_nothing_to_stabilise() -> None:
    for (state, occurrence), after in CLUSTER.items():
        edge = EDGE[state, occurrence]
        assert after is (OK if edge is STABILIZING else edge)

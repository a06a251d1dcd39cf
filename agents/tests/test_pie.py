import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.agents.pie import (
    ANSWER_PERIODS,
    BOARD_BROKERS_MAX,
    FRESH_PERIODS,
    KEEP_ALIVE_PERIODS,
    RELAYS_MAX,
    SILENT_PERIODS,
    Pie,
    PieAsk,
    PieBoard,
    PiePublisher,
    relayed,
    subject_of,
)
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load

OK, BUSY, STABILIZING = BalanceState.OK, BalanceState.BUSY, BalanceState.STABILIZING
B1, B2, B3 = GatewayId("B1"), GatewayId("B2"), GatewayId("B3")
SETTINGS = BalanceSettings()
PERIOD_S = SETTINGS.local_pie_s


def load_of(input_ratio: float = 0.5, delay_s: float = 0.01, output_ratio: float = 0.5, cpu_ratio: float = 0.0) -> Load:
    return Load(
        input_ratio=input_ratio,
        delay_s=delay_s,
        output_ratio=output_ratio,
        input_rate=input_ratio / delay_s,
        output_bytes_s=output_ratio * 1_000,
        output_bytes_s_max=1_000.0,
        subscriptions=100,
        cpu_ratio=cpu_ratio,
    )


def publisher() -> PiePublisher:
    made = PiePublisher("local", B1, "C1", SETTINGS)
    assert made.due(load_of(), OK, [], 0.0) is not None
    return made


def pie_of(broker: GatewayId = B1, load: Load | None = None, cluster: str = "C1", level: str = "local") -> Pie:
    return msgspec.convert(
        {
            "type": "pie",
            "level": level,
            "broker": broker,
            "cluster": cluster,
            "load": msgspec.to_builtins(load or load_of()),
            "state": "OK",
        },
        Pie,
    )


def test_the_first_is_published_at_once() -> None:
    first = PiePublisher("local", B1, "C1", SETTINGS).due(load_of(), OK, [B3, B2], 7.0)
    assert first == Pie(level="local", broker=B1, cluster="C1", load=load_of(), state=OK, balanced=(B2, B3))


def test_nothing_is_published_before_a_period_is_over_nor_without_a_change_of_a_threshold() -> None:
    ours = publisher()
    assert ours.next_at == PERIOD_S
    assert ours.due(load_of(0.8), OK, [], PERIOD_S - 1) is None
    assert ours.due(load_of(0.52, 0.012, 0.48), OK, [], PERIOD_S) is None
    assert ours.next_at == 2 * PERIOD_S
    assert ours.due(load_of(0.8), OK, [], PERIOD_S + 1) is None


@pytest.mark.parametrize("load", [load_of(0.53), load_of(delay_s=0.013), load_of(output_ratio=0.47)])
def test_any_figure_that_changed_by_its_threshold_is_published_after_a_period(load: Load) -> None:
    assert publisher().due(load, OK, [], PERIOD_S) is not None


def test_small_changes_add_up_because_they_count_from_what_was_published() -> None:
    ours = publisher()
    assert ours.due(load_of(0.515), OK, [], PERIOD_S) is None
    assert ours.due(load_of(0.53), OK, [], 2 * PERIOD_S) is not None


def test_a_change_of_state_or_of_cluster_is_published_at_once() -> None:
    ours = publisher()
    assert ours.due(load_of(), BUSY, [], 1.0) is not None
    assert ours.due(load_of(), BUSY, [], 2.0) is None
    ours.cluster = "C2"
    changed = ours.due(load_of(), BUSY, [], 3.0)
    assert changed is not None
    assert changed.cluster == "C2"


def test_a_balanced_set_is_news_only_in_a_session_between_clusters() -> None:
    ours = publisher()
    assert ours.due(load_of(), OK, [B2], PERIOD_S) is None
    ours = publisher()
    assert ours.due(load_of(), OK, [B2], 1.0, in_global_session=True) is None
    assert ours.due(load_of(), OK, [B2], PERIOD_S, in_global_session=True) is not None


def test_who_has_nothing_new_says_so_before_others_take_it_for_dead() -> None:
    ours = publisher()
    times = [at for at in range(1, 2_000) if ours.due(load_of(), OK, [], float(at))]
    assert times[0] == KEEP_ALIVE_PERIODS * PERIOD_S
    board = PieBoard("local", SETTINGS)
    board.take(pie_of(), 0.0)
    assert board.fresh(2.0 * times[0])  # one may be lost


def test_who_got_the_pie_before_gets_the_one_that_corrects_it() -> None:
    ours = publisher()
    heavier = ours.due(load_of(0.8, 0.02, 0.3), OK, [], PERIOD_S)
    assert heavier is not None
    assert heavier.load.input_ratio == 0.8
    assert subject_of(heavier) == {
        "class": "LOCAL_PIE",
        "cluster": "C1",
        "input": 0.5,
        "delay": 0.01,
        "output": 0.3,
    }
    after = ours.due(load_of(0.85, 0.02, 0.3), OK, [], 2 * PERIOD_S)
    assert after is not None
    assert subject_of(after)["input"] == 0.8


def test_who_is_still_in_a_session_or_stabilising_tells_its_head_alone() -> None:
    ours = publisher()
    began, ended, ok = (
        ours.due(load, state, [], now)
        for load, state, now in (
            (load_of(0.6), BUSY, 1.0),
            (load_of(0.2), STABILIZING, 2.0),
            (load_of(0.7), OK, 3.0),
        )
    )
    assert began is not None
    assert ended is not None
    assert ok is not None
    assert subject_of(began)["input"] == 0.5
    assert subject_of(ended) == {"class": "LOCAL_PIE", "cluster": "C1"}
    assert ended.load.input_ratio == 0.2
    assert subject_of(ok)["input"] == 0.2


def test_who_heard_that_a_session_began_hears_that_it_is_over_however_much_was_said_in_between() -> None:
    ours = publisher()
    assert ours.due(load_of(0.3), BUSY, [], 1.0)
    for number, figure in enumerate((0.6, 0.8, 0.7)):
        said = ours.due(load_of(figure), STABILIZING, [], (number + 1) * 2 * PERIOD_S)
        assert said is not None
        assert said.is_still_engaged
    over = ours.due(load_of(0.8), OK, [], 10 * PERIOD_S)
    assert over is not None
    assert subject_of(over)["input"] == 0.3


def test_overload_is_told_to_everybody_by_who_is_in_a_session_too() -> None:
    ours = publisher()
    assert ours.due(load_of(), BUSY, [], 1.0)
    began = ours.due(load_of(0.96), BUSY, [], 2.0)
    assert began is not None
    assert subject_of(began) == {"class": "LOCAL_PIE", "cluster": "C1", "overload": True}


def test_overload_that_begins_is_told_at_once_and_its_end_after_a_period() -> None:
    ours = publisher()
    began = ours.due(load_of(cpu_ratio=0.96), OK, [], 1.0)
    assert began is not None
    assert subject_of(began)["overload"] is True
    assert ours.due(load_of(cpu_ratio=0.94), OK, [], 2.0) is None
    ended = ours.due(load_of(cpu_ratio=0.94), OK, [], 1.0 + PERIOD_S)
    assert ended is not None
    assert subject_of(ended)["overload"] is True
    other = ours.due(load_of(0.9), OK, [], 1.0 + 2 * PERIOD_S)
    assert other is not None
    assert "overload" not in subject_of(other)


def test_overload_that_lasts_is_told_by_the_keep_alive() -> None:
    ours = publisher()
    assert ours.due(load_of(1.2), OK, [], 1.0)
    risen = ours.due(load_of(1.3), OK, [], 1.0 + PERIOD_S)
    assert risen is not None
    assert not risen.is_news_of_overload
    kept = ours.due(load_of(1.3), OK, [], 1.0 + PERIOD_S + KEEP_ALIVE_PERIODS * PERIOD_S)
    assert kept is not None
    assert kept.is_news_of_overload


def ask(metric: str, low: float, high: float, level: str = "local", broker: str = "B2") -> PieAsk:
    table = {"type": "ask", "level": level, "broker": broker, "cluster": "C1", "ranges": [(metric, low, high)]}
    return msgspec.convert(table, PieAsk)


def test_who_is_in_what_somebody_began_to_ask_for_says_it_once_more_and_not_too_often() -> None:
    ours = publisher()
    for other in (
        ask("input", 0.1, 0.5),
        ask("match", 0.02, 1),
        ask("input", 0.4, 0.6, "global"),
        ask("input", 0.4, 0.6, broker="B1"),
    ):
        ours.asked(other)
        assert ours.next_at == PERIOD_S
        assert ours.due(load_of(), OK, [], PERIOD_S / 2) is None
    ours.asked(ask("input", 0.5, 0.6))
    assert ours.next_at == PERIOD_S * ANSWER_PERIODS
    assert ours.due(load_of(), OK, [], 1.0) is None
    assert ours.due(load_of(), OK, [], PERIOD_S * ANSWER_PERIODS) is not None
    assert ours.due(load_of(), OK, [], PERIOD_S * ANSWER_PERIODS + 5) is None
    assert subject_of(ask("input", 0.5, 0.6)) == {"class": "LOCAL_ASK", "cluster": "C1"}


def test_the_board_has_the_last_of_each_broker_by_name_until_it_is_stale_or_forgotten() -> None:
    board = PieBoard("local", SETTINGS)
    assert board.take(pie_of(B2), 0.0)
    assert board.take(pie_of(B1), 1.0)
    newer = pie_of(B2, load_of(0.9))
    assert board.take(newer, 2.0)
    assert board.fresh(3.0) == [pie_of(B1), newer]
    assert board.fresh(1.5 + FRESH_PERIODS * PERIOD_S) == [newer]
    board.forget(B2)
    board.forget(B2)
    assert board.fresh(4.0) == []


def test_who_is_overloaded_tells_everybody_that_it_lasts_whatever_else_it_says_meanwhile() -> None:
    ours, told = publisher(), 0.0
    for number in range(1, 100):
        now = number * PERIOD_S
        pie = ours.due(load_of(1.2 + 0.1 * (number % 2)), OK, [], now)
        assert pie is not None  # a figure has changed by more than a threshold
        told = now if pie.is_news_of_overload else told
        assert now - told <= KEEP_ALIVE_PERIODS * PERIOD_S
    assert ours.due(load_of(0.5), OK, [], 100 * PERIOD_S) is not None
    for number in range(101, 150):
        pie = ours.due(load_of(0.1 * (number % 2)), OK, [], number * PERIOD_S)
        assert pie is not None
        assert not pie.is_news_of_overload


def test_who_has_left_out_a_keep_alive_is_silent_until_it_says_something() -> None:
    board = PieBoard("local", SETTINGS)
    board.take(pie_of(B1), 0.0)
    board.take(pie_of(B2), 100.0)
    late = SILENT_PERIODS * PERIOD_S + 1.0
    assert board.silent(KEEP_ALIVE_PERIODS * PERIOD_S) == frozenset()
    assert board.silent(late) == {B1}
    assert [pie.broker for pie in board.fresh(late)] == [B1, B2]
    board.take(pie_of(B1), late)
    assert board.silent(late) == frozenset()


def test_the_board_takes_neither_another_level_nor_figures_that_nobody_can_have_measured() -> None:
    board = PieBoard("local", SETTINGS)
    assert not board.take(pie_of(level="global"), 0.0)
    assert not board.take(pie_of(load=load_of(-1.0)), 0.0)
    assert not board.take(msgspec.structs.replace(pie_of(), load=load_of(math.nan)), 0.0)
    assert not board.take(msgspec.structs.replace(pie_of(), load=load_of(cpu_ratio=math.inf)), 0.0)
    assert board.fresh(0.0) == []


def test_the_board_forgets_whom_it_has_not_heard_of_for_longest() -> None:
    board = PieBoard("local", SETTINGS)
    for number in range(BOARD_BROKERS_MAX):
        board.take(pie_of(GatewayId(f"N{number}")), 0.0)
    board.take(pie_of(GatewayId("N0")), 1.0)
    board.take(pie_of(B1), 2.0)
    kept = {pie.broker for pie in board.fresh(2.0)}
    assert len(kept) == BOARD_BROKERS_MAX
    assert {"N0", B1} <= kept
    assert "N1" not in kept


def test_when_a_session_between_clusters_ends_the_others_are_forgotten() -> None:
    board = PieBoard("local", SETTINGS)
    board.take(pie_of(B1), 0.0)
    board.take(pie_of(B2, cluster="C2"), 0.0)
    board.keep_clusters(["C1"])
    assert [pie.broker for pie in board.fresh(0.0)] == [B1]


def test_heads_without_edges_hand_a_global_pie_on_once_each() -> None:
    pie = pie_of(level="global")
    first = relayed(pie, B2)
    assert first is not None
    second = relayed(first, B3)
    assert second is not None
    assert second.via == (B2, B3)
    assert relayed(second, B2) is None
    assert relayed(second, B1) is None
    assert relayed(pie_of(), B2) is None
    for number in range(RELAYS_MAX - 2):
        onward = relayed(second, GatewayId(f"N{number}"))
        assert onward is not None
        second = onward
    assert relayed(second, GatewayId("last")) is None


def test_pie_and_ask_are_told_apart_on_the_wire() -> None:
    decoder = msgspec.json.Decoder(Pie | PieAsk)
    for message in (pie_of(), ask("input", 0.0, 1.0)):
        assert decoder.decode(msgspec.json.encode(message)) == message


@settings(deadline=None)
@given(
    st.floats(0.001, 1e7),
    st.lists(st.tuples(st.sampled_from(["asked", "load", "busy", "ok"]), st.floats(0.0, 1.5)), max_size=20),
)
def test_at_the_time_that_it_names_a_publisher_publishes_or_names_a_later_one(
    begin: float, events: list[tuple[str, float]]
) -> None:
    ours, now, load, state = PiePublisher("local", B1, "C1", SETTINGS), begin, load_of(), OK
    ours.due(load, state, [], now)
    for what, figure in events:
        if what == "asked":
            ours.asked(ask("input", 0.0, 2.0))
        elif what == "load":
            load = load_of(figure)
        else:
            state = BUSY if what == "busy" else OK
        now = max(now, ours.next_at)
        ours.due(load, state, [], now)
        assert ours.next_at > now

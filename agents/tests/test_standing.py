from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.settings import BalanceSettings, Level
from mqloom.agents.standing import BUSY_S_MAX, STABILISE_PERIODS_MAX, Standing, is_steady
from mqloom.agents.states import BUSY, OK, OVERLOADED, STABILIZING
from mqloom.core.load import BalanceState, Load

SETTINGS = BalanceSettings()
STEADY = Load(
    input_ratio=0.5,
    delay_s=0.01,
    output_ratio=0.5,
    input_rate=50,
    output_bytes_s=500,
    output_bytes_s_max=1_000,
    subscriptions=100,
)


def state_of(standing: Standing) -> BalanceState:
    return standing.state


def standing_after_a_session(now: float = 0.0) -> Standing:
    standing = Standing("local", SETTINGS)
    standing.began(now, None)
    standing.ended(now, changed=True)
    assert state_of(standing) is STABILIZING
    return standing


def feed(standing: Standing, loads: list[Load], begin: float = 0.0) -> None:
    """Hand in a load for every ten seconds."""
    for number, load in enumerate(loads, 1):
        now = begin + 10.0 * number
        standing.sampled(load, now)
        standing.advance(now)


def test_who_is_heavy_is_overloaded_and_who_is_light_again_is_ok() -> None:
    standing = Standing("local", SETTINGS)
    standing.weigh(True)
    assert state_of(standing) is OVERLOADED
    standing.weigh(False)
    assert state_of(standing) is OK


def test_steady_load_ends_stabilizing_after_one_duration() -> None:
    standing = standing_after_a_session()
    feed(standing, [STEADY, STEADY])
    assert state_of(standing) is STABILIZING
    feed(standing, [STEADY], 20.0)
    assert state_of(standing) is OK
    assert standing.next_at is None


def test_the_window_in_which_the_session_ended_tells_nothing() -> None:
    standing = standing_after_a_session()
    standing.sampled(replace(STEADY, input_ratio=3.0), 5.0)
    feed(standing, [STEADY, STEADY], 5.0)
    standing.advance(30.0)
    assert state_of(standing) is OK


def test_load_that_changes_by_more_than_the_percentage_takes_another_duration() -> None:
    for changed in (
        replace(STEADY, input_ratio=0.56),
        replace(STEADY, delay_s=0.016),
        replace(STEADY, output_ratio=0.44),
    ):
        standing = standing_after_a_session()
        feed(standing, [STEADY, STEADY, changed])
        assert state_of(standing) is STABILIZING
        assert standing.next_at == 60.0
        feed(standing, [changed] * 3, 30.0)
        assert state_of(standing) is OK


def test_small_fluctuations_are_noise() -> None:
    assert is_steady([STEADY, replace(STEADY, input_ratio=0.54, delay_s=0.014, output_ratio=0.46)], SETTINGS)
    assert not is_steady([STEADY], SETTINGS)
    assert not is_steady([], SETTINGS)


def test_load_that_is_never_steady_and_meters_that_say_nothing_end_it_after_a_bound() -> None:
    wild = [replace(STEADY, input_ratio=0.3 * (number % 2)) for number in range(100)]
    for loads in (wild, []):
        standing, now = standing_after_a_session(), 0.0
        for number in range(STABILISE_PERIODS_MAX):
            assert state_of(standing) is STABILIZING
            begin = number * SETTINGS.stabilise_s
            feed(standing, loads[number * 3 : number * 3 + 3], begin)
            now = begin + SETTINGS.stabilise_s
            standing.advance(now)
        assert state_of(standing) is OK
        assert now == STABILISE_PERIODS_MAX * SETTINGS.stabilise_s


def test_who_is_heavy_when_it_has_settled_is_overloaded_and_who_was_before_is_not() -> None:
    standing = standing_after_a_session()
    feed(standing, [replace(STEADY, input_ratio=0.92)] * 3)
    assert state_of(standing) is OVERLOADED
    relieved = Standing("local", SETTINGS)
    relieved.weigh(True)
    relieved.began(0.0, None)
    relieved.ended(0.0, changed=True)
    feed(relieved, [STEADY] * 3)
    assert state_of(relieved) is OK


def test_a_session_that_moved_nobody_needs_no_settling() -> None:
    standing = Standing("local", SETTINGS)
    standing.weigh(True)
    standing.began(0.0, None)
    standing.ended(1.0, changed=False)
    assert state_of(standing) is OVERLOADED


def test_a_session_whose_end_never_comes_expires_and_one_that_goes_on_does_not() -> None:
    standing = Standing("local", SETTINGS)
    standing.began(0.0, 50.0)
    standing.advance(49.0)
    standing.began(49.0, 100.0)
    standing.advance(99.0)
    assert state_of(standing) is BUSY
    standing.advance(100.0)
    assert state_of(standing) is STABILIZING
    cluster = Standing("global", SETTINGS)
    cluster.began(0.0, 1e9)
    assert cluster.next_at == BUSY_S_MAX
    cluster.advance(BUSY_S_MAX)
    assert state_of(cluster) is OK


def test_the_late_end_of_an_earlier_session_does_not_prolong_stabilizing() -> None:
    standing = standing_after_a_session()
    standing.ended(20.0, changed=True)
    feed(standing, [STEADY] * 3)
    assert state_of(standing) is OK


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["began", "changed", "unchanged", "heavy", "light", "sampled", "advance"]),
        st.floats(0.0, 60.0),
        st.floats(0.0, 1.5),
    ),
    max_size=40,
)


def play(standing: Standing, events: list[tuple[str, float, float]]) -> float:
    now = 0.0
    for what, after_s, figure in events:
        now += after_s
        match what:
            case "began":
                standing.began(now, now + 100 * figure)
            case "changed" | "unchanged":
                standing.ended(now, changed=what == "changed")
            case "heavy" | "light":
                standing.weigh(what == "heavy")
            case "sampled":
                standing.sampled(replace(STEADY, input_ratio=figure), now)
            case _:
                standing.advance(now)
    return now


@settings(deadline=None)
@given(st.sampled_from(["local", "global"]), EVENTS, st.sampled_from(["ended", "deadline"]))
def test_nothing_leaves_a_broker_busy_for_ever(
    level: Level, events: list[tuple[str, float, float]], comes: str
) -> None:
    standing = Standing(level, SETTINGS)
    now = play(standing, events)
    if comes == "ended":
        standing.ended(now, changed=False)
    else:
        standing.advance(now + 150.0 if standing.next_at is None else standing.next_at)
    assert state_of(standing) is not BUSY


@settings(deadline=None)
@given(EVENTS)
def test_stabilizing_ends_when_load_is_steady(events: list[tuple[str, float, float]]) -> None:
    standing = Standing("local", SETTINGS)
    now = play(standing, events)
    standing.began(now, None)
    standing.ended(now, changed=True)
    # A duration may have begun before load was steady; the next has not.
    feed(standing, [STEADY] * 6, now)
    assert state_of(standing) is OK


@settings(deadline=None)
@given(st.sampled_from(["local", "global"]), EVENTS)
def test_what_changes_by_itself_does_so_when_it_says(level: Level, events: list[tuple[str, float, float]]) -> None:
    standing = Standing(level, SETTINGS)
    now = play(standing, events)
    for _ in range(STABILISE_PERIODS_MAX + 2):
        if standing.next_at is None:
            break
        now = max(now, standing.next_at)
        standing.advance(now)
        assert standing.next_at is None or standing.next_at > now
    assert standing.state in (OK, OVERLOADED)

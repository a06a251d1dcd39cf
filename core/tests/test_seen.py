"""Duplicate removal, against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.core.limits import SEEN_WINDOW
from mqloom.core.publication import Publication
from mqloom.core.seen import TRIM_MIN, Seen

A, B = GatewayId("A"), GatewayId("B")
arrivals = st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 2), st.integers(0, 60)), max_size=200)


@given(arrivals)
def test_within_the_window_it_is_a_plain_set(script: list[tuple[GatewayId, int, int]]) -> None:
    seen, plain = Seen(), set()
    for arrival in script:
        assert seen.first_time(*arrival, low_water=0) == (arrival not in plain)
        plain.add(arrival)
    assert len(seen) == len(plain)


@given(arrivals, st.integers(0, 20))
def test_past_the_window_nothing_comes_twice_and_what_lags_less_comes_once(
    script: list[tuple[GatewayId, int, int]], window: int
) -> None:
    seen, plain = Seen(window=window), set()
    newest: dict[tuple[GatewayId, int], int] = {}
    for origin, epoch, sequence in script:
        first = seen.first_time(origin, epoch, sequence, low_water=0)
        known = (origin, epoch, sequence) in plain
        lag = newest.get((origin, epoch), 0) - sequence
        assert first == (not known and lag <= window)
        plain.add((origin, epoch, sequence))
        newest[origin, epoch] = max(newest.get((origin, epoch), 0), sequence)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=100))
def test_whatever_the_mark_says_nothing_comes_twice(script: list[tuple[int, int]]) -> None:
    seen, taken = Seen(), []
    for sequence, low_water in script:
        if seen.first_time(A, 1, sequence, low_water):
            taken.append(sequence)
    assert len(taken) == len(set(taken))


def test_what_is_below_the_mark_is_done_with() -> None:
    seen = Seen()
    assert seen.first_time(A, 1, 10, low_water=5)
    assert not seen.first_time(A, 1, 4, low_water=0)
    assert seen.first_time(A, 1, 5, low_water=0)


def test_a_mark_ahead_of_its_own_publication_hides_nothing_newer() -> None:
    seen = Seen()
    assert seen.first_time(A, 1, 10, low_water=1_000)
    assert seen.first_time(A, 1, 11, low_water=0)
    assert not seen.first_time(A, 1, 9, low_water=0)


def test_a_new_epoch_begins_afresh() -> None:
    seen = Seen()
    assert seen.first_time(A, 1, 7, low_water=7)
    assert seen.first_time(A, 2, 0, low_water=0)
    assert not seen.first_time(A, 1, 7, low_water=0)


def test_memory_stays_within_twice_the_window_though_the_mark_stands_still() -> None:
    seen = Seen(window=2_000)
    largest = 0
    for sequence in range(50_000):
        assert seen.first_time(A, 1, sequence, low_water=0)
        largest = max(largest, len(seen))
    assert largest <= 2 * 2_001
    assert not seen.first_time(A, 1, 49_999 - 2_000, low_water=0)


def test_a_mark_that_follows_closely_keeps_memory_small() -> None:
    seen = Seen()
    for sequence in range(SEEN_WINDOW):
        assert seen.first_time(A, 1, sequence, low_water=max(0, sequence - 10))
    assert len(seen) <= 2 * 11


def test_of_many_origins_little_is_kept_though_each_is_heard_of_rarely() -> None:
    seen = Seen()
    for sequence in range(0, 10_000, 100):
        for number in range(100):
            assert seen.first_time(GatewayId(f"G{number}"), 1, sequence, low_water=max(0, sequence - 500))
    assert len(seen) <= 100 * TRIM_MIN


def test_far_jumps_leave_nothing_behind_for_long() -> None:
    seen = Seen(window=10)
    for step in range(5_000):
        assert seen.first_time(A, 1, step * 1_000, low_water=0)
    assert len(seen) <= TRIM_MIN


def test_past_the_bound_the_origin_unheard_of_for_longest_is_forgotten() -> None:
    seen = Seen(origins_max=2)
    c = GatewayId("C")
    assert seen.first_time(A, 1, 0, 0)
    assert seen.first_time(B, 1, 0, 0)
    assert not seen.first_time(A, 1, 0, 0)  # A is heard of again, so that B is the oldest
    assert seen.first_time(c, 1, 0, 0)
    assert not seen.first_time(A, 1, 0, 0)
    assert not seen.first_time(c, 1, 0, 0)
    assert seen.first_time(B, 1, 0, 0)


def test_many_origins_cost_no_more_than_the_bound() -> None:
    seen = Seen(origins_max=16)
    for number in range(1_000):
        seen.first_time(GatewayId(f"G{number}"), 1, 0, 0)
    assert len(seen) == 16


def test_the_mark_of_a_publication_that_may_have_overtaken_hides_nothing() -> None:
    # QoS 0 passes what is parked, or waits for a full window; its mark says that the origin is done with that.
    seen = Seen()

    def publication(sequence: int, low_water: int, qos: int) -> Publication:
        return Publication(A, 1, sequence, low_water, 0, "t", b"", qos, packet=sequence + 1 if qos else 0)

    assert seen.earlier(publication(25, 19, 0)) is None
    assert seen.earlier(publication(13, 0, 1)) is None
    assert seen.earlier(publication(13, 0, 1)) is not None
    assert seen.earlier(publication(26, 19, 1)) is None
    assert seen.earlier(publication(14, 0, 1)) is not None


@given(arrivals, st.integers(0, 60))
def test_a_mark_that_is_told_makes_it_forget_and_nothing_comes_twice(
    script: list[tuple[GatewayId, int, int]], low_water: int
) -> None:
    seen, plain = Seen(), set()
    for index, (origin, epoch, sequence) in enumerate(script):
        if index == len(script) // 2:
            seen.forget_below(A, 1, low_water)
        is_below = sequence < seen.floor(origin, epoch)
        first = seen.first_time(origin, epoch, sequence, low_water=0)
        assert first == ((origin, epoch, sequence) not in plain and not is_below)
        plain.add((origin, epoch, sequence))
    seen.forget_below(A, 1, 61)
    assert seen.floor(A, 1) in (0, 61)  # 0: nothing has come from there
    assert len(seen) == sum((origin, epoch) != (A, 1) for origin, epoch, _ in plain)

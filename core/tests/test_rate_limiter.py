from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.rate_limiter import RateLimiter


def test_a_burst_is_let_through_and_then_so_many_a_second() -> None:
    limiter: RateLimiter[str] = RateLimiter(2.0, 3, 10)
    assert [limiter.take("ann", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert not limiter.take("ann", 0.4)
    assert limiter.take("ann", 0.5)
    assert [limiter.take("ann", 100.0) for _ in range(4)] == [True, True, True, False]


def test_one_does_not_take_from_another() -> None:
    limiter: RateLimiter[str] = RateLimiter(1.0, 1, 10)
    assert limiter.take("ann", 0.0)
    assert not limiter.take("ann", 0.0)
    assert limiter.take("bob", 0.0)


def test_past_its_bound_the_one_unused_for_longest_is_forgotten() -> None:
    limiter: RateLimiter[int] = RateLimiter(1.0, 1, 3)
    for who in range(10):
        limiter.take(who, 0.0)
    assert len(limiter) == 3
    assert not limiter.take(9, 0.0)
    assert limiter.take(0, 0.0)


@given(times=st.lists(st.floats(0, 100), max_size=100).map(sorted))
def test_nobody_ever_gets_more_than_a_burst_and_what_time_has_brought(times: list[float]) -> None:
    limiter: RateLimiter[str] = RateLimiter(3.0, 5, 1)
    taken = sum(limiter.take("ann", at) for at in times)
    length = times[-1] - times[0] if times else 0.0
    assert taken <= 5 + 3.0 * length + 1e-6

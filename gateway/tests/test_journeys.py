"""Jobs of many moves: within their bounds, at their rate, tried again where that was asked for, told at a pace."""

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    DRAIN_REST_S,
    DRAIN_TRIES_MAX,
    LEAVING_S,
    MIGRATION_GRACE_S,
    MIGRATION_PROBLEMS_MAX,
    MIGRATION_SILENCE_S,
    MIGRATION_WATCHERS_MAX,
    MIGRATION_WORD_S,
)
from mqloom.core.migration_records import Bounds
from mqloom.gateway.journeys import LATE_S, Job, JourneyStep

EAST, NORTH = GatewayId("east"), GatewayId("north")


def clients(count: int) -> list[ClientId]:
    return [ClientId(f"c{number}") for number in range(count)]


def job(count: int, *, rate: float = 0.0, at_once: int = 50, standing: bool = False) -> Job:
    made = Job((EAST, NORTH), Bounds(rate=rate, at_once=at_once, deadline_s=10.0), is_standing=standing)
    made.add(clients(count))
    return made


def order(each: Job, now: float) -> list[ClientId]:
    """Order all whose turn it is."""
    ordered = []
    while (client := each.next_client(now)) is not None:
        each.depart(client, EAST, f"s{client}", now)
        ordered.append(client)
    each.check()
    return ordered


def test_no_more_are_under_way_than_may_be_at_once() -> None:
    each = job(5, at_once=2)
    assert order(each, 0.0) == clients(2)
    assert each.deadline == 10.0 + MIGRATION_GRACE_S
    each.end(ClientId("c0"), "", 1.0)
    assert order(each, 1.0) == [ClientId("c2")]
    assert (each.queued, len(each.under_way), each.moved, each.size) == (2, 2, 1, 5)


def test_orders_keep_their_rate_even_if_looked_at_late() -> None:
    each = job(100, rate=10.0, at_once=100)
    assert len(order(each, 100.0)) <= 1 + LATE_S * 10
    times, now = [], 100.0
    for _ in range(2_000):
        now += 0.013  # looked at late every time
        times += [now] * len(order(each, now))
    assert not each.waiting
    assert 9.0 <= times[-1] - 100.0 <= 11.0


def test_targets_are_used_in_turn_and_those_that_are_not_known_passed_over() -> None:
    each = job(0)
    assert [each.next_target(frozenset({EAST, NORTH})) for _ in range(4)] == [EAST, NORTH, EAST, NORTH]
    assert [each.next_target(frozenset({NORTH})) for _ in range(2)] == [NORTH, NORTH]
    assert each.next_target(frozenset()) is None


def test_who_says_nothing_is_late() -> None:
    each = job(2, at_once=1)
    order(each, 0.0)
    assert each.late(10.0 + MIGRATION_GRACE_S - 0.1) == []
    assert each.late(10.0 + MIGRATION_GRACE_S) == [ClientId("c0")]


def test_who_is_served_elsewhere_and_only_leaves_has_more_time_once() -> None:
    each = job(2)
    order(each, 0.0)
    each.under_way[ClientId("c1")].reach(JourneyStep.ARRIVED)
    late_at = 10.0 + MIGRATION_GRACE_S
    assert each.late(late_at) == [ClientId("c0")]
    each.end(ClientId("c0"), "silent", late_at)
    assert each.deadline == late_at + LEAVING_S
    assert each.late(late_at + LEAVING_S - 0.1) == []
    assert each.late(late_at + LEAVING_S) == [ClientId("c1")]


def test_a_step_is_never_taken_back() -> None:
    each = job(1)
    order(each, 0.0)
    journey = each.under_way[ClientId("c0")]
    assert journey.reach(JourneyStep.ARRIVED)
    assert not journey.reach(JourneyStep.MOVING)
    assert journey.step is JourneyStep.ARRIVED


def test_of_those_that_stay_some_are_named_and_all_counted() -> None:
    each = job(MIGRATION_PROBLEMS_MAX + 5)
    for client in order(each, 0.0):
        assert not each.end(client, "east is down", 1.0)
    assert (each.stayed, len(each.problems), each.is_at_rest) == (
        MIGRATION_PROBLEMS_MAX + 5,
        MIGRATION_PROBLEMS_MAX,
        True,
    )


def test_a_drain_tries_some_times_and_then_leaves_a_client_alone_until_it_is_ordered_anew() -> None:
    each, now = job(1, standing=True), 0.0
    for number in range(1, DRAIN_TRIES_MAX + 1):
        assert order(each, now) == clients(1)
        assert each.end(ClientId("c0"), "no", now) == (number < DRAIN_TRIES_MAX)
        assert order(each, now) == []
        assert each.deadline == (now + DRAIN_REST_S if number < DRAIN_TRIES_MAX else None)
        now += DRAIN_REST_S
    assert (each.stayed, each.is_at_rest) == (1, True)
    each.add_newcomer(ClientId("c0"))  # its record is renewed now and then
    assert order(each, now) == []
    each.again((EAST,), Bounds())
    each.add(clients(1))
    assert order(each, now) == clients(1)


def test_a_newcomer_is_the_next() -> None:
    each = job(3, at_once=1, standing=True)
    order(each, 0.0)
    each.add_newcomer(ClientId("new"))
    each.add_newcomer(ClientId("c2"))  # waits already
    each.end(ClientId("c0"), "", 1.0)
    assert order(each, 1.0) == [ClientId("new")]


def test_a_closed_drain_orders_nobody_else_and_lets_those_under_way_go_on() -> None:
    each = job(3, at_once=1, standing=True)
    order(each, 0.0)
    each.close()
    assert (each.queued, len(each.under_way)) == (0, 1)
    assert not each.end(ClientId("c0"), "no", 1.0)
    assert each.is_at_rest


def test_operators_are_told_of_news_at_a_pace_and_of_silence_now_and_then() -> None:
    each = job(1)
    assert not each.is_word_due(0.0)  # nobody watches
    each.watch(ClientId("operator"), 1)
    assert each.is_word_due(0.0)
    assert not each.is_word_due(MIGRATION_WORD_S)
    assert each.is_word_due(MIGRATION_SILENCE_S)
    each.news()
    assert not each.is_word_due(MIGRATION_SILENCE_S + MIGRATION_WORD_S - 0.1)
    assert each.is_word_due(MIGRATION_SILENCE_S + MIGRATION_WORD_S)


def test_of_too_many_watchers_the_first_is_told_no_more() -> None:
    each = job(1)
    for number in range(MIGRATION_WATCHERS_MAX + 1):
        each.watch(ClientId(f"o{number}"), number)
    assert ClientId("o0") not in each.watchers
    each.check()

from collections.abc import Sequence

import pytest

from mqloom.agents.mediation import UNKNOWN, Cancel, Done, Ended, Keep, Kept, Mediation, Reply, Request, SessionId
from mqloom.agents.mediator import (
    ASKING_S_MAX,
    KEEP_S,
    LEASE_S,
    OVERDUE,
    SESSION_S_MAX,
    Mediator,
)
from mqloom.agents.session_farewells import FAREWELLS_MAX, RETRY_S, SESSIONS_REMEMBERED_MAX, TRIES_MAX
from mqloom.agents.sessions import (
    Accepted,
    Agreed,
    CameLate,
    Candidate,
    News,
    NobodyFound,
    Offer,
    Refused,
    Send,
    SessionOver,
    Stage,
)
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import BalanceState
from mqloom.core.subscription import Subscription

A, B, C = GatewayId("a"), GatewayId("b"), GatewayId("c")
ESTIMATE = BrokerEstimate(
    input_rate=10.0, subscriptions=5, delay=DelayModel(0.001, 0.0), output_bytes_s=1.0, output_bytes_s_max=2.0
)
COVERING = (Subscription.parse("#", "a > 1"),)
X, Y = ClientId("x"), ClientId("y")


def willing(is_advice: bool) -> Offer:
    return Offer(BalanceState.OK, "", ESTIMATE, COVERING)


def unwilling(is_advice: bool) -> Offer:
    return Offer(BalanceState.STABILIZING)


def to(partner: GatewayId) -> Candidate:
    return Candidate(partner, "output", is_overload=False)


def sent(news: Sequence[News]) -> list[Mediation]:
    return [each.message for each in news if isinstance(each, Send)]


class Pair:
    """Two mediators, and what each has told; messages are handed over only when asked."""

    def __init__(self) -> None:
        self.a, self.b = Mediator(A), Mediator(B)
        self.now = 100.0

    def asked(self) -> Request:
        (request,) = sent(self.a.ask([to(B), to(C)], self.now))
        assert isinstance(request, Request)
        return request

    def agreed(self) -> SessionId:
        request = self.asked()
        news = self.b.receive(request, A, self.now, willing)
        assert news[0] == Accepted(request.session, A, "output")
        (reply,) = sent(news)
        (agreed,) = self.a.receive(reply, B, self.now, willing)
        assert agreed == Agreed(request.session, to(B), ESTIMATE, [("#", "a > 1")], 0)
        return request.session

    def moving(self) -> SessionId:
        session = self.agreed()
        (keep,) = sent(self.a.moving(self.now + 100.0, self.now))
        assert keep == Keep(session=session, is_moving=True)
        assert sent(self.b.receive(keep, A, self.now, willing)) == [Kept(session=session, is_known=True)]
        return session

    def check(self) -> None:
        self.a.check()
        self.b.check()


@pytest.fixture
def pair() -> Pair:
    return Pair()


def over(news: Sequence[News]) -> SessionOver:
    (found,) = [each for each in news if isinstance(each, SessionOver)]
    return found


def test_a_session_from_request_to_done(pair: Pair) -> None:
    session = pair.moving()
    assert (pair.a.stage, pair.b.stage) == (Stage.MOVING, Stage.RECEIVING)
    news = pair.a.done([X, Y], 1, pair.now)
    assert over(news) == SessionOver(session, B, True, "done", 2, (X, Y))
    (done,) = sent(news)
    assert done == Done(session=session, moved=2, stayed=1, clients=(X, Y))
    news = pair.b.receive(done, A, pair.now, willing)
    assert over(news) == SessionOver(session, A, False, "done", 2, (X, Y))
    (ended,) = sent(news)
    assert pair.a.receive(ended, B, pair.now, willing) == []
    assert pair.a.deadline is None
    assert pair.b.deadline is None
    pair.check()


def test_a_refusal_leads_to_the_next_of_the_list_under_another_id(pair: Pair) -> None:
    request = pair.asked()
    (no,) = sent(pair.b.receive(request, A, pair.now, unwilling))
    assert pair.b.is_free
    refused, following = pair.a.receive(no, B, pair.now, willing)
    assert refused == Refused(to(B), "is STABILIZING")
    assert isinstance(following, Send)
    assert following.partner == C
    assert following.message.session != request.session


def test_when_all_have_refused_it_is_said_so(pair: Pair) -> None:
    (request,) = sent(pair.a.ask([to(B)], pair.now))
    (no,) = sent(pair.b.receive(request, A, pair.now, unwilling))
    assert pair.a.receive(no, B, pair.now, willing) == [
        Refused(to(B), "is STABILIZING"),
        NobodyFound(no.session),
    ]
    assert pair.a.is_free


def test_who_asks_or_is_in_session_is_busy_for_others(pair: Pair) -> None:
    pair.asked()
    third = Request(session=SessionId("c-1-1"), metric="input")
    (no,) = sent(pair.a.receive(third, C, pair.now, willing))
    assert isinstance(no, Reply)
    assert no.state is BalanceState.BUSY
    assert not no.is_accepted


@pytest.mark.parametrize("side", ["a", "b"])
def test_both_sides_of_a_session_are_busy_for_others(pair: Pair, side: str) -> None:
    pair.agreed()
    third = Request(session=SessionId("c-1-1"), metric="input")
    (no,) = sent(getattr(pair, side).receive(third, C, pair.now, willing))
    assert isinstance(no, Reply)
    assert no.state is BalanceState.BUSY


def test_two_that_ask_each_other_refuse_each_other_and_are_free(pair: Pair) -> None:
    (one,) = sent(pair.a.ask([to(B)], pair.now))
    (other,) = sent(pair.b.ask([to(A)], pair.now))
    (no_b,) = sent(pair.b.receive(one, A, pair.now, willing))
    (no_a,) = sent(pair.a.receive(other, B, pair.now, willing))
    pair.a.receive(no_b, B, pair.now, willing)
    pair.b.receive(no_a, A, pair.now, willing)
    assert pair.a.is_free
    assert pair.b.is_free


def test_a_request_without_answer_is_repeated_and_then_the_partner_is_away(pair: Pair) -> None:
    request = pair.asked()
    for _ in range(TRIES_MAX - 1):
        assert pair.a.deadline == pair.now + RETRY_S
        pair.now += RETRY_S
        assert pair.a.wake(pair.now) == [Send(B, request)]
    pair.now += RETRY_S
    news = pair.a.wake(pair.now)
    assert Refused(to(B), "no answer in 8 s", is_silent=True) in news
    farewell, following = [each for each in news if isinstance(each, Send)]
    assert isinstance(farewell.message, Cancel)
    assert farewell.message.session == request.session
    assert following.partner == C
    pair.check()


def test_a_long_list_of_brokers_that_say_nothing_is_given_up_before_its_end(pair: Pair) -> None:
    candidates = [to(GatewayId(f"n{number}")) for number in range(100)]
    pair.a.ask(candidates, pair.now)
    began, refused, found = pair.now, 0, []
    while not pair.a.is_free:
        pair.now = pair.a.deadline or pair.now
        news = pair.a.wake(pair.now)
        refused += sum(isinstance(each, Refused) for each in news)
        found = [each for each in news if isinstance(each, NobodyFound)]
    assert pair.now - began <= ASKING_S_MAX
    assert (refused, [each.not_asked for each in found]) == (5, [95])


def test_a_long_list_of_brokers_that_refuse_at_once_is_asked_to_its_end(pair: Pair) -> None:
    (request,) = sent(pair.a.ask([to(GatewayId(f"n{number}")) for number in range(100)], pair.now))
    for number in range(100):
        no = Reply(session=request.session, state=BalanceState.BUSY)
        news = pair.a.receive(no, GatewayId(f"n{number}"), pair.now, willing)
        if number < 99:
            (request,) = sent(news)
    assert news[-1] == NobodyFound(request.session)


def test_a_repeated_request_is_answered_as_the_first_was(pair: Pair) -> None:
    request = pair.asked()
    (reply,) = sent(pair.b.receive(request, A, pair.now, willing))
    assert pair.b.receive(request, A, pair.now, unwilling) == [Send(A, reply)]


def test_a_cancel_that_overtakes_its_request_ends_it_before_it_begins(pair: Pair) -> None:
    request = pair.asked()
    pair.b.receive(Cancel(session=request.session), A, pair.now, willing)
    (no,) = sent(pair.b.receive(request, A, pair.now, willing))
    assert isinstance(no, Reply)
    assert not no.is_accepted
    assert pair.b.is_free


def test_a_yes_that_comes_too_late_is_cancelled(pair: Pair) -> None:
    request = pair.asked()
    (reply,) = sent(pair.b.receive(request, A, pair.now, willing))
    for _ in range(TRIES_MAX):
        pair.now += RETRY_S
        pair.a.wake(pair.now)
    ((partner, cancel),) = [each for each in pair.a.receive(reply, B, pair.now, willing) if isinstance(each, Send)]
    assert partner == B
    assert over(pair.b.receive(cancel, A, pair.now, willing)).how == "cancelled"
    assert pair.b.is_free
    assert pair.a.stage is Stage.ASKING  # the next one


def test_a_yes_after_a_no_to_a_copy_of_the_request_is_cancelled(pair: Pair) -> None:
    (request,) = sent(pair.a.ask([to(B)], pair.now))
    (no,) = sent(pair.b.receive(request, A, pair.now, unwilling))
    (yes,) = sent(pair.b.receive(request, A, pair.now, willing))
    pair.a.receive(no, B, pair.now, willing)
    (cancel,) = sent(pair.a.receive(yes, B, pair.now, willing))
    pair.b.receive(cancel, A, pair.now, willing)
    assert pair.b.is_free


def test_a_copy_of_yes_after_the_end_is_answered_by_how_it_ended(pair: Pair) -> None:
    request = pair.asked()
    (reply,) = sent(pair.b.receive(request, A, pair.now, willing))
    pair.a.receive(reply, B, pair.now, willing)
    pair.a.moving(pair.now + 9, pair.now)
    (done,) = sent(pair.a.done([X], 0, pair.now))
    assert sent(pair.a.receive(reply, B, pair.now, willing)) == [done]


def test_parts_may_come_in_any_order_and_twice() -> None:
    wide = [Subscription.parse("#", f"name = '{'x' * 4_000}{n}'") for n in range(30)]
    a, b = Mediator(A), Mediator(B)
    (request,) = sent(a.ask([to(B)], 1.0))
    replies = sent(b.receive(request, A, 1.0, lambda _: Offer(BalanceState.OK, "", ESTIMATE, wide)))
    assert len(replies) > 2
    for reply in [*reversed(replies[1:]), *replies[1:]]:
        assert a.receive(reply, B, 1.0, willing) == []
    (agreed,) = a.receive(replies[0], B, 1.0, willing)
    assert isinstance(agreed, Agreed)
    assert list(agreed.covering) == [(each.topics, str(each.where)) for each in wide]


def test_a_partner_that_dies_before_anybody_moves_frees_the_offloading_broker(pair: Pair) -> None:
    pair.agreed()
    pair.a.extend(pair.now + 1_000)
    seen: list[News] = []
    began = pair.now
    while not pair.a.is_free:
        at = pair.a.deadline
        assert at is not None
        pair.now = at
        seen += pair.a.wake(pair.now)
    assert over(seen).how == "silent"
    assert pair.now == began + LEASE_S
    assert sum(isinstance(each, Send) and isinstance(each.message, Keep) for each in seen) == LEASE_S / KEEP_S - 1


@pytest.mark.parametrize(("is_moving", "moved"), [(False, 0), (True, -1)])
def test_an_offloading_broker_that_dies_frees_the_accepting_one(pair: Pair, *, is_moving: bool, moved: int) -> None:
    session = pair.moving() if is_moving else pair.agreed()
    assert pair.b.wake(pair.now + LEASE_S - 0.1) == []
    assert pair.b.deadline == pair.now + LEASE_S
    ended = over(pair.b.wake(pair.now + LEASE_S))
    assert (ended.how, ended.moved, ended.session) == ("silent", moved, session)
    assert pair.b.is_free


def test_clients_under_way_are_waited_for_though_the_partner_is_silent(pair: Pair) -> None:
    session = pair.moving()
    assert not [each for each in pair.a.wake(pair.now + LEASE_S + 1) if isinstance(each, SessionOver)]
    assert pair.a.receive(Kept(session=session, is_known=False), B, pair.now, willing) == []
    assert pair.a.stage is Stage.MOVING


def test_a_move_that_never_ends_is_over_at_its_deadline_and_nobody_knows_who_moved(pair: Pair) -> None:
    pair.moving()
    news = pair.a.wake(pair.now + 100.0)
    assert (over(news).how, over(news).moved) == ("overdue", -1)
    (done,) = sent(news)
    assert over(pair.b.receive(done, A, pair.now, willing)).moved == -1


def test_who_is_under_way_when_time_is_up_is_named_but_not_counted(pair: Pair) -> None:
    pair.moving()
    late = ClientId("late")
    news = pair.a.done([ClientId("x")], 2, pair.now, [late])
    assert over(news).moved == 1
    (done,) = sent(news)
    taken = over(pair.b.receive(done, A, pair.now, willing))
    assert (taken.moved, taken.clients) == (1, ("x", late))


def test_if_all_are_under_way_when_time_is_up_neither_broker_takes_it_that_nobody_moved(pair: Pair) -> None:
    pair.moving()
    late = ClientId("late")
    news = pair.a.done([], 1, pair.now, [late])
    assert (over(news).how, over(news).moved) == ("done", UNKNOWN)
    (done,) = sent(news)
    taken = over(pair.b.receive(done, A, pair.now, willing))
    assert (taken.moved, taken.clients) == (UNKNOWN, (late,))


def test_a_partner_that_was_started_anew_ends_the_session(pair: Pair) -> None:
    session = pair.agreed()
    pair.b = Mediator(B)
    (keep,) = sent(pair.a.wake(pair.now + KEEP_S))
    (kept,) = sent(pair.b.receive(keep, A, pair.now, willing))
    assert over(pair.a.receive(kept, B, pair.now, willing)).how == "gone"
    assert session != pair.agreed()


def test_a_kept_session_lasts(pair: Pair) -> None:
    pair.agreed()
    pair.a.extend(pair.now + 1_000)
    for _ in range(40):
        pair.now += KEEP_S
        for keep in sent(pair.a.wake(pair.now)):
            for kept in sent(pair.b.receive(keep, A, pair.now, willing)):
                pair.a.receive(kept, B, pair.now, willing)
        assert not pair.b.wake(pair.now)
    assert (pair.a.stage, pair.b.stage) == (Stage.GIVING, Stage.TAKING)


def test_an_accepting_broker_has_a_deadline_whatever_it_hears(pair: Pair) -> None:
    session = pair.agreed()
    began = pair.now
    while not pair.b.is_free:
        pair.now += KEEP_S
        pair.b.receive(Keep(session=session), A, pair.now, willing)
        news = pair.b.wake(pair.now)
    assert pair.now - began <= SESSION_S_MAX + KEEP_S
    assert (over(news).how, over(news).reason) == ("overdue", OVERDUE)  # not that the other says nothing


def test_a_farewell_is_repeated_until_it_is_heard_and_not_for_ever(pair: Pair) -> None:
    pair.agreed()
    (cancel,) = sent(pair.a.cancel("nobody is worth moving", pair.now))
    said = 1
    while pair.a.deadline is not None:
        pair.now = pair.a.deadline
        said += pair.a.wake(pair.now) == [Send(B, cancel)]
    assert said == TRIES_MAX
    assert pair.a.is_free


def test_who_freed_itself_learns_later_who_came(pair: Pair) -> None:
    session = pair.moving()
    pair.b.wake(pair.now + LEASE_S)
    (done,) = sent(pair.a.done([X], 0, pair.now))
    assert CameLate(session, 1, (X,)) in pair.b.receive(done, A, pair.now, willing)
    assert pair.b.receive(done, A, pair.now, willing) == [Send(A, Ended(session=session))]


def test_a_stranger_cannot_end_or_keep_a_session(pair: Pair) -> None:
    session = pair.agreed()
    pair.b.receive(Done(session=session, moved=1), C, pair.now, willing)
    pair.b.receive(Cancel(session=session), C, pair.now, willing)
    assert pair.b.receive(Keep(session=session), C, pair.now, willing) == [
        Send(C, Kept(session=session, is_known=False))
    ]
    pair.a.receive(Kept(session=session, is_known=False), C, pair.now, willing)
    pair.a.receive(Cancel(session=session), B, pair.now, willing)  # nor the accepting side
    assert (pair.a.stage, pair.b.stage) == (Stage.GIVING, Stage.TAKING)


def test_whatever_a_mediator_was_in_it_can_be_made_to_abandon(pair: Pair) -> None:
    assert pair.a.abandon("the operator said so", pair.now) == []
    pair.asked()
    news = pair.a.abandon("the operator said so", pair.now)
    assert any(isinstance(each, NobodyFound) for each in news)
    assert pair.a.is_free
    session = pair.agreed()
    assert over(pair.b.abandon("the operator said so", pair.now)).session == session
    assert over(pair.a.abandon("the operator said so", pair.now)).how == "cancelled"


def test_who_moves_clients_is_not_taken_up_by_one_that_only_says_what_it_would_do() -> None:
    adviser, mover, third = Mediator(A, is_advice=True), Mediator(B), Mediator(C)
    (request,) = sent(adviser.ask([to(B)], 1.0))
    news = mover.receive(request, A, 1.0, willing)
    assert news[0] == Accepted(request.session, A, "output", is_advice=True)
    assert mover.is_lent
    for reply in sent(news):
        adviser.receive(reply, B, 1.0, willing)
    (other,) = sent(third.ask([to(B)], 2.0))
    news = mover.receive(other, C, 2.0, willing)
    assert over(news).session == request.session
    assert news[1] == Accepted(other.session, C, "output")
    assert not mover.is_lent
    (keep,) = sent(adviser.wake(1.0 + KEEP_S))
    (kept,) = sent(mover.receive(keep, A, 1.0 + KEEP_S, willing))
    assert over(adviser.receive(kept, B, 1.0 + KEEP_S, willing)).how == "gone"
    assert (adviser.stage, mover.stage) == (Stage.FREE, Stage.TAKING)


def test_among_those_who_only_advise_one_session_is_as_good_as_another() -> None:
    first, second = Mediator(A, is_advice=True), Mediator(B, is_advice=True)
    (request,) = sent(first.ask([to(B)], 1.0))
    second.receive(request, A, 1.0, willing)
    assert not second.is_lent
    assert second.take_back(2.0) == []


def test_memory_is_bounded() -> None:
    a, b = Mediator(A), Mediator(B)
    for number in range(500):
        (request,) = sent(a.ask([to(B)], float(number)))
        (reply,) = sent(b.receive(request, A, float(number), willing))
        a.receive(reply, B, float(number), willing)
        (cancel,) = sent(a.cancel("no", float(number)))
        b.receive(cancel, A, float(number), willing)
        a.check()
        b.check()
    assert SESSIONS_REMEMBERED_MAX < 500 > FAREWELLS_MAX


def test_advice_is_told_to_who_is_asked() -> None:
    a, b = Mediator(A, is_advice=True), Mediator(B)
    (request,) = sent(a.ask([to(B)], 1.0))
    asked: list[bool] = []

    def offer(is_advice: bool) -> Offer:
        asked.append(is_advice)
        return Offer(BalanceState.OK, "does not take clients")

    (no,) = sent(b.receive(request, A, 1.0, offer))
    assert asked == [True]
    assert a.receive(no, B, 1.0, willing)[0] == Refused(to(B), "does not take clients", is_lasting=True)


def test_what_the_table_does_not_have_raises(pair: Pair) -> None:
    pair.asked()
    with pytest.raises(KeyError):
        pair.a.ask([to(C)], pair.now)

from mqloom.agents.mediation import Cancel, SessionId
from mqloom.agents.session_farewells import FAREWELLS_MAX, RETRY_S, SESSIONS_REMEMBERED_MAX, TRIES_MAX, Farewells, Past
from mqloom.agents.sessions import Send
from mqloom.core.ids import GatewayId

B, C = GatewayId("b"), GatewayId("c")
FAREWELL = Cancel(session=SessionId("s"))


def test_a_farewell_is_said_again_until_it_was_said_often_enough() -> None:
    ends = Farewells()
    assert ends.say(B, FAREWELL, 0.0) == Send(B, FAREWELL)
    said, now = 1, 0.0
    while ends.next_at is not None:
        now = ends.next_at
        said += len(ends.wake(now))
    assert (said, now) == (TRIES_MAX, TRIES_MAX * RETRY_S)


def test_who_has_heard_it_is_not_told_again() -> None:
    ends = Farewells()
    ends.say(B, FAREWELL, 0.0)
    ends.heard(FAREWELL.session, C)
    assert ends.next_at == RETRY_S
    ends.heard(FAREWELL.session, B)
    assert ends.next_at is None
    assert ends.past(FAREWELL.session) == Past(FAREWELL, is_ours=True)


def test_memory_is_bounded_and_the_oldest_is_forgotten() -> None:
    ends = Farewells()
    for number in range(SESSIONS_REMEMBERED_MAX + FAREWELLS_MAX):
        ends.say(B, Cancel(session=SessionId(f"s{number}")), 0.0)
        ends.check()
    assert ends.past(SessionId("s0")) is None
    assert len(ends.wake(RETRY_S)) == FAREWELLS_MAX

"""What the user is told of subscriptions when several gateways speak of them."""

from mqloom.client.journey import Journey
from mqloom.client.legs import Leg
from mqloom.client.limits import GONE_MAX
from mqloom.client.party import Manner, Party
from mqloom.client.roles import Role
from mqloom.client.tellings import Tellings
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Answer, Wish
from mqloom.core.seen import Seen


def legs(*roles: Role) -> list[Leg]:
    party = Party(ClientId("ann"), Manner(), Seen())
    wishes = {"w": Wish(topics="a/#")}
    return [party.add(role, GatewayId(role.name), wishes, Journey(), None) for role in roles]


ESTABLISHED, REFUSED, ENDED = (
    Answer(answer="established", name="w"),
    Answer(answer="refused", name="w", problem="no"),
    Answer(answer="ended", name="w"),
)


def test_what_two_gateways_say_is_told_once_and_again_when_it_is_asked_for_again() -> None:
    told, both = Tellings(), legs(Role.HOME, Role.TARGET)
    assert told.is_news(both[0], ESTABLISHED, both)
    assert not told.is_news(both[1], ESTABLISHED, both)
    told.forget("w")
    assert told.is_news(both[1], ESTABLISHED, both)


def test_that_a_target_refuses_is_not_the_users_for_we_stay() -> None:
    told, (home, target, old) = Tellings(), legs(Role.HOME, Role.TARGET, Role.OLD)
    assert not told.is_news(target, REFUSED, [home, target])
    assert not told.is_news(old, REFUSED, [home, old])
    assert told.is_news(home, REFUSED, [home, target])


def test_one_has_ended_when_it_has_so_everywhere() -> None:
    told, (home, old) = Tellings(), legs(Role.HOME, Role.OLD)
    assert not told.is_news(old, ENDED, [home, old])
    assert told.is_news(home, ENDED, [home])


def test_partly_and_completely_are_two_pieces_of_news() -> None:
    told, (home,) = Tellings(), legs(Role.HOME)
    partly = Answer(answer="established", name="w", partly=True)
    assert [told.is_news(home, each, [home]) for each in (partly, partly, ESTABLISHED)] == [True, False, True]


def test_past_its_bound_the_oldest_may_be_told_once_more() -> None:
    told, (home,) = Tellings(), legs(Role.HOME)
    for number in range(GONE_MAX + 1):
        assert told.is_news(home, Answer(answer="established", name=f"n{number}"), [home])
    assert told.is_news(home, Answer(answer="established", name="n0"), [home])
    assert not told.is_news(home, Answer(answer="established", name=f"n{GONE_MAX}"), [home])

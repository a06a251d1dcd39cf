"""Other names on a moved link: they never meet the names themselves, and are taken back by whoever gave them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Message, Synced, Told, Withdraw
from mqloom.core.wire import Frame, decode, encode
from mqloom.gateway.aliases import ALIASES_FROM, Aliases, has_given
from mqloom.lab.gate import FIRST, A, B, key

names = st.text(min_size=1, max_size=9).map(GatewayId)
move_numbers = st.integers(1, 2**40)
keys = st.builds(SubscriptionKey, names, st.integers(0, 2**40), st.integers(0, 2**63 - 1))
spoken = st.one_of(
    st.builds(Announce, keys, st.just("a/#"), st.just("x > 1"), st.none() | names),
    st.builds(Withdraw, keys),
    st.builds(Established, keys, st.booleans()),
)


def key_of(message: Message) -> SubscriptionKey:
    assert isinstance(message, Announce | Withdraw | Established)
    return message.key


@given(names, move_numbers, spoken)
def test_an_alias_of_an_alias_is_the_name_itself(mover: GatewayId, number: int, message: Message) -> None:
    for translate in (Aliases(mover, number).outgoing, Aliases(mover, number).incoming):
        alias = translate(message)
        assert type(alias) is type(message)
        assert key_of(alias) != key_of(message)
        assert translate(alias) == message


@given(names, move_numbers, names, st.integers(0, ALIASES_FROM - 1))
def test_no_alias_is_a_key_that_its_gateway_can_have_given(
    mover: GatewayId, number: int, gateway: GatewayId, given_number: int
) -> None:
    own = SubscriptionKey(gateway, 1, given_number)
    assert has_given(gateway, own)
    assert not has_given(GatewayId(gateway + "x"), own)
    for translate in (Aliases(mover, number).outgoing, Aliases(mover, number).incoming):
        assert not has_given(gateway, key_of(translate(Withdraw(own))))


@given(names, move_numbers, keys)
def test_what_is_announced_there_is_withdrawn_and_established_under_the_name_it_was_given(
    mover: GatewayId, number: int, which: SubscriptionKey
) -> None:
    aliases = Aliases(mover, number)
    announced = key_of(aliases.outgoing(Announce(which, "a", "")))
    assert key_of(aliases.outgoing(Withdraw(which))) == announced
    assert key_of(aliases.incoming(Established(announced))) == which
    heard = key_of(aliases.incoming(Announce(which, "a", "")))
    assert key_of(aliases.incoming(Withdraw(which))) == heard
    assert key_of(aliases.outgoing(Established(heard))) == which


@given(names, move_numbers, keys)
def test_our_own_announcement_that_comes_round_is_another_subscription(
    mover: GatewayId, number: int, which: SubscriptionKey
) -> None:
    """It went out by the old neighbour as it is, and comes in by the new one; and the other way round."""
    aliases = Aliases(mover, number)
    round_by_new = key_of(aliases.outgoing(Announce(which, "a", "")))
    assert len({which, key_of(aliases.incoming(Announce(which, "a", ""))), round_by_new}) == 3


@given(names, move_numbers, spoken)
def test_an_alias_is_within_the_bounds_of_the_wire(mover: GatewayId, number: int, message: Message) -> None:
    frame = Frame(A, FIRST, 0, (Aliases(mover, number).outgoing(message),))
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize(("mover", "number"), [(A, 2), (B, 1)])
def test_another_move_has_other_aliases(mover: GatewayId, number: int) -> None:
    message = Announce(key(A, 1), "a", "")
    assert Aliases(A, 1).outgoing(message) == Aliases(A, 1).outgoing(message)
    assert Aliases(A, 1).outgoing(message) != Aliases(mover, number).outgoing(message)
    assert Aliases(A, 1).incoming(message) != Aliases(mover, number).incoming(message)


@pytest.mark.parametrize("message", [Synced(), Told(b"map")])
def test_what_names_no_subscription_is_told_as_it_is(message: Message) -> None:
    assert Aliases(A, 1).outgoing(message) is message
    assert Aliases(A, 1).incoming(message) is message

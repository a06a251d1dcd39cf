"""Two gateways that seal what they say, and somebody who has recorded all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import FrameError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CHALLENGE_EVERY_S, REPLAY_WINDOW, REQUESTS_MAX, SESSIONS_MAX
from mqloom.core.seals import Channel, Keyring, key_of
from mqloom.gateway import sessions
from mqloom.gateway.sessions import Life, Requests, Sessions, Window

A, B = GatewayId("A"), GatewayId("B")
OLD, NEW = key_of(b"1" * 32), key_of(b"2" * 32)


def one(name: GatewayId, epoch: int) -> Sessions:
    return Sessions(name, Life(epoch, f"{name}{epoch}".encode().ljust(16, b".")), Keyring(OLD))


def reason_of(reader: Sessions, sender: GatewayId, data: bytes, channel: Channel = Channel.FRAME) -> str:
    with pytest.raises(FrameError) as caught:
        reader.open(sender, channel, data, 0.0)
    return caught.value.reason


def meet(a: Sessions, b: Sessions, now: float = 0.0) -> bytes:
    """Let A greet B until B believes it; return the greeting that B did not believe."""
    greeting = a.seal(B, Channel.FRAME, b"hello")
    assert b.open(A, Channel.FRAME, greeting, now) is None
    [(to, challenge)] = b.challenges()
    assert to == A
    assert a.open(B, Channel.ACK, challenge, now) == b""
    assert b.open(A, Channel.FRAME, a.seal(B, Channel.FRAME, b"hello"), now) == b"hello"
    return greeting


def test_a_greeting_is_believed_after_a_challenge() -> None:
    a, b = one(A, 1), one(B, 1)
    meet(a, b)
    assert a.met() == [B]
    assert b.met() == [A]
    assert b.met() == []
    assert a.open(B, Channel.FRAME, b.seal(A, Channel.FRAME, b"and you"), 0.0) == b"and you"
    assert b.challenges() == a.challenges() == []


def test_a_greeting_that_was_under_way_when_both_had_met_is_told_from_an_earlier_run() -> None:
    a, b = one(A, 1), one(B, 1)
    early = meet(a, b)
    with pytest.raises(FrameError, match="before it knew our run: one or two are usual at a start"):
        b.open(A, Channel.FRAME, early, 0.0)
    with pytest.raises(FrameError, match="of an earlier run of its sender"):
        b.open(A, Channel.FRAME, one(A, 0).seal(B, Channel.FRAME, b"hello"), 0.0)
    assert b.challenges() == []


def test_every_copy_of_a_frame_is_refused() -> None:
    a, b = one(A, 1), one(B, 1)
    meet(a, b)
    said = [a.seal(B, Channel.FRAME, b"%d" % number) for number in range(5)]
    assert [b.open(A, Channel.FRAME, each, 0.0) for each in said] == [b"0", b"1", b"2", b"3", b"4"]
    assert {reason_of(b, A, each) for each in said} == {"replayed"}
    assert b.challenges() == []


def test_a_frame_on_another_channel_or_to_its_own_sender_is_forged() -> None:
    a, b = one(A, 1), one(B, 1)
    meet(a, b)
    frame = a.seal(B, Channel.FRAME, b"x")
    assert reason_of(b, A, frame, Channel.URGENT) == "forged"
    assert reason_of(a, B, frame) == "forged"


def test_after_a_restart_of_the_receiver_nothing_of_before_counts_and_the_sender_is_told() -> None:
    a, b = one(A, 1), one(B, 1)
    greeting = meet(a, b)
    recorded = [a.seal(B, Channel.FRAME, b"x") for _ in range(3)]
    again = one(B, 2)
    assert [reason_of(again, A, each) for each in recorded] == ["outdated"] * 3
    [(_, challenge)] = again.challenges()  # one for all of them
    a.met()
    assert a.open(B, Channel.ACK, challenge, 0.0) == b""
    assert a.met() == [B]
    assert again.open(A, Channel.FRAME, a.seal(B, Channel.FRAME, b"hello"), 0.0) == b"hello"
    assert reason_of(again, A, greeting) == "replayed"
    assert {reason_of(again, A, each) for each in recorded} == {"replayed"}
    assert again.challenges() == []


def test_after_a_restart_of_the_sender_nothing_of_before_counts() -> None:
    a, b = one(A, 1), one(B, 1)
    greeting = meet(a, b)
    recorded = a.seal(B, Channel.FRAME, b"never arrived")
    meet(one(A, 2), b)
    assert reason_of(b, A, recorded) == "replayed"
    assert reason_of(b, A, greeting) == "replayed"
    assert b.challenges() == []


def test_a_recorded_greeting_to_one_that_knows_nobody_gains_nothing() -> None:
    greeting = one(A, 1).seal(B, Channel.FRAME, b"hello")
    b = one(B, 7)
    assert b.open(A, Channel.FRAME, greeting, 0.0) is None
    [(_, challenge)] = b.challenges()
    assert b.open(A, Channel.FRAME, greeting, 0.5) is None
    assert b.challenges() == []  # not so often
    assert reason_of(b, A, challenge) == "forged"
    assert reason_of(one(A, 2), B, challenge, Channel.ACK) == "outdated"  # it was for another life of A
    assert b.met() == []


def test_recorded_greetings_cannot_keep_a_living_gateway_from_its_challenge() -> None:
    b = one(B, 1)
    for epoch in (1, 2, 3):
        assert b.open(A, Channel.FRAME, one(A, epoch).seal(B, Channel.FRAME, b"old"), 0.0) is None
    b.challenges()
    meet(one(A, 4), b)
    assert reason_of(b, A, one(A, 3).seal(B, Channel.FRAME, b"old")) == "replayed"


def test_a_challenge_that_was_lost_is_repeated_after_a_while() -> None:
    a, b = one(A, 1), one(B, 1)
    for at in (0.0, CHALLENGE_EVERY_S):
        b.open(A, Channel.FRAME, a.seal(B, Channel.FRAME, b"hello"), at)
        assert len(b.challenges()) == 1


def test_keys_are_exchanged_in_the_middle_of_a_conversation() -> None:
    a, b = one(A, 1), one(B, 1)
    meet(a, b)

    def talk() -> None:
        assert b.open(A, Channel.FRAME, a.seal(B, Channel.FRAME, b"x"), 0.0) == b"x"
        assert a.open(B, Channel.ACK, b.seal(A, Channel.ACK, b"y"), 0.0) == b"y"

    for a.keyring in (Keyring(OLD, (NEW,)), Keyring(NEW, (OLD,)), Keyring(NEW)):
        talk()
        b.keyring = a.keyring
        talk()
    assert reason_of(b, A, one(A, 1).seal(B, Channel.FRAME, b"x")) == "key"


def test_gateways_past_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SESSIONS_MAX > 1
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    b = one(B, 1)
    assert b.open(A, Channel.FRAME, one(A, 1).seal(B, Channel.FRAME, b"hello"), 0.0) is None
    assert reason_of(b, GatewayId("C"), one(GatewayId("C"), 1).seal(B, Channel.FRAME, b"hello")) == "stranger"


@given(numbers=st.lists(st.integers(1, 40) | st.integers(1, 3 * REPLAY_WINDOW) | st.integers(1, 2**64 - 1)))
def test_a_window_takes_each_number_once_and_none_that_is_too_old(numbers: list[int]) -> None:
    window, came = Window(), set[int]()
    for number in numbers:
        is_new = number not in came and number > max(came, default=0) - REPLAY_WINDOW
        assert window.take(number) is is_new
        if is_new:
            came.add(number)


def test_numbers_of_requests_come_from_several_clocks_and_each_counts_once() -> None:
    requests = Requests()
    assert requests.take(1_000_000)
    assert requests.take(5)  # from a clock that is late
    assert not requests.take(5)
    for number in range(2_000, 2_000 + REQUESTS_MAX):
        assert requests.take(number)
    assert not requests.take(5)
    assert not requests.take(6)
    assert not requests.take(1_000_000)

import threading
from collections.abc import Callable

import pytest

from mqloom.client.gate import Gate

WAIT_S_MAX = 10.0


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_while_it_is_closed_nobody_begins_to_send() -> None:
    gate = Gate()
    passed = threading.Event()

    def send() -> None:
        with gate.passing():
            passed.set()

    with gate.closed():
        thread = started(send)
        assert not passed.wait(0.1)
    assert passed.wait(WAIT_S_MAX)
    thread.join()


def test_it_closes_when_those_who_send_have_done_so() -> None:
    gate = Gate()
    is_inside, goes_on = threading.Event(), threading.Event()
    order: list[str] = []

    def send() -> None:
        with gate.passing():
            is_inside.set()
            goes_on.wait(WAIT_S_MAX)
            order.append("sent")

    def close() -> None:
        with gate.closed():
            order.append("closed")

    threads = [started(send)]
    assert is_inside.wait(WAIT_S_MAX)
    threads.append(started(close))
    goes_on.set()
    for thread in threads:
        thread.join()
    assert order == ["sent", "closed"]


def test_who_sends_already_and_who_has_closed_it_may_send_once_more() -> None:
    """A callback of paho's, from within a call of paho's."""
    gate = Gate()
    is_inside, is_closing, is_done = threading.Event(), threading.Event(), threading.Event()

    def send() -> None:
        with gate.passing():
            is_inside.set()
            is_closing.wait(WAIT_S_MAX)
            with gate.passing():
                is_done.set()

    thread = started(send)
    assert is_inside.wait(WAIT_S_MAX)
    is_closing.set()
    with gate.closed(), gate.passing():
        assert is_done.is_set()
    thread.join()


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other: the application may hold locks of its own."""
    monkeypatch.setattr("mqloom.client.gate.LEAVE_S", 0.05)
    monkeypatch.setattr("mqloom.client.gate.EXCHANGE_S", 0.05)
    gate = Gate()
    is_inside, is_closed = threading.Event(), threading.Event()

    def send() -> None:
        with gate.passing():
            is_inside.set()
            assert is_closed.wait(WAIT_S_MAX)

    one = started(send)
    assert is_inside.wait(WAIT_S_MAX)
    with gate.closed():
        other = started(lambda: gate.passing().__enter__())
        other.join(WAIT_S_MAX)
        assert not other.is_alive()
        is_closed.set()
    one.join()

"""Mosquitto's log, line by line as version 2.0.11 wrote it."""

import pytest

from mqloom.plugins.mosquitto_log import NOTICE, SUBSCRIBE, UNSUBSCRIBE, MosquittoLog
from mqloom.plugins.plain_clients import PlainClients


class Listener:
    """A log, and what was read of it."""

    def __init__(self) -> None:
        self.clients = PlainClients()
        self.log = MosquittoLog(self.clients)

    def hear(self, topic: str, *lines: str) -> tuple[str, ...]:
        for line in lines:
            self.log.heard(topic, f"1794940127: {line}")
            self.clients.check()
        return self.clients.filters


CONNECTED = "New client connected from 127.0.0.1:49930 as {} (p2, c{}, k60)."


def test_subscriptions_are_read_and_end() -> None:
    listener = Listener()
    assert listener.hear(SUBSCRIBE, "plain-1 1 a/b", "plain-1 0 c/+/#") == ("a/b", "c/+/#")
    assert listener.hear(UNSUBSCRIBE, "plain-1 a/b", "plain-1 never", "unknown c/+/#") == ("c/+/#",)


@pytest.mark.parametrize("time", ["", "1794940127: ", "2026-11-17T18:28:47+0000: ", "2026-11-17 18:28:47: "])
def test_times_are_read_however_they_are_written(time: str) -> None:
    listener = Listener()
    listener.log.heard(SUBSCRIBE, f"{time}plain 2 a/b")
    assert listener.clients.knows("plain")
    assert listener.clients.filters == ("a/b",)


def test_names_and_filters_with_spaces_are_those_of_clients_that_are_known() -> None:
    listener = Listener()
    name = 'with 1 space "x"'
    listener.hear(NOTICE, CONNECTED.format(name, 1))
    assert listener.hear(SUBSCRIBE, f"{name} 0 a b/c d") == ("a b/c d",)
    assert listener.hear(UNSUBSCRIBE, f"{name} a b/c d") == ()
    assert listener.hear(SUBSCRIBE, "never heard of 1 a 2 b") == ("a 2 b",)


GOODBYES = [
    "Client {} disconnected.",
    "Client {} closed its connection.",
    "Client {} disconnected due to protocol error.",
    "Client {} disconnected, not authorised.",
    "Client {} has exceeded timeout, disconnecting.",
    "Socket error on client {}, disconnecting.",
    "Bad socket read/write on client {}: Broken pipe",
]


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_who_came_clean_takes_its_subscriptions_along(goodbye: str) -> None:
    listener = Listener()
    for name, clean in (("a client", 1), ("kept", 0)):
        listener.hear(NOTICE, CONNECTED.format(name, clean))
        listener.hear(SUBSCRIBE, f"{name} 1 {name}")
    assert listener.hear(NOTICE, goodbye.format("a client"), goodbye.format("kept")) == ("kept",)
    assert listener.hear(NOTICE, "Expiring client kept due to timeout.") == ()


def test_one_that_is_taken_over_begins_anew() -> None:
    listener = Listener()
    listener.hear(NOTICE, CONNECTED.format("taken", 1))
    listener.hear(SUBSCRIBE, "taken 1 k/#")
    assert listener.hear(NOTICE, "New client connected from ::1:5 as taken (p5, c1, k60, u'ann').") == ()


def test_other_lines_are_passed_over() -> None:
    listener = Listener()
    lines = (
        "",
        "New connection from 127.0.0.1:43690 on port 1883.",
        "mosquitto version 2.0.11 running",
        "x 3 y",
        "x 1 ",
    )
    for topic in (SUBSCRIBE, UNSUBSCRIBE, NOTICE, "$SYS/broker/log/E"):
        assert listener.hear(topic, *lines) == ()

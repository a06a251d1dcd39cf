"""Unmodified clients on federated Mosquittos: they get what they ask for, once, and nothing else crosses."""

import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from integration_tests.conftest import StartMosquitto
from integration_tests.makers import MOSQUITTO_LOGGING
from integration_tests.plain import SETTLED_S, MosquittoSub, PlainFederation, plain_client
from integration_tests.processes import Commands, wait_until
from mqloom.lab.ports import free_port

W, E = "WEST", "EAST"
NUMBERS = [str(number) for number in range(20)]


def two(start_mosquitto: StartMosquitto, commands: Commands) -> PlainFederation:
    ports = {name: start_mosquitto(more=MOSQUITTO_LOGGING).port for name in (W, E)}
    return PlainFederation(commands, ports)


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub on this machine")
def test_mosquitto_sub_and_mosquitto_pub_exchange_what_they_ask_for(
    start_mosquitto: StartMosquitto, commands: Commands
) -> None:
    federation = two(start_mosquitto, commands)
    subscriber = MosquittoSub(federation.ports[E], "stocks/+/price")
    try:
        federation.knows(E, 1)
        tool = shutil.which("mosquitto_pub")
        assert tool is not None
        for topic in ("stocks/a/price", "stocks/a/volume", "weather/rome", "other"):
            for payload in ("1", "2", "3"):
                where = ["-h", "127.0.0.1", "-p", str(federation.ports[W]), "-q", "1"]
                subprocess.run([tool, *where, "-t", topic, "-m", payload], check=True, timeout=10)
        wait_until(lambda: len(subscriber.lines) >= 3, "three lines")
        time.sleep(SETTLED_S)
        assert subscriber.lines == ["stocks/a/price 1", "stocks/a/price 2", "stocks/a/price 3"]
        assert federation.count(W, "publications_forwarded") == 3
    finally:
        subscriber.end()


def test_only_what_is_wanted_crosses_and_as_long_as_it_is(start_mosquitto: StartMosquitto, commands: Commands) -> None:
    federation = two(start_mosquitto, commands)
    with plain_client(federation.ports[W]) as publisher:
        with plain_client(federation.ports[E]) as subscriber:
            subscriber.subscribe("stocks/+/price", "#")
            federation.knows(E, 1)
            publisher.publish("stocks/a/price", *NUMBERS)
            publisher.publish("other", *NUMBERS)
            wait_until(lambda: len(subscriber.payloads("stocks/a/price")) >= len(NUMBERS), "all prices")
            subscriber.client.unsubscribe("#")
            wait_until(lambda: federation.count(E, "withdrawals_sent") > 0, "# is withdrawn")
            publisher.publish("stocks/a/volume", *NUMBERS)
            publisher.publish("stocks/a/price", "last")
            wait_until(lambda: "last" in subscriber.payloads(), "the last")
            time.sleep(SETTLED_S)
            assert subscriber.payloads("stocks/a/price") == [*NUMBERS, "last"]
            assert subscriber.payloads("stocks/a/volume") == []
            assert federation.count(W, "publications_forwarded") == len(NUMBERS) + 1
        wait_until(lambda: federation.count(E, "withdrawals_sent") > 1, "nobody wants anything any more")
        publisher.publish("stocks/a/price", *NUMBERS)
        time.sleep(SETTLED_S)
    assert federation.count(W, "publications_forwarded") == len(NUMBERS) + 1
    assert federation.count(E, "publications_in") == 0


def test_with_subscribers_and_publishers_on_both_everybody_gets_everything_once(
    start_mosquitto: StartMosquitto, commands: Commands
) -> None:
    federation = two(start_mosquitto, commands)
    with plain_client(federation.ports[W]) as west, plain_client(federation.ports[E]) as east:
        for client in (west, east):
            client.subscribe("stocks/#")
            client.subscribe("stocks/a")
        federation.knows(W, 1)
        federation.knows(E, 1)
        for number in NUMBERS:
            west.publish("stocks/a", f"west {number}")
            east.publish("stocks/b", f"east {number}", qos=0)
        both = Counter({f"{side} {number}": 1 for side in ("west", "east") for number in NUMBERS})
        wait_until(lambda: len(west.came) >= 40 and len(east.came) >= 40, "everything everywhere")
        time.sleep(SETTLED_S)
        assert Counter(west.payloads()) == Counter(east.payloads()) == both
    assert federation.count(W, "publications_in") == federation.count(E, "publications_in") == len(NUMBERS)
    assert federation.count(W, "echoes") == federation.count(E, "echoes") == 0  # MQTT 5: no-local


def test_a_retained_publication_crosses_as_retained_and_is_no_news_after_a_restart(
    start_mosquitto: StartMosquitto, commands: Commands
) -> None:
    federation = two(start_mosquitto, commands)
    with plain_client(federation.ports[W]) as publisher, plain_client(federation.ports[E]) as early:
        early.subscribe("stocks/#")
        federation.knows(E, 1)
        publisher.publish("stocks/last", "kept", retain=True)
        publisher.publish("stocks/live", "gone")
        wait_until(lambda: len(early.came) == 2, "both")
        with plain_client(federation.ports[E]) as late:
            late.subscribe("stocks/+")
            wait_until(lambda: bool(late.came), "the retained one")
            time.sleep(SETTLED_S)
            assert late.came == [("stocks/last", b"kept", True)]
        for name in (W, E):
            federation.gateways[name].end(signal.SIGTERM)
            federation.start(name)
        publisher.publish("stocks/live", "back")
        wait_until(lambda: "back" in early.payloads(), "the federation is back, and knows what was wanted")
        time.sleep(SETTLED_S)
        assert early.payloads() == ["kept", "gone", "back"]
        publisher.publish("stocks/last", "", retain=True)
        wait_until(lambda: len(early.came) == 4, "the deletion")
        with plain_client(federation.ports[E]) as later:
            later.subscribe("stocks/#")
            time.sleep(SETTLED_S)
            assert later.came == []


def test_a_persistent_session_that_is_away_gets_it_when_it_is_back(
    start_mosquitto: StartMosquitto, commands: Commands
) -> None:
    federation = two(start_mosquitto, commands)
    with plain_client(federation.ports[E], client_id="away", clean=False) as subscriber:
        subscriber.subscribe("stocks/#")
        federation.knows(E, 1)
    with plain_client(federation.ports[W]) as publisher:
        publisher.publish("stocks/a", *NUMBERS)
    wait_until(lambda: federation.count(E, "publications_republished") == len(NUMBERS), "all are there")
    with plain_client(federation.ports[E], client_id="away", clean=False) as subscriber:
        wait_until(lambda: len(subscriber.came) >= len(NUMBERS), "all")
        assert subscriber.payloads() == NUMBERS


def test_beside_a_broker_of_mqtt_3_echoes_are_known_and_nothing_comes_twice(
    start_mosquitto: StartMosquitto, commands: Commands
) -> None:
    ports = {W: start_mosquitto(more=MOSQUITTO_LOGGING).port, E: free_port()}
    federation = PlainFederation(commands, ports, adapters={W: "mosquitto", E: "amqtt"}, federate=["stocks/#"])
    with plain_client(ports[W]) as west, plain_client(ports[E]) as east:
        for client in (west, east):
            client.subscribe("stocks/#")
        for number in NUMBERS:
            west.publish("stocks/a", f"west {number}")
            west.publish("stocks/b", f"best effort {number}", qos=0)
            east.publish("stocks/a", f"east {number}")
        wait_until(lambda: len(west.came) >= 60 and len(east.came) >= 60, "everything everywhere")
        time.sleep(SETTLED_S)
        assert len(west.came) == len(east.came) == 60
    assert federation.count(E, "echoes") == 40
    assert federation.count(E, "publications_in") == len(NUMBERS)


def test_in_a_ring_of_three_configured_links_nothing_loops(
    start_mosquitto: StartMosquitto, commands: Commands, tmp_path: Path
) -> None:
    """`mqloom check` refuses a ring; so each gateway reads a file of its own, and together they make one."""
    ports = {name: start_mosquitto(more=MOSQUITTO_LOGGING).port for name in ("A", "B", "C")}
    ring = [("A", "B"), ("B", "C"), ("C", "A")]
    links = {name: [link for link in ring if link != opposite] for name, opposite in zip("CAB", ring, strict=True)}
    federation = PlainFederation(commands, ports, links=links)
    with plain_client(ports["A"]) as a, plain_client(ports["B"]) as b, plain_client(ports["C"]) as c:
        for client in (a, b, c):
            client.subscribe("stocks/#")
        for name in "ABC":
            federation.knows(name, 2)
        for number in NUMBERS:
            for name, client in (("a", a), ("b", b), ("c", c)):
                client.publish("stocks/x", f"{name} {number}")
        wait_until(lambda: all(len(client.came) >= 60 for client in (a, b, c)), "everything everywhere")
        time.sleep(SETTLED_S)
        before = [federation.count(name, "frames_sent") for name in "ABC"]
        every = Counter({f"{name} {number}": 1 for name in "abc" for number in NUMBERS})
        assert Counter(a.payloads()) == Counter(b.payloads()) == Counter(c.payloads()) == every
    assert [federation.count(name, "publications_in") for name in "ABC"] == [len(NUMBERS)] * 3
    time.sleep(SETTLED_S)
    assert all(federation.count(name, "publications_forwarded") <= 2 * 60 for name in "ABC")
    after = [federation.count(name, "frames_sent") for name in "ABC"]
    assert all(late - early < 20 for early, late in zip(before, after, strict=True))  # nothing goes round

"""Two brokers, one of them a real Mosquitto, federated by `mqloom gateway` processes."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.containers import Broker
from integration_tests.paho_clients import PlainClient
from integration_tests.processes import Commands, Process, wait_until
from mqloom.core.limits import LINK_GRACE_S
from mqloom.core.wire import VERSION
from mqloom.lab.ports import free_port

HOT = "symbol = 'YHOO' AND volume > 300000"


class Federation:
    """MOSQUITTO (a container) and EMBEDDED (amqtt inside its gateway), joined by one link."""

    def __init__(self, mosquitto: Broker, commands: Commands) -> None:
        self.commands = commands
        self.ports = {"MOSQUITTO": mosquitto.port, "EMBEDDED": free_port()}
        self.records = commands.folder / "records.jsonl"
        (commands.folder / "federation.toml").write_text(
            f"""
            [federation]
            name = "two"
            data = ["stocks/#"]
            telemetry_s = 0.2
            [[brokers]]
            id = "MOSQUITTO"
            port = {self.ports["MOSQUITTO"]}
            [[brokers]]
            id = "EMBEDDED"
            port = {self.ports["EMBEDDED"]}
            adapter = "amqtt"
            [[links]]
            between = ["MOSQUITTO", "EMBEDDED"]
            [plugins.settings.json_lines]
            file = "records-{{gateway}}.jsonl"
            [[subscriptions]]
            broker = "MOSQUITTO"
            topics = "stocks/#"
            where = "volume > 900000"
            into = "huge"
            """
        )
        self.gateways: dict[str, Process] = {}
        for name in self.ports:
            self.start(name)
        for name, process in self.gateways.items():
            other = next(each for each in self.ports if each != name)
            process.wait_for_log(f"link to {other} is up")

    def start(self, name: str) -> Process:
        self.gateways[name] = self.commands.gateway(name)
        return self.gateways[name]

    def publish(self, at: str, symbol: str, volume: int) -> None:
        quote = json.dumps({"symbol": symbol, "volume": volume})
        self.commands.publish(self.ports[at], f"stocks/{symbol}", quote)

    def subscribe(self, at: str, where: str) -> Process:
        return self.commands.subscriber(self.ports[at], "stocks/#", where)


@pytest.fixture
def federation(mosquitto: Broker, commands: Commands) -> Federation:
    return Federation(mosquitto, commands)


@pytest.fixture
def plain(federation: Federation) -> Iterator[PlainClient]:
    client = PlainClient(
        federation.ports["MOSQUITTO"], "mqloom/v1/MOSQUITTO/out/me/#", "mqloom/v1/MOSQUITTO/ctl/me", "huge/#"
    )
    yield client
    client.close()


def volumes(process: Process) -> list[int]:
    return [json.loads(json.loads(line)["payload"])["volume"] for line in process.output]


@pytest.mark.parametrize(("publisher", "subscriber"), [("MOSQUITTO", "EMBEDDED"), ("EMBEDDED", "MOSQUITTO")])
def test_what_is_published_at_one_arrives_once_at_the_other_if_it_was_asked_for(
    federation: Federation, publisher: str, subscriber: str
) -> None:
    process = federation.subscribe(subscriber, HOT)
    federation.publish(publisher, "YHOO", 300000)
    federation.publish(publisher, "YHOO", 300001)
    federation.publish(publisher, "MSFT", 400000)
    federation.publish(subscriber, "YHOO", 300002)
    federation.publish(publisher, "YHOO", 300003)
    process.wait_for_output(3)
    assert process.end(signal.SIGINT) in (0, 130)
    assert sorted(volumes(process)) == [300001, 300002, 300003]


def test_a_plain_client_subscribes_by_content_with_two_calls(federation: Federation, plain: PlainClient) -> None:
    wish = {"hot": {"topics": "stocks/#", "where": HOT}, "bad": {"topics": "stocks/#", "where": "volume >"}}
    plain.publish("mqloom/v1/MOSQUITTO/sub/me", json.dumps({"subscriptions": wish}), retain=True)
    wait_until(lambda: len(plain.on("mqloom/v1/MOSQUITTO/ctl")) == 2, "both subscriptions are answered")
    answers = {answer["name"]: answer for answer in map(json.loads, plain.on("mqloom/v1/MOSQUITTO/ctl"))}
    assert answers["hot"] == {"answer": "established", "name": "hot"}
    assert (answers["bad"]["answer"], answers["bad"]["column"]) == ("refused", 9)
    federation.publish("EMBEDDED", "YHOO", 1)
    federation.publish("EMBEDDED", "YHOO", 300001)
    wait_until(lambda: bool(plain.on("mqloom/v1/MOSQUITTO/out")), "the publication arrives")
    assert plain.on("mqloom/v1/MOSQUITTO/out/me/stocks/YHOO") == [b'{"symbol": "YHOO", "volume": 300001}']


def test_a_standing_subscription_republishes_into_its_topic(federation: Federation, plain: PlainClient) -> None:
    federation.publish("EMBEDDED", "MSFT", 900000)
    federation.publish("EMBEDDED", "MSFT", 900001)
    wait_until(lambda: bool(plain.on("huge/")), "the publication arrives")
    assert plain.on("huge/stocks/MSFT") == [b'{"symbol": "MSFT", "volume": 900001}']


def test_a_gateway_that_is_killed_comes_back_and_serves_the_same_subscribers(federation: Federation) -> None:
    process = federation.subscribe("MOSQUITTO", HOT)
    federation.publish("EMBEDDED", "YHOO", 300001)
    process.wait_for_output(1)
    federation.gateways["MOSQUITTO"].end(signal.SIGKILL)
    federation.start("MOSQUITTO").wait_for_log("link to EMBEDDED is up")
    process.wait_for_log("established", times=2)
    federation.publish("EMBEDDED", "YHOO", 300002)
    process.wait_for_output(2)
    process.end(signal.SIGINT)
    assert volumes(process) == [300001, 300002]


def test_what_is_published_while_a_gateway_is_away_arrives_when_it_is_back(federation: Federation) -> None:
    here, there = federation.subscribe("MOSQUITTO", HOT), federation.subscribe("EMBEDDED", HOT)
    federation.gateways["MOSQUITTO"].end(signal.SIGKILL)
    here.wait_for_log("gone")  # so says the last will of the gateway
    for volume in range(300001, 300011):
        federation.publish("MOSQUITTO", "YHOO", volume)
    federation.start("MOSQUITTO")
    for process in (here, there):
        process.wait_for_output(10)
        process.end(signal.SIGINT)
        assert volumes(process) == list(range(300001, 300011))


def test_random_bytes_on_every_topic_of_ours_cost_nobody_anything(federation: Federation, plain: PlainClient) -> None:
    process = federation.subscribe("EMBEDDED", HOT)
    randomness = random.Random(7)
    own = "mqloom/v1/MOSQUITTO"
    topics = [
        *(f"{own}/{rest}" for rest in ("link/EMBEDDED", "link/EMBEDDED/urgent", "link/STRANGER", "link/%zz", "sub/x")),
        *(f"{own}/{rest}" for rest in ("sub/%", "out/x", "ctl/x", "dead/x", "subs", "park/x", "what")),
        "mqloom/v1/MOSQUITTO/status",
        "mqloom/v1/STRANGER/status",
        "mqloom/v2/MOSQUITTO/sub/x",
    ]
    for topic in topics:
        for size in (0, 1, 10, 1000, 100_000):
            plain.publish(topic, randomness.randbytes(size))
            plain.publish(topic, bytes([VERSION]) + randomness.randbytes(size))
    time.sleep(LINK_GRACE_S + 1)  # whatever would cut a link has cut it by then
    federation.publish("MOSQUITTO", "YHOO", 300001)
    process.wait_for_output(1)
    process.end(signal.SIGINT)
    assert volumes(process) == [300001]
    counted = last_counters(federation.commands.folder / "records-MOSQUITTO.jsonl")
    assert any(name.startswith("frames_refused.malformed") for name in counted), counted
    assert any(name.startswith("frames_refused.version") for name in counted), counted
    assert any(name.startswith("frames_refused.stranger") for name in counted), counted
    assert any(name.startswith("frames_refused.status") for name in counted), counted
    assert any(name.startswith("subscriptions_refused.record") for name in counted), counted


def last_counters(path: Path) -> dict[str, int]:
    line = path.read_text().splitlines()[-1]
    counters: dict[str, int] = json.loads(line)["counters"]
    return counters


def test_gateways_wait_for_brokers_that_are_not_there_yet(commands: Commands) -> None:
    ports = {"A": free_port(), "B": free_port()}
    (commands.folder / "federation.toml").write_text(
        f"""
        [federation]
        name = "late"
        data = ["stocks/#"]
        [[brokers]]
        id = "A"
        port = {ports["A"]}
        adapter = "amqtt"
        [[brokers]]
        id = "B"
        port = {ports["B"]}
        adapter = "amqtt"
        [[links]]
        between = ["A", "B"]
        """
    )
    first = commands.gateway("A")
    first.wait_for_log("it does not answer")
    commands.gateway("B").wait_for_log("link to A is up")
    first.wait_for_log("link to B is up")
    subscriber = commands.subscriber(ports["A"], "stocks/#", HOT)
    commands.publish(ports["B"], "stocks/YHOO", '{"symbol": "YHOO", "volume": 300001}')
    assert len(subscriber.wait_for_output(1)) == 1


def test_the_demonstration_loses_and_repeats_nothing(commands: Commands) -> None:
    process = commands.start("demo", "--seconds", "5", "--json")
    assert process.wait() == 0, process.log
    figures = json.loads("\n".join(process.output))
    assert figures["published"] > 100
    assert figures["expected"] == figures["delivered"] > 0
    assert (figures["lost"], figures["duplicated"], figures["unasked"]) == (0, 0, 0)
    assert figures["forwarded"] <= figures["flooded"] / 2


def test_the_demonstration_ends_cleanly_when_interrupted(commands: Commands) -> None:
    process = commands.start("demo")
    process.wait_for_output(3)
    assert process.end(signal.SIGINT) == 0
    assert not any("Traceback" in line for line in process.log), process.log


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
def test_a_gateway_ends_cleanly_and_says_so_in_its_status(federation: Federation) -> None:
    assert federation.gateways["MOSQUITTO"].end(signal.SIGTERM) == 0
    watcher = PlainClient(federation.ports["MOSQUITTO"], "mqloom/v1/MOSQUITTO/status")
    wait_until(lambda: bool(watcher.messages), "the status is there")
    watcher.close()
    assert json.loads(watcher.messages[-1][1])["alive"] is False

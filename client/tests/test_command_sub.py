import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from amqtt.broker import Broker
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import command_sub
from mqloom.client.names import wish_name
from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import BrokerError, LocalError, TopicError
from mqloom.core.events import Event, PublishesReceived, RecordReceived, RecordsRead, Started
from mqloom.core.ids import GatewayId
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.publication import Incoming
from mqloom.core.records import Status, Wish, decode_answer, encode_status
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Codec, SubscribeRequest
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.ports import free_port
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

HOST = "127.0.0.1"
WAIT_S_MAX = 10.0
EDGE = GatewayId("EDGE1")


class RunningBroker:
    """A broker in a thread of its own."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port: int = probe.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._broker = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(WAIT_S_MAX)

    async def _start(self) -> Broker:
        plugins: dict[str, dict[str, object]] = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}}
        listener = {"type": "tcp", "bind": f"{HOST}:{self.port}"}
        broker = Broker({"listeners": {"default": listener}, "plugins": plugins})
        await broker.start()
        return broker

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._broker.shutdown(), self._loop).result(WAIT_S_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def retained(self) -> list[str]:
        return list(self._broker.retained_messages)


class StandIn:
    """A real node on a real broker, without links and timers; calls `when_established` after each such answer."""

    def __init__(self, port: int) -> None:
        self.problem: str | None = None
        self.when_established: Callable[[int], None] = lambda _: None
        self.established = 0
        self.record_deleted = threading.Event()
        self._node = Node(
            NodeParts(
                gateway=EDGE,
                epoch=7,
                neighbours=[],
                matcher=ScanMatcher(),
                overlay=TreeOverlay(EDGE, []),
                codecs=[("#", Codec("json", json_codec.decode))],
                admit=self._admit,
            ),
            0.0,
        )
        self._ready = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.connect(HOST, port)
        self._client.loop_start()
        self._client.subscribe([(layout.records(EDGE), 1), ("stocks/#", 1)])
        assert self._ready.wait(WAIT_S_MAX)
        self._handle(Started())
        self._handle(RecordsRead())
        status = encode_status(Status(alive=True, gateway=EDGE, version="0.1.0", epoch=7))
        self._client.publish(layout.status(EDGE), status, 1, retain=True).wait_for_publish(WAIT_S_MAX)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, *volumes: int) -> None:
        for volume in volumes:
            self._client.publish("stocks/YHOO", json.dumps({"volume": volume}), 1)

    def publish_bytes(self, payload: bytes) -> None:
        self._client.publish("stocks/YHOO", payload, 1)

    def _admit(self, request: SubscribeRequest) -> str | None:
        return self.problem

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        payload = bytes(message.payload)
        if topic_matches(layout.records(EDGE), message.topic):
            self._handle(RecordReceived(client=layout.record_client(EDGE, message.topic), data=payload))
            if not payload:
                self.record_deleted.set()
        else:
            self._handle(PublishesReceived(publications=(Incoming(topic=message.topic, payload=payload, qos=1),)))

    def _handle(self, event: Event) -> None:
        for effect in self._node.handle(event, 0.0):
            if isinstance(effect, PublishLocally):
                self._client.publish(effect.topic, effect.payload, effect.qos, effect.retain)
                if "/ctl/" in effect.topic and decode_answer(effect.payload).answer == "established":
                    self.established += 1
                    self.when_established(self.established)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    broker = RunningBroker()
    yield broker
    broker.stop()


@pytest.fixture
def gateway(broker: RunningBroker) -> Iterator[StandIn]:
    gateway = StandIn(broker.port)
    yield gateway
    gateway.stop()


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command_sub.configure(parser)
    return command_sub.run(parser.parse_args(words))


def test_it_prints_what_matches_and_ends_after_count(
    broker: RunningBroker, gateway: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.when_established = lambda _: gateway.publish(5, 300_001, 6, 400_000, 500_000)
    assert run("stocks/#", "--where", "volume > 300000", "--count", "2", "--port", str(broker.port)) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ['stocks/YHOO {"volume": 300001}', 'stocks/YHOO {"volume": 400000}']
    assert printed.err == "mqloom sub: established\n"
    assert gateway.record_deleted.wait(WAIT_S_MAX)
    assert not [topic for topic in broker.retained() if "/sub/" in topic]


def test_json_has_the_identity_and_the_names(
    broker: RunningBroker, gateway: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.when_established = lambda _: gateway.publish(400_000)
    assert run("stocks/#", "--where", "volume > 3", "--count", "1", "--json", "--port", str(broker.port)) == 0
    line = json.loads(capsys.readouterr().out)
    assert line == {
        "topic": "stocks/YHOO",
        "payload": '{"volume": 400000}',
        "origin": "EDGE1",
        "epoch": 7,
        "sequence": 0,
        "names": ["stocks/# WHERE volume > 3"],
    }


def test_a_payload_of_bytes_is_printed_in_base64(
    broker: RunningBroker, gateway: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.when_established = lambda _: gateway.publish_bytes(b"\xff\x00")
    assert run("stocks/#", "--count", "1", "--gateway", "EDGE1", "--port", str(broker.port)) == 0
    assert capsys.readouterr().out == "stocks/YHOO base64:/wA=\n"


@pytest.mark.usefixtures("gateway")
def test_too_few_publications_in_the_time_are_exit_code_1(
    broker: RunningBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("stocks/#", "--count", "2", "--seconds", "0.5", "--port", str(broker.port)) == 1
    assert "mqloom sub: 0 of 2 publications came within 0.5 seconds" in capsys.readouterr().err


@pytest.mark.usefixtures("gateway")
def test_seconds_alone_end_it_well(broker: RunningBroker) -> None:
    assert run("stocks/#", "--seconds", "0.3", "--port", str(broker.port)) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(broker: RunningBroker, gateway: StandIn, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    gateway.when_established = lambda _: os.kill(os.getpid(), number)
    assert run("stocks/#", "--port", str(broker.port)) == 0
    assert gateway.record_deleted.wait(WAIT_S_MAX)
    assert signal.getsignal(number) is before


def test_a_refusal_says_why_and_is_a_failure(
    broker: RunningBroker, gateway: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.problem = "not on the list"
    with pytest.raises(BrokerError, match="subscription to 'stocks/#': refused: not on the list"):
        run("stocks/#", "--port", str(broker.port))
    assert capsys.readouterr() == ("", "")
    assert gateway.record_deleted.wait(WAIT_S_MAX)


def test_a_reader_who_has_gone_ends_it_cleanly_first(
    broker: RunningBroker, gateway: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_reads(_: str) -> int:
        raise BrokenPipeError

    gateway.when_established = lambda _: gateway.publish(1, 2, 3)
    monkeypatch.setattr(sys.stdout, "write", nobody_reads)
    with pytest.raises(BrokenPipeError):
        run("stocks/#", "--port", str(broker.port))
    assert gateway.record_deleted.wait(WAIT_S_MAX)


def test_after_a_lost_connection_it_goes_on(
    broker: RunningBroker,
    gateway: StandIn,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watchers: list[command_sub.Watcher] = []

    class Watched(command_sub.Watcher):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            watchers.append(self)

    def disturb(times_established: int) -> None:
        if times_established == 1:
            connected = watchers[0].socket()
            assert isinstance(connected, socket.socket)
            connected.shutdown(socket.SHUT_RDWR)
        else:
            gateway.publish(42)

    monkeypatch.setattr(command_sub, "Watcher", Watched)
    gateway.when_established = disturb
    assert run("stocks/#", "--count", "1", "--port", str(broker.port)) == 0
    printed = capsys.readouterr()
    assert printed.out == 'stocks/YHOO {"volume": 42}\n'
    assert "the connection to the broker is lost" in printed.err
    assert printed.err.endswith("mqloom sub: established\n")


def test_without_a_gateway_it_fails_in_time(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqloom.client.subscriber.FIND_S", 0.2)
    with pytest.raises(BrokerError, match=rf"127\.0\.0\.1:{broker.port}: .* no gateway answers at this broker"):
        run("stocks/#", "--port", str(broker.port))


def test_not_established_in_the_time_is_exit_code_1(broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stocks/#", "--seconds", "0.2", "--port", str(broker.port)) == 1
    assert capsys.readouterr().err == "mqloom sub: not established within 0.2 seconds\n"


def test_a_broker_that_is_not_there_is_said() -> None:
    port = str(free_port())
    with pytest.raises(BrokerError, match=f"broker at 127.0.0.1:{port}: cannot be reached"):
        run("stocks/#", "--port", port)


@pytest.mark.parametrize(
    ("confirmation", "problem"),
    [(b"\x80", "does not let this client subscribe to mqloom/v1/"), (b"", "no gateway answers at this broker")],
)
def test_a_broker_that_grants_no_subscription_is_said(
    confirmation: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.client.subscriber.FIND_S", 0.2)
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()

        def accept_and_refuse() -> None:
            connection = listener.accept()[0]
            with connection:
                connection.recv(1024)
                connection.sendall(b"\x20\x02\x00\x00")  # CONNACK
                subscribe = connection.recv(1024)
                if confirmation:
                    connection.sendall(b"\x90\x03" + subscribe[2:4] + confirmation)  # SUBACK
                while connection.recv(1024):
                    pass

        thread = threading.Thread(target=accept_and_refuse)
        thread.start()
        with pytest.raises(BrokerError, match=problem):
            run("stocks/#", "--port", str(listener.getsockname()[1]))
        thread.join()


def test_a_mistake_in_the_filter_is_shown_before_the_broker_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stocks/#", "--where", "volume > AND x = 1", "--port", str(free_port())) == 1
    first, text, caret = capsys.readouterr().err.splitlines()
    assert first == "mqloom sub: the filter has a mistake"
    assert text == "volume > AND x = 1"
    assert caret.startswith("         ^ ")


def test_topics_of_the_broker_itself_are_not_in_the_federation() -> None:
    with pytest.raises(LocalError, match="the broker's own"):
        run("$SYS/#", "--port", str(free_port()))


def test_a_wrong_topic_filter_is_said_before_the_broker_is_asked() -> None:
    with pytest.raises(TopicError):
        run("stocks/#/x", "--port", str(free_port()))


def test_a_client_name_too_long_is_said_before_the_broker_is_asked() -> None:
    with pytest.raises(LocalError, match="--client"):
        run("stocks/#", "--client", "x" * (ID_LENGTH_MAX + 1), "--port", str(free_port()))


@pytest.mark.parametrize("words", [["--count", "0"], ["--seconds", "0"], ["--seconds", "nan"], ["--qos", "2"]])
def test_what_cannot_be_meant_is_a_usage_mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("stocks/#", *words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_two_long_filters_have_two_names_within_bounds() -> None:
    names = {wish_name(Wish(topics="a" * 200, where=f"x = {number}")) for number in range(10)}
    assert len(names) == 10
    assert all(len(name) <= ID_LENGTH_MAX for name in names)

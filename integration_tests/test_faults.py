"""Faults in the middle of traffic on two Mosquittos: what docs/guarantees.md promises, told by exact numbers.

WEST's publisher goes on all the time. `near` and `far` are clients of `mqloom` at WEST and at EAST.
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest

from integration_tests.conftest import StartMosquitto, require_image
from integration_tests.containers import Broker
from integration_tests.makers import NATS, RABBITMQ, Maker
from integration_tests.paho_clients import PlainClient, Publisher
from integration_tests.processes import Commands, Process, wait_until

WEST, EAST = "WEST", "EAST"
CLIENTS = ("asyncio", "paho")
SETTLE_S_MAX = 60.0
FAULT_S = 10.0
QUEUE_MAX = 20

pytestmark = pytest.mark.timeout(240)


class Federation:
    """WEST and EAST, each a broker in a container with its gateway as a process, a publisher and two subscribers."""

    def __init__(self, brokers: dict[str, Broker], commands: Commands, mqtt_client: str) -> None:
        self.brokers = brokers
        self.commands = commands
        tables = "\n".join(f'[[brokers]]\nid = "{name}"\nport = {each.port}' for name, each in self.brokers.items())
        first = f'federation = {{ name = "two", data = ["stocks/#"], mqtt_client = "{mqtt_client}" }}'
        links = 'links = [{ between = ["WEST", "EAST"] }]'
        (commands.folder / "federation.toml").write_text(f"{first}\n{links}\n{tables}\n")
        self.gateways = {name: commands.gateway(name) for name in self.brokers}
        for process, other in ((self.gateways[WEST], EAST), (self.gateways[EAST], WEST)):
            process.wait_for_log(f"link to {other} is up")
        self.near = commands.subscriber(self.brokers[WEST].port, "stocks/#", "", "--client", "near")
        self.far = commands.subscriber(self.brokers[EAST].port, "stocks/#", "", "--client", "far")
        self.publisher = Publisher(self.brokers[WEST].port)
        commands.at_the_end(self.publisher.stop)  # else it publishes in the next test, where a broker is shared
        self.publisher.start()
        wait_until(lambda: self.publisher.acknowledged > 50, "publications before the fault")

    def kill(self, name: str, away_s: float = 0.0) -> None:
        """Kill a gateway without a word, and start it again after a while."""
        self.gateways[name].end(signal.SIGKILL)
        time.sleep(away_s)
        self.gateways[name] = self.commands.gateway(name)

    def kill_both(self) -> None:
        """Kill both gateways, and start them again."""
        for gateway in self.gateways.values():
            gateway.end(signal.SIGKILL)
        self.gateways = {name: self.commands.gateway(name) for name in self.brokers}

    def pause(self, name: str) -> None:
        """Let a broker stand still for a while."""
        with self.brokers[name].paused():
            time.sleep(FAULT_S)

    def cut_off(self, name: str) -> None:
        """Take a broker off the network for a while."""
        with self.brokers[name].cut_off():
            time.sleep(FAULT_S)
        self.brokers[name].wait_until_it_answers()

    def recover(self) -> float:
        """Return after how many seconds both subscribers have what was acknowledged by now."""
        began, count = time.monotonic(), self.publisher.acknowledged
        wanted = set(range(count))
        while not (wanted <= set(numbers(self.near)) and wanted <= set(numbers(self.far))):
            if time.monotonic() > began + SETTLE_S_MAX:
                return float("inf")
            time.sleep(0.1)
        return time.monotonic() - began

    def finish(self, *, lost_before: int = 0) -> Counter[int]:
        """Let publications go on, stop, and return all that were acknowledged; waits until they have arrived.

        Of those before `lost_before` some may never arrive.
        """
        before = self.publisher.acknowledged
        wait_until(lambda: self.publisher.acknowledged > before + 50, "publications after the fault")
        self.publisher.stop()
        expected = Counter(range(self.publisher.acknowledged))
        deadline = time.monotonic() + SETTLE_S_MAX
        sure = Counter(range(lost_before, self.publisher.acknowledged))
        while not (numbers(self.near) >= sure <= numbers(self.far)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return expected

    def assert_once(self, expected: Counter[int]) -> None:
        """Every publication arrived once; only what the publisher itself had to send again may be there twice."""
        for name, subscriber in (("near", self.near), ("far", self.far)):
            got = numbers(subscriber)
            assert expected - got == Counter(), f"lost at {name}"
            twice = got - expected
            assert set(twice) <= self.publisher.doubtful, f"more than once, or never published, at {name}: {twice}"


def numbers(subscriber: Process) -> Counter[int]:
    return Counter(json.loads(json.loads(line)["payload"])["number"] for line in list(subscriber.output))


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n    {text}\n")


Fault = Callable[[Federation], None]

FAULTS: dict[str, Fault] = {
    "the publisher's gateway is killed": lambda federation: federation.kill(WEST),
    "the subscriber's gateway is killed": lambda federation: federation.kill(EAST),
    "the subscriber's gateway is away for so long that others park": lambda federation: federation.kill(EAST, 8.0),
    "both are killed": lambda federation: federation.kill_both(),
    "the subscriber's broker restarts": lambda federation: federation.brokers[EAST].restart(),
    "the publisher's broker restarts": lambda federation: federation.brokers[WEST].restart(),
    "the subscriber's broker stands still": lambda federation: federation.pause(EAST),
    "the publisher's broker stands still": lambda federation: federation.pause(WEST),
    "the subscriber's broker is cut off": lambda federation: federation.cut_off(EAST),
    "the publisher's broker is cut off": lambda federation: federation.cut_off(WEST),
}

IN_CI = {
    ("the publisher's gateway is killed", "asyncio"),
    ("the subscriber's gateway is away for so long that others park", "paho"),
    ("the subscriber's broker restarts", "asyncio"),
    ("the subscriber's broker stands still", "paho"),
    ("the subscriber's broker is cut off", "asyncio"),
}


@pytest.mark.parametrize(
    ("fault", "mqtt_client"),
    [
        pytest.param(fault, client, marks=[] if (fault, client) in IN_CI else [pytest.mark.full])
        for fault in FAULTS
        for client in CLIENTS
    ],
)
def test_every_publication_that_was_acknowledged_arrives_once(
    start_mosquitto: StartMosquitto,
    commands: Commands,
    capsys: pytest.CaptureFixture[str],
    fault: str,
    mqtt_client: str,
) -> None:
    federation = Federation({name: start_mosquitto() for name in (WEST, EAST)}, commands, mqtt_client)
    FAULTS[fault](federation)
    say(capsys, f"{fault} ({mqtt_client}): everything there {federation.recover():.1f} s after its end")
    federation.assert_once(federation.finish())


@pytest.mark.full
@pytest.mark.parametrize("mqtt_client", CLIENTS)
@pytest.mark.parametrize("maker", [RABBITMQ, NATS], ids=lambda maker: maker.name)
@pytest.mark.parametrize("killed", [WEST, EAST])
def test_the_same_with_another_makers_broker_beside_the_gateway_that_is_killed(
    start_mosquitto: StartMosquitto,
    broker_of: Callable[[Maker], Broker],
    commands: Commands,
    capsys: pytest.CaptureFixture[str],
    maker: Maker,
    killed: str,
    mqtt_client: str,
) -> None:
    require_image(maker)
    other = EAST if killed == WEST else WEST
    brokers = {killed: broker_of(maker), other: start_mosquitto()}
    federation = Federation({name: brokers[name] for name in (WEST, EAST)}, commands, mqtt_client)
    federation.kill(killed)
    recovered = federation.recover()
    say(
        capsys,
        f"the gateway at {maker.name}, {killed}, is killed ({mqtt_client}): everything there {recovered:.1f} s later",
    )
    federation.assert_once(federation.finish())


@pytest.mark.parametrize("mqtt_client", ["asyncio", pytest.param("paho", marks=pytest.mark.full)])
def test_a_broker_without_its_store_loses_only_what_it_alone_held(
    start_mosquitto: StartMosquitto, commands: Commands, capsys: pytest.CaptureFixture[str], mqtt_client: str
) -> None:
    federation = Federation({name: start_mosquitto() for name in (WEST, EAST)}, commands, mqtt_client)
    before = len(numbers(federation.far))
    federation.brokers[EAST].restart_without_store()
    federation.far.wait_for_log("established", times=2)
    after = federation.publisher.acknowledged
    expected = federation.finish(lost_before=after + QUEUE_MAX)
    near, far = numbers(federation.near), numbers(federation.far)
    assert near == expected, "it has nothing to do with that broker"
    lost = sorted(expected - far)
    bounds = f"{lost[0]} to {lost[-1]}" if lost else "none"
    say(capsys, f"EAST without its store ({mqtt_client}): {len(lost)} lost ({bounds}) of {before} to {after}")
    assert far - expected == Counter(), "more than once, or never published"
    # What had not reached the client when the broker died, up to what came before it had subscribed again.
    assert all(before <= number <= after + QUEUE_MAX for number in lost), lost


@pytest.mark.full
@pytest.mark.parametrize("mqtt_client", CLIENTS)
def test_a_publishers_broker_without_its_store_loses_what_came_before_its_gateway_and_clients_were_back(
    start_mosquitto: StartMosquitto, commands: Commands, capsys: pytest.CaptureFixture[str], mqtt_client: str
) -> None:
    federation = Federation({name: start_mosquitto() for name in (WEST, EAST)}, commands, mqtt_client)
    subscribers = {"near": federation.near, "far": federation.far}
    before = min(len(numbers(each)) for each in subscribers.values())
    federation.brokers[WEST].restart_without_store()
    federation.near.wait_for_log("established", times=2)
    federation.gateways[WEST].wait_for_log("serving the broker", times=2)
    back = federation.publisher.acknowledged
    for name, each in subscribers.items():
        wait_until(lambda each=each: any(number > back for number in numbers(each)), f"{name} gets something")  # type: ignore[misc]
    after = federation.publisher.acknowledged
    expected = federation.finish(lost_before=after)
    for name, each in subscribers.items():
        got = numbers(each)
        lost = sorted(expected - got)
        bounds = f"{lost[0]} to {lost[-1]}" if lost else "none"
        say(
            capsys, f"WEST without its store ({mqtt_client}): {name} lost {len(lost)} ({bounds}) of {before} to {after}"
        )
        assert set(got - expected) <= federation.publisher.doubtful, f"more than once, or never published, at {name}"
        assert all(before <= number < after for number in lost), lost


@pytest.mark.parametrize("mqtt_client", ["paho", pytest.param("asyncio", marks=pytest.mark.full)])
def test_a_limit_on_queued_messages_far_away_costs_nothing(
    start_mosquitto: StartMosquitto, commands: Commands, capsys: pytest.CaptureFixture[str], mqtt_client: str
) -> None:
    """What waits for a gateway that is away waits at its neighbour, not at its own broker."""
    limited = start_mosquitto(more=f"max_queued_messages {QUEUE_MAX}\n")
    federation = Federation({WEST: start_mosquitto(), EAST: limited}, commands, mqtt_client)
    federation.kill(EAST, 6.0)
    say(capsys, f"EAST keeps {QUEUE_MAX} at most ({mqtt_client}): everything there {federation.recover():.1f} s later")
    federation.assert_once(federation.finish())


@pytest.mark.full
@pytest.mark.parametrize("mqtt_client", CLIENTS)
def test_a_limit_on_queued_messages_beside_the_publisher_loses_what_the_broker_says_it_dropped(
    start_mosquitto: StartMosquitto, commands: Commands, capsys: pytest.CaptureFixture[str], mqtt_client: str
) -> None:
    limited = start_mosquitto(more=f"max_queued_messages {QUEUE_MAX}\nsys_interval 1\n")
    watcher = PlainClient(limited.port, "$SYS/broker/publish/messages/dropped")
    federation = Federation({WEST: limited, EAST: start_mosquitto()}, commands, mqtt_client)
    before = min(len(numbers(federation.near)), len(numbers(federation.far)))
    federation.kill(WEST, 6.0)
    after = federation.publisher.acknowledged
    expected = federation.finish(lost_before=after)
    wait_until(lambda: bool(watcher.messages), "how many were dropped")
    time.sleep(2.0)  # the broker counts once a second
    dropped = int(watcher.messages[-1][1])
    watcher.close()
    far = numbers(federation.far)
    lost = sorted(expected - far)
    say(capsys, f"WEST keeps {QUEUE_MAX} at most ({mqtt_client}): {len(lost)} lost, the broker says {dropped}")
    assert far - expected == Counter(), "more than once, or never published"
    assert 0 < len(lost) <= dropped
    assert all(before <= number <= after for number in lost), lost

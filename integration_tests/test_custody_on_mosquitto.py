"""Custody on real brokers: two Mosquittos, gateways that are killed, brokers that restart; every publication once."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from integration_tests.conftest import StartMosquitto
from integration_tests.containers import Broker
from integration_tests.paho_clients import Publisher
from integration_tests.processes import Commands, Process, wait_until
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS

WEST, EAST = "WEST", "EAST"
SETTLE_S_MAX = 60.0


class Federation:
    """WEST and EAST, each a Mosquitto in a container with its gateway as a process."""

    def __init__(self, start: StartMosquitto, commands: Commands, client: str) -> None:
        self.brokers: dict[str, Broker] = {name: start() for name in (WEST, EAST)}
        self.commands = commands
        brokers = "\n".join(f'[[brokers]]\nid = "{name}"\nport = {each.port}' for name, each in self.brokers.items())
        settings = f'name = "two", data = ["stocks/#"], mqtt_client = "{client}"'
        text = f'federation = {{ {settings} }}\nlinks = [{{ between = ["WEST", "EAST"] }}]\n'
        (commands.folder / "federation.toml").write_text(f"{text}{brokers}\n")
        self.gateways = {name: commands.gateway(name) for name in self.brokers}
        for process, other in ((self.gateways[WEST], EAST), (self.gateways[EAST], WEST)):
            process.wait_for_log(f"link to {other} is up")

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

    def restart_broker(self, name: str) -> None:
        """Let a broker write its store, end, and begin again."""
        self.brokers[name].restart()


def numbers(subscriber: Process) -> Counter[int]:
    return Counter(json.loads(json.loads(line)["payload"])["number"] for line in list(subscriber.output))


Trouble = Callable[[Federation], None]

TROUBLES: dict[str, Trouble] = {
    "the publisher's gateway is killed": lambda federation: federation.kill(WEST),
    "the subscriber's gateway is killed": lambda federation: federation.kill(EAST),
    "the subscriber's gateway is away for so long that others park": lambda federation: federation.kill(EAST, 8.0),
    "both are killed": lambda federation: federation.kill_both(),
    "the subscriber's broker restarts": lambda federation: federation.restart_broker(EAST),
}


IN_CI = ("the publisher's gateway is killed", "the subscriber's gateway is away for so long that others park")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("client", MQTT_CLIENTS)
@pytest.mark.parametrize(
    "trouble", [each if each in IN_CI else pytest.param(each, marks=pytest.mark.full) for each in TROUBLES]
)
def test_every_publication_that_was_acknowledged_arrives_once(
    start_mosquitto: StartMosquitto, commands: Commands, trouble: str, client: str
) -> None:
    federation = Federation(start_mosquitto, commands, client)
    near = commands.subscriber(federation.brokers[WEST].port, "stocks/#", "", "--client", "near")
    far = commands.subscriber(federation.brokers[EAST].port, "stocks/#", "", "--client", "far")
    publisher = Publisher(federation.brokers[WEST].port)
    publisher.start()
    wait_until(lambda: publisher.acknowledged > 50, "publications before the trouble")
    TROUBLES[trouble](federation)
    before = publisher.acknowledged
    wait_until(lambda: publisher.acknowledged > before + 100, "publications after it")
    publisher.stop()
    expected = Counter(range(publisher.acknowledged))
    deadline = time.monotonic() + SETTLE_S_MAX
    while (numbers(near), numbers(far)) != (expected, expected) and time.monotonic() < deadline:
        time.sleep(0.2)
    for subscriber in (near, far):
        got = numbers(subscriber)
        assert got - expected == Counter(), "delivered more than once, or never published"
        assert expected - got == Counter(), "lost"

"""A client that may write everywhere on a real Mosquitto, beside one that only wants what it subscribed to.

Forged and recorded frames, 10 MB on topics of all kinds, 10,000 subscriptions by content and as many plain ones,
malformed records, orders and questions at full speed: the other gets everything, in order and soon, and each attack
shows in a counter.
"""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.counters import Counters
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ANSWERS_BURST, PLAIN_FILTERS_PER_CLIENT_MAX
from mqloom.core.records import Record, Wish, encode_record
from mqloom.gateway.key_file import new_key, write_keys
from mqloom.gateway.links import LinkState
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

ONE, TWO = GatewayId("ONE"), GatewayId("TWO")
LARGE = bytes(10 * 1024 * 1024)
MANY = 10_000
DELAY_S_MAX = 15.0
"""How late a publication may come while all this goes on, on two cores on which much else runs: 5.1 s were seen."""

FEDERATION = """
[federation]
name = "attacked"
data = ["stocks/#"]
key_file = "our.keys"
[[brokers]]
id = "ONE"
port = {ports[0]}
[[brokers]]
id = "TWO"
port = {ports[1]}
adapter = "mosquitto"
[[links]]
between = ["ONE", "TWO"]
[plugins.settings.quota]
subscriptions_max = 500
"""


@contextmanager
def mosquittos(folder: Path, ports: list[int]) -> Iterator[None]:
    processes = []
    assert MOSQUITTO is not None
    for port in ports:
        file = folder / f"{port}.conf"
        telling = "".join(f"log_type {kind}\n" for kind in ("subscribe", "unsubscribe", "notice"))
        text = f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nlog_dest topic\n{telling}"
        file.write_text(text)
        processes.append(
            subprocess.Popen([MOSQUITTO, "-c", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
    try:
        for port in ports:
            until(lambda port=port: is_listening(port), f"Mosquitto listens on {port}")  # type: ignore[misc]
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(10)


def until(is_so: Callable[[], bool], text: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def connected(port: int) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(100)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


class Victim:
    """Subscribes by content at TWO to what is published at ONE, and notes when each came."""

    def __init__(self, ports: list[int]) -> None:
        self.came: dict[int, float] = {}
        self.sent: dict[int, float] = {}
        self.order: list[int] = []
        self.answers: list[str] = []
        self.is_over = threading.Event()
        self._reader, self._writer = connected(ports[1]), connected(ports[0])
        self._reader.on_message = self._on_message
        name = ClientId("victim")
        self._reader.subscribe([(f"{layout.out(TWO, name)}/#", 1), (layout.control(TWO, name), 1)])
        record = Record(subscriptions={"all": Wish(topics="stocks/#", where="number >= 0")})
        self._reader.publish(layout.record(TWO, name), encode_record(record), 1, retain=True)
        until(lambda: any('"established"' in each and "partly" not in each for each in self.answers), "established")
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        if "/ctl/" in message.topic:
            self.answers.append(bytes(message.payload).decode())
        else:
            number = json.loads(message.payload)["number"]
            self.order.append(number)
            self.came.setdefault(number, time.monotonic())

    def _publish(self) -> None:
        while not self.is_over.wait(0.02):
            number = len(self.sent)
            self.sent[number] = time.monotonic()
            self._writer.publish("stocks/a", json.dumps({"number": number}), 1)

    def finish(self) -> float:
        """Stop publishing; return the longest delay when all has come, each once and in order."""
        self.is_over.set()
        self._thread.join()
        until(lambda: len(self.came) == len(self.sent), "everything has come")
        for client in (self._reader, self._writer):
            client.disconnect()
            client.loop_stop()
        assert self.order == sorted(self.sent)
        return max(self.came[number] - self.sent[number] for number in self.sent)


def attack(port: int, seconds: float) -> None:
    """Do everything that one can do without the key, against TWO."""
    hostile = connected(port)
    recorded: list[tuple[str, bytes]] = []
    hostile.on_message = lambda _, __, message: recorded.append((message.topic, bytes(message.payload)))
    hostile.subscribe("mqloom/v1/TWO/link/#", 0)
    until(lambda: len(recorded) >= 5, "the link is heard")
    hostile.unsubscribe("mqloom/v1/TWO/link/#")
    for topic, payload in recorded[:50]:
        hostile.publish(topic, payload, 0)
        hostile.publish(topic, payload[:-1] + bytes([payload[-1] ^ 1]), 0)
    for topic in (layout.link(TWO, ONE), layout.ack(TWO, ONE), "stocks/large", layout.record(TWO, ClientId("large"))):
        hostile.publish(topic, LARGE, 1)
    hostile.publish(layout.link(TWO, ONE), b"\x01forged", 0)
    wishes = {f"n{number}": {"topics": f"stocks/{number}"} for number in range(MANY)}
    hostile.publish(layout.record(TWO, ClientId("greedy")), json.dumps({"subscriptions": wishes}), 1)
    some = {f"n{number}": {"topics": f"stocks/{number}"} for number in range(501)}
    hostile.publish(layout.record(TWO, ClientId("over")), json.dumps({"subscriptions": some}), 1)
    for first in range(0, MANY, 100):
        hostile.subscribe([(f"stocks/{number}", 1) for number in range(first, first + 100)])
    good = {"subscriptions": {"mine": {"topics": "stocks/never"}}}
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        sent = hostile.publish(f"mqloom/v1/TWO/sub/bad-{number % 1_000}", b"{", 1)
        hostile.publish("mqloom/v1/TWO/sub/quick", json.dumps(good), 1)
        client = ClientId(f"hostile-{number % 1_000}")
        for topic in (layout.order(TWO, client), layout.question(TWO, client)) * 4:
            hostile.publish(topic, b"{}", 0)
        if number % 50 == 0:
            sent.wait_for_publish(10)
    hostile.disconnect()
    hostile.loop_stop()


def attacked_for(tmp_path: Path, seconds: float) -> tuple[float, Counters]:
    ports = free_ports(2)
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.format(ports=ports))
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    with mosquittos(tmp_path, ports), gateways_in_thread(path, ("ONE", "TWO")) as drivers:
        victim = Victim(ports)
        until(lambda: len(victim.came) > 20, "something has come")
        attack(ports[1], seconds)
        two = drivers[TWO].node
        until(lambda: two.counters.value("frames_refused", "oversized") >= 1, "the large frame is refused")
        over = MANY - PLAIN_FILTERS_PER_CLIENT_MAX
        until(lambda: two.counters.value("interest_refused", "client") == over, "plain subscriptions past the bound")
        delay_s = victim.finish()
        until(lambda: two.counters.value("subscriptions_refused", "rate") > 0, "records are paced")
        assert two.link_states() == {ONE: LinkState.UP}
        for driver in drivers.values():
            assert driver.node.counters.total("link_resets") <= 1
        return delay_s, two.counters


def check(delay_s: float, counters: Counters) -> None:
    assert delay_s < DELAY_S_MAX, counters.snapshot()
    refused = counters.reasons("frames_refused")
    assert refused["forged"] >= 1
    assert refused["replayed"] >= 1
    assert refused["unsealed"] >= 1
    assert refused["oversized"] >= 1
    assert counters.total("publications_refused") >= 1
    records = counters.reasons("subscriptions_refused")
    assert records["record"] >= 2
    assert records["admission"] == 1
    assert records["rate"] >= 1
    assert counters.value("moves_refused", "unsealed") > ANSWERS_BURST
    assert counters.value("questions_refused", "unsealed") > ANSWERS_BURST


def wanted_at_two(port: int, came: list[int]) -> paho.Client:
    reader = connected(port)
    reader.on_message = lambda _, __, message: came.append(json.loads(message.payload)["number"])
    reader.subscribe("hot/#", 1)
    return reader


def publish(port: int, numbers: range) -> None:
    writer = connected(port)
    for number in numbers:
        writer.publish("stocks/a", json.dumps({"number": number}), 1).wait_for_publish(10)
    writer.disconnect()
    writer.loop_stop()


def take_over(port: int, *names: str) -> None:
    """Connect with a clean start as each of these, and go: whatever the broker kept for it is gone."""
    for name in names:
        client = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=True)
        client.connect("127.0.0.1", port)
        client.loop_start()
        until(client.is_connected, f"it is connected as {name}")
        client.disconnect()
        client.loop_stop()


def test_who_knows_a_gateways_name_and_connects_as_it_costs_nobody_anything(tmp_path: Path) -> None:
    ports, came = free_ports(2), list[int]()
    path = tmp_path / "federation.toml"
    path.write_text(
        FEDERATION.format(ports=ports) + '[[subscriptions]]\nbroker = "TWO"\ntopics = "stocks/#"\ninto = "hot"\n'
    )
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    with mosquittos(tmp_path, ports):
        reader = wanted_at_two(ports[1], came)
        with gateways_in_thread(path, ("ONE", "TWO")):
            publish(ports[0], range(10))
            until(lambda: set(came) == {*range(10)}, "the first have come")
        publish(ports[0], range(10, 20))  # ONE is away: its broker keeps them for its intake
        take_over(ports[0], "mqloom-ONE", "mqloom-ONE-control")
        with gateways_in_thread(path, ("ONE",)) as drivers:
            counters = drivers[ONE].node.counters
            until(lambda: counters.value("publications_parked", "") >= 10, "they are parked for TWO, which is away")
        take_over(ports[0], "mqloom-ONE-park-TWO", "mqloom-ONE-try")
        take_over(ports[1], "mqloom-TWO", "mqloom-TWO-control", "mqloom-TWO-interest", "mqloom-TWO-park-ONE")
        with gateways_in_thread(path, ("ONE", "TWO")):
            take_over(ports[0], "mqloom-ONE", "mqloom-ONE-control", "mqloom-TWO-to-ONE")
            take_over(ports[1], "mqloom-TWO", "mqloom-TWO-control", "mqloom-ONE-to-TWO")
            publish(ports[0], range(20, 30))
            until(lambda: set(came) == {*range(30)}, f"all have come, not only {came}")
        reader.disconnect()
        reader.loop_stop()


def has_session(port: int, name: str) -> bool:
    known: list[bool] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.on_connect = lambda _, __, flags, ___, ____: known.append(flags.session_present)
    client.connect("127.0.0.1", port)
    client.loop_start()
    until(lambda: bool(known), "it is connected")
    client.disconnect()
    client.loop_stop()
    return known[0]


def test_sessions_of_before_the_federation_had_a_secret_for_their_ids_are_ended(tmp_path: Path) -> None:
    ports, path, keys = free_ports(2), tmp_path / "federation.toml", tmp_path / "our.keys"
    path.write_text(FEDERATION.format(ports=ports))
    write_keys(keys, [new_key("sending")], is_new=True)
    known = ("mqloom-TWO", "mqloom-TWO-control", "mqloom-TWO-interest", "mqloom-TWO-park-ONE")
    with mosquittos(tmp_path, ports):
        with gateways_in_thread(path, ("ONE", "TWO")):
            pass
        assert all(has_session(ports[1], name) for name in known)
        assert main(["keys", "sessions", str(keys)]) == 0
        with gateways_in_thread(path, ("ONE", "TWO")):
            pass
        assert not any(has_session(ports[1], name) for name in known)
        with gateways_in_thread(path, ("ONE", "TWO")):
            pass
        assert not any(has_session(ports[0], name.replace("TWO", "ONE")) for name in known)


def test_whatever_a_hostile_client_does_another_gets_everything_in_time(tmp_path: Path) -> None:
    check(*attacked_for(tmp_path, 3.0))


@pytest.mark.full
@pytest.mark.timeout(180)
def test_a_minute_of_attacks_changes_nothing_either(tmp_path: Path) -> None:
    check(*attacked_for(tmp_path, 60.0))

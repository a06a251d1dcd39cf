"""Two Mosquittos in containers, with a gateway each, and a client between them that is moved while things fail."""

import contextlib
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.containers import Broker
from integration_tests.move_steps import NEW, OLD
from integration_tests.processes import Commands, Process
from integration_tests.relays import HOST, Gate, Relay
from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.errors import BrokerError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Question, Record, decode_record
from mqloom.gateway.assembly import keyring_of
from mqloom.gateway.command_route import ask
from mqloom.gateway.command_visits import address_of
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.key_file import order_keys_in

ANSWER_S_MAX = 10.0
ENTRIES_S_MAX = 2.0
PAUSE_S = 0.01
"""Between two publications of one publisher."""

FEDERATION = """
[federation]
name = "two"
data = ["stocks/#"]
key_file = "federation.keys"
[[links]]
between = ["OLD", "NEW"]
"""
BROKER = """
[[brokers]]
id = "{name}"
port = {port}
client_port = {client_port}
"""

PROGRAM = """
import json, logging, os, sys, time
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

name, topic, port, key = sys.argv[1:]
federation = Federation(order_keys=(key,), state_folder=".")
say = lambda text: os.write(1, f"{text}\\n".encode()) and None  # in one piece, for two threads say something
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
client = Client(CallbackAPIVersion.VERSION2, name, clean_session=False, federation=federation)
client.on_message = lambda _c, _u, message: say(message.payload.decode())
client.on_connect = lambda *_: client.subscribe(topic, 1) and None
client.on_established = lambda *_: logging.info("established")
client.reconnect_delay_set(1, 1)
client.connect("127.0.0.1", int(port))
client.loop_start()
said = None
while True:
    at = client.broker if client.is_connected() else None
    if at != said:
        said = at
        say(json.dumps({"at": at}))
    time.sleep(0.02)
"""


class Publisher(threading.Thread):
    """Publishes numbers on a topic, one by one, until it is told to stop; nothing is ever sent a second time."""

    def __init__(self, name: str, port: int, topic: str) -> None:
        super().__init__(daemon=True)
        self.name = name
        self._port = port
        self._topic = topic
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self.acknowledged: dict[int, float] = {}
        """What its broker has acknowledged, and when; of the others it may have some."""

    def run(self) -> None:
        """Publish through lost connections."""
        while not self._ended.is_set():
            with contextlib.suppress(OSError):
                self._publish_by_one_connection()
            self._ended.wait(PAUSE_S)

    def _publish_by_one_connection(self) -> None:
        client = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        heard: SimpleQueue[bool] = SimpleQueue()
        client.on_connect = lambda *_: heard.put(True)
        client.on_publish = lambda *_: heard.put(True)
        client.on_disconnect = lambda *_: heard.put(False)
        client.connect(HOST, self._port)
        client.loop_start()
        with contextlib.suppress(Empty):
            while heard.get(timeout=ANSWER_S_MAX) and not self._ended.wait(PAUSE_S):
                number = next(self._numbers)
                client.publish(self._topic, json.dumps({"publisher": self.name, "number": number}), 1)
                if not heard.get(timeout=ANSWER_S_MAX):
                    break
                self.acknowledged[number] = time.monotonic()
                heard.put(True)
        client.disconnect()
        client.loop_stop()

    def stop(self) -> None:
        """Return when it has ended, if it has begun."""
        self._ended.set()
        if self.ident is not None:
            self.join()


class Got(NamedTuple):
    """One publication, by whose it is."""

    publisher: str
    number: int


class Traveller:
    """One client, in one life after the other, and all that came to it."""

    def __init__(self, town: "Town", name: str) -> None:
        self._town = town
        self.name = name
        self.topic = f"stocks/{name}"
        self._lives: list[Process] = []
        self.begin()

    def begin(self, at: GatewayId = OLD) -> None:
        """Begin a life, at this broker."""
        arguments = (self.name, self.topic, str(self._town.relays[at].port), self._town.public_key)
        self._lives.append(self._town.commands.start_python(PROGRAM, *arguments))

    def wait_until_established(self) -> None:
        """Return when this life is served."""
        self._lives[-1].wait_for_log("established")

    def kill(self) -> None:
        """End this life without a word."""
        self._lives[-1].end(signal.SIGKILL)

    def got(self) -> list[Got]:
        """Return what came, in all lives, in its order."""
        return [Got(**said) for said in self._said() if "number" in said]

    def last_of_lives(self) -> set[Got]:
        """Return the last that came to each life but this one: its callback may not have returned."""
        ends = [[json.loads(line) for line in life.output if "number" in line][-1:] for life in self._lives[:-1]]
        return {Got(**said) for end in ends for said in end}

    @property
    def at(self) -> str | None:
        """Where this life is served, if it is."""
        said = [said["at"] for said in self._said(of_last=True) if "at" in said]
        return said[-1] if said else None

    @property
    def log(self) -> list[str]:
        """What all lives have logged."""
        return [line for life in self._lives for line in ["-- a life begins", *life.log]]

    def _said(self, *, of_last: bool = False) -> list[dict[str, Any]]:
        lives = self._lives[-1:] if of_last else self._lives
        return [json.loads(line) for life in lives for line in list(life.output)]


class Town:
    """The brokers, their gateways, and a relay before each broker for clients."""

    def __init__(
        self, brokers: dict[GatewayId, Broker], gate: Gate, relays: dict[GatewayId, Relay], commands: Commands
    ) -> None:
        self.brokers = brokers
        self.gate = gate
        self.relays = relays
        self.commands = commands
        assert main(["keys", "new", str(commands.folder / "federation.keys")]) == 0
        keys = order_keys_in(commands.folder / "federation.keys")
        assert keys is not None
        self.public_key = keys.signing.public.text
        tables = [
            BROKER.format(name=name, port=each.port, client_port=relays[name].port) for name, each in brokers.items()
        ]
        (commands.folder / "federation.toml").write_text("".join([FEDERATION, *tables]))
        self._configuration = load_federation(commands.folder / "federation.toml").configuration
        self._keyring = keyring_of(self._configuration)
        self.gateways = {name: self.commands.gateway(name) for name in brokers}
        for name, other in ((OLD, NEW), (NEW, OLD)):
            self.gateways[name].wait_for_log(f"link to {other} is up")

    # ---- what is asked of brokers and gateways ---------------------------------------------------------------------

    def has_session(self, at: GatewayId, client_id: str) -> bool:
        """Return whether a broker has a session of a client that is not connected there; takes nothing out of it."""
        is_there = self._visit(at, client_id, clean=False)
        if not is_there:
            self._visit(at, client_id, clean=True)
        return is_there

    def forget(self, client_id: str) -> None:
        """Let both brokers know nothing of a client."""
        for at in self.brokers:
            self._visit(at, client_id, clean=True, delete=layout.record(at, ClientId(client_id)))

    def _visit(self, at: GatewayId, client_id: str, *, clean: bool, delete: str = "") -> bool:
        told: SimpleQueue[bool] = SimpleQueue()
        client = Client(CallbackAPIVersion.VERSION2, client_id, clean_session=clean, manual_ack=True)
        client.on_connect = lambda _c, _u, flags, *_: told.put(flags.session_present)
        client.connect(HOST, self.brokers[at].port)
        client.loop_start()
        try:
            is_there = told.get(timeout=ANSWER_S_MAX)
            if delete:
                client.publish(delete, b"", 1, retain=True).wait_for_publish(ANSWER_S_MAX)
            return is_there
        finally:
            client.disconnect()
            client.loop_stop()

    def record(self, at: GatewayId, client_id: str) -> Record | None:
        """Return what a client's record at a broker says, if there is one."""
        topic, end = layout.record(at, ClientId(client_id)), f"end/{client_id}"
        came = self._exchange(at, (topic, end), (end, b""), end)
        return decode_record(came[topic]) if came.get(topic) else None

    def entries(self, at: GatewayId, topic: str) -> tuple[int, dict[str, int]] | str:
        """Return how many entries for a topic a gateway's table has, its own and by others; or why it cannot say."""
        question = Question(number=1, topic=topic)
        try:
            answer = ask(at, address_of(self._configuration, at), question, ENTRIES_S_MAX, self._keyring)
        except BrokerError as error:
            return str(error)
        return answer.here, {str(name): count for name, count in answer.anchors.items()}

    def _exchange(
        self, at: GatewayId, topics: tuple[str, ...], publish: tuple[str, bytes], until: str
    ) -> dict[str, bytes]:
        """Subscribe, publish, and return what has come when something came on the topic `until`."""
        came: dict[str, bytes] = {}
        is_over, is_subscribed = threading.Event(), threading.Event()

        def on_message(_: Client, __: object, message: Any) -> None:
            came[message.topic] = bytes(message.payload)
            if message.topic == until:
                is_over.set()

        client = Client(CallbackAPIVersion.VERSION2)
        client.on_message = on_message
        client.on_subscribe = lambda *_: is_subscribed.set()
        client.connect(HOST, self.brokers[at].port)
        client.loop_start()
        try:
            client.subscribe([(topic, 1) for topic in topics])
            assert is_subscribed.wait(ANSWER_S_MAX)
            client.publish(*publish, qos=1)
            assert is_over.wait(ANSWER_S_MAX), f"{at} answers nothing on {until}"
            return came
        finally:
            client.disconnect()
            client.loop_stop()

    # ---- faults ----------------------------------------------------------------------------------------------------

    def kill_gateway(self, name: GatewayId) -> None:
        """End a gateway without a word."""
        self.gateways[name].end(signal.SIGKILL)

    def start_gateway(self, name: GatewayId) -> None:
        """Start a gateway again."""
        self.gateways[name] = self.commands.gateway(name)

    def stop_broker(self, name: GatewayId) -> None:
        """End a broker; what was on its way from it to the client is lost."""
        self.brokers[name].stop()
        self.relays[name].cut()


@contextlib.contextmanager
def running_town(brokers: dict[GatewayId, Broker], folder: Path) -> Iterator[Town]:
    """Run the gateways and relays until the end."""
    gate = Gate()
    with contextlib.ExitStack() as stack:
        relays = {name: stack.enter_context(Relay(name, broker.port, gate)) for name, broker in brokers.items()}
        yield Town(brokers, gate, relays, Commands(folder, stack))

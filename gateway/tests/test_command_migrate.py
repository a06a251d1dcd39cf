"""`mqloom migrate`, `drain` and `undrain` beside running gateways and brokers; and orders that move nobody.

The clients are written by hand: they do what the protocol asks of one, and no more.
"""

import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.errors import OrderError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import (
    MoveOrder,
    OrderAnswer,
    OrderDesk,
    Roster,
    RosterBroker,
    encode_order_answer,
    is_order,
    sign_order,
    sign_roster,
)
from mqloom.core.records import Record, Wish, decode_answer, encode_record
from mqloom.core.signatures import OrderKey, OrderKeys, PublicKey
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

ONE, TWO, THREE = map(GatewayId, ("ONE", "TWO", "THREE"))
NAMES = (ONE, TWO, THREE)
HERE = Record(subscriptions={"all": Wish(topics="stocks/#")}, format="frame", incarnation="first")


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class Traveller:
    """A client that obeys orders that count, step by step."""

    def __init__(self, name: str, at: GatewayId, keys: tuple[PublicKey, ...]) -> None:
        self.name = ClientId(name)
        self.at = at
        self.is_stubborn = self.is_deaf = False
        self.desk = OrderDesk(client=self.name, incarnation="first", keys=keys)
        self.refused: Counter[str] = Counter()
        self.trail = [at]
        self._order: MoveOrder | None = None
        self._connections: dict[GatewayId, paho.Client] = {}
        self._lock = threading.RLock()
        self._ports: dict[GatewayId, int] = {}

    def connect(self, gateway: GatewayId, port: int, **fields: object) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2, f"traveller-{self.name}", clean_session=False)
        client.on_message = lambda _, __, message: self._on_message(gateway, message)
        ready = threading.Event()
        client.on_subscribe = lambda *_: ready.set()
        client.connect("127.0.0.1", port)
        client.loop_start()
        client.subscribe([(layout.control(gateway, self.name), 1), (layout.roster(), 1)])
        self._connections[gateway] = client
        if threading.current_thread() is threading.main_thread():
            assert ready.wait(10)
        self.write(gateway, **fields)

    def write(self, gateway: GatewayId, **fields: object) -> None:
        data = encode_record(msgspec.structs.replace(HERE, **fields))
        self._connections[gateway].publish(layout.record(gateway, self.name), data, 1, retain=True)

    def answer(self, answer: str, problem: str = "") -> None:
        assert self._order is not None
        said = msgspec.convert({"session": self._order.session, "answer": answer, "problem": problem}, OrderAnswer)
        source = self._order.source
        self._connections[source].publish(layout.client_answer(source, self.name), encode_order_answer(said), 1)

    def _on_message(self, gateway: GatewayId, message: paho.MQTTMessage) -> None:
        data = bytes(message.payload)
        with self._lock:
            try:
                if message.topic == layout.roster():
                    self.desk.take_roster(data, time.time())
                elif is_order(data):
                    self._obey(self.desk.take_order(data, self.at, time.time()))
                elif message.topic == layout.control(gateway, self.name):
                    self._go_on(gateway, data)
            except OrderError as error:
                self.refused[error.reason] += 1

    def _obey(self, order: MoveOrder) -> None:
        self._order = order
        if self.is_deaf:
            return
        if self.is_stubborn:
            self.answer("stayed", "I like it here")
            return
        self.answer("moving")
        self.write(order.source, moving_to=order.to)
        assert self.desk.roster is not None
        self.connect(order.to, self.desk.roster.brokers[order.to].port, moved_from=order.source)

    def _go_on(self, gateway: GatewayId, data: bytes) -> None:
        order, answer = self._order, decode_answer(data)
        if order is None:
            return
        if gateway == order.to and answer.answer == "established" and self.at == order.source:
            self.answer("arrived")
            self.at = order.to
            self.write(order.source, leaving_to=order.to)
        elif gateway == order.source and answer.answer == "ended" and not answer.name:
            self.write(order.source, subscriptions={}, moved_to=order.to)
            self.write(order.to)
            self.answer("moved")
            self.trail.append(order.to)
            self._order = None
            threading.Thread(target=self._leave, args=(order.source,)).start()

    def _leave(self, gateway: GatewayId) -> None:
        client = self._connections.pop(gateway)
        client.disconnect()
        client.loop_stop()

    def close(self) -> None:
        for gateway in list(self._connections):
            self._leave(gateway)


class Town:
    """A federation that runs, with its key, and its travellers."""

    def __init__(
        self, path: Path, drivers: dict[GatewayId, GatewayDriver], ports: dict[GatewayId, int], keys: OrderKeys
    ) -> None:
        self.path, self.drivers, self.ports, self.keys = path, drivers, ports, keys
        self.travellers: list[Traveller] = []

    def traveller(self, name: str, at: GatewayId = ONE) -> Traveller:
        one = Traveller(name, at, self.keys.public)
        self.travellers.append(one)
        one.connect(at, self.ports[at])
        until(lambda: one.desk.roster is not None, "the roster has come")
        until(lambda: one.name in self.drivers[at].node._subscribers or len(one.trail) > 1, "its record has come")
        return one

    def run(self, *words: str) -> int:
        return main([words[0], "-c", str(self.path), *words[1:]])


def written(folder: Path, names: tuple[GatewayId, ...]) -> tuple[Path, dict[GatewayId, int], OrderKeys]:
    """Write the configuration and the keys of a federation; return where it is, the ports, and its order keys."""
    path = folder / "federation.toml"
    ports = write_chain(path, names)
    path.write_text(path.read_text().replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(folder / "our.keys")]) == 0
    keys = order_keys_in(folder / "our.keys")
    assert keys is not None
    return path, ports, keys


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    path, ports, keys = written(tmp_path, NAMES)
    with gateways_in_thread(path, NAMES) as drivers:
        town = Town(path, dict(drivers), ports, keys)
        yield town
        for traveller in town.travellers:
            traveller.close()


def test_clients_are_moved_and_those_that_are_not_are_explained(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    ann, bob = town.traveller("ann"), town.traveller("bob", TWO)
    capsys.readouterr()
    assert town.run("migrate", "ann", "bob", "--to", "THREE") == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("2 clients moved to THREE\n")
    assert printed.err == ""
    assert (ann.trail, bob.trail) == ([ONE, THREE], [TWO, THREE])
    until(lambda: ann.name in town.drivers[THREE].node._subscribers, "ann is served at THREE")
    until(lambda: ann.name not in town.drivers[ONE].node._subscribers, "ann is not served at ONE")
    bob.is_stubborn = True
    assert town.run("migrate", "bob", "carol", "--to", "ONE") == 1
    printed = capsys.readouterr()
    assert printed.out.endswith("0 clients moved to ONE\n")
    assert "client bob stays where it is: I like it here" in printed.err
    assert "client carol was not found" in printed.err
    assert town.run("migrate", "ann", "--to", "THREE", "--json") == 1
    assert json.loads(capsys.readouterr().out)["clients"] == {"ann": "it is at THREE already"}
    assert town.run("migrate", "ann", "--to", "THERE") == 1
    assert "did you mean 'THREE'" in capsys.readouterr().err


def test_a_gateway_that_says_the_same_again_is_not_silent(
    town: Town, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.journeys.MIGRATION_SILENCE_S", 0.2)
    monkeypatch.setattr("mqloom.gateway.journeys.MIGRATION_GRACE_S", 0.0)
    monkeypatch.setattr("mqloom.gateway.drivers.migrating.PATIENCE_S", 1.0)
    town.traveller("ann").is_deaf = True
    assert town.run("migrate", "ann", "--to", "TWO", "--deadline", "2.5") == 1
    assert "client ann stays where it is: it does not answer" in capsys.readouterr().err


def test_who_is_not_known_to_have_moved_has_not(
    town: Town, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.migrating.PATIENCE_S", 1.0)
    town.traveller("ann").is_deaf = True
    assert town.run("migrate", "ann", "--to", "TWO") == 1
    assert "gateway ONE says nothing for 1 s" in capsys.readouterr().err


def test_a_broker_is_drained_and_its_clients_brought_back(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    crowd = [town.traveller(f"c{number}") for number in range(6)]
    capsys.readouterr()
    assert town.run("drain", "ONE", "--rate", "20", "--at-once", "3") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("ONE is drained to THREE, TWO, until `mqloom undrain ONE`\n")
    assert printed.out.endswith("ONE has no clients of the federation any more: 6 clients moved\n")
    assert Counter(each.at for each in crowd) == {TWO: 3, THREE: 3}
    late = town.traveller("late")
    until(lambda: late.trail != [ONE], "whoever comes is sent away")
    assert town.run("drain", "TWO", "--to", "THREE", "--json") == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0
    assert town.run("drain", "ONE") == 0
    assert "nobody is sent to TWO: it is being drained itself" in capsys.readouterr().err
    assert town.run("undrain", "TWO") == 0
    assert town.run("undrain", "TWO") == 1
    assert "TWO is not being drained" in capsys.readouterr().err
    assert town.run("undrain", "ONE", "--bring-back") == 0
    assert "ONE is no longer drained: clients may stay; 4 clients came back\n" in capsys.readouterr().out
    assert sum(each.at == ONE for each in crowd) == 3
    assert late.at == ONE
    stays = town.traveller("stays")
    assert town.run("migrate", "stays", "--to", "TWO") == 0
    assert stays.trail == [ONE, TWO]


def test_clients_that_cannot_be_moved_are_told_with_what_to_do(
    town: Town, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.journeys.DRAIN_REST_S", 0.1)
    for name, form in (("desk", "frame"), ("till", "plain")):
        town.traveller(name).write(ONE, incarnation="", format=form)
    travellers = town.drivers[ONE].node._migrations._travellers
    until(lambda: not travellers, "they cannot be moved any more")
    stubborn = town.traveller("bob")
    stubborn.is_stubborn = True
    capsys.readouterr()
    assert town.run("migrate", "desk", "till", "--to", "TWO") == 1
    printed = capsys.readouterr()
    assert printed.out == "0 clients moved to TWO\n"
    here = "mqloom migrate: at ONE, and cannot be moved: 1 client"
    assert f"{here} without this federation's public key, or set not to move: desk; " in printed.err
    assert "what `mqloom keys public` prints, as MQLOOM_PUBLIC_KEY in its environment" in printed.err
    assert f"{here} of another program than mqloom.client, which knows nothing of orders: till; " in printed.err
    assert "not found" not in printed.err
    assert town.run("migrate", "desk", "--to", "ONE", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["immovable"], shown["unknown"]) == ({"desk": "keyless"}, [])
    assert town.run("drain", "ONE", "--to", "TWO", "--deadline", "1") == 1
    left = capsys.readouterr().err.splitlines()
    assert len(left) == 4
    assert left[0] == "mqloom drain: client bob stays where it is: I like it here"
    assert left[1] == "mqloom drain: still at ONE: 1 client that could be moved; run this again to try once more"
    assert left[2].startswith("mqloom drain: still at ONE: 1 client without this federation's public key")
    assert "not to move: desk; to run this again does not help, such a client stays until it is stopped" in left[2]
    assert "as MQLOOM_PUBLIC_KEY" in left[2]
    assert left[3].startswith("mqloom drain: still at ONE: 1 client of another program than mqloom.client")
    assert "orders: till; to run this again does not help" in left[3]
    assert left[3].endswith("or connected to another broker by hand")


def test_nobody_is_sent_to_a_drained_broker_and_status_names_it_at_once(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = town.traveller("ann")
    until(lambda: town.run("status") == 0, "all report")
    for _ in range(3):
        assert town.run("drain", "TWO", "--to", "THREE") == 0
        capsys.readouterr()
        assert town.run("status") == 0
        assert re.search(r"^TWO (is being drained: |has the mark of a drain)", capsys.readouterr().out, re.MULTILINE)
        assert town.run("undrain", "TWO") == 0
        capsys.readouterr()
        assert town.run("status") == 0
        assert "drained" not in capsys.readouterr().out
    assert town.run("drain", "TWO", "--to", "THREE") == 0
    capsys.readouterr()
    for words in (("migrate", "ann"), ("drain", "ONE")):
        assert town.run(*words, "--to", "TWO") == 1
        problem = "it is drained, and would send on at once whoever comes: run `mqloom undrain TWO` first"
        assert problem in capsys.readouterr().err
    assert ann.trail == [ONE]
    assert not town.drivers[ONE].node.look().is_draining
    assert town.run("undrain", "TWO") == 0
    assert town.run("migrate", "ann", "--to", "TWO") == 0
    assert capsys.readouterr().out.endswith("1 client moved to TWO\n")
    assert ann.trail == [ONE, TWO]


def test_undrain_removes_a_mark_that_the_gateway_does_not_obey(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    ann = town.traveller("ann")
    hand = paho.Client(CallbackAPIVersion.VERSION2)
    hand.connect("127.0.0.1", town.ports[TWO])
    hand.loop_start()
    hand.publish(layout.drain(TWO), b'{"version": 2}', 1, retain=True).wait_for_publish(10)
    hand.disconnect()
    hand.loop_stop()
    assert town.run("migrate", "ann", "--to", "TWO") == 1
    assert "run `mqloom undrain TWO` first" in capsys.readouterr().err
    assert not town.drivers[TWO].node.look().is_draining
    assert town.run("undrain", "TWO") == 0
    assert capsys.readouterr().out == "TWO is no longer drained: clients may stay\n"
    assert town.run("migrate", "ann", "--to", "TWO") == 0
    assert ann.trail == [ONE, TWO]


def test_forged_replayed_expired_and_misaddressed_orders_move_nobody(town: Town) -> None:
    ann = town.traveller("ann")
    now, signing, evil = time.time(), town.keys.signing, OrderKey(b"e" * 32)
    good = MoveOrder(
        federation="chain", client=ann.name, incarnation="first", session="s1", source=ONE, to=TWO,
        issued_at=now, expires_at=now + 60,
    )  # fmt: skip
    brokers = {TWO: RosterBroker(host="127.0.0.1", port=9)}
    hostile = paho.Client(CallbackAPIVersion.VERSION2)
    hostile.connect("127.0.0.1", town.ports[ONE])
    hostile.loop_start()
    before = ann.desk.roster
    topic = layout.control(ONE, ann.name)

    def expect(reason: str, data: bytes, to: str = topic) -> None:
        count = ann.refused[reason]
        hostile.publish(to, data, 1)
        until(lambda: ann.refused[reason] > count, f"{reason} is counted")

    def changed(**fields: object) -> bytes:
        return sign_order(msgspec.structs.replace(good, **fields), signing)

    expect("key", sign_order(good, evil))
    expect("forged", sign_order(good, signing).replace(b'"TWO"', b'"ONE"'))
    expect("client", changed(client="bob"))
    expect("incarnation", changed(incarnation="zeroth"))
    expect("federation", changed(federation="other"))
    expect("elsewhere", changed(source="THREE"))
    expect("target", changed(to="FOUR"))
    expect("expired", changed(issued_at=now - 600, expires_at=now - 500))
    expect("early", changed(issued_at=now + 600, expires_at=now + 700))
    expect("key", sign_roster(Roster(federation="chain", serial=2**40, brokers=brokers), evil), layout.roster())
    assert ann.desk.roster == before
    assert ann.trail == [ONE]
    assert len(ann.refused) == 9
    node = town.drivers[ONE].node
    until(lambda: node.counters.value("rosters_refused", "key") == 1, "the gateway writes its own roster again")
    # Nor does the gateway obey whoever may write there, but has no key.
    for action in ("drain", "migrate"):
        request = f'{{"number": 1, "action": "{action}", "clients": ["ann"], "to": ["TWO"]}}'
        hostile.publish(layout.order(ONE, ClientId("hostile")), request, 1)
    hostile.publish(layout.drain(ONE), b'{"to": ["TWO"], "bounds": {}}', 1)
    until(lambda: node.counters.value("moves_refused", "unsealed") == 2, "the requests are refused")
    until(lambda: node.counters.value("migrations_refused", "unsealed") == 1, "the mark is refused")
    assert not node.look().is_draining
    assert ann.trail == [ONE]
    # What counts once does not count again, neither here nor where the client is then.
    hostile.publish(topic, sign_order(good, signing), 1)
    until(lambda: ann.trail == [ONE, TWO], "ann has moved")
    second = paho.Client(CallbackAPIVersion.VERSION2)
    second.connect("127.0.0.1", town.ports[TWO])
    second.loop_start()
    second.publish(layout.control(TWO, ann.name), sign_order(good, signing), 1)
    until(lambda: ann.refused["elsewhere"] == 2, "it is refused")
    second.publish(layout.control(TWO, ann.name), changed(source="TWO", to="ONE"), 1)
    until(lambda: ann.refused["replayed"] == 1, "it is refused")
    assert ann.trail == [ONE, TWO]
    for client in (hostile, second):
        client.disconnect()
        client.loop_stop()


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no Mosquitto on this machine")
def test_a_drain_goes_on_after_a_restart_of_the_gateway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, ports, keys = written(tmp_path, (ONE, TWO))
    path.write_text(path.read_text().replace('"amqtt"', '"mqtt"'))
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            folder = tmp_path / name
            folder.mkdir()
            (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
            stack.enter_context(mosquitto_process(folder / "mosquitto.conf", port))
        with gateways_in_thread(path, (ONE, TWO)) as drivers:
            town = Town(path, dict(drivers), ports, keys)
            ann = town.traveller("ann")
            assert town.run("drain", "ONE") == 0
            assert ann.trail == [ONE, TWO]
            ann.close()
            serial = ann.desk.roster.serial if ann.desk.roster is not None else 0
        capsys.readouterr()
        with gateways_in_thread(path, (ONE, TWO)) as drivers:
            town = Town(path, dict(drivers), ports, keys)
            assert drivers[ONE].node.look().is_draining
            bob = town.traveller("bob")
            until(lambda: bob.trail == [ONE, TWO], "who comes to a drained broker is sent on")
            assert bob.desk.roster is not None
            assert bob.desk.roster.serial == serial  # it says what it said
            assert town.run("undrain", "ONE") == 0
            bob.close()
        with gateways_in_thread(path, (ONE, TWO)) as drivers:
            assert not drivers[ONE].node.look().is_draining


def test_without_an_order_key_the_commands_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, ("ONE", "TWO"))
    for words in (["migrate", "ann", "--to", "TWO"], ["drain", "ONE"], ["undrain", "ONE"]):
        assert main([words[0], "-c", str(path), *words[1:]]) == 1
        assert "`mqloom keys new` makes one" in capsys.readouterr().err


def test_where_nobody_runs_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _, _ = written(tmp_path, (ONE, TWO))
    capsys.readouterr()
    assert main(["drain", "ONE", "-c", str(path)]) == 1
    assert "clients have nowhere to go" in capsys.readouterr().err
    assert main(["migrate", "ann", "--to", "TWO", "-c", str(path)]) == 1
    assert "it does not answer; is it running" in capsys.readouterr().err

"""The client on real Mosquittos when a move goes wrong, or its program does: forged orders, lives that end."""

import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client, Federation
from mqloom.client.vocabulary import WishRemoved
from mqloom.core.signatures import OrderKey
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WAIT_S_MAX, WEST, Town, numbers, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


def loops() -> int:
    return sum(thread.name.startswith("paho-mqtt-client") for thread in threading.enumerate())


def is_at(town: Town, client: Client, at: str) -> bool:
    ports = {name: port for name, port in town.ports.items() if name == at}
    return client.broker == at and client._port == ports.get(client.broker) and client.is_connected()  # type: ignore[call-overload]


def number(town: Town, number: int) -> None:
    town.publisher(WEST).publish("stocks/YHOO", json.dumps({"number": number}), 1).wait_for_publish(WAIT_S_MAX)


def test_a_forged_order_moves_nobody_and_is_logged(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    client, came = town.client(client_id="ann", clean_session=False)
    with caplog.at_level(logging.INFO, "mqloom.client"):
        town.order("ann", WEST, EAST, OrderKey(b"e" * 32))
        until(lambda: "does not count" in caplog.text, "it is logged")
    number(town, 1)
    assert numbers(came, [1]) == [1]
    assert (client.broker, client.stats().migrations) == (WEST, 0)
    assert not town.has_session(EAST, "ann")


def test_with_the_target_down_it_stays_and_says_why(
    town: Town,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mqloom.client.traveller.MOVE_S", 1.5)
    client, came = town.client(client_id="ann", clean_session=False)
    town.brokers[EAST].kill()
    town.brokers[EAST].wait()
    before = loops()
    with caplog.at_level(logging.WARNING, "mqloom.client"):
        assert town.migrate("ann", EAST) == 1
    assert "client ann stays where it is: EAST has not served us in time" in capsys.readouterr().err
    assert "ann: stays where it is, and does not go to EAST" in caplog.text
    number(town, 1)
    assert numbers(came, [1]) == [1]
    assert (client.broker, client.stats().migrations) == (WEST, 0)
    until(lambda: loops() <= before + 1, "nothing is left in the background but the publisher")


def test_sent_back_at_once_it_keeps_the_session_it_has(town: Town) -> None:
    """What ends the session that was left must not end the next one at the same broker."""
    client, came = town.client(client_id="restless", clean_session=False)
    with town.publishing() as sent:
        for to in (EAST, WEST) * 3:
            until(lambda to=to: town.migrate("restless", to) == 0, "it is moved")  # type: ignore[misc]
        until(lambda: is_at(town, client, WEST), "it is there")
    assert numbers(came, sent) == sent
    assert client.stats().gaps == 0
    until(lambda: not town.has_session(EAST, "restless"), "one session is left")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_a_program_that_disconnects_in_the_middle_leaves_nothing_running_and_goes_on_later(town: Town) -> None:
    before = loops()
    client, came = town.client(client_id="pausing", clean_session=False)

    def on_migrated(*_: object) -> None:
        client.disconnect()

    client.on_migrated = on_migrated
    town.order("pausing", WEST, EAST)
    until(lambda: client.stats().migrations == 1, "it is moved")
    client.loop_stop()
    until(lambda: loops() == before, "nothing runs in the background")
    number(town, 1)
    client.on_migrated = None
    client.connect("127.0.0.1", town.ports[WEST])
    client.loop_start()
    until(lambda: is_at(town, client, EAST), "it is at the other broker")
    number(town, 2)
    assert numbers(came, [1, 2]) == [1, 2]
    until(lambda: not town.has_session(WEST, "pausing"), "one session is left")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_one_that_was_moved_and_connects_to_the_first_broker_again_finds_its_way(town: Town) -> None:
    client, came = town.client(client_id="back", clean_session=False)
    assert town.migrate("back", EAST) == 0
    until(lambda: is_at(town, client, EAST), "it is moved")
    client.disconnect()
    client.loop_stop()
    number(town, 1)
    client.connect("127.0.0.1", town.ports[WEST])
    client.loop_start()
    until(lambda: is_at(town, client, EAST), "it is where it was moved to")
    number(town, 2)
    assert numbers(came, [1, 2]) == [1, 2]
    until(lambda: not town.has_session(WEST, "back"), "one session is left")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_one_without_a_kept_session_that_was_moved_begins_anew_after_each_disconnect_and_leaves_none(
    town: Town,
) -> None:
    client, came = town.client(client_id="fickle", clean_session=True)
    assert town.migrate("fickle", EAST) == 0
    until(lambda: is_at(town, client, EAST), "it is moved")
    client.disconnect()
    client.loop_stop()
    established = threading.Event()
    client.on_established = lambda *_: established.set()
    client.connect("127.0.0.1", town.ports[WEST])
    client.loop_start()
    client.subscribe("stocks/#", 1)
    assert established.wait(WAIT_S_MAX)
    until(lambda: is_at(town, client, EAST), "it has found the word that it had left")
    number(town, 1)
    assert numbers(came, [1]) == [1]
    client.disconnect()
    client.loop_stop()
    for at in (WEST, EAST):
        until(lambda at=at: not town.has_session(at, "fickle"), "no session is left")  # type: ignore[misc]
    assert client._shim is not None
    assert len(client._shim.table) == 0


def test_what_the_application_holds_stays_in_the_session_it_came_from(town: Town) -> None:
    client, came = town.client(client_id="holder", clean_session=False, manual_ack=True)
    number(town, 1)
    held = came.get(timeout=WAIT_S_MAX)
    assert town.migrate("holder", EAST) == 0
    until(lambda: is_at(town, client, EAST), "it is moved")
    number(town, 2)
    message = came.get(timeout=WAIT_S_MAX)
    assert json.loads(message.payload)["number"] == 2
    client.ack(message.mid, message.qos)
    assert town.has_session(WEST, "holder")  # if the program died now, it would get the first once more
    client.ack(held.mid, held.qos)
    until(lambda: not town.has_session(WEST, "holder"), "one session is left")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_one_that_holds_something_and_connects_again_is_not_thrown_out_by_its_own_farewell(town: Town) -> None:
    """The session that it had left was to be ended when it holds nothing; now it is there again, and holds it still."""
    client, came = town.client(client_id="returns", clean_session=False, manual_ack=True)
    number(town, 1)
    held = came.get(timeout=WAIT_S_MAX)
    assert town.migrate("returns", EAST) == 0
    until(lambda: is_at(town, client, EAST), "it is moved")
    client.disconnect()
    client.loop_stop()
    lost: list[object] = []
    client.on_disconnect = lambda _c, _u, _flags, reason, _p: lost.append(reason)
    client.connect("127.0.0.1", town.ports[WEST])
    client.loop_start()
    until(lambda: is_at(town, client, EAST), "it is where it was moved to")
    number(town, 2)
    message = came.get(timeout=WAIT_S_MAX)
    assert json.loads(message.payload)["number"] == 2
    client.ack(message.mid, message.qos)
    assert town.has_session(WEST, "returns")  # if the program died now, it would get the first once more
    client.ack(held.mid, held.qos)
    until(lambda: not town.has_session(WEST, "returns"), "one session is left")
    assert (lost, came.empty()) == ([], True)


LEAVER = """
import sys
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

client = Client(CallbackAPIVersion.VERSION2, "leaver", federation=Federation(order_keys=(sys.argv[2],)))
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.on_established = lambda *_: print("established", flush=True)
client.on_migrated = lambda *_: client.disconnect() and None
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_forever()
"""


def test_a_program_that_disconnects_in_the_middle_and_ends_leaves_no_session(town: Town) -> None:
    words = [sys.executable, "-c", LEAVER, str(town.ports[WEST]), town.keys.signing.public.text]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "established\n"
        town.order("leaver", WEST, EAST)
        assert program.wait(WAIT_S_MAX) == 0
    assert not town.has_session(EAST, "leaver")
    assert not town.has_session(WEST, "leaver")


HOLDER = """
import sys, time
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

federation = Federation(order_keys=(sys.argv[2],))
client = Client(CallbackAPIVersion.VERSION2, "unsure", clean_session=False, manual_ack=True, federation=federation)
client.on_message = lambda _c, _u, message: print(message.payload.decode(), flush=True)
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.on_established = lambda *_: print("established", flush=True)
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
while client._port == int(sys.argv[1]) or not client.is_connected():
    time.sleep(0.01)
print("there", flush=True)
time.sleep(60)
"""


def test_killed_after_a_move_it_gets_again_what_it_had_not_acknowledged_before(town: Town) -> None:
    words = [sys.executable, "-c", HOLDER, str(town.ports[WEST]), town.keys.signing.public.text]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "established\n"
        number(town, 1)
        assert first.stdout.readline() == '{"number": 1}\n'
        assert town.migrate("unsure", EAST) == 0
        assert first.stdout.readline() == "there\n"
        number(town, 2)
        assert first.stdout.readline() == '{"number": 2}\n'
        first.kill()
    expected = {"established\n", '{"number": 1}\n', '{"number": 2}\n', "there\n"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout is not None
        found = [second.stdout.readline() for _ in expected]
        second.kill()
    assert set(found) == expected


KILLED = """
import os, sys
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

port, key, dies = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "dies"
client = Client(CallbackAPIVersion.VERSION2, "killed", clean_session=False, federation=Federation(order_keys=(key,)))
client.on_message = lambda _c, _u, message: print(message.payload.decode(), flush=True)
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.on_established = lambda *_: print("established", flush=True)
client.on_migrated = lambda *_: os._exit(9) if dies else print("moved", flush=True)
client.connect("127.0.0.1", port)
client.loop_forever()
"""


def test_killed_in_the_middle_of_a_move_its_next_life_goes_on(town: Town) -> None:
    words = [sys.executable, "-c", KILLED, str(town.ports[WEST]), town.keys.signing.public.text]
    with subprocess.Popen([*words, "dies"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "established\n"
        town.order("killed", WEST, EAST)
        assert first.wait(WAIT_S_MAX) == 9
    number(town, 1)
    came: queue.Queue[str] = queue.Queue()
    with subprocess.Popen([*words, "lives"], stdout=subprocess.PIPE, text=True) as second:

        def read() -> None:
            for line in second.stdout or ():
                came.put(line)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            lines = [came.get(timeout=WAIT_S_MAX)]
            while not {'{"number": 1}\n', "established\n"} <= set(lines):
                lines.append(came.get(timeout=WAIT_S_MAX))
            number(town, 2)
            while '{"number": 2}\n' not in lines:
                lines.append(came.get(timeout=WAIT_S_MAX))
            # The first had written down that it leaves, and this one goes on; or it had not, and this one stays.
            until(lambda: town.has_session(WEST, "killed") != town.has_session(EAST, "killed"), "one session is left")
            while not came.empty():
                lines.append(came.get())
        finally:
            second.kill()
            reader.join()
    assert town.has_session(EAST if "moved\n" in lines else WEST, "killed")
    assert [line for line in lines if "number" in line] == ['{"number": 1}\n', '{"number": 2}\n']


def test_the_application_sees_no_order_and_no_roster(town: Town) -> None:
    client, came = town.client(client_id="plain", clean_session=False)
    assert town.migrate("plain", EAST) == 0
    number(town, 1)
    message: MQTTMessage = came.get(timeout=WAIT_S_MAX)
    assert (message.topic, came.empty()) == ("stocks/YHOO", True)
    assert client.stats().received == 1


def test_one_that_is_not_reached_by_tcp_is_never_moved_and_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    federation = Federation(order_keys=("00" * 32,))
    client = Client(CallbackAPIVersion.VERSION2, "web", transport="websockets", federation=federation)
    assert client._shim is not None
    with caplog.at_level(logging.WARNING, "mqloom.client"):
        client._shim.request(WishRemoved(name="none"))
        client._shim.turn()
    assert "web: is never moved: the roster has no addresses for transport 'websockets'" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's loop_start
def test_moved_back_to_the_broker_that_it_knows_by_another_name_its_session_there_keeps_what_it_holds(
    town: Town,
) -> None:
    """The program says localhost and the roster 127.0.0.1: the session that was to be ended there is in use again."""
    client, came = town.client(client_id="twice", clean_session=False, manual_ack=True, host="localhost")
    number(town, 1)
    assert numbers(came, [1]) == [1]
    lost: list[object] = []
    client.on_disconnect = lambda _c, _u, _flags, reason, _p: lost.append(reason)
    for to in (EAST, WEST):
        assert town.migrate("twice", to) == 0
        until(lambda to=to: is_at(town, client, to), "it is moved")  # type: ignore[misc]
    until(lambda: not town.has_session(EAST, "twice"), "one session is left")
    assert (lost, client.stats().gaps, came.empty()) == ([], 0, True)
    client.disconnect()
    client.loop_stop()
    _, came = town.client(client_id="twice", clean_session=False)
    assert numbers(came, [1]) == [1]

"""Programs that die and come back, on real Mosquittos: with a memory on disk they get nothing twice."""

import json
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
from mqloom.core.errors import LocalError
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WAIT_S_MAX, WEST, Town, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

PROGRAM = """
import os, sys, time
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

port, key, folder, dies_at = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
federation = Federation(order_keys=(key,), state_folder=folder)
client = Client(CallbackAPIVersion.VERSION2, "mortal", clean_session=False, manual_ack=True, federation=federation)

def on_message(_client, _data, message):
    print(message.payload.decode(), flush=True)
    client.ack(message.mid, message.qos)  # it leaves when this has returned
    if dies_at == "message":
        os._exit(9)

client.on_message = on_message
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.on_established = lambda *_: print("established", flush=True)
client.on_migrated = lambda *_: os._exit(9) if dies_at == "move" else print("moved", flush=True)
client.connect("127.0.0.1", port)
client.loop_forever()
"""


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


class Life:
    """One life of the program, and what it says."""

    def __init__(self, town: Town, folder: str, dies_at: str) -> None:
        words = [sys.executable, "-c", PROGRAM, str(town.ports[WEST]), town.keys.signing.public.text, folder, dies_at]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self._said: queue.Queue[str] = queue.Queue()
        self.heard: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._said.put(line.strip())

    def until(self, line: str) -> None:
        while line not in self.heard:
            self.heard.append(self._said.get(timeout=WAIT_S_MAX))

    def end(self) -> list[int]:
        """End it, unless it has ended; return the numbers that came to it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S_MAX)
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        while not self._said.empty():
            self.heard.append(self._said.get())
        return [json.loads(line)["number"] for line in self.heard if line.startswith("{")]


def say(number: int) -> str:
    return json.dumps({"number": number})


@pytest.mark.parametrize("is_remembered", [True, False])
def test_killed_before_the_broker_knew_it_gets_again_only_what_it_has_no_memory_of(
    town: Town, tmp_path: Path, is_remembered: bool
) -> None:
    folder = str(tmp_path / "state") if is_remembered else ""
    publisher = town.publisher(EAST)
    first = Life(town, folder, "message")
    first.until("established")
    publisher.publish("stocks/YHOO", say(1), 1).wait_for_publish(WAIT_S_MAX)
    first.process.wait(WAIT_S_MAX)
    assert first.end() == [1]
    publisher.publish("stocks/YHOO", say(2), 1).wait_for_publish(WAIT_S_MAX)
    second = Life(town, folder, "never")
    second.until(say(2))
    second.until("established")
    publisher.publish("stocks/YHOO", say(3), 1).wait_for_publish(WAIT_S_MAX)
    second.until(say(3))
    assert second.end() == ([2, 3] if is_remembered else [1, 2, 3])


def test_killed_in_the_middle_of_a_move_under_load_no_number_is_missing_and_none_comes_twice(
    town: Town, tmp_path: Path
) -> None:
    folder = str(tmp_path / "state")
    first = Life(town, folder, "move")
    first.until("established")
    with town.publishing() as sent:
        until(lambda: len(sent) > 50, "publications flow")
        town.order("mortal", WEST, EAST)
        first.process.wait(WAIT_S_MAX)
        so_far = len(sent)
        until(lambda: len(sent) > so_far + 50, "publications flow")
        second = Life(town, folder, "never")
        second.until("established")
        so_far = len(sent)
        until(lambda: len(sent) > so_far + 50, "publications flow")
    for each in sent[-2:]:
        second.until(say(each))
    # It had written down that it leaves, and its next life goes on; or it had not, and that one stays and fetches.
    left = WEST if "moved" in second.heard else EAST
    until(lambda: not town.has_session(left, "mortal"), "one session is left")
    came = first.end() + second.end()
    assert sorted(came) == sent


HABIT = """
import sys
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client, Federation

federation = Federation(order_keys=tuple(sys.argv[2:]))
client = Client(CallbackAPIVersion.VERSION2, "habitual", clean_session=False, federation=federation)

def on_connect(client, _data, flags, _reason, _properties):
    if not flags.session_present:
        client.subscribe("stocks/#", 1)
        print("subscribes", flush=True)

client.on_message = lambda _c, _u, message: print(message.payload.decode(), flush=True)
client.on_connect = on_connect
client.on_established = lambda _c, _u, wish, _p: print("established", wish.topics, flush=True)
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_forever()
"""


@pytest.mark.parametrize("is_movable", [False, True])
def test_a_program_that_subscribes_only_to_a_new_session_is_served_in_its_next_life(
    town: Town, is_movable: bool
) -> None:
    words = [sys.executable, "-c", HABIT, str(town.ports[WEST])]
    words += [town.keys.signing.public.text] if is_movable else []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert [first.stdout.readline() for _ in range(2)] == ["subscribes\n", "established stocks/#\n"]
        first.kill()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == "established stocks/#\n"
        town.publisher(EAST).publish("stocks/YHOO", say(1), 1).wait_for_publish(WAIT_S_MAX)
        assert second.stdout.readline() == say(1) + "\n"
        second.kill()


def test_what_an_earlier_life_wanted_can_be_replaced_and_given_up(town: Town) -> None:
    first, _ = town.client(client_id="changing", clean_session=False)
    first.disconnect()
    first.loop_stop()
    heard = threading.Event()
    again = Client(CallbackAPIVersion.VERSION2, "changing", clean_session=False, federation=town.federation)
    came: queue.Queue[MQTTMessage] = queue.Queue()
    again.on_message = lambda _c, _u, message: came.put(message)
    again.on_established = lambda *_: heard.set()
    again.connect("127.0.0.1", town.ports[WEST])
    again.loop_start()
    assert heard.wait(WAIT_S_MAX)  # adopted
    heard.clear()
    again.subscribe("stocks/#", 1, where="volume > 3")
    assert heard.wait(WAIT_S_MAX)
    assert again._shim is not None
    table = again._shim.table
    until(lambda: list(table) == ["stocks/# WHERE volume > 3"], "the other has ended")
    for volume in (1, 5):
        payload = json.dumps({"volume": volume})
        town.publisher(EAST).publish("stocks/YHOO", payload, 1).wait_for_publish(WAIT_S_MAX)
    assert json.loads(came.get(timeout=WAIT_S_MAX).payload)["volume"] == 5
    again.unsubscribe("stocks/#")
    until(lambda: len(table) == 0, "given up")
    again.disconnect()
    again.loop_stop()


def test_a_memory_that_cannot_be_had_is_an_error_of_connect_and_one_without_a_name_of_the_constructor(
    town: Town, tmp_path: Path
) -> None:
    (tmp_path / "me.seen").write_text("a poem")
    client = Client(CallbackAPIVersion.VERSION2, "me", federation=Federation(state_folder=str(tmp_path)))
    with pytest.raises(LocalError, match="is not a memory"):
        client.connect("127.0.0.1", town.ports[WEST])
    with pytest.raises(LocalError, match="needs a client id"):
        Client(CallbackAPIVersion.VERSION2, federation=Federation(state_folder=str(tmp_path)))


def test_the_environment_can_name_the_folder(monkeypatch: pytest.MonkeyPatch, town: Town, tmp_path: Path) -> None:
    monkeypatch.setenv("MQLOOM_STATE_FOLDER", str(tmp_path / "state"))
    town.client(client_id="named")
    assert (tmp_path / "state" / "named.seen").exists()

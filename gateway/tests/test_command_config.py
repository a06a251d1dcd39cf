"""`mqloom config`: real Mosquittos with the files that it writes, a federation on them, and who is refused."""

import contextlib
import queue
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client, Federation
from mqloom.client.limits import MOVE_S, READ_S, READ_TRIES
from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.core.orders import read_roster
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
LINK = "mqloom/v1/east/link/west"


def write(folder: Path) -> tuple[Path, dict[str, int]]:
    """Write the configuration of two brokers on free ports."""
    ports = dict(zip(("west", "east"), free_ports(2), strict=True))
    lines = ["[federation]", 'name = "two"', 'data = ["stocks/#"]']
    for name, port in ports.items():
        lines += ["[[brokers]]", f'id = "{name}"', f"port = {port}", f'username = "{name}"']
        lines += [f'password_env = "{name.upper()}_PASSWORD"', 'link_username = "link-{gateway}"']
        lines += [f'link_password_env = "{name.upper()}_LINK_{{gateway}}"']
    lines += ["[[links]]", 'between = ["west", "east"]']
    lines += ["[[subscriptions]]", 'broker = "east"', 'topics = "stocks/#"', 'into = "hot"', 'where = "volume > 3"']
    path = folder / "federation.toml"
    path.write_text("\n".join(lines))
    return path, ports


def environment(*files: Path) -> dict[str, str]:
    lines = [line for file in files for line in file.read_text().splitlines() if not line.startswith("#")]
    return {variable: password for variable, _, password in (line.partition("=") for line in lines)}


@contextlib.contextmanager
def connected(port: int, name: str, password: str) -> Iterator[paho.Client]:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.username_pw_set(name, password)
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def answer_to(client: paho.Client, topic: str, payload: bytes = b"x") -> str:
    """Return what the broker says to a publication."""
    answers: queue.Queue[str] = queue.Queue()
    client.on_publish = lambda _, __, ___, reason, ____: answers.put(str(reason))
    client.publish(topic, payload, 1)
    return answers.get(timeout=10)


@needs_mosquitto
def test_a_federation_works_on_the_written_files_and_a_client_that_writes_to_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ports = write(tmp_path)
    path.write_text(path.read_text().replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    out = tmp_path / "brokers"
    command = ["config", "mosquitto", "-c", str(path), "--out", str(out), "--client", "desk"]
    assert main(command) == 0
    variables = environment(out / "west" / "gateway.env", out / "east" / "gateway.env")
    assert sorted(variables) == ["EAST_LINK_WEST", "EAST_PASSWORD", "WEST_LINK_EAST", "WEST_PASSWORD"]
    for variable, password in variables.items():
        monkeypatch.setenv(variable, password)
    desk = {name: environment(out / name / "clients.env")[f"{name.upper()}_CLIENT_DESK"] for name in ports}
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            stack.enter_context(mosquitto_process(out / name / "mosquitto.conf", port))
        stack.enter_context(gateways_in_thread(path, ("west", "east")))
        reader = stack.enter_context(connected(ports["east"], "desk", desk["east"]))
        came: queue.Queue[tuple[str, bytes]] = queue.Queue()
        ready: queue.Queue[object] = queue.Queue()
        reader.on_message = lambda _, __, message: came.put((message.topic, bytes(message.payload)))
        reader.on_subscribe = lambda *_: ready.put(None)
        reader.subscribe("hot/#", 1)
        ready.get(timeout=10)
        writer = stack.enter_context(connected(ports["west"], "desk", desk["west"]))
        deadline = time.monotonic() + 20
        while came.empty():
            assert time.monotonic() < deadline, "what is published in the west comes to the east"
            assert answer_to(writer, "stocks/a", b'{"volume": 5}') != "Not authorized"
            with contextlib.suppress(queue.Empty):
                assert came.get(timeout=1) == ("hot/stocks/a", b'{"volume": 5}')
                break
        reader.subscribe("mqloom/v1/roster", 1)
        keys = order_keys_in(tmp_path / "our.keys")
        assert keys is not None
        while (message := came.get(timeout=10))[0] != "mqloom/v1/roster":
            pass
        assert read_roster(message[1], keys.public).brokers.keys() == {"west", "east"}
        assert answer_to(reader, "mqloom/v1/roster") == "Not authorized"
        assert answer_to(reader, "mqloom/v1/east/answer/other") == "Not authorized"
        assert answer_to(reader, "mqloom/v1/east/answer/desk") != "Not authorized"
        assert answer_to(reader, LINK) == "Not authorized"
        assert answer_to(reader, "mqloom/v1/east/status") == "Not authorized"
        assert answer_to(reader, "mqloom/v1/east/sub/other") == "Not authorized"
        assert answer_to(reader, "mqloom/v1/east/order/desk") == "Not authorized"
        link = stack.enter_context(connected(ports["east"], "link-west", variables["EAST_LINK_WEST"]))
        for topic in ("mqloom/v1/east/link/other", "mqloom/v1/east/status", "stocks/a", f"{LINK}/ack"):
            assert answer_to(link, topic) == "Not authorized", topic
        assert answer_to(link, LINK) != "Not authorized"
        stranger = stack.enter_context(connected(ports["east"], "desk", "guess"))
        time.sleep(0.2)
        assert not stranger.is_connected()


@needs_mosquitto
def test_a_client_is_moved_by_the_account_that_is_written_for_it_and_told_at_once_if_that_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ports = write(tmp_path)
    path.write_text(path.read_text().replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    out = tmp_path / "brokers"
    assert main(["config", "mosquitto", "-c", str(path), "--out", str(out), "--client", "desk", "--client", "old"]) == 0
    for variable, password in environment(out / "west" / "gateway.env", out / "east" / "gateway.env").items():
        monkeypatch.setenv(variable, password)
    old = out / "east" / "passwords"  # as earlier releases wrote them: of a client another one at each broker
    old.write_text("".join(line for line in old.read_text().splitlines(keepends=True) if not line.startswith("old:")))
    passwords = environment(out / "west" / "clients.env")
    keys = order_keys_in(tmp_path / "our.keys")
    assert keys is not None
    federation = Federation(order_keys=tuple(key.text for key in keys.public))
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            stack.enter_context(mosquitto_process(out / name / "mosquitto.conf", port))
        stack.enter_context(gateways_in_thread(path, ("west", "east")))
        for name in ("desk", "old"):
            client = Client(CallbackAPIVersion.VERSION2, name, clean_session=False, federation=federation)
            established: queue.Queue[object] = queue.Queue()
            client.on_established = lambda *_, told=established: told.put(None)
            client.username_pw_set(name, passwords[f"WEST_CLIENT_{name.upper()}"])
            client.connect("127.0.0.1", ports["west"])
            client.loop_start()
            stack.callback(client.loop_stop)
            stack.callback(client.disconnect)
            client.subscribe("stocks/#", 1)
            began = time.monotonic()
            established.get(timeout=20)
            # It may read its own record, and need not wait for that in vain.
            assert time.monotonic() - began < READ_S * READ_TRIES
        capsys.readouterr()
        assert main(["migrate", "-c", str(path), "desk", "--to", "east"]) == 0
        began = time.monotonic()
        assert main(["migrate", "-c", str(path), "old", "--to", "east"]) == 1
        assert time.monotonic() - began < MOVE_S / 2
        told = capsys.readouterr()
        assert "the broker of east does not let us in" in told.out + told.err


def test_one_client_has_one_password_on_all_brokers_and_it_is_said_if_it_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = write(tmp_path)
    out = tmp_path / "brokers"
    command = ["config", "mosquitto", "-c", str(path), "--out", str(out), "--client", "desk"]
    assert main(command) == 0
    files = {name: out / name / "clients.env" for name in ("west", "east")}
    west, east = (environment(file)[f"{name.upper()}_CLIENT_DESK"] for name, file in files.items())
    assert west == east
    assert capsys.readouterr().err == ""
    files["east"].write_text("EAST_CLIENT_DESK=another\n")
    assert main(command) == 0
    assert environment(files["east"]) == {"EAST_CLIENT_DESK": "another"}
    assert "the client 'desk' has not the same password on every broker" in capsys.readouterr().err
    for file in files.values():
        file.unlink()
    assert main(command) == 0
    assert capsys.readouterr().err == ""


@needs_mosquitto
def test_alerts_are_written_by_their_own_account_alone_and_read_by_clients_of_another_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ports = write(tmp_path)
    path.write_text(path.read_text() + '\n[telemetry]\nendpoint = "tcp://127.0.0.1:1"\n')
    out = tmp_path / "brokers"
    command = ["config", "mosquitto", "-c", str(path), "--out", str(out), "--client", "desk", "--alerts", "watch"]
    assert main(command) == 0
    for variable, password in environment(out / "west" / "gateway.env", out / "east" / "gateway.env").items():
        monkeypatch.setenv(variable, password)
    passwords = environment(out / "west" / "clients.env", out / "east" / "clients.env")
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            stack.enter_context(mosquitto_process(out / name / "mosquitto.conf", port))
        drivers = stack.enter_context(gateways_in_thread(path, ("west", "east")))
        reader = stack.enter_context(connected(ports["east"], "desk", passwords["EAST_CLIENT_DESK"]))
        came: queue.Queue[tuple[str, bytes]] = queue.Queue()
        ready: queue.Queue[object] = queue.Queue()
        reader.on_message = lambda _, __, message: came.put((message.topic, bytes(message.payload)))
        reader.on_subscribe = lambda *_: ready.put(None)
        reader.subscribe("mqloom/v1/alerts", 1)
        ready.get(timeout=10)
        watcher = stack.enter_context(connected(ports["west"], "watch", passwords["WEST_CLIENT_WATCH"]))
        deadline = time.monotonic() + 20
        while drivers[GatewayId("west")].node.subscription_counts()[1] < 2:
            assert time.monotonic() < deadline, "the west knows that the east wants alerts"
            time.sleep(0.02)
        for payload in (b"one", b"two"):
            assert answer_to(watcher, "mqloom/v1/alerts", payload) != "Not authorized"
        found = [came.get(timeout=10) for _ in range(2)]
        assert found == [("mqloom/v1/alerts", b"one"), ("mqloom/v1/alerts", b"two")]
        for client, topic in ((reader, "mqloom/v1/alerts"), (watcher, "stocks/a"), (watcher, LINK)):
            assert answer_to(client, topic) == "Not authorized", topic
        assert came.empty()


def test_passwords_stay_when_it_is_written_again_and_nobody_else_can_read_them(tmp_path: Path) -> None:
    path, _ = write(tmp_path)
    out = tmp_path / "brokers"
    command = ["config", "mosquitto", "-c", str(path), "--out", str(out)]
    assert main([*command, "--broker", "east", "--client", "desk"]) == 0
    assert not (out / "west" / "mosquitto.conf").exists()
    files = (out / "west" / "gateway.env", out / "east" / "gateway.env", out / "east" / "clients.env")
    before = environment(*files)
    assert len(before) == 5
    assert main([*command, "--client", "desk", "--client", "my-desk"]) == 0
    more = "EAST_CLIENT_MY_DESK"  # a name that a shell takes
    assert environment(*files) == before | {more: environment(files[2])[more]}
    for file in out.glob("*/*"):
        if file.is_file():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert all(password not in (out / "east" / "passwords").read_text() for password in before.values())


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="there is no mosquitto_passwd on this machine")
@needs_mosquitto
def test_clients_that_do_not_log_in_use_the_data_topics_if_it_is_said_so(tmp_path: Path) -> None:
    path, ports = write(tmp_path)
    out = tmp_path / "brokers"
    assert main(["config", "mosquitto", "-c", str(path), "--out", str(out), "--broker", "east", "--anonymous"]) == 0
    with (
        mosquitto_process(out / "east" / "mosquitto.conf", ports["east"]),
        connected(ports["east"], "", "") as client,
    ):
        assert answer_to(client, "stocks/a") != "Not authorized"
        assert answer_to(client, LINK) == "Not authorized"


@needs_mosquitto
def test_the_log_which_names_the_sessions_of_gateways_is_read_by_the_gateway_alone(tmp_path: Path) -> None:
    path, ports = write(tmp_path)
    path.write_text(path.read_text().replace('id = "east"', 'id = "east"\nadapter = "mosquitto"'))
    out = tmp_path / "brokers"
    more = ["--out", str(out), "--broker", "east", "--anonymous", "--client", "desk", "--alerts", "watch"]
    assert main(["config", "mosquitto", "-c", str(path), *more]) == 0
    assert main(["config", "mosquitto", "-c", str(path), "--out", str(out), "--broker", "west"]) == 0
    passwords = environment(out / "east" / "clients.env", out / "east" / "gateway.env", out / "west" / "gateway.env")
    accounts = {
        "east": passwords["EAST_PASSWORD"],
        "link-west": passwords["EAST_LINK_WEST"],
        "desk": passwords["EAST_CLIENT_DESK"],
        "watch": passwords["EAST_CLIENT_WATCH"],
        "": "",
    }
    heard: queue.Queue[str] = queue.Queue()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mosquitto_process(out / "east" / "mosquitto.conf", ports["east"]))
        for name, password in reversed(accounts.items()):  # the gateway last: when it hears, all others could have
            client = stack.enter_context(connected(ports["east"], name, password))
            client.on_message = lambda _, name, __: heard.put(name)
            client.user_data_set(name)
            ready: queue.Queue[object] = queue.Queue()
            client.on_subscribe = lambda *_, ready=ready: ready.put(None)
            client.subscribe([("$SYS/broker/log/#", 1), ("$SYS/broker/log/N", 1), ("#", 1)])
            ready.get(timeout=10)
        with connected(ports["east"], "desk", accounts["desk"]):
            assert heard.get(timeout=10) == "east"
        while not heard.empty():
            assert heard.get() == "east"


def test_rabbitmq_gets_its_three_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, ports = write(tmp_path)
    assert main(["config", "rabbitmq", "-c", str(path), "--out", str(tmp_path / "out"), "--broker", "east"]) == 0
    folder = tmp_path / "out" / GatewayId("east")
    assert sorted(each.name for each in folder.iterdir() if each.is_file()) == [
        "definitions.json",
        "enabled_plugins",
        "gateway.env",
        "rabbitmq.conf",
    ]
    assert f"mqtt.listeners.tcp.default = 127.0.0.1:{ports['east']}" in (folder / "rabbitmq.conf").read_text()
    assert capsys.readouterr().out == f"{folder}: written for rabbitmq\n"

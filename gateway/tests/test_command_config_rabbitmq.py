"""`mqloom config rabbitmq`: a real RabbitMQ with the files that it writes, and who may do what there."""

import queue
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from mqloom.core.command import main
from mqloom.lab.demo_rabbitmq import RABBITMQ, rabbitmq_process
from mqloom.lab.demo_thread import free_ports

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(240),
    pytest.mark.skipif(RABBITMQ is None, reason="there is no RabbitMQ on this machine"),
]
LINK = "mqloom/v1/east/link/west"
TEXT = """
[federation]
name = "two"
data = ["stocks/#"]
[[brokers]]
id = "east"
port = PORT
username = "east"
password_env = "EAST_PASSWORD"
link_username = "link-{gateway}"
link_password_env = "EAST_LINK_{gateway}"
[[brokers]]
id = "west"
port = 1
username = "west"
password_env = "WEST_PASSWORD"
link_username = "link-{gateway}"
link_password_env = "WEST_LINK_{gateway}"
[[links]]
between = ["west", "east"]
[[subscriptions]]
broker = "east"
topics = "stocks/#"
into = "hot"
"""


def environment(file: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in file.read_text().splitlines() if not line.startswith("#"))
    return {variable: password for variable, _, password in pairs}


def outcome(port: int, account: tuple[str, str], do: Callable[[paho.Client], object]) -> str:
    """Return what becomes of something that a client does: done, granted, or the connection is ended."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, reconnect_on_failure=False)
    client.username_pw_set(*account)
    told: queue.Queue[str] = queue.Queue()

    def connected(client: paho.Client, _: object, __: object, reason: ReasonCode, ___: object) -> None:
        if reason.is_failure:
            told.put("refused")
        else:
            do(client)

    client.on_connect = connected
    client.on_publish = lambda *_: told.put("done")
    client.on_subscribe = lambda _, __, ___, reasons, ____: told.put("refused" if reasons[0].is_failure else "done")
    client.on_disconnect = lambda *_: told.put("refused")
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        return told.get(timeout=20)
    finally:
        client.disconnect()
        client.loop_stop()


def test_each_account_may_do_its_part_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path, out = tmp_path / "federation.toml", tmp_path / "brokers"
    path.write_text(TEXT.replace("PORT", str(port)))
    assert main(["config", "rabbitmq", "-c", str(path), "--out", str(out), "--broker", "east", "--client", "desk"]) == 0
    variables = environment(out / "east" / "gateway.env") | environment(out / "west" / "gateway.env")
    desk = ("desk", environment(out / "east" / "clients.env")["EAST_CLIENT_DESK"])
    link, own = ("link-west", variables["EAST_LINK_WEST"]), ("east", variables["EAST_PASSWORD"])
    with rabbitmq_process(out / "east", port):
        for account, topic, expected in (
            (desk, "stocks/a", "done"),
            (desk, "mqloom/v1/east/sub/desk", "done"),
            (desk, "mqloom/v1/east/sub/other", "refused"),
            (desk, LINK, "refused"),
            (link, LINK, "done"),
            (link, f"{LINK}/ack", "refused"),
            (link, "stocks/a", "refused"),
            (own, "mqloom/v1/east/status", "done"),
            (own, "hot/stocks/a", "done"),
            (("desk", "guess"), "stocks/a", "refused"),
            (("guest", "guest"), "stocks/a", "refused"),
        ):
            done = outcome(port, account, lambda client, topic=topic: client.publish(topic, b"x", 1))  # type: ignore[misc]
            assert (account[0], topic, done) == (account[0], topic, expected)
        for account, topics, expected in (
            (own, "stocks/#", "done"),
            (own, "mqloom/v1/east/link/+", "done"),
            (link, "mqloom/v1/east/status", "done"),
            (link, "stocks/#", "refused"),
            (desk, "hot/#", "done"),
            (desk, "mqloom/#", "refused"),
        ):
            done = outcome(port, account, lambda client, topics=topics: client.subscribe(topics, 1))  # type: ignore[misc]
            assert (account[0], topics, done) == (account[0], topics, expected)
        for variable, password in variables.items():
            monkeypatch.setenv(variable, password)
        code = main(["doctor", "-c", str(path), "--broker", "east"])
        printed = capsys.readouterr().out
        assert code == 0, printed
        assert "speaks MQTT 3.1.1" in printed
        assert "kept all 2,000 messages" in printed

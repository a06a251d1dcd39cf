"""`mqloom config rabbitmq`: a real RabbitMQ with the files that it writes, and who may do what there."""

import asyncio
import contextlib
import queue
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode
from testcontainers.core.container import DockerContainer

from integration_tests.conftest import require_image
from integration_tests.makers import RABBITMQ
from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.ports import free_port
from mqloom.plugins.rabbitmq_adapter import RabbitmqAdapter, RabbitmqSettings

pytestmark = pytest.mark.timeout(240)
START_S_MAX = 100.0
LINK = "mqloom/v1/east/link/west"
TEXT = """
[federation]
name = "two"
data = ["stocks/#"]
[[brokers]]
id = "east"
port = PORT
adapter = "rabbitmq"
username = "east"
password_env = "EAST_PASSWORD"
link_username = "link-{gateway}"
link_password_env = "EAST_LINK_{gateway}"
TLS
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
[plugins.settings.rabbitmq_adapter]
port = MANAGEMENT
"""
TLS = 'tls = true\ntls_ca = "ca.pem"\ntls_certificate = "{gateway}.pem"\ntls_key = "{gateway}.key"'
Account = tuple[str, str]
Files = tuple[str, str | None, str | None]
"""An authority, a certificate and its key."""


class East:
    """The files that were written for the broker `east`, and its ports."""

    def __init__(self, tmp_path: Path, *options: str, tls: str = "") -> None:
        self.path, self.folder = tmp_path / "federation.toml", tmp_path / "brokers" / "east"
        self.port, self.management_port = free_port(), free_port()
        text = TEXT.replace("PORT", str(self.port)).replace("MANAGEMENT", str(self.management_port))
        self.path.write_text(text.replace("TLS", tls))
        out = ["--out", str(self.folder.parent), "--broker", "east", "--client", "desk", *options]
        assert main(["config", "rabbitmq", "-c", str(self.path), *out]) == 0
        self.variables = environment(self.folder / "gateway.env") | environment(
            self.folder.parent / "west" / "gateway.env"
        )
        self.desk = ("desk", environment(self.folder / "clients.env")["EAST_CLIENT_DESK"])
        self.link, self.own = ("link-west", self.variables["EAST_LINK_WEST"]), ("east", self.variables["EAST_PASSWORD"])

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run RabbitMQ with the files where they are, in a container in the machine's own network."""
        require_image(RABBITMQ)
        variables = {
            "RABBITMQ_NODENAME": f"mqloom-{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        home = self.folder.parent.parent
        container = DockerContainer(RABBITMQ.image, network_mode="host", user="0:0").with_envs(**variables)
        container.with_volume_mapping(str(home), str(home), "ro")
        container.start()
        try:
            self._wait(container)
            yield
        finally:
            container.stop()

    def _wait(self, container: DockerContainer) -> None:
        deadline = time.monotonic() + START_S_MAX
        while "Server startup complete" not in (log := b"".join(container.get_logs()).decode(errors="replace")):
            assert time.monotonic() < deadline, log[-4_000:]
            time.sleep(0.2)


def environment(file: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in file.read_text().splitlines() if not line.startswith("#"))
    return {variable: password for variable, _, password in pairs}


def outcome(port: int, account: Account | None, do: Callable[[paho.Client], object], files: Files | None = None) -> str:
    """Return what becomes of something that a client does: done, granted, or the connection is ended."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, reconnect_on_failure=False)
    if account is not None:
        client.username_pw_set(*account)
    if files is not None:
        authority, certificate, key = files
        client.tls_set(authority, certificate, key)
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
    try:
        client.connect("127.0.0.1", port)
    except OSError:
        return "refused"
    client.loop_start()
    try:
        return told.get(timeout=20)
    finally:
        client.disconnect()
        client.loop_stop()


def writing(port: int, account: Account | None, topic: str, files: Files | None = None) -> str:
    return outcome(port, account, lambda client: client.publish(topic, b"x", 1), files)


def test_each_account_may_do_its_part_and_no_more_and_the_doctor_is_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    east = East(tmp_path)
    port, desk, link, own = east.port, east.desk, east.link, east.own
    with east.running():
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
            (None, "stocks/a", "refused"),
        ):
            assert (account, topic, writing(port, account, topic)) == (account, topic, expected)
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
        for variable, password in east.variables.items():
            monkeypatch.setenv(variable, password)
        code = main(["doctor", "-c", str(east.path), "--broker", "east"])
        printed = capsys.readouterr().out
        assert code == 0, printed
        assert "speaks MQTT 3.1.1" in printed
        assert "kept all 2,000 messages" in printed


async def learned_by(east: East, account: Account) -> set[str]:
    """Return what the adapter learns of plain clients, with an account, until something came or it was refused."""
    adapter = RabbitmqAdapter(
        RabbitmqSettings(port=east.management_port, every_s=0.2), BrokerAddress("127.0.0.1", east.port, *account)
    )
    told: set[str] = set()

    def learned(filters: Collection[str], passed_over: int = 0, /) -> None:
        told.update(filters)

    adapter.watch(GatewayId("east"), learned)
    await adapter.start()
    for _ in range(50):
        if told:
            break
        await asyncio.sleep(0.1)
    await adapter.stop()
    return told


def test_who_does_not_log_in_uses_the_data_alone_and_the_gateway_learns_what_is_wanted(tmp_path: Path) -> None:
    east = East(tmp_path, "--anonymous")
    with east.running():
        assert writing(east.port, None, "stocks/a") == "done"
        assert writing(east.port, None, LINK) == "refused"
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        client.connect("127.0.0.1", east.port)
        client.loop_start()
        client.subscribe("stocks/+/price", 1)
        try:
            assert asyncio.run(learned_by(east, east.own)) == {"stocks/+/price"}
            assert asyncio.run(learned_by(east, east.link)) == set()
        finally:
            client.disconnect()
            client.loop_stop()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
def test_by_tls_who_shows_a_certificate_and_logs_in_is_let_in_and_nobody_else(tmp_path: Path) -> None:
    make_certificates(tmp_path, tmp_path / "brokers" / "east")
    east = East(tmp_path, tls=TLS)
    authority, certificate, key = (str(tmp_path / name) for name in ("ca.pem", "east.pem", "east.key"))
    files, topic = (authority, certificate, key), "mqloom/v1/east/status"
    with east.running():
        assert writing(east.port, east.own, topic, files) == "done"
        assert writing(east.port, ("east", "guess"), topic, files) == "refused"
        assert writing(east.port, east.own, topic, (authority, None, None)) == "refused"
        assert writing(east.port, east.own, topic) == "refused"


def make_certificates(folder: Path, broker: Path) -> None:
    """Make an authority, and certificates of the broker and of its gateway."""
    broker.mkdir(parents=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    own = ["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca"]
    subprocess.run(["openssl", *own], cwd=folder, check=True, capture_output=True)
    for name, place in (("broker", broker), ("east", folder)):
        files = ["-keyout", f"{place}/{name}.key", "-out", f"{place}/{name}.pem", "-subj", f"/CN={name}"]
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = ["openssl", "req", "-x509", *key, *signed, *files]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

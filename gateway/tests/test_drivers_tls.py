"""TLS with client certificates on real Mosquittos: who is let in, who is told why not, and a whole federation."""

import asyncio
import getpass
import logging
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError, LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.tls import TlsFiles, tls_context
from mqloom.gateway.assembly import Assembly, build_driver, reachable_brokers
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.visiting import visiting
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.links import LinkState
from mqloom.lab.ports import free_ports

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
A, B = GatewayId("A"), GatewayId("B")

pytestmark = pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("openssl") is None, reason="there is no mosquitto or no openssl on this machine"
)
with_each_client = pytest.mark.parametrize("client", MQTT_CLIENTS)


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_authority(folder: Path, name: str = "ca") -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        folder,
        *("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}"),
    )


def make_certificate(folder: Path, name: str, authority: str = "ca") -> None:
    (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(folder, "req", "-new", *key, "-keyout", f"{name}.key", "-out", "request", "-subj", f"/CN={name}")
    signed = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-extfile", "extensions"]
    openssl(folder, "x509", "-req", "-in", "request", *signed, "-out", f"{name}.pem", "-days", "2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    make_authority(folder, "stranger")
    for name in ("broker", "A", "B", "me"):
        make_certificate(folder, name)
    make_certificate(folder, "false", "stranger")
    return folder


@asynccontextmanager
async def mosquitto(folder: Path, made: Path, port: int) -> AsyncIterator[None]:
    file = folder / f"mosquitto-{port}.conf"
    settings = {
        "listener": f"{port} 127.0.0.1",
        "user": getpass.getuser(),  # else it may not read the certificates
        "allow_anonymous": "true",
        "cafile": made / "ca.pem",
        "certfile": made / "broker.pem",
        "keyfile": made / "broker.key",
        "require_certificate": "true",
    }
    file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    assert MOSQUITTO is not None
    process = subprocess.Popen([MOSQUITTO, "-c", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


class Person:
    """A connection by TLS, and what came by it."""

    def __init__(self, client: str, port: int, tls: TlsFiles) -> None:
        self.messages: list[Received] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port, tls=tls),
            client_id="person",
            clean_session=True,
            subscriptions=[TopicSubscription("a", 1)],
            on_messages=self.messages.extend,
            on_up=self.up.set,
            on_down=lambda problem: None,
        )
        self.connection: Connection = MQTT_CLIENTS[client](plan, LOG)
        self.connection.open()


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def files(made: Path, name: str, authority: str = "ca") -> TlsFiles:
    return TlsFiles(ca=str(made / f"{authority}.pem"), certificate=str(made / f"{name}.pem"), key=f"{made}/{name}.key")


@with_each_client
def test_who_shows_a_certificate_is_let_in(tmp_path: Path, made: Path, client: str) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        async with mosquitto(tmp_path, made, port):
            someone = Person(client, port, files(made, "me"))
            await until(someone.up.is_set)
            someone.connection.publish("a", bytes(300_000), 1)
            await until(lambda: bool(someone.messages))
            assert len(someone.messages[0].payload) == 300_000
            await someone.connection.close()

    asyncio.run(scenario())


@with_each_client
def test_a_broker_that_nobody_vouches_for_is_not_spoken_to(
    tmp_path: Path, made: Path, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        async with mosquitto(tmp_path, made, port):
            someone = Person(client, port, files(made, "me", "stranger"))
            await until(lambda: "its certificate is not to be trusted" in caplog.text)
            assert not someone.up.is_set()
            await someone.connection.close()

    asyncio.run(scenario())


@with_each_client
def test_a_certificate_that_is_replaced_counts_from_the_next_connection(
    tmp_path: Path, made: Path, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        for suffix in ("pem", "key"):
            shutil.copy(made / f"false.{suffix}", tmp_path / f"us.{suffix}")
        shutil.copy(made / "ca.pem", tmp_path)
        async with mosquitto(tmp_path, made, port):
            someone = Person(client, port, files(tmp_path, "us"))
            await until(lambda: f"broker at 127.0.0.1:{port}: TLS with it fails" in caplog.text)
            for suffix in ("pem", "key"):
                shutil.copy(made / f"me.{suffix}", tmp_path / f"us.{suffix}")
            await until(someone.up.is_set)
            await someone.connection.close()

    asyncio.run(scenario())


def test_files_that_cannot_be_used_are_told_with_their_names(made: Path) -> None:
    with pytest.raises(LocalError, match=r"none\.pem: no such file"):
        tls_context(TlsFiles(ca=str(made / "none.pem")))
    with pytest.raises(LocalError, match=r"me\.pem and .*A\.key: are no certificate and its key"):
        tls_context(TlsFiles(certificate=str(made / "me.pem"), key=str(made / "A.key")))


def is_up(*drivers: GatewayDriver) -> bool:
    return all(state is LinkState.UP for driver in drivers for state in driver.node.link_states().values())


def write_federation(folder: Path, made: Path, ports: list[int]) -> Path:
    tls = f'tls = true\ntls_ca = "{made}/ca.pem"\ntls_certificate = "{made}/{{gateway}}.pem"'
    tls += f'\ntls_key = "{made}/{{gateway}}.key"'
    brokers = "\n".join(
        f'[[brokers]]\nid = "{gateway}"\nport = {port}\n{tls}' for gateway, port in zip("AB", ports, strict=True)
    )
    path = folder / "federation.toml"
    path.write_text(
        f'federation = {{ name = "safe", data = ["stocks/#"] }}\nlinks = [{{ between = ["A", "B"] }}]\n{brokers}\n'
    )
    return path


def test_a_federation_by_tls_carries_what_a_command_publishes_to_one_that_subscribes(
    tmp_path: Path, made: Path
) -> None:
    mqloom = [sys.executable, "-c", "from mqloom.core.command import main; raise SystemExit(main())"]
    me = ["--tls-ca", f"{made}/ca.pem", "--tls-certificate", f"{made}/me.pem", "--tls-key", f"{made}/me.key"]

    async def scenario() -> None:
        ports = free_ports(2)
        federation = load_federation(write_federation(tmp_path, made, ports))
        async with mosquitto(tmp_path, made, ports[0]), mosquitto(tmp_path, made, ports[1]):
            drivers = [build_driver(federation, gateway) for gateway in (A, B)]
            tasks = [asyncio.create_task(driver.run()) for driver in drivers]
            for driver in drivers:
                await wait_until_ready(driver, 20)
            await until(lambda: is_up(*drivers))
            subscribe = [*mqloom, "sub", "stocks/#", "--count", "1", "--seconds", "20", "--port", str(ports[1]), *me]
            subscriber = await asyncio.create_subprocess_exec(*subscribe, stdout=-1, stderr=-1)
            assert subscriber.stderr is not None
            assert b"established" in await asyncio.wait_for(subscriber.stderr.readline(), 20)
            publish = [*mqloom, "pub", "stocks/a", "1", "--port", str(ports[0]), *me]
            publisher = await asyncio.create_subprocess_exec(*publish)
            assert await asyncio.wait_for(publisher.wait(), 20) == 0
            output, _ = await asyncio.wait_for(subscriber.communicate(), 20)
            assert output == b"stocks/a 1\n"
            assert await asyncio.to_thread(visit, federation.configuration) == {}
            for driver, task in zip(drivers, tasks, strict=True):
                driver.stop()
                await task

    def visit(configuration: Configuration) -> dict[GatewayId, str]:
        addresses, problems = reachable_brokers(configuration)
        places = {gateway: (address, (f"mqloom/v1/{gateway}/status",)) for gateway, address in addresses.items()}
        with visiting(places) as visits:
            assert visits.wait(lambda _, one: bool(one.messages), 10)
            return problems | {gateway: one.problem for gateway, one in visits.each.items() if one.problem}

    asyncio.run(scenario())


def test_the_authority_is_exchanged_under_gateways_that_run_and_no_connection_ends_before_its_broker_does(
    tmp_path: Path, made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mqloom")
    ours, new = tmp_path / "ours", tmp_path / "new"
    shutil.copytree(made, ours)

    def served() -> int:
        return caplog.text.count("serving the broker at")

    def renew() -> None:
        """Everybody gets a certificate of the other authority; gateways trust both for as long as it takes."""
        for name in ("A", "B", "broker"):
            make_certificate(ours, name, "stranger")
        new.mkdir()
        for name in ("broker.pem", "broker.key"):
            shutil.copy(ours / name, new)
        shutil.copy(ours / "stranger.pem", new / "ca.pem")
        with (ours / "ca.pem").open("a") as file:
            file.write((ours / "stranger.pem").read_text())

    async def scenario() -> None:
        ports = free_ports(2)
        path = write_federation(tmp_path, ours, ports)
        gateways = [Assembly(load_federation(path), gateway) for gateway in (A, B)]
        drivers = [each.driver for each in gateways]
        async with mosquitto(tmp_path, made, ports[1]):
            async with mosquitto(tmp_path, made, ports[0]):
                tasks = [asyncio.create_task(driver.run()) for driver in drivers]
                await until(lambda: served() == 2 and is_up(*drivers))
                (ours / "A.pem").write_text("no certificate")
                with pytest.raises(ConfigurationError, match=r"brokers#1.tls: .*A\.pem"):
                    load_federation(path)
                renew()
                for gateway in gateways:
                    assert gateway.reload(load_federation(path)) == ([], [])
                await asyncio.sleep(0.5)
                assert served() == 2
                assert is_up(*drivers)
            async with mosquitto(tmp_path, new, ports[0]):
                await until(lambda: served() == 3 and is_up(*drivers), 40)
                for driver, task in zip(drivers, tasks, strict=True):
                    driver.stop()
                    await task

    asyncio.run(scenario())

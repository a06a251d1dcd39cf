"""A real broker in a container, published on a fixed port of 127.0.0.1.

The port is fixed because an ephemeral one changes when the container's network is disconnected and connected again,
which tests do on purpose.
"""

import contextlib
import gc
import queue
import socket
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from integration_tests.makers import Maker

HOST = "127.0.0.1"
PORT_INSIDE = 1883
PULL_S_MAX = 50
ENGINE_S_MAX = 20.0
ANSWER_S_MAX = 100.0
PORT_TRIES = 5
NETWORK = "bridge"

# testcontainers' reaper is one more image to pull; every container here ends with the fixture that started it.
testcontainers_config.ryuk_disabled = True
# A machine that itself looks like a container (/.dockerenv) would be given the bridge's address.
testcontainers_config.tc_host_override = HOST


class ImageUnavailableError(Exception):
    """No Docker engine answers, or it has no such image and can pull none: the reason, and what to do about it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


@dataclass(slots=True, kw_only=True)
class Broker:
    """A running broker, and the faults that can be made at it."""

    maker: Maker
    files: Mapping[str, str]
    port: int
    container: DockerContainer = field(repr=False)
    management_port: int = 0
    host: str = HOST

    def wait_until_it_answers(self) -> None:
        """Return when a CONNECT is answered; raise TimeoutError with the container's log after `ANSWER_S_MAX`."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while not _answers_connect(self.host, self.port):
            if time.monotonic() > deadline:
                log = b"".join(self.container.get_logs()).decode(errors="replace")
                raise TimeoutError(f"{self.maker.name} on {self.host}:{self.port} answers no CONNECT; its log:\n{log}")
            time.sleep(0.05)

    def restart(self) -> None:
        """Let it write its store, end, and begin again."""
        self.container.get_wrapped_container().restart(timeout=20)
        self.wait_until_it_answers()

    def stop(self) -> None:
        """Let it write its store, and end."""
        self.container.get_wrapped_container().stop(timeout=20)

    def start(self) -> None:
        """Let it begin again, with its store."""
        self.container.get_wrapped_container().start()
        self.wait_until_it_answers()

    def restart_without_store(self) -> None:
        """Kill it, and let another begin in its place that knows nothing."""
        self.container.stop()
        self.container = _container(self.maker, self.files, self.port, self.management_port)
        self.container.start()
        self.wait_until_it_answers()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still: connections stay, nothing is read or answered."""
        container = self.container.get_wrapped_container()
        container.pause()
        try:
            yield
        finally:
            container.unpause()

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """Take it off the network: packets get lost, and nobody is told."""
        docker: Any = DockerClient(timeout=ENGINE_S_MAX).client
        with contextlib.closing(docker):
            network, container = docker.networks.get(NETWORK), self.container.get_wrapped_container()
            network.disconnect(container)
            try:
                yield
            finally:
                network.connect(container)


def ensure_image(maker: Maker) -> None:
    """Make sure that the engine answers and has a maker's image; raise ImageUnavailableError if not."""
    if why := _why_no_engine_answers():
        raise ImageUnavailableError(f"no Docker engine answers ({why})", "start one and run again")
    docker: Any = DockerClient(timeout=PULL_S_MAX).client
    with contextlib.closing(docker):
        with contextlib.suppress(Exception):
            docker.images.get(maker.image)
            return
        try:
            docker.images.pull(maker.image)
        except Exception as error:
            raise ImageUnavailableError(
                f"the image {maker.image} is not here and cannot be pulled ({str(error)[-60:]})",
                f"name one in {maker.variable}; .ci/broker-images builds some",
            ) from error


def _why_no_engine_answers() -> str:
    """Ask the engine for a sign of life; return what went wrong, or an empty text."""
    why = ""
    with warnings.catch_warnings():
        # docker's transport leaves its socket open when it cannot connect. Nobody else can close it, so it is
        # collected here, where the warning is not taken for a leak of a test's.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(DockerClient(timeout=ENGINE_S_MAX).client) as docker:
                docker.ping()
        except Exception as error:  # several libraries' errors, and OSError, all mean the same here
            why = str(error)
        gc.collect()
    return why


@contextlib.contextmanager
def running(maker: Maker, *, files: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Start a broker that answers, and remove it with its data at the end; `files` replace some of the maker's."""
    broker = _start(maker, {**maker.files, **(files or {})})
    try:
        broker.wait_until_it_answers()
        yield broker
    finally:
        broker.container.stop()


def _start(maker: Maker, files: Mapping[str, str]) -> Broker:
    """Start a container on a free port; try another port when somebody took it between looking and starting."""
    for last in [False] * (PORT_TRIES - 1) + [True]:
        port, management_port = _free_port(), _free_port() if maker.management_port else 0
        container = _container(maker, files, port, management_port)
        try:
            container.start()
        except Exception as error:
            container.stop()
            if last or "already" not in str(error):
                raise
            continue
        return Broker(maker=maker, files=files, port=port, container=container, management_port=management_port)
    raise AssertionError("the last try returns or raises")


def _container(maker: Maker, files: Mapping[str, str], port: int, management_port: int) -> DockerContainer:
    container = DockerContainer(maker.image).with_envs(**maker.environment)
    for path, text in files.items():
        container.with_copy_into_container(text.encode(), path)
    # with_bind_ports knows no address, only ports; the engine's own form (address, port) is passed through.
    ports: dict[str, Any] = container.ports
    ports[f"{PORT_INSIDE}/tcp"] = (HOST, port)
    if management_port:
        ports[f"{maker.management_port}/tcp"] = (HOST, management_port)
    return container


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _answers_connect(host: str, port: int) -> bool:
    """Say whether a CONNECT is answered: the engine's proxy accepts connections before the broker does."""
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
    client = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
    client.on_connect = lambda _client, _userdata, _flags, reason, _properties: answers.put(not reason.is_failure)
    client.on_disconnect = lambda *_: answers.put(False)
    try:
        client.connect(host, port)
    except OSError:
        return False
    client.loop_start()
    try:
        return answers.get(timeout=1.0)
    except queue.Empty:
        return False
    finally:
        client.disconnect()
        client.loop_stop()

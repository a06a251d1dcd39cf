"""A real Mosquitto in a container, published on a fixed port of 127.0.0.1.

The image is eclipse-mosquitto:2 or whatever `MQLOOM_MOSQUITTO_IMAGE` names, as long as it reads its configuration from
/mosquitto/config/mosquitto.conf, as the public one does. The port is fixed because an ephemeral one changes when the
container's network is disconnected and connected again, which tests do on purpose.
"""

import contextlib
import gc
import os
import queue
import socket
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

DEFAULT_IMAGE = "eclipse-mosquitto:2"
HOST = "127.0.0.1"
PORT_INSIDE = 1883
PULL_S_MAX = 50
ANSWER_S_MAX = 20.0
PORT_TRIES = 5

# Mosquitto drops QoS 1 messages over 1,000 queued ones although it acknowledged them: 0 is no limit, so that a lost
# message in a test is our loss.
CONFIGURATION = """\
listener 1883
allow_anonymous true
persistence true
persistence_location /mosquitto/data/
max_queued_messages 0
set_tcp_nodelay true
log_dest stderr
"""

# testcontainers' reaper is one more image to pull; every container here ends with the fixture that started it.
testcontainers_config.ryuk_disabled = True
# A machine that itself looks like a container (/.dockerenv) would be given the bridge's address.
testcontainers_config.tc_host_override = HOST


class EngineUnavailableError(Exception):
    """No Docker engine answers, or it has no Mosquitto image and can pull none: the reason, and what to do about it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Mosquitto:
    """A running broker; faults are made with `container.get_wrapped_container()`: pause, kill, start."""

    host: str
    port: int
    container: DockerContainer

    def wait_until_it_answers(self) -> None:
        """Return when a CONNECT is answered; raise TimeoutError with the container's log after `ANSWER_S_MAX`."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while not _answers_connect(self.host, self.port):
            if time.monotonic() > deadline:
                log = b"".join(self.container.get_logs()).decode(errors="replace")
                raise TimeoutError(f"Mosquitto on {self.host}:{self.port} answers no CONNECT; its log:\n{log}")
            time.sleep(0.05)


def image_name() -> str:
    """Name the image that `MQLOOM_MOSQUITTO_IMAGE` asks for, or the public one."""
    return os.environ.get("MQLOOM_MOSQUITTO_IMAGE") or DEFAULT_IMAGE


def ensure_image(image: str) -> None:
    """Make sure that the engine answers and has the image; raise EngineUnavailableError if not."""
    if why := _why_no_engine_answers():
        raise EngineUnavailableError(f"no Docker engine answers ({why})", "start one and run again")
    docker: Any = DockerClient(timeout=PULL_S_MAX).client
    with contextlib.closing(docker):
        with contextlib.suppress(Exception):
            docker.images.get(image)
            return
        try:
            docker.images.pull(image)
        except Exception as error:
            raise EngineUnavailableError(
                f"the image {image} is not here and cannot be pulled ({error})",
                "build one with .ci/mosquitto-image and name it in MQLOOM_MOSQUITTO_IMAGE",
            ) from error


def _why_no_engine_answers() -> str:
    """Ask the engine for a sign of life; return what went wrong, or an empty text."""
    why = ""
    with warnings.catch_warnings():
        # docker's transport leaves its socket open when it cannot connect. Nobody else can close it, so it is
        # collected here, where the warning is not taken for a leak of a test's.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(DockerClient(timeout=ANSWER_S_MAX).client) as docker:
                docker.ping()
        except Exception as error:  # several libraries' errors, and OSError, all mean the same here
            why = str(error)
        gc.collect()
    return why


@contextlib.contextmanager
def running_mosquitto(*, image: str | None = None, configuration: str = CONFIGURATION) -> Iterator[Mosquitto]:
    """Start a broker that answers, and remove it with its data at the end."""
    broker = _start(image or image_name(), configuration)
    try:
        broker.wait_until_it_answers()
        yield broker
    finally:
        broker.container.stop()


def _start(image: str, configuration: str) -> Mosquitto:
    """Start a container on a free port; try another port when somebody took it between looking and starting."""
    for last in [False] * (PORT_TRIES - 1) + [True]:
        port = _free_port()
        container = DockerContainer(image).with_copy_into_container(
            configuration.encode(), "/mosquitto/config/mosquitto.conf"
        )
        # with_bind_ports knows no address, only ports; the engine's own form (address, port) is passed through.
        ports: dict[str, Any] = container.ports
        ports[f"{PORT_INSIDE}/tcp"] = (HOST, port)
        try:
            container.start()
        except Exception as error:
            container.stop()
            if last or "already" not in str(error):
                raise
            continue
        return Mosquitto(host=HOST, port=port, container=container)
    raise AssertionError("the last try returns or raises")


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

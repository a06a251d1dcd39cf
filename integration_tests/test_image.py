"""The image of `packaging/Dockerfile` is built, runs a gateway beside a real broker, reloads it and ends it."""

import contextlib
import io
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.docker_client import DockerClient

from integration_tests.conftest import require_image
from integration_tests.containers import Broker
from integration_tests.makers import Maker

ROOT = Path(__file__).parents[1]
PYTHON = Maker(name="python", public_image="python:3.12-slim", files={}, is_built_for_ci=False)
TAG = "mqloom-test/gateway"
BUILD_S_MAX = 500
LOG_S_MAX = 60.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def context() -> io.BytesIO:
    """Return what the Dockerfile copies, and itself, as the engine wants to have it."""
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    names = " ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)).split()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("packaging/Dockerfile", *names):
            archive.add(ROOT / name, name, filter=lambda each: None if "__pycache__" in each.name else each)
    file.seek(0)
    return file


@pytest.fixture
def docker() -> Iterator[Any]:
    require_image(PYTHON)
    with contextlib.closing(DockerClient(timeout=BUILD_S_MAX).client) as client:
        yield client


def wait_for(container: Any, text: str) -> None:
    deadline = time.monotonic() + LOG_S_MAX
    while text not in (log := container.logs().decode(errors="replace")):
        assert time.monotonic() < deadline, f"no {text!r} in its log:\n{log}"
        time.sleep(0.2)


def test_the_image_runs_a_gateway_as_the_owner_of_its_keys_and_it_reloads_and_ends_by_signals(
    docker: Any, mosquitto: Broker, tmp_path: Path
) -> None:
    image, _ = docker.images.build(
        fileobj=context(),
        custom_context=True,
        dockerfile="packaging/Dockerfile",
        buildargs={"BASE": PYTHON.image},
        network_mode="host",
        tag=TAG,
        rm=True,
    )
    broker = f'[[brokers]]\nid = "west"\nhost = "127.0.0.1"\nport = {mosquitto.port}\n'
    first = '[federation]\nname = "one"\ndata = ["stocks/#"]\nkey_file = "federation.keys"\n'
    (tmp_path / "federation.toml").write_text(first + broker)
    there = {"volumes": {str(tmp_path): {"bind": "/etc/mqloom", "mode": "rw"}}, "user": str(os.getuid())}
    program = {"image": image.id, "network_mode": "host", "working_dir": "/etc/mqloom", **there}
    docker.containers.run(**program, entrypoint="mqloom", command="keys new federation.keys", remove=True)
    container = docker.containers.run(**program, command=["--name", "west"], detach=True)
    try:
        wait_for(container, "serving the broker at 127.0.0.1")
        (tmp_path / "federation.toml").write_text(first.replace("stocks/#", "news/#") + broker)
        container.kill("HUP")
        wait_for(container, "changed now: federation.data")
        container.stop(timeout=20)
        assert container.wait()["StatusCode"] == 0
    finally:
        container.remove(force=True)
        docker.images.remove(TAG)

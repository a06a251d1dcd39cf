"""Fixtures for tests against real brokers."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration_tests.mosquitto import (
    CONFIGURATION,
    EngineUnavailableError,
    Mosquitto,
    ensure_image,
    image_name,
    running_mosquitto,
)
from integration_tests.processes import Commands

StartMosquitto = Callable[..., Mosquitto]


@pytest.fixture(scope="session")
def mosquitto_image() -> str:
    """Name an image that is there; without engine or image the test is skipped, or fails where CI is set."""
    image = image_name()
    try:
        ensure_image(image)
    except EngineUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error} (where CI is set this is a failure)", pytrace=False)
        pytest.skip(f"{error.reason}: skipped; {error.remedy}")
    return image


@pytest.fixture
def start_mosquitto(mosquitto_image: str) -> Iterator[StartMosquitto]:
    """Give a function that starts a broker, as often as it is called: `start_mosquitto(configuration=...)`."""
    with contextlib.ExitStack() as running:

        def start(*, configuration: str = CONFIGURATION) -> Mosquitto:
            return running.enter_context(running_mosquitto(image=mosquitto_image, configuration=configuration))

        yield start


@pytest.fixture
def mosquitto(start_mosquitto: StartMosquitto) -> Mosquitto:
    """Give one running broker with the usual configuration."""
    return start_mosquitto()


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Give what starts `mqloom` processes in a folder of their own."""
    with contextlib.ExitStack() as stack:
        yield Commands(tmp_path, stack)

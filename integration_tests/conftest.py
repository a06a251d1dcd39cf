"""Fixtures for tests against real brokers."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration_tests.containers import Broker, ImageUnavailableError, ensure_image, running
from integration_tests.makers import MAKERS, MOSQUITTO, Maker
from integration_tests.processes import Commands

StartMosquitto = Callable[..., Broker]


def require_image(maker: Maker) -> None:
    """Return if there is an image; else the test is skipped, or fails where CI is set and has to have it."""
    try:
        ensure_image(maker)
    except ImageUnavailableError as error:
        if os.environ.get("CI") and maker.is_built_for_ci:
            pytest.fail(f"{error} (where CI is set this is a failure)", pytrace=False)
        pytest.skip(f"{error.reason}: skipped; {error.remedy}")


@pytest.fixture
def start_mosquitto() -> Iterator[StartMosquitto]:
    """Give a function that starts a Mosquitto, as often as it is called: `start_mosquitto(more="...")`."""
    require_image(MOSQUITTO)
    with contextlib.ExitStack() as stack:

        def start(*, more: str = "") -> Broker:
            files = {path: text + more for path, text in MOSQUITTO.files.items()}
            return stack.enter_context(running(MOSQUITTO, files=files))

        yield start


@pytest.fixture
def mosquitto(start_mosquitto: StartMosquitto) -> Broker:
    """Give one running broker with the usual configuration."""
    return start_mosquitto()


@pytest.fixture(scope="session")
def broker_of() -> Iterator[Callable[[Maker], Broker]]:
    """Give a function that returns a maker's broker: one for the whole run, as some take long to start."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def start(maker: Maker) -> Broker:
            return stack.enter_context(running(maker))

        yield start


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.name)
def maker_broker(request: pytest.FixtureRequest, broker_of: Callable[[Maker], Broker]) -> Broker:
    """Give each maker's broker."""
    require_image(request.param)
    return broker_of(request.param)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Give what starts `mqloom` processes in a folder of their own."""
    with contextlib.ExitStack() as stack:
        yield Commands(tmp_path, stack)

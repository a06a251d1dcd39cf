"""`mqloom gateway` as a process: that it starts, says what is wrong, and ends when told."""

import argparse
import asyncio
import gc
import logging
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.command_gateway import COLLECT_EVERY, configure, configure_logging, run


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def _keep_process() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, threshold = root.handlers[:], root.level, gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("mqloom").setLevel(logging.NOTSET)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="mqloom init"):
        run(parse("-c", str(tmp_path / "none.toml"), "--name", "A"))


def test_an_unknown_broker_is_explained_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text('federation = { name = "x", data = ["a/#"] }\n[[brokers]]\nid = "EDGE1"\n')
    with pytest.raises(ConfigurationError, match="did you mean 'EDGE1'"):
        run(parse("-c", str(path), "--name", "EDGE"))


def test_every_line_of_the_log_has_the_gateways_id(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(verbose=False)
    logging.getLogger("mqloom.test").info("hello", extra={"gateway": "EDGE1"})
    logging.getLogger("mqloom.test").debug("not shown")
    logging.getLogger("elsewhere").info("not shown")
    logging.getLogger("elsewhere").warning("shown")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == ["INFO    EDGE1 hello", "WARNING - shown"]


def test_without_a_configuration_it_is_the_one_that_init_writes() -> None:
    assert parse("--name", "A").configuration == Path("federation.toml")
    assert parse("--name", "A", "--configuration", "x.toml").configuration == Path("x.toml")


def test_while_it_runs_cycles_are_looked_for_seldom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def gateway(main: Coroutine[None, None, None]) -> None:
        main.close()
        seen.append((gc.get_threshold(), gc.get_freeze_count() > 0, gc.isenabled()))

    monkeypatch.setattr(asyncio, "run", gateway)
    run(parse("-c", str(tmp_path / "none.toml"), "--name", "A"))
    assert seen == [(COLLECT_EVERY, True, True)]

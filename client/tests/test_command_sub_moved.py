"""`mqloom sub` on real Mosquittos: it is moved as any other program with the client, and leaves nothing behind."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqloom.client import Federation
from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.ids import ClientId
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WAIT_S_MAX, WEST, Town, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


def watching(town: Town, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from mqloom.core.command import main; raise SystemExit(main())", "sub"]
    where = ["stocks/#", "--port", str(town.ports[WEST]), *words]
    return subprocess.Popen([*command, *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(program: "subprocess.Popen[str]") -> tuple[int, str]:
    """Let it end as a person does; return its exit code, and the rest of what it said."""
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=WAIT_S_MAX)
    return program.returncode, said


@pytest.mark.parametrize("names", [[], ["--client", "person"]])
def test_a_broker_is_drained_of_it_and_it_prints_everything_once(town: Town, names: list[str]) -> None:
    printed: list[int] = []

    def read() -> None:
        assert program.stdout is not None
        printed.extend(json.loads(line.split(" ", 1)[1])["number"] for line in program.stdout)

    with watching(town, "--public-key", town.keys.signing.public.text, *names) as program:
        assert program.stderr is not None
        assert program.stderr.readline() == "mqloom sub: established\n"
        reader = threading.Thread(target=read)
        reader.start()
        with town.publishing() as sent:
            until(lambda: len(sent) > 50, "publications flow")
            assert main(["drain", "-c", str(town.file), WEST]) == 0
            so_far = len(sent)
            until(lambda: len(sent) > so_far + 50, "publications flow")
        until(lambda: len(printed) >= len(sent), "all of them are printed")
        program.send_signal(signal.SIGINT)
        reader.join(WAIT_S_MAX)
        said = program.stderr.read()
        assert program.wait(WAIT_S_MAX) == 0
    assert sorted(printed) == sent
    assert f"has moved from {WEST} to {EAST}" in said
    if names:
        for at in (WEST, EAST):
            until(lambda at=at: not town.has_session(at, "mqloom.person"), "no session is left")  # type: ignore[misc]


def test_without_a_key_it_stays_and_a_session_that_was_kept_ends_with_it(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    with watching(town, "--client", "person") as program:
        assert program.stderr is not None
        assert program.stderr.readline() == "mqloom sub: established\n"
        drained = main(["drain", "-c", str(town.file), WEST])
        assert ended(program) == (0, "")
    assert drained == 1
    said = capsys.readouterr().err
    assert f"still at {WEST}: 1 client without this federation's public key" in said
    assert "person; to run this again does not help" in said
    assert "what `mqloom keys public` prints, as MQLOOM_PUBLIC_KEY in its environment" in said
    until(lambda: not town.has_session(WEST, "mqloom.person"), "no session is left")


def test_what_an_earlier_one_of_its_name_wanted_is_not_printed(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    """It was killed, and its broker has kept its session: that and the record are there."""
    named = Federation(client="person")
    killed, _ = town.client(WEST, client_id="mqloom.person", clean_session=False, federation=named)  # all of stocks/#
    killed.disconnect()
    killed.loop_stop()
    publisher = town.publisher(WEST)
    publisher.publish("stocks/YHOO", '{"number": 1}', 1).wait_for_publish(WAIT_S_MAX)

    def publish(*_: object) -> None:
        for number in (2, 3):
            publisher.publish("stocks/YHOO", json.dumps({"number": number}), 1)

    publisher.on_message = publish
    publisher.subscribe(layout.control(WEST, ClientId("person")), 1)  # its gateway's answer: established
    where = ["--where", "number > 2", "--client", "person", "--port", str(town.ports[WEST])]
    assert main(["sub", "stocks/#", *where, "--count", "1", "--seconds", "20"]) == 0
    assert capsys.readouterr().out == 'stocks/YHOO {"number": 3}\n'
    assert not town.has_session(WEST, "mqloom.person")

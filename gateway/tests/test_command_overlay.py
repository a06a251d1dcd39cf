"""`mqloom overlay show` beside running gateways, and what it says of those that are not there."""

import argparse
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.core.plotting import PlotError
from mqloom.gateway import command_overlay
from mqloom.gateway.command_overlay import configure, run, visit_all
from mqloom.gateway.configuration_checks import load_federation
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

CHAIN = ("ONE", "TWO", "THREE")


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


def test_all_links_of_running_gateways_are_shown_and_who_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "federation.toml", tmp_path / "links.svg"
    ports = write_chain(path, CHAIN, '[plugins.settings.tree_overlay]\nstrategy = "S2"\nweave_s = 0.5')
    with gateways_in_thread(path, CHAIN[:2]):
        deadline = time.monotonic() + 20
        while True:
            assert run(parse("show", "-c", str(path), "--json", "--plot", str(picture))) == 1
            printed, problems = capsys.readouterr()
            shown = json.loads(printed)
            links = [(link["from"], link["to"], link["kind"], link["up"]) for link in shown["links"]]
            if ("ONE", "TWO", "primary", True) in links and ("TWO", "ONE", "primary", True) in links:
                break
            assert time.monotonic() < deadline, links
            time.sleep(0.5)
        assert ("TWO", "THREE", "primary", False) in links
        assert shown["strategies"] == {"ONE": "S2", "TWO": "S2"}
        assert list(shown["problems"]) == ["THREE"]
        assert f"THREE is not shown: broker at 127.0.0.1:{ports[GatewayId('THREE')]}: it does not answer" in problems
        assert picture.stat().st_size > 5_000
        assert main(["overlay", "show", "-c", str(path)]) == 1
        table = capsys.readouterr().out
        assert "TWO   THREE  primary  down      1             0     -\n" in table
        assert "federation chain: 2 gateways, strategy S2; links 3 primary" in table


def test_without_any_broker_each_is_named_and_no_table_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, CHAIN)
    assert run(parse("show", "-c", str(path))) == 1
    printed, problems = capsys.readouterr()
    assert printed == ""
    assert [line.split()[2] for line in problems.splitlines()] == list(CHAIN)


def test_whoever_listens_but_speaks_no_mqtt_is_given_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, ("ONE",))
    text = path.read_text().replace('adapter = "amqtt"', 'username = "us"\npassword_env = "MQLOOM_TEST_PASSWORD"')
    path.write_text(text)
    configuration = load_federation(path).configuration
    assert "MQLOOM_TEST_PASSWORD is not set" in visit_all(configuration).problems[GatewayId("ONE")]
    monkeypatch.setenv("MQLOOM_TEST_PASSWORD", "secret")
    with socket.create_server(("127.0.0.1", ports[GatewayId("ONE")])):
        gallery = visit_all(configuration, wait_s=0.3)
    assert "does not answer within 0.3 s; is it an MQTT broker?" in gallery.problems[GatewayId("ONE")]


def test_a_gateway_that_ends_takes_its_portrait_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, ("ONE",))
    one = GatewayId("ONE")
    published: list[tuple[str, bytes]] = []
    with gateways_in_thread(path, ("ONE",)) as drivers:
        own = drivers[one]._own
        assert own is not None
        publish = own.publish

        def note(topic: str, payload: bytes, qos: int, **options: Any) -> bool:
            published.append((topic, payload))
            return publish(topic, payload, qos, **options)

        monkeypatch.setattr(own, "publish", note)
    assert (layout.portrait(one), b"") in published


def test_what_cannot_work_is_said_before_anybody_is_visited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it went there")

    monkeypatch.setattr(command_overlay, "visit_all", fail)
    with pytest.raises(ConfigurationError, match="mqloom init"):
        run(parse("show", "-c", str(tmp_path / "none.toml")))
    with pytest.raises(PlotError, match="ends in"):
        run(parse("show", "--plot", "links.txt"))

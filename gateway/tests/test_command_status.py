"""`mqloom status` beside running gateways, and what it says of those that are not there."""

import json
import time
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

CHAIN = ("ONE", "TWO", "THREE")


def test_running_gateways_and_their_links_are_shown_and_who_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, CHAIN)
    with gateways_in_thread(path, CHAIN[:2]):
        deadline = time.monotonic() + 20
        while True:
            assert main(["status", "-c", str(path), "--json"]) == 1
            printed, problems = capsys.readouterr()
            shown = json.loads(printed)
            links = {(link["from"], link["to"]): link for link in shown["links"]}
            states = {ends: link["state"] for ends, link in links.items()}
            if states == {("ONE", "TWO"): "up", ("TWO", "ONE"): "up", ("TWO", "THREE"): "down"}:
                break
            assert time.monotonic() < deadline, states
            time.sleep(0.5)
        assert [each["gateway"] for each in shown["gateways"]] == ["ONE", "TWO"]
        assert abs(shown["gateways"][0]["since"] - time.time()) < 60
        assert abs(links["TWO", "THREE"]["since"] - time.time()) < 60
        assert f"THREE: broker at 127.0.0.1:{ports[GatewayId('THREE')]}: it does not answer" in problems
        assert "TWO: its link to THREE is not up" in problems
        assert main(["status", "-c", str(path)]) == 1
        table = capsys.readouterr().out
        assert "federation chain: 2 of 3 gateways run, 1 link is not up" in table
    assert main(["status", "-c", str(path)]) == 1
    assert capsys.readouterr().out == ""


def test_a_federation_that_is_well_ends_with_zero_and_a_gateway_that_ends_takes_its_report_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, ("ONE",))
    with gateways_in_thread(path, ("ONE",)):
        assert main(["status", "-c", str(path)]) == 0
        assert capsys.readouterr().out.endswith("federation chain: 1 of 1 gateways run\n")

"""Going to brokers that are no brokers, are away, or whose password is not here: each has its own word."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.gateway.command_visits import address_of, read_all
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.lab.ports import free_ports


def configuration_of(folder: Path, ports: dict[str, int], more: str = "") -> Configuration:
    path = folder / "federation.toml"
    tables = "".join(f'[[brokers]]\nid = "{name}"\nport = {port}\n' for name, port in ports.items())
    links = "".join(f'[[links]]\nbetween = ["silent", "{name}"]\n' for name in ports if name != "silent")
    path.write_text(f'[federation]\nname = "some"\ndata = ["stocks/#"]\n{tables}{more}{links}')
    return load_federation(path).configuration


def read(gateway: GatewayId, status: bytes | None, kept: Sequence[bytes | None]) -> int | str:
    return f"{gateway} has said nothing" if status is None or None in kept else len(kept)


def test_each_broker_that_cannot_be_read_has_its_reason(tmp_path: Path) -> None:
    (away,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = listening.getsockname()[1]
        more = 'username = "me"\npassword_env = "MQLOOM_TEST_NOT_SET"\n'
        configuration = configuration_of(tmp_path, {"silent": silent, "away": away, "locked": 1}, more)
        found, problems = read_all(configuration, (layout.report,), read, 0.5)
    assert found == {}
    assert problems.keys() == {"silent", "away", "locked"}
    where = f"broker at 127.0.0.1:{silent}"
    assert problems[GatewayId("silent")] == f"{where}: it does not answer within 0.5 s; is it an MQTT broker?"
    assert problems[GatewayId("away")].startswith(f"broker at 127.0.0.1:{away}: ")
    assert "MQLOOM_TEST_NOT_SET is not set" in problems[GatewayId("locked")]


def test_a_broker_whose_password_is_not_here_has_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = 'username = "me"\npassword_env = "MQLOOM_TEST_NOT_SET"\n'
    configuration = configuration_of(tmp_path, {"silent": 1883}, more)
    with pytest.raises(BrokerError, match="MQLOOM_TEST_NOT_SET is not set"):
        address_of(configuration, GatewayId("silent"))
    monkeypatch.setenv("MQLOOM_TEST_NOT_SET", "here")
    address = address_of(configuration, GatewayId("silent"))
    assert (address.port, address.username, address.password) == (1883, "me", "here")

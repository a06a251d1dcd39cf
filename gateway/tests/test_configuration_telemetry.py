"""What is wrong, or hardly meant, in [telemetry], and what a gateway makes of it."""

from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry_key_file import TELEMETRY_KIND
from mqloom.gateway.assembly import telemetry_plan
from mqloom.gateway.configuration_checks import Federation, hints, load_federation
from mqloom.gateway.key_file import new_key, write_keys

A, B = GatewayId("a"), GatewayId("b")


def read(folder: Path, telemetry: str, key: str = "", of_broker: str = "") -> Federation:
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        {key}
        [[brokers]]
        id = "a"
        [[brokers]]
        id = "b"
        port = 1884
        {of_broker}
        [[links]]
        between = ["a", "b"]
        [telemetry]
        {telemetry}
        """
    )
    return load_federation(path)


ENDPOINTS = ["tcp://collector.example:5570", "tcp://10.0.0.7:1", "tcp://[::1]:5570", "ipc:///run/mqloom.sock", ""]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_addresses_of_zeromq_are_taken(tmp_path: Path, endpoint: str) -> None:
    assert read(tmp_path, f'endpoint = "{endpoint}"').configuration.telemetry.endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint", ["collector:5570", "tcp://collector", "tcp://:5570", "http://x:1", "tcp://x:0", "tcp://x:65536"]
)
def test_what_is_none_is_told_with_an_example(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match=r"telemetry.endpoint: .* like tcp://collector.example:5570"):
        read(tmp_path, f'endpoint = "{endpoint}"')


def test_a_key_file_without_a_telemetry_key_is_hinted_at(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    write_keys(keys, [new_key("sending")], is_new=True)
    federation = read(tmp_path, 'endpoint = "tcp://collector.example:5570"', 'key_file = "keys"')
    (hint,) = hints(federation)
    assert "what gateways tell the collector is not encrypted; `mqloom keys telemetry` adds one" in hint
    write_keys(keys, [new_key("sending"), new_key("sending", TELEMETRY_KIND)], is_new=False)
    federation = read(tmp_path, 'endpoint = "tcp://collector.example:5570"', 'key_file = "keys"')
    assert hints(federation) == []
    assert len(telemetry_plan(federation.configuration, A).secrets) == 1


def test_without_an_endpoint_or_plugins_nothing_is_told_and_a_broker_can_be_left_out(tmp_path: Path) -> None:
    assert not telemetry_plan(read(tmp_path, "").configuration, A).is_on
    assert telemetry_plan(read(tmp_path, "plugins = true").configuration, A).is_on
    configuration = read(tmp_path, 'endpoint = "tcp://x:1"', of_broker="telemetry = false").configuration
    assert [telemetry_plan(configuration, each).is_on for each in (A, B)] == [True, False]

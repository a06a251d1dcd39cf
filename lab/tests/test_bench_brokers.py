"""The configuration of a measurement's chain of brokers."""

from pathlib import Path

from mqloom.gateway.configuration_checks import load_federation
from mqloom.lab.bench_brokers import chain


def test_each_broker_is_joined_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(
        '[federation]\nname = "bench"\ndata = ["stocks/#"]\n' + chain({"west": 1883, "middle": 1884, "east": 1885})
    )
    found = load_federation(path).configuration
    assert [(str(broker.id), broker.port) for broker in found.brokers] == [
        ("west", 1883),
        ("middle", 1884),
        ("east", 1885),
    ]
    assert [tuple(link.between) for link in found.links] == [("west", "middle"), ("middle", "east")]

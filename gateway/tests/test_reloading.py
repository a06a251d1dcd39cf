"""What of a configuration must wait for a restart is named; all else holds at once."""

from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.configuration_checks import Federation, load_federation
from mqloom.gateway.key_file import new_key, write_keys
from mqloom.gateway.reloading import changed, changed_agents, left_as_it_was

GONE = "plugins: cbor_codec (gone)"
WEST = GatewayId("west")
TEXT = """
[federation]
name = "two"
data = ["stocks/#"]
[[brokers]]
id = "west"
[[brokers]]
id = "east"
port = 1884
[[links]]
between = ["west", "east"]
[[subscriptions]]
broker = "west"
topics = "stocks/#"
into = "hot"
[plugins.settings.tree_overlay]
strategy = "S0"
[plugins.settings.allow_list]
clients = ["*"]
"""
AGENT = """
from mqloom.gateway.hookspecs import hookimpl

class Quiet:
    name = "quiet"
    def handle(self, event, now):
        return []

@hookimpl
def mqloom_agent():
    return Quiet()
"""


def read(folder: Path, text: str = TEXT) -> Federation:
    path = folder / "federation.toml"
    path.write_text(text)
    return load_federation(path)


@pytest.mark.parametrize(
    ("old", "new", "news"),
    [
        ('name = "two"', 'name = "both"', ["federation.name"]),
        ("stocks/#", "stocks/+", ["federation.data", "no data any more: stocks/#", "subscriptions"]),
        (
            'data = ["stocks/#"]',
            'data = ["stocks/#", "more"]\ntelemetry_s = 3',
            ["federation.data", "federation.telemetry_s"],
        ),
        ('into = "hot"', 'into = "cold"', ["subscriptions"]),
        ('id = "west"', 'id = "west"\nfederate = ["stocks/#"]', ["brokers.federate of west"]),
        ('clients = ["*"]', 'clients = ["a*"]', ["plugins: allow_list (other settings)"]),
        ("[[subscriptions]]", '[[codecs]]\ntopics = "#"\ncodec = "cbor"\n[[subscriptions]]', ["codecs"]),
        ("[plugins.settings.tree", '[plugins]\ndisabled = ["cbor_codec"]\n[plugins.settings.tree', [GONE]),
        ('between = ["west", "east"]', 'between = ["east", "west"]', []),
        (
            'between = ["west", "east"]',
            'between = ["west", "mid"]\n[[links]]\nbetween = ["mid", "east"]\n[[brokers]]\nid = "mid"\nport = 9',
            ["brokers: mid (new)", "links: east-mid (new)", "links: east-west (gone)", "links: mid-west (new)"],
        ),
        ("port = 1884", 'port = 1884\nfederate = ["stocks/a"]', []),
        (
            "port = 1884",
            'port = 1884\nclient_host = "east.example"\nclient_tls = "on"',
            ["brokers.client_host of east", "brokers.client_tls of east"],
        ),
    ],
)
def test_each_change_that_holds_at_once_is_named(tmp_path: Path, old: str, new: str, news: list[str]) -> None:
    before, after = read(tmp_path), read(tmp_path, TEXT.replace(old, new))
    assert changed(before, after, WEST) == news
    assert left_as_it_was(before, after, WEST) == []


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ('data = ["stocks/#"]', 'data = ["stocks/#"]\nmatcher = "scan"', ["federation.matcher"]),
        ('id = "west"', 'id = "west"\nport = 1999', ["brokers.port of west"]),
        ('id = "west"', 'id = "west"\nmetrics_port = 9', ["brokers.metrics_port of west"]),
        ("port = 1884", "port = 1885", ["brokers: east"]),
        ('strategy = "S0"', 'strategy = "S1"', ["plugins: the overlay of tree_overlay"]),
    ],
)
def test_each_change_that_waits_for_a_restart_is_named(tmp_path: Path, old: str, new: str, left: list[str]) -> None:
    before, after = read(tmp_path), read(tmp_path, TEXT.replace(old, new))
    assert left_as_it_was(before, after, WEST) == left
    assert changed(before, after, WEST) == []


def test_an_agent_that_was_dropped_in_begins_at_once(tmp_path: Path) -> None:
    before = read(tmp_path)
    (tmp_path / "plugins.d").mkdir()
    (tmp_path / "plugins.d" / "quiet.py").write_text(AGENT)
    after = read(tmp_path)
    assert left_as_it_was(before, after, WEST) == []
    assert changed(before, after, WEST) == ["plugins: quiet (new)"]
    assert changed_agents(before, after) == changed_agents(after, before) == ["quiet"]


def test_agents_of_files_are_read_afresh_and_others_go_on_while_their_settings_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "plugins.d").mkdir()
    (tmp_path / "plugins.d" / "quiet.py").write_text(AGENT)
    before = read(tmp_path)
    assert changed_agents(before, read(tmp_path)) == ["quiet"]
    louder = read(tmp_path, TEXT + '[plugins.settings.balance]\nmode = "on"\n')
    assert changed_agents(before, louder) == ["balance", "quiet"]
    assert changed(before, louder, WEST) == ["plugins: balance (other settings)"]


def test_other_keys_hold_at_once_and_a_first_key_waits_for_a_restart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_keys(tmp_path / name, [new_key("sending")], is_new=True)
    without = read(tmp_path)
    one, two = (read(tmp_path, TEXT.replace(*keyed(name))) for name in ("one", "two"))
    assert left_as_it_was(one, two, WEST) == []
    assert left_as_it_was(without, one, WEST) == ["federation.key_file"]
    assert left_as_it_was(one, without, WEST) == ["federation.key_file"]
    assert changed(one, two, WEST) == ["federation.key_file"]
    assert changed(without, one, WEST) == []


def keyed(name: str) -> tuple[str, str]:
    return ('name = "two"', f'name = "two"\nkey_file = "{name}"')

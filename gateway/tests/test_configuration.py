from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.gateway.configuration import TABLES, BrokerTable, CodecTable, PluginsTable, read_draft

SMALL = """
[federation]
name = "small"
data = ["stocks/#"]
[[brokers]]
id = "a"
"""

THREE = """
[federation]
name = "three"
data = ["stocks/#"]
telemetry_s = 1
[[codecs]]
topics = "stocks/csv/#"
codec = "csv"
[[codecs]]
topics = "stocks/#"
codec = ["topic_template", "json"]
[[brokers]]
id = "a"
[[brokers]]
id = "b"
host = "b.example"
port = 8883
adapter = "amqtt"
username = "gateway"
password_env = "B_PASSWORD"
[[brokers]]
id = "c"
[[links]]
between = ["c", "b"]
[[links]]
between = ["b", "a"]
[[subscriptions]]
broker = "a"
topics = "stocks/+"
into = "federated"
where = "volume > 3"
[plugins]
files = ["mine.py", "/elsewhere/yours.py"]
directory = "drop"
disabled = ["json_lines"]
[plugins.settings.allow_list]
clients = ["x"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def test_what_is_not_written_has_its_default(tmp_path: Path) -> None:
    configuration = read_draft(write(tmp_path, SMALL)).finish()
    assert configuration.federation.matcher == "content"
    assert configuration.federation.overlay == "tree"
    assert configuration.federation.telemetry_s == 10.0
    assert configuration.brokers == [
        BrokerTable(id=GatewayId("a"), host="127.0.0.1", port=1883, adapter="mqtt", username="", password_env="")
    ]
    assert configuration.codecs == [CodecTable(topics="#", codec="json")]
    assert configuration.links == []
    assert configuration.subscriptions == []
    assert configuration.plugins == PluginsTable(files=[], directory="plugins.d", disabled=[], settings={})


def test_everything_written_is_read(tmp_path: Path) -> None:
    configuration = read_draft(write(tmp_path, THREE)).finish()
    assert configuration.federation.telemetry_s == 1.0
    assert configuration.broker("b").username == "gateway"
    assert configuration.codecs == [
        CodecTable(topics="stocks/csv/#", codec="csv"),
        CodecTable(topics="stocks/#", codec=["topic_template", "json"]),
    ]
    assert [table.names for table in configuration.codecs] == [["csv"], ["topic_template", "json"]]
    assert configuration.subscriptions[0].where == "volume > 3"
    assert configuration.plugins.settings == {"allow_list": {"clients": ["x"]}}


def test_neighbours_come_in_the_order_of_the_links(tmp_path: Path) -> None:
    configuration = read_draft(write(tmp_path, THREE)).finish()
    assert configuration.neighbours(GatewayId("b")) == ["c", "a"]
    assert configuration.neighbours(GatewayId("a")) == ["b"]


def test_the_folder_of_the_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, THREE)
    monkeypatch.chdir(tmp_path)
    configuration = read_draft(Path("federation.toml")).finish()
    assert configuration.folder == tmp_path


def test_a_broker_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    configuration = read_draft(write(tmp_path, SMALL.replace('"a"', '"paris"'))).finish()
    with pytest.raises(ConfigurationError, match=r"there is no broker 'pariss'; did you mean 'paris'\?"):
        configuration.broker("pariss")


def test_a_draft_keeps_what_can_be_used_and_tells_the_rest(tmp_path: Path) -> None:
    draft = read_draft(write(tmp_path, SMALL + "prot = 5\n[[brokers]]\nport = 5\n[extra]\n"))
    assert [entry.table is not None for entry in draft.brokers] == [True, False]
    assert draft.problems == (
        f"unknown table 'extra'; known are {', '.join(map(repr, sorted(TABLES)))}",
        "brokers#1: unknown key 'prot'; did you mean 'port'?",
        "brokers#2: key 'id' is missing",
    )
    with pytest.raises(ConfigurationError) as caught:
        draft.finish()
    assert caught.value.problems == draft.problems


def test_a_plugins_table_with_a_mistake_is_not_used_in_half(tmp_path: Path) -> None:
    draft = read_draft(write(tmp_path, SMALL + "[plugins]\nfiles = 'one.py'\n"))
    assert draft.plugins is None
    assert draft.problems == ("plugins.files: expected a list, got text",)


def test_without_its_first_table_a_file_is_told_what_that_needs(tmp_path: Path) -> None:
    draft = read_draft(write(tmp_path, "[[brokers]]\nid = 'a'\n"))
    assert draft.problems == ("table [federation] is missing; it needs at least `name` and `data`",)

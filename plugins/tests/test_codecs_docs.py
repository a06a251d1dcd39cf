"""Every example of docs/codecs.md, read by the gateway's own parts."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.contents import Contents
from mqloom.gateway.interfaces import CodecChoice
from mqloom.gateway.journal import Journal
from mqloom.gateway.mentions import Mentions

PAGE = Path(__file__).parents[2].joinpath("docs", "codecs.md").read_text(encoding="utf-8")

FEDERATION = '[federation]\nname = "docs"\ndata = ["stocks/#", "plants/#"]\n[[brokers]]\nid = "a"\n'


class Example(NamedTuple):
    title: str
    configuration: str
    columns: tuple[str, ...]
    row: str


def examples() -> list[Example]:
    found = []
    for section in PAGE.split("\n## ")[1:]:
        configuration = re.search(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        table = re.findall(r"^\|.*\|$", section, re.MULTILINE)
        if configuration:
            columns = tuple(cell.strip() for cell in table[0].strip("|").split("|"))
            found += [Example(section.partition("\n")[0], configuration[1], columns, row) for row in table[2:]]
    return found


def published(columns: tuple[str, ...], cells: list[str]) -> Publication:
    topic, content = cells[0].strip("`"), cells[1]
    match columns[1]:
        case "payload":
            return Publication(GatewayId("a"), 1, 1, 1, 0, topic, content.strip("`").encode())
        case "payload in hexadecimal":
            return Publication(GatewayId("a"), 1, 1, 1, 0, topic, bytes.fromhex(content.strip("`")))
        case "user properties":
            pairs = tuple(tuple(pair.split("=")) for pair in re.findall(r"`(.*?)`", content))
            return Publication(GatewayId("a"), 1, 1, 1, 0, topic, b"", user_properties=pairs)
    raise AssertionError(f"no such column: {columns[1]}")


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"{example.title}: {example.row[:60]}")
def test_an_example_is_read_as_the_page_says(example: Example, tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION + example.configuration)
    configuration, manager = load_federation(path)
    codecs = manager.codecs()
    journal = Journal(Counters())
    choices: list[CodecChoice] = [
        (table.topics, *(codecs[name] for name in table.names)) for table in configuration.codecs
    ]
    cells = [cell.strip() for cell in example.row.strip("|").split("|")]
    (content,) = Contents(choices, journal, Mentions()).decode([published(example.columns, cells)])
    expected = None if cells[2] == "not read" else json.loads(cells[2].strip("`"))
    assert content.attributes == expected
    assert expected is not None or journal.counters.total("payloads_undecodable") > 0


def test_every_codec_that_ships_has_examples() -> None:
    shown = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"^codec = (.*)$", PAGE, re.MULTILINE))))
    listed = set(re.findall(r"^\| \[`(\w+)`\]", PAGE, re.MULTILINE))
    assert shown == listed
    assert len(examples()) > 20

"""Every hook, type, configuration key, counter and command is in the docs, and the tutorial works as it is written."""

import argparse
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from mqloom.core.command import main
from mqloom.core.counters import COUNTERS
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway import agent_interfaces, interfaces, offload_interfaces
from mqloom.gateway.agent_answers import ask
from mqloom.gateway.agent_interfaces import AgentLog, AgentWoke, ControlReceived, PublishControl
from mqloom.gateway.configuration import TABLES
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.interfaces import Codec
from mqloom.gateway.manager import LoadedPlugin, Manager, hook_arguments
from mqloom.gateway.plugin_loading import ENTRY_POINT_GROUP

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """Return what stands under a second-level heading."""
    _, found, rest = text_of(name).partition(f"\n## {title}\n")
    assert found, f"docs/{name} has no section {title!r}"
    return rest.partition("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables in a text whose first cell is code."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def block(name: str, first_line: str) -> str:
    """Return the code block that begins with a line."""
    found = re.search(rf"^```\w+\n({re.escape(first_line)}\n.*?)^```$", text_of(name), re.MULTILINE | re.DOTALL)
    assert found, f"docs/{name} has no block that begins with {first_line!r}"
    return found[1]


# ---- nothing is missing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", hook_arguments())
def test_every_hook_is_documented_with_its_arguments_and_what_happens_if_it_raises(hook: str) -> None:
    text = section("hooks.md", hook)
    assert f"`{hook}({', '.join(hook_arguments()[hook])}) -> " in text
    assert "If it raises" in text
    assert "Called " in text


def test_no_hook_is_documented_that_does_not_exist() -> None:
    assert set(re.findall(r"mqloom_\w+", text_of("hooks.md"))) == set(hook_arguments())


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", text_of("hooks.md"), re.DOTALL))
def test_every_example_of_a_hook_is_a_plugin(example: str) -> None:
    module = ModuleType("example")
    exec(example, vars(module))
    manager = Manager([LoadedPlugin("example", "docs", module)], {})
    for agent in manager.agents(GatewayId("west"), 10.0).values():
        effects = ask(agent, AgentWoke(), 0.0)
        said = [effect.body for effect in effects if isinstance(effect, PublishControl)]
        assert ask(agent, ControlReceived(GatewayId("east"), said[0]), 1.0) == [AgentLog("info", "east is 0% busy")]


def test_every_type_that_plugins_use_is_documented() -> None:
    own = {
        name
        for module in (interfaces, agent_interfaces, offload_interfaces)
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
    }
    aliases = {
        "Attributes",
        "Bits",
        "Settings",
        "Subject",
        "AgentEvent",
        "AgentEffect",
        "OverlayEvent",
        "OverlayEffect",
    }
    assert {row[0].strip("`") for row in rows(section("hooks.md", "Types"))} == own | aliases


@pytest.mark.parametrize("table", TABLES)
def test_every_configuration_key_is_documented_with_its_default(table: str) -> None:
    title = f"`[{table}]`" if table in ("federation", "plugins", "telemetry") else f"`[[{table}]]`"
    text = section("configuration.md", title).partition("\n### ")[0]
    documented = {key.strip("`"): default for key, default, _ in rows(text)}
    assert documented == {field.encode_name: default_of(field) for field in msgspec.structs.fields(TABLES[table])}
    assert "```toml" in text


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()}`"
    if field.default is msgspec.NODEFAULT:
        return "required"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f'`"{field.default}"`' if isinstance(field.default, str) else f"`{field.default}`"


def test_every_counter_is_documented_and_no_other() -> None:
    documented = [row[0].strip("`") for row in rows(text_of("counters.md"))]
    assert sorted(documented) == sorted(COUNTERS)


def test_every_command_and_its_options_are_documented() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (*sorted(DOCS.glob("*.md")), ROOT / "README.md"))
    missing = []
    for point in entry_points(group="mqloom.commands"):
        parser = argparse.ArgumentParser(add_help=False)
        importlib.import_module(point.module).configure(parser)
        wanted = [f"mqloom {point.name}", *(option for action in parser._actions for option in action.option_strings)]
        missing += [f"{point.name}: {text}" for text in wanted if not re.search(rf"{re.escape(text)}\b", pages)]
    assert missing == []


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_link_between_the_pages_leads_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text_of(page))
    assert [target for target in targets if not (DOCS / target).is_file()] == []


@pytest.mark.parametrize("page", ["configuration.md", "plugins.md"])
def test_every_example_of_a_configuration_is_toml(page: str) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    assert blocks
    for text in blocks:
        tomllib.loads(text)


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md"])
def test_the_line_that_gives_a_federation_its_key_fits_each_example(page: str, tmp_path: Path) -> None:
    (line,) = re.findall(r"^sed .*$", text_of("security.md"), re.MULTILINE)
    example = re.search(r"^```toml\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert example
    (tmp_path / "federation.toml").write_text(example[1])
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True)
    before, after = tomllib.loads(example[1]), tomllib.loads((tmp_path / "federation.toml").read_text())
    before["federation"]["key_file"] = "federation.keys"
    assert after == before


# ---- the tutorial ------------------------------------------------------------------------------------------------


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Follow the tutorial up to its second step."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "federation.toml").write_text(block("plugins.md", "# federation.toml"))
    (tmp_path / "plugins.d").mkdir()
    (tmp_path / "plugins.d" / "csv_codec.py").write_text(block("plugins.md", "# plugins.d/csv_codec.py"))
    (tmp_path / "try_csv.py").write_text(block("plugins.md", "# try_csv.py"))
    return tmp_path


@pytest.fixture
def codec(tutorial: Path) -> Codec:
    return load_federation(tutorial / "federation.toml").manager.codecs()["csv"]


def console(command: str, number: int = 0) -> str:
    """Return what the tutorial says that a command prints."""
    blocks = re.findall(r"^```console\n\$ (.*?)^```$", text_of("plugins.md"), re.MULTILINE | re.DOTALL)
    printed: str = [text for text in blocks if text.startswith(f"{command}\n")][number]
    return printed.removeprefix(f"{command}\n")


def publication(payload: bytes) -> Publication:
    return Publication(GatewayId("north"), 1, 1, 1, 0, "stocks/nyse", payload)


def test_without_the_plugin_the_check_says_what_the_tutorial_says(
    tutorial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tutorial / "plugins.d" / "csv_codec.py").unlink()
    assert main(["check", "federation.toml"]) == 1
    assert capsys.readouterr().err == console("mqloom check federation.toml")


def test_with_the_plugin_the_check_says_what_the_tutorial_says(
    tutorial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "federation.toml"]) == 0
    assert capsys.readouterr().out == console("mqloom check federation.toml", 1)


def test_the_plugin_is_listed(tutorial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "-c", "federation.toml"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("csv_codec")]
    assert line.split() == ["csv_codec", "file", str(tutorial / "plugins.d" / "csv_codec.py"), *HOOKS]


HOOKS = ["mqloom_check,", "mqloom_codec"]


def test_the_script_prints_what_the_tutorial_says(tutorial: Path) -> None:
    finished = subprocess.run([sys.executable, "try_csv.py"], cwd=tutorial, capture_output=True, text=True, check=True)
    assert finished.stdout == console("python try_csv.py")


@pytest.mark.parametrize(
    ("payload", "matched"), [(b"YHOO,31.5,400000", True), (b"YHOO,31.5,200\r\n", False), (b"IBM,140,900000", False)]
)
def test_a_payload_is_decoded_and_matched_by_the_filter(
    tutorial: Path, codec: Codec, payload: bytes, matched: bool
) -> None:
    where = load_federation(tutorial / "federation.toml").configuration.subscriptions[0].where
    assert Filter.parse(where).matches(codec.decode(publication(payload))) is matched


@pytest.mark.parametrize("payload", [b"", b"YHOO,31.5", b"YHOO,31.5,4,5", b"YHOO,x,4", b"\xff,1,2", b"a,1,2\nb,1,2"])
def test_a_payload_that_is_not_in_the_format_is_a_value_error(codec: Codec, payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        codec.decode(publication(payload))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"number"', '"numbr"', "columns.*: there is no 'numbr'; it is one of 'text', 'whole', 'number'"),
        ("columns =", "colums =", "unknown key 'colums'; did you mean 'columns'?"),
    ],
)
def test_mistakes_in_its_settings_are_explained(
    tutorial: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, problem: str
) -> None:
    path = tutorial / "federation.toml"
    path.write_text(path.read_text().replace(old, new))
    assert main(["check", "federation.toml"]) == 1
    assert f"  - plugins.settings.csv_codec: {problem}\n" in capsys.readouterr().err


def test_the_package_of_the_tutorial_names_the_right_group() -> None:
    project = tomllib.loads(block("plugins.md", "# pyproject.toml"))["project"]
    assert project["entry-points"] == {ENTRY_POINT_GROUP: {"csv_codec": "acme_csv"}}

import sys
import textwrap
from pathlib import Path

import pytest

from mqloom.core.errors import PluginError
from mqloom.gateway.configuration import PluginsTable
from mqloom.gateway.plugin_loading import find_plugins, load_manager, load_plugins

CODEC = """
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Codec

@hookimpl
def mqloom_codec():
    return Codec(name=__name__.rpartition("_")[2], decode=lambda publication: {})
"""


def write(path: Path, text: str = CODEC) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def install(folder: Path, name: str, entry_points: str, **modules: str) -> None:
    """Make a folder on the path hold an installed package."""
    information = folder / f"{name}-1.0.dist-info"
    write(information / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    write(information / "entry_points.txt", f"[mqloom]\n{entry_points}\n")
    for module, text in modules.items():
        write(folder / f"{module}.py", text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def own(names: list[str]) -> list[str]:
    """Leave out what ships with MQLoom."""
    shipped = [found.name for found in find_plugins() if found.source.startswith("package mqloom,")]
    return [name for name in names if name not in shipped]


def error_of(*files: Path, directory: Path | None = None) -> PluginError:
    with pytest.raises(PluginError) as caught:
        load_plugins(files, directory)
    return caught.value


def test_what_ships_with_mqloom_is_loaded_like_any_other_plugin() -> None:
    sources = {plugin.name: plugin.source for plugin in load_plugins()}
    assert sources["json_codec"] == "package mqloom, mqloom.plugins.json_codec"
    assert {"scan_matcher", "tree_overlay", "allow_list", "json_lines"} <= sources.keys()


def test_an_installed_package_is_found_by_its_entry_point(site: Path) -> None:
    install(site, "acme-mqloom", "acme = acme_plugin_one", acme_plugin_one=CODEC)
    (plugin,) = [plugin for plugin in load_plugins() if plugin.name == "acme"]
    assert plugin.source == "package acme-mqloom, acme_plugin_one"
    assert "acme_plugin_one" in sys.modules


def test_an_entry_point_may_name_an_object(site: Path) -> None:
    text = f"{CODEC}\nclass Plugin:\n    @hookimpl\n    def mqloom_record(self): ...\n\nplugin = Plugin()\n"
    install(site, "acme-mqloom", "acme = acme_plugin_two:plugin", acme_plugin_two=text)
    manager = load_manager(site, PluginsTable())
    assert [plugin.hooks for plugin in manager.plugins if plugin.name == "acme"] == [("mqloom_record",)]


def test_a_file_is_loaded_under_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "lines.py")
    (plugin,) = [plugin for plugin in load_plugins([path]) if plugin.name == "lines"]
    assert plugin.source == f"file {path}"


def test_files_dropped_into_the_directory_are_loaded_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        write(tmp_path / f"{name}.py")
    assert own([plugin.name for plugin in load_plugins(directory=tmp_path)]) == ["a", "b", "c"]


def test_packages_come_before_named_files_and_those_before_dropped_ones(tmp_path: Path, site: Path) -> None:
    install(site, "acme-mqloom", "z_point = acme_plugin_three\ny_point = acme_plugin_three", acme_plugin_three=CODEC)
    files = [write(tmp_path / "x.py"), write(tmp_path / "w.py")]
    write(tmp_path / "drop" / "a.py")
    names = [plugin.name for plugin in find_plugins(files, tmp_path / "drop")]
    assert own(names) == ["y_point", "z_point", "x", "w", "a"]


def test_helpers_hidden_files_and_other_files_in_the_directory_are_no_plugins(tmp_path: Path) -> None:
    for name in ("_helper.py", ".hidden.py", "__init__.py", "readme.txt", "folder/inner.py"):
        write(tmp_path / name, "raise RuntimeError")
    assert own([plugin.name for plugin in load_plugins(directory=tmp_path)]) == []


def test_a_directory_that_is_not_there_holds_no_plugins(tmp_path: Path) -> None:
    assert own([plugin.name for plugin in load_plugins(directory=tmp_path / "gone")]) == []


def test_a_disabled_plugin_is_not_even_imported(tmp_path: Path) -> None:
    write(tmp_path / "broken.py", "raise RuntimeError")
    names = [plugin.name for plugin in load_plugins(directory=tmp_path, disabled=["broken", "json_codec"])]
    assert "json_codec" not in names
    assert own(names) == []


def test_a_manager_is_built_from_the_plugins_table(tmp_path: Path) -> None:
    write(tmp_path / "plugins.d" / "dropped.py")
    write(tmp_path / "named.py")
    manager = load_manager(tmp_path, PluginsTable(files=["named.py"], disabled=["json_codec"]))
    assert list(manager.codecs())[-2:] == ["named", "dropped"]
    assert "json" not in manager.codecs()


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    error = error_of(tmp_path / "gone.py")
    assert str(error) == f"plugin 'gone' (file {tmp_path / 'gone.py'}): there is no such file"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise RuntimeError('no luck')", "does not import: RuntimeError: no luck; "),
        ("import mqloom_is_not_called_this", "does not import: ModuleNotFoundError: No module named"),
        ("def broken(:", "does not import: SyntaxError: invalid syntax (broken.py, line 1); "),
        ("raise SystemExit(3)", "does not import: SystemExit: 3; "),
    ],
)
def test_a_file_that_raises_when_imported_is_a_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    error = error_of(write(tmp_path / "broken.py", text))
    assert error.plugin == "broken"
    assert error.problem.startswith(problem)
    assert error.problem.endswith("name it in `disabled` of [plugins]: disabled = ['broken']")
    assert "mqloom_plugin_broken" not in sys.modules


def test_a_package_that_raises_when_imported_is_a_clear_error(site: Path) -> None:
    install(site, "acme-mqloom", "acme = acme_plugin_four", acme_plugin_four="import acme_needs_this")
    error = error_of()
    assert error.source == "package acme-mqloom, acme_plugin_four"
    assert error.problem.startswith("does not import: ModuleNotFoundError: No module named 'acme_needs_this'; ")


def test_an_entry_point_to_nothing_is_a_clear_error(site: Path) -> None:
    install(site, "acme-mqloom", "acme = acme_plugin_five:gone", acme_plugin_five="")
    assert "AttributeError" in error_of().problem


def test_two_plugins_of_one_name_are_a_clear_error(tmp_path: Path) -> None:
    named, dropped = write(tmp_path / "same.py"), write(tmp_path / "drop" / "same.py")
    error = error_of(named, directory=dropped.parent)
    assert error.source == f"file {dropped}"
    assert error.problem == f"another plugin has this name: file {named}; rename one of them"


def test_a_file_that_is_no_python_is_a_clear_error(tmp_path: Path) -> None:
    error = error_of(write(tmp_path / "notes.txt"))
    assert "its name does not end in .py" in error.problem


def test_a_dropped_file_with_a_wrong_hook_name_is_a_clear_error(tmp_path: Path) -> None:
    path = write(tmp_path / "plugins.d" / "typo.py", CODEC.replace("def mqloom_codec", "def mqloom_codek"))
    with pytest.raises(PluginError) as caught:
        load_manager(tmp_path, PluginsTable())
    assert str(caught.value) == (
        f"plugin 'typo' (file {path}): there is no hook 'mqloom_codek'; did you mean 'mqloom_codec'?"
    )


def test_a_dropped_wrapper_is_a_clear_error(tmp_path: Path) -> None:
    text = """
    import pluggy

    @pluggy.HookimplMarker("mqloom")(wrapper=True)
    def mqloom_codec():
        return (yield)
    """
    write(tmp_path / "plugins.d" / "wrapper.py", text)
    with pytest.raises(PluginError, match="mqloom_codec is marked with options"):
        load_manager(tmp_path, PluginsTable())


def test_a_file_may_define_dataclasses_and_be_loaded_again(tmp_path: Path) -> None:
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    path = write(tmp_path / "again.py", f"{head}{CODEC}\n@dataclass\nclass Row:\n    a: int\n")
    first, second = (next(plugin.module for plugin in load_plugins([path]) if plugin.name == "again") for _ in range(2))
    assert first is not second

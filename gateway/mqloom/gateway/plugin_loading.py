"""Finding plugins: installed packages by entry point, files by the configuration, files dropped into plugins.d/.

The order is always the same: entry points by name, then files in the order of the configuration, then the directory's
files by name; it never depends on the file system. What does not load is an error that names it, before anything runs.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from mqloom.core.errors import PluginError
from mqloom.gateway.configuration import PluginsTable
from mqloom.gateway.manager import LoadedPlugin, Manager

ENTRY_POINT_GROUP = "mqloom"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A plugin that is there but not loaded yet."""

    name: str
    source: str
    load: Callable[[], object]


def find_plugins(files: Sequence[Path] = (), directory: Path | None = None) -> list[FoundPlugin]:
    """Return all plugins in their order; names may be double. In the directory, `_name.py` and `.name.py` are none."""
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value))
    dropped = sorted(directory.glob("*.py")) if directory is not None and directory.is_dir() else []
    paths = [*files, *(path for path in dropped if not path.name.startswith(("_", ".")))]
    return [*map(_found_point, points), *map(_found_file, paths)]


def load_plugins(
    files: Sequence[Path] = (), directory: Path | None = None, disabled: Sequence[str] = ()
) -> list[LoadedPlugin]:
    """Return all plugins but the disabled ones, in their order; raises PluginError for the first that does not load."""
    sources: dict[str, str] = {}
    plugins: list[LoadedPlugin] = []
    for found in find_plugins(files, directory):
        if found.name in disabled:
            continue
        if found.name in sources:
            raise PluginError(
                found.name, found.source, f"another plugin has this name: {sources[found.name]}; rename one of them"
            )
        sources[found.name] = found.source
        plugins.append(_load(found))
    return plugins


def load_manager(folder: Path, plugins: PluginsTable) -> Manager:
    """Return the plugins that a [plugins] table asks for; raises PluginError. Paths are relative to `folder`."""
    files = [folder / name for name in plugins.files]
    return Manager(load_plugins(files, folder / plugins.directory, plugins.disabled), plugins.settings)


def _load(found: FoundPlugin) -> LoadedPlugin:
    try:
        return LoadedPlugin(found.name, found.source, found.load())
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        advice = f"mend it, or name it in `disabled` of [plugins]: disabled = [{found.name!r}]"
        problem = f"does not import: {type(error).__name__}: {error}; {advice}"
        raise PluginError(found.name, found.source, problem) from error


def _found_point(point: EntryPoint) -> FoundPlugin:
    package = point.dist.name if point.dist is not None else "of unknown name"
    return FoundPlugin(point.name, f"package {package}, {point.value}", point.load)


def _found_file(path: Path) -> FoundPlugin:
    return FoundPlugin(path.stem, f"file {path}", lambda: _import_file(path))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PluginError(path.stem, f"file {path}", "there is no such file")
    spec = importlib.util.spec_from_file_location(f"mqloom_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module  # dataclasses and pickling look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        if before is not None:  # it was loaded before, and stays as it was
            sys.modules[spec.name] = before
        raise
    return module

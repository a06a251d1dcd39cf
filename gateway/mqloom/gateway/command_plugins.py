"""List the plugins: where each comes from, and which hooks it answers."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.configuration import PluginsTable, read_draft
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.gateway.plugin_loading import load_manager, load_plugins


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument(
        "-c",
        "--configuration",
        type=Path,
        metavar="FILE",
        help="list what this configuration loads; without it, what is installed",
    )
    parser.add_argument("--json", action="store_true", help="for programs: a list of objects")


def run(arguments: argparse.Namespace) -> int:
    """Print the list; raises PluginError for a plugin that does not load."""
    plugins = _manager(arguments.configuration).plugins
    text = _as_json(plugins) if arguments.json else _as_table(plugins)
    sys.stdout.write(f"{text}\n")
    return 0


def _manager(path: Path | None) -> Manager:
    """Load what is asked for; of the configuration only [plugins] has to be right."""
    if path is None:
        return Manager(load_plugins(), PluginsTable().settings)
    draft = read_draft(path)
    if draft.plugins is None:
        raise ConfigurationError(draft.source, draft.problems)
    return load_manager(draft.folder, draft.plugins)


def _as_json(plugins: Sequence[LoadedPlugin]) -> str:
    rows = [{"name": plugin.name, "source": plugin.source, "hooks": plugin.hooks} for plugin in plugins]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _as_table(plugins: Sequence[LoadedPlugin]) -> str:
    rows = [("NAME", "SOURCE", "HOOKS"), *((each.name, each.source, ", ".join(each.hooks)) for each in plugins)]
    name_width, source_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{name_width}}  {source:{source_width}}  {hooks}" for name, source, hooks in rows)

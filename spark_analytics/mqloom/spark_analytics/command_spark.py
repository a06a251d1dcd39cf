"""Ask Spark about telemetry: SQL, a report on capacity, and alerts while it comes in."""

import argparse
import importlib
import pkgutil
from typing import Final, cast

from mqloom import spark_analytics
from mqloom.core.command import Command

_PREFIX: Final = "command_spark_"

SUBCOMMANDS: Final[dict[str, Command]] = {
    module.name.removeprefix(_PREFIX): cast(
        Command, importlib.import_module(f"{spark_analytics.__name__}.{module.name}")
    )
    for module in sorted(pkgutil.iter_modules(spark_analytics.__path__), key=lambda each: each.name)
    if module.name.startswith(_PREFIX)
}
"""The modules `command_spark_NAME` beside this one, each as `mqloom.core.command` describes them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the subcommands and their arguments."""
    subparsers = parser.add_subparsers(dest="subcommand", required=True)
    for name, module in SUBCOMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.configure(subparsers.add_parser(name, help=summary, description=summary))


def run(arguments: argparse.Namespace) -> int:
    """Do what the subcommand does, and return its exit code."""
    return SUBCOMMANDS[arguments.subcommand].run(arguments)

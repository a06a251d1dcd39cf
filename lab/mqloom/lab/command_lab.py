"""Run experiments, storms of faults, and everything that can happen in small, on gateways in virtual time."""

import argparse
from typing import Final

from mqloom.core.command import Command
from mqloom.lab import command_lab_exhaust, command_lab_list, command_lab_replay, command_lab_run, command_lab_storm

SUBCOMMANDS: Final[dict[str, Command]] = {
    "list": command_lab_list,
    "run": command_lab_run,
    "storm": command_lab_storm,
    "exhaust": command_lab_exhaust,
    "replay": command_lab_replay,
}
"""Each a module as `mqloom.core.command` describes them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the subcommands and their arguments."""
    subparsers = parser.add_subparsers(dest="subcommand", required=True)
    for name, module in SUBCOMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.configure(subparsers.add_parser(name, help=summary, description=summary))


def run(arguments: argparse.Namespace) -> int:
    """Do what the subcommand does, and return its exit code."""
    return SUBCOMMANDS[arguments.subcommand].run(arguments)

"""Make, rotate and list the keys with which the gateways of a federation seal what they say to each other."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.key_file import KIND, Step, is_open_to_others, new_key, read_keys, rotated, write_keys

DEFAULT: Final = Path("federation.keys")

NEXT: Final = {
    Step.ADDED: "Bring it to every gateway, and let each read it; then run this again.",
    Step.EXCHANGED: "Bring it to every gateway, and let each read it; then run this again.",
    Step.RETIRED: "Bring it to every gateway, and let each read it.",
}
"""What the operator does after each step."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the subcommands and their arguments."""
    subparsers = parser.add_subparsers(dest="subcommand", required=True)
    for name, summary in (
        ("new", "write a file with one new key, which only its owner may read"),
        ("rotate", "do the next of three steps from an old key to a new one, while the federation runs"),
        ("show", "list the ids and states of keys, without their secrets"),
    ):
        each = subparsers.add_parser(name, help=summary, description=summary)
        each.add_argument("file", nargs="?", type=Path, default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}")
        if name == "show":
            each.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Do it; raises ConfigurationError if the file is there already, is none, or cannot be written."""
    path: Path = arguments.file
    if arguments.subcommand == "new":
        key = new_key("sending")
        write_keys(path, [key], is_new=True)
        sys.stdout.write(
            f"{path}: written, with key {key.id}. Keep it secret, bring it to every gateway, "
            f'and write key_file = "{path}" into [federation].\n'
        )
        return 0
    if arguments.subcommand == "rotate":
        known = read_keys(path)
        unknown = [table for table in known if table.kind != KIND]
        if unknown:
            problem = f"key {unknown[0].id!r} is of kind {unknown[0].kind!r}: rotate it with the release that wrote it"
            raise ConfigurationError(str(path), (problem,))
        tables, step = rotated(known, new_key("accepted"))
        write_keys(path, tables, is_new=False)
        number = list(Step).index(step) + 1
        sys.stdout.write(f"{path}: step {number} of {len(Step)}: {step.value}. {NEXT[step]}\n")
        return 0
    return _show(path, as_json=arguments.json)


def _show(path: Path, *, as_json: bool) -> int:
    tables = read_keys(path)
    if as_json:
        keys = [{"id": table.id, "kind": table.kind, "state": table.state} for table in tables]
        sys.stdout.write(f"{json.dumps({'keys': keys})}\n")
    else:
        sys.stdout.writelines(f"{table.id}  {table.kind}  {table.state}\n" for table in tables)
    if is_open_to_others(path):
        sys.stderr.write(f"mqloom keys: {path} can be read by others than its owner: chmod 600 {path}\n")
    return 0

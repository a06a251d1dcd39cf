"""Make, rotate and list a federation's keys: those between gateways, and order keys, whose public half clients hold."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.key_file import (
    KIND,
    NAMES,
    ORDER_KIND,
    Step,
    is_open_to_others,
    new_key,
    order_keys_in,
    read_keys,
    rotated,
    write_keys,
)

DEFAULT: Final = Path("federation.keys")

GATEWAYS: Final = "Bring it to every gateway, and let each read it"
NEXT: Final = {
    (KIND, Step.ADDED): f"{GATEWAYS}; then run this again.",
    (KIND, Step.EXCHANGED): f"{GATEWAYS}; then run this again.",
    (KIND, Step.RETIRED): f"{GATEWAYS}.",
    (
        ORDER_KIND,
        Step.ADDED,
    ): f"{GATEWAYS}; bring what `mqloom keys public` prints to every client; then go on.",
    (ORDER_KIND, Step.EXCHANGED): f"{GATEWAYS}; then run this again.",
    (ORDER_KIND, Step.RETIRED): f"{GATEWAYS}; clients need no longer hold the old public key.",
}
"""What the operator does after each step."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the subcommands and their arguments."""
    subparsers = parser.add_subparsers(dest="subcommand", required=True)
    for name, summary in (
        ("new", "write a file with one new key of each kind, which only its owner may read"),
        ("rotate", "do the next of three steps from an old key to a new one, while the federation runs"),
        ("show", "list the ids and states of keys, without their secrets"),
        ("order", "add an order key to a file of an earlier release, which has none"),
        ("public", "print the public halves of the order keys, for clients: not secret"),
    ):
        each = subparsers.add_parser(name, help=summary, description=summary)
        each.add_argument("file", nargs="?", type=Path, default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}")
        if name == "show":
            each.add_argument("--json", action="store_true", help="for programs: one object")
        if name == "rotate":
            each.add_argument("--orders", action="store_true", help="the order key, not the one between gateways")


def run(arguments: argparse.Namespace) -> int:
    """Do it; raises ConfigurationError if the file is there already, is none, or cannot be written."""
    path: Path = arguments.file
    match arguments.subcommand:
        case "new":
            key, order_key = new_key("sending"), new_key("sending", ORDER_KIND)
            write_keys(path, [key, order_key], is_new=True)
            sys.stdout.write(
                f"{path}: written, with key {key.id} and order key {order_key.id}. Keep it secret, bring it to every "
                f'gateway, and write key_file = "{path}" into [federation]. What clients need: mqloom keys public\n'
            )
        case "rotate":
            _rotate(path, ORDER_KIND if arguments.orders else KIND)
        case "order":
            _add_order_key(path)
        case "public":
            keys = order_keys_in(path)
            if keys is None:
                raise _no_order_key(path)
            sys.stdout.writelines(f"{key.text}\n" for key in keys.public)
        case _:
            _show(path, as_json=arguments.json)
    return 0


def _rotate(path: Path, kind: str) -> None:
    known = read_keys(path)
    unknown = [table for table in known if table.kind not in NAMES]
    if unknown:
        problem = f"key {unknown[0].id!r} is of kind {unknown[0].kind!r}: rotate it with the release that wrote it"
        raise ConfigurationError(str(path), (problem,))
    if all(table.kind != kind for table in known):
        raise _no_order_key(path)
    tables, step = rotated(known, new_key("accepted", kind))
    write_keys(path, tables, is_new=False)
    number = list(Step).index(step) + 1
    sys.stdout.write(f"{path}: step {number} of {len(Step)}: {step.value}. {NEXT[kind, step]}\n")


def _add_order_key(path: Path) -> None:
    known = read_keys(path)
    if any(table.kind == ORDER_KIND for table in known):
        problem = "has an order key already; to change it: mqloom keys rotate --orders"
        raise ConfigurationError(str(path), (problem,))
    key = new_key("sending", ORDER_KIND)
    write_keys(path, [*known, key], is_new=False)
    text = f"{path}: order key {key.id} added. Bring it to every gateway, and start each again."
    sys.stdout.write(f"{text} What clients need: mqloom keys public\n")


def _no_order_key(path: Path) -> ConfigurationError:
    return ConfigurationError(str(path), ("has no order key; `mqloom keys order` adds one",))


def _show(path: Path, *, as_json: bool) -> None:
    tables = read_keys(path)
    if as_json:
        keys = [{"id": table.id, "kind": table.kind, "state": table.state} for table in tables]
        sys.stdout.write(f"{json.dumps({'keys': keys})}\n")
    else:
        sys.stdout.writelines(f"{table.id}  {table.kind}  {table.state}\n" for table in tables)
    if is_open_to_others(path):
        sys.stderr.write(f"mqloom keys: {path} can be read by others than its owner: chmod 600 {path}\n")

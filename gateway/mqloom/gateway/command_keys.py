"""Make, rotate and list a federation's keys: between gateways, for orders to clients, and for telemetry."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from mqloom.core.errors import ConfigurationError
from mqloom.core.telemetry_key_file import TELEMETRY_KIND
from mqloom.gateway.key_file import (
    KIND,
    NAMES,
    ORDER_KIND,
    SESSION_KIND,
    Step,
    is_open_to_others,
    new_key,
    order_keys_in,
    read_keys,
    rotated,
    write_keys,
)

DEFAULT: Final = Path("federation.keys")

PURPOSES: Final = ("between gateways", "orders", "telemetry", "sessions")

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
    (TELEMETRY_KIND, Step.ADDED): f"{GATEWAYS}, and to whoever reads from the collector; then run this again.",
    (
        TELEMETRY_KIND,
        Step.EXCHANGED,
    ): "Start the collector again with it: gateways and readers find out by themselves; then run this again.",
    (TELEMETRY_KIND, Step.RETIRED): f"{GATEWAYS}, and to whoever reads from the collector.",
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
        (
            "sessions",
            "add the secret that hides the ids of gateways' sessions to a file of an earlier release, which has none",
        ),
        ("public", "print the public halves of the order keys, for clients: not secret"),
        (
            "telemetry",
            "add a telemetry key to a file that has none; or write those alone into a file for the collector",
        ),
    ):
        each = subparsers.add_parser(name, help=summary, description=summary)
        each.add_argument("file", nargs="?", type=Path, default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}")
        if name == "show":
            each.add_argument("--json", action="store_true", help="for programs: one object")
        if name == "rotate":
            each.add_argument("--orders", action="store_true", help="the order key, not the one between gateways")
            each.add_argument("--telemetry", action="store_true", help="the telemetry key")
        if name == "telemetry":
            each.add_argument("--to", type=Path, metavar="OTHER", help="write the telemetry keys alone into this file")


def run(arguments: argparse.Namespace) -> int:
    """Do it; raises ConfigurationError if the file is there already, is none, or cannot be written."""
    path: Path = arguments.file
    match arguments.subcommand:
        case "new":
            keys = [new_key("sending", kind) for kind in NAMES]
            write_keys(path, keys, is_new=True)
            names = ", ".join(f"{key.id} ({what})" for key, what in zip(keys, PURPOSES, strict=True))
            sys.stdout.write(
                f"{path}: written, with the keys {names}. Keep it secret, bring it to every gateway, and write "
                f'key_file = "{path}" into [federation]. What clients need: mqloom keys public; and what the collector '
                "needs: mqloom keys telemetry --to\n"
            )
        case "rotate":
            kind = TELEMETRY_KIND if arguments.telemetry else ORDER_KIND if arguments.orders else KIND
            _rotate(path, kind)
        case "telemetry":
            _telemetry(path, arguments.to)
        case "order":
            _add_order_key(path)
        case "sessions":
            _add_session_secret(path)
        case "public":
            order_keys = order_keys_in(path)
            if order_keys is None:
                raise _missing(path, ORDER_KIND)
            sys.stdout.writelines(f"{key.text}\n" for key in order_keys.public)
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
        raise _missing(path, kind)
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


def _add_session_secret(path: Path) -> None:
    known = read_keys(path)
    if any(table.kind == SESSION_KIND for table in known):
        raise ConfigurationError(str(path), ("has a secret for sessions already, which does not change",))
    key = new_key("sending", SESSION_KIND)
    write_keys(path, [*known, key], is_new=False)
    sys.stdout.write(
        f"{path}: secret {key.id} for sessions added. Bring it to every gateway, and start each again while nothing is "
        "published, held or parked: what its broker keeps for it under the former ids is discarded.\n"
    )


def _telemetry(path: Path, to: Path | None) -> None:
    known = read_keys(path)
    tables = [table for table in known if table.kind == TELEMETRY_KIND]
    if to is not None:
        if not tables:
            raise _missing(path, TELEMETRY_KIND)
        write_keys(to, [table for table in tables if table.state != "retired"], is_new=not to.exists())
        sys.stdout.write(f"{to}: written. Keep it secret; it is for `mqloom collect --key-file`, and for readers.\n")
        return
    if tables:
        problem = "has a telemetry key already; to change it: mqloom keys rotate --telemetry"
        raise ConfigurationError(str(path), (problem,))
    key = new_key("sending", TELEMETRY_KIND)
    write_keys(path, [*known, key], is_new=False)
    text = (
        f"{path}: telemetry key {key.id} added. Bring it to every gateway and to the collector, and have them read it."
    )
    sys.stdout.write(f"{text} For the collector alone: mqloom keys telemetry --to\n")


def _missing(path: Path, kind: str) -> ConfigurationError:
    name = "telemetry" if kind == TELEMETRY_KIND else "order"
    return ConfigurationError(str(path), (f"has no {name} key; `mqloom keys {name}` adds one",))


def _show(path: Path, *, as_json: bool) -> None:
    tables = read_keys(path)
    if as_json:
        keys = [{"id": table.id, "kind": table.kind, "state": table.state} for table in tables]
        sys.stdout.write(f"{json.dumps({'keys': keys})}\n")
    else:
        sys.stdout.writelines(f"{table.id}  {table.kind}  {table.state}\n" for table in tables)
    if is_open_to_others(path):
        sys.stderr.write(f"mqloom keys: {path} can be read by others than its owner: chmod 600 {path}\n")

"""Show the links of a federation as they are now: primary, soft, and those that are thought about; or move one."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.plotting import check_plot
from mqloom.core.records import Portrait
from mqloom.gateway.assembly import keyring_of
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.command_visits import address_of, read_all
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.move_order import order_move
from mqloom.gateway.overlay_plot import draw
from mqloom.gateway.overlay_view import Gallery, as_rows, as_table, read_portrait


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the subcommands and their arguments."""
    subparsers = parser.add_subparsers(dest="subcommand", required=True)
    summary = "print every link with its state, its traffic of the last period and its gain"
    show = subparsers.add_parser("show", help=summary, description=summary)
    add_configuration(show)
    show.add_argument("--plot", type=Path, metavar="FILE", help="draw it too, into a .png, .svg or .pdf file")
    show.add_argument("--json", action="store_true", help="for programs: one object")
    summary = "let a gateway leave a neighbour for another one, while everything runs; nothing is lost or repeated"
    move = subparsers.add_parser("move", help=summary, description=summary)
    move.add_argument("broker", metavar="BROKER", help="the broker whose gateway moves")
    move.add_argument("--to", required=True, metavar="NEIGHBOUR", help="its new neighbour; it leaves the one before it")
    add_configuration(move)
    move.add_argument("--json", action="store_true", help="for programs: one object, at the end")


def run(arguments: argparse.Namespace) -> int:
    """Show, or move. Raises ConfigurationError, and BrokerError if nobody answers to an order."""
    return _move(arguments) if arguments.subcommand == "move" else _show(arguments)


def _move(arguments: argparse.Namespace) -> int:
    """Move a primary link; 1 if the gateway stays where it is, which is explained on stderr."""
    configuration = load_federation(arguments.configuration).configuration
    gateway, to = configuration.broker(arguments.broker).id, configuration.broker(arguments.to).id
    address = address_of(configuration, gateway)

    def tell(text: str) -> None:
        if not arguments.json:
            sys.stdout.write(f"  {text}\n")
            sys.stdout.flush()

    answer = order_move(gateway, address, to, tell, keyring=keyring_of(configuration))
    if arguments.json:
        sys.stdout.write(f"{json.dumps(msgspec.to_builtins(answer), ensure_ascii=False)}\n")
    if answer.answer == "stayed":
        sys.stdout.flush()
        sys.stderr.write(f"mqloom overlay: {gateway} stays where it is: {answer.problem}\n")
        return 1
    if not arguments.json:
        sys.stdout.write(f"{gateway} is a neighbour of {to} now; its broker keeps that\n")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    """Print what the gateways show; 1 if one is missing, which is named on stderr."""
    if arguments.plot is not None:
        check_plot(arguments.plot)
    configuration = load_federation(arguments.configuration).configuration
    gallery = visit_all(configuration)
    name = configuration.federation.name
    if arguments.json:
        sys.stdout.write(f"{json.dumps(as_rows(gallery), indent=2, ensure_ascii=False)}\n")
    elif gallery.portraits:
        sys.stdout.write(f"{as_table(name, gallery)}\n")
    sys.stdout.flush()
    for gateway, problem in gallery.problems.items():
        sys.stderr.write(f"mqloom overlay: {gateway} is not shown: {problem}\n")
    if arguments.plot is not None:
        tree = {broker.id: _neighbours(configuration, gallery, broker.id) for broker in configuration.brokers}
        draw(tree, gallery, f"federation {name}", arguments.plot)
    return 1 if gallery.problems else 0


def _neighbours(configuration: Configuration, gallery: Gallery, gateway: GatewayId) -> Sequence[GatewayId]:
    """Return a gateway's neighbours as it shows them, for links may have been moved; else as they are configured."""
    if gateway not in gallery.portraits:
        return configuration.neighbours(gateway)
    return [link.gateway for link in gallery.portraits[gateway].links if link.kind == "primary"]


def _read(gateway: GatewayId, status: bytes | None, kept: Sequence[bytes | None]) -> Portrait | str:
    (portrait,) = kept
    return read_portrait(gateway, status, portrait)


def visit_all(configuration: Configuration, wait_s: float = WAIT_S) -> Gallery:
    """Read from every broker what its gateway shows."""
    return Gallery(*read_all(configuration, (layout.portrait,), _read, wait_s))

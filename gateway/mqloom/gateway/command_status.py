"""Show how a federation is: gateways, links, what waits, how far behind, and what was refused."""

import argparse
import json
import sys
from collections.abc import Sequence

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.command_visits import read_all
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.status_view import Overview, Reported, as_rows, as_tables, read_report


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_configuration(parser)
    parser.add_argument("--json", action="store_true", help="for programs: one object")


def run(arguments: argparse.Namespace) -> int:
    """Print what the gateways report; 1 if one is missing or a primary link is not up, which stderr names."""
    configuration = load_federation(arguments.configuration).configuration
    overview = visit_all(configuration)
    name = configuration.federation.name
    if arguments.json:
        sys.stdout.write(f"{json.dumps(as_rows(name, overview), indent=2, ensure_ascii=False)}\n")
    elif overview.gateways:
        sys.stdout.write(f"{as_tables(name, overview)}\n")
    sys.stdout.flush()
    for gateway, problem in overview.problems.items():
        sys.stderr.write(f"mqloom status: {gateway}: {problem}\n")
    for gateway, neighbour in overview.broken_links():
        sys.stderr.write(f"mqloom status: {gateway}: its link to {neighbour} is not up\n")
    return 0 if overview.is_well else 1


def visit_all(configuration: Configuration, wait_s: float = WAIT_S) -> Overview:
    """Read from every broker what its gateway reports."""
    return Overview(*read_all(configuration, (layout.drain, layout.report), _read, wait_s))


def _read(gateway: GatewayId, status: bytes | None, kept: Sequence[bytes | None]) -> Reported | str:
    mark, report = kept
    return read_report(gateway, status, report, mark)

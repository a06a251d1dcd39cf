"""Show how a federation is: gateways, links, what waits, how far behind, and what was refused."""

import argparse
import json
import sys

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import reachable_brokers
from mqloom.gateway.command_options import WAIT_S, add_configuration
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.visiting import Visit, visiting
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
    addresses, problems = reachable_brokers(configuration)
    places = {
        gateway: (address, (layout.status(gateway), layout.report(gateway))) for gateway, address in addresses.items()
    }
    gateways: dict[GatewayId, Reported] = {}
    with visiting(places) as visits:
        visits.wait(_has_all, wait_s)
        for gateway, visit in visits.each.items():
            if visit.problem or not visit.is_ready:
                problem = visit.problem or f"it does not answer within {wait_s:g} s; is it an MQTT broker?"
                problems[gateway] = f"broker at {visit.address}: {problem}"
                continue
            found = _read(gateway, visit)
            if isinstance(found, str):
                problems[gateway] = f"broker at {visit.address}: {found}"
            else:
                gateways[gateway] = found
    return Overview(gateways, problems)


def _read(gateway: GatewayId, visit: Visit) -> Reported | str:
    return read_report(gateway, visit.messages.get(layout.status(gateway)), visit.messages.get(layout.report(gateway)))


def _has_all(gateway: GatewayId, visit: Visit) -> bool:
    """Whether what is kept there has come, and belongs together."""
    return visit.is_ready and not isinstance(_read(gateway, visit), str)

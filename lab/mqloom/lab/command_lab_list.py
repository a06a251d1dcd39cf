"""List the experiments that ship with MQLoom."""

import argparse
import json

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Print all experiments."""
    from mqloom.lab.catalogue import EXPERIMENTS  # noqa: PLC0415 - `--help` need not load them

    if arguments.json:
        listed = [{"name": each.name, "summary": each.summary, "source": each.source} for each in EXPERIMENTS]
        print(json.dumps({"experiments": listed}))  # noqa: T201 - a command's answer
        return 0
    table = Table(box=SIMPLE_HEAD)
    table.add_column("experiment", no_wrap=True)
    table.add_column("what it finds out")
    table.add_column("source")
    for each in EXPERIMENTS:
        table.add_row(each.name, each.summary, each.source)
    Console(highlight=False).print(table)
    return 0

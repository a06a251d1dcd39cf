"""What commands about a federation share: the option that names its configuration, and how long they wait."""

import argparse
from pathlib import Path
from typing import Final

WAIT_S: Final = 5.0
"""How long brokers, and gateways behind them, are waited for."""

DEFAULT: Final = Path("federation.toml")


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add `-c FILE`, which becomes `arguments.configuration`."""
    parser.add_argument(
        "-c",
        "--configuration",
        type=Path,
        default=DEFAULT,
        metavar="FILE",
        help=f"{DEFAULT} where nothing is said",
    )

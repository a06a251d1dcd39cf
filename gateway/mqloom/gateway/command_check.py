"""Check a configuration, explain every mistake in it, and draw the federation."""

import argparse
import sys
from pathlib import Path

from mqloom.core.wording import counted
from mqloom.gateway.configuration_checks import hints, load_federation
from mqloom.gateway.drawing import BOXES, PLAIN, Strokes, draw


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path("federation.toml"),
        metavar="FILE",
        help="the configuration; federation.toml where nothing is said",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the drawing, a line that says it is well, and hints; raises ConfigurationError with every mistake."""
    federation = load_federation(arguments.file)
    configuration = federation.configuration
    counts = f"{counted(len(configuration.brokers), 'broker')}, {counted(len(configuration.links), 'link')}"
    drawing = draw(configuration, _strokes(sys.stdout.encoding))
    sys.stdout.write(f"{drawing}\n\n{configuration.source}: ok, {counts}\n")
    for hint in hints(federation):
        sys.stderr.write(f"hint: {hint}\n")
    return 0


def _strokes(encoding: str | None) -> Strokes:
    """Choose what the terminal can show."""
    try:
        "".join(BOXES).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BOXES

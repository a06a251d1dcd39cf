"""Write a commented starter configuration."""

import argparse
import sys
from importlib import resources
from pathlib import Path

from mqloom.core.errors import ConfigurationError


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    default = Path("federation.toml")
    parser.add_argument("file", nargs="?", type=Path, default=default, metavar="FILE", help=f"default: {default}")
    parser.add_argument("--force", action="store_true", help="overwrite a file that is there already")


def run(arguments: argparse.Namespace) -> int:
    """Write the file; raises ConfigurationError if it is there already, or cannot be written."""
    path: Path = arguments.file
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(starter())
    except FileExistsError:
        problem = "there is such a file already; --force overwrites it"
        raise ConfigurationError(str(path), (problem,)) from None
    except OSError as error:
        raise ConfigurationError(str(path), (f"cannot be written: {error.strerror}",)) from error
    sys.stdout.write(f"{path}: written; edit it, then: mqloom check {path}\n")
    return 0


def starter() -> str:
    """Return the starter's text: valid as it is, with every key in it."""
    return resources.files("mqloom.gateway").joinpath("starter.toml").read_text(encoding="utf-8")

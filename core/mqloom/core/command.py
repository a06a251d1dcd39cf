"""The command `mqloom`: finds its subcommands by entry point, so that each folder and each plugin brings its own.

An entry point of the group `mqloom.commands` names a module. The first line of the module's docstring is its help,
`configure(parser)` adds its arguments, and `run(arguments)` does the work and returns the exit code. Only the module
that is called is loaded, and all of them for `--help`.

Exit codes: 0 done; 1 it did not work, and why is on stderr; 2 called in a way that cannot work; 128 + N ended by
signal N.
"""

import argparse
import contextlib
import difflib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint
from typing import Final, Protocol, cast

from mqloom.core.errors import MQLoomError

GROUP: Final = "mqloom.commands"
DISTRIBUTION: Final = "mqloom"

FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


class Command(Protocol):
    """What the module of a subcommand has, beside its docstring."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommand's arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code; raises MQLoomError for what the user should read."""
        ...


class ExtraMissingError(Exception):
    """A module that needs more than the plain install; `needs` says what, for people."""

    def __init__(self, needs: str) -> None:
        self.needs = needs
        super().__init__(needs)


def main(arguments: Sequence[str] | None = None, *, commands: Iterable[EntryPoint] | None = None) -> int:
    """Run a subcommand and return the exit code; without arguments given, those of the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    found = _by_name(importlib.metadata.entry_points(group=GROUP) if commands is None else commands)
    try:
        code = _dispatch(words, found)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return PIPE_CLOSED
    return code


def _dispatch(words: list[str], commands: dict[str, EntryPoint]) -> int:
    if not words:
        sys.stderr.write(_help(commands))
        return MISUSED
    name, *rest = words
    if name in ("-h", "--help"):
        sys.stdout.write(_help(commands))
        return 0
    if name == "--version":
        sys.stdout.write(f"mqloom {importlib.metadata.version(DISTRIBUTION)}\n")
        return 0
    if name not in commands:
        sys.stderr.write(_unknown(name, commands))
        return MISUSED
    try:
        module = _load(commands[name])
    except ExtraMissingError as error:
        sys.stderr.write(f"mqloom {name} needs more than the plain install: {error.needs}\n")
        return MISUSED
    return _call(name, module, rest)


def _call(name: str, module: Command, words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"mqloom {name}", description=_summary(module))
    module.configure(parser)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as ended:  # argparse has printed its help or the mistake
        return ended.code if isinstance(ended.code, int) else MISUSED
    try:
        return module.run(arguments)
    except MQLoomError as error:
        sys.stdout.flush()
        sys.stderr.write(f"mqloom {name}: {error}\n")
        return FAILED


def _by_name(commands: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """Return the commands in the order of their names, whatever the order in which the file system had them."""
    found: dict[str, EntryPoint] = {}
    for each in sorted(commands, key=lambda each: (each.name, each.value)):
        found.setdefault(each.name, each)
    return found


def _load(command: EntryPoint) -> Command:
    """Import a command's module; raises ExtraMissingError if another distribution's module is not there."""
    try:
        return cast(Command, command.load())
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", DISTRIBUTION):  # one of our own: a bug, not a missing extra
            raise
        raise ExtraMissingError(_needs(command, missing)) from error


def _needs(command: EntryPoint, missing: str) -> str:
    """Say what to install: the extra that the entry point names, or else the one that brings the missing module."""
    extra = next(iter(command.extras), "") or _extra_with(missing)
    return f"pip install 'mqloom[{extra}]'" if extra else f"the module {missing!r} is not installed"


def _extra_with(module: str) -> str:
    """Return the first extra that requires a distribution of the module's name, or an empty text."""
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for requirement in requirements:
        found = re.match(r"([A-Za-z0-9._-]+).*;.*extra *== *[\"']([^\"']+)", requirement)
        if found and found[1].lower().replace("-", "_") == module.lower():
            return found[2]
    return ""


def _help(commands: dict[str, EntryPoint]) -> str:
    width = max((len(name) for name in commands), default=0)
    lines = [f"  {name:{width}}  {_help_line(each)}" for name, each in commands.items()]
    return "\n".join(
        [
            "usage: mqloom COMMAND ...",
            "",
            "MQTT brokers that already run, woven into one federation.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  -h, --help  show this; `mqloom COMMAND --help` shows a command's own",
            "  --version   show the version",
            "",
        ]
    )


def _help_line(command: EntryPoint) -> str:
    try:
        return _summary(_load(command))
    except ExtraMissingError as error:
        return f"(needs {error.needs})"
    except Exception as error:  # one broken module must not take the help for all others away
        return f"(cannot be loaded: {type(error).__name__}: {error})"


def _summary(module: Command) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def _unknown(name: str, commands: dict[str, EntryPoint]) -> str:
    near = difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
    hint = f"did you mean `mqloom {near[0]}`?" if near else "`mqloom --help` lists all commands."
    return f"mqloom: there is no command {name!r}; {hint}\n"


def _give_up_stdout() -> None:
    """Nobody reads our output any more: let the interpreter's last flush go nowhere instead of complaining."""
    with contextlib.suppress(OSError, ValueError):  # not a real file: nothing to flush into
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Mosquittos and gateways of a measurement, as processes of this machine, in a chain."""

import contextlib
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mqloom.lab.bench_processes import Program, find_mosquitto, wait_for_port

# What docs/operations.md advises; 0 is no limit. Nothing is restarted here, so nothing need be on disk.
MOSQUITTO: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 4000
set_tcp_nodelay true
sys_interval 0
log_type error
log_type warning
"""

_CODE: Final = "from mqloom.core.command import main; raise SystemExit(main())"


def start_mosquitto(name: str, text: str, port: int, folder: Path, stack: contextlib.ExitStack) -> Program:
    """Start a broker with these settings; return when it listens. The stack ends it."""
    path = folder / f"{name}.conf"
    path.write_text(text)
    program = Program(f"mosquitto-{name}", [find_mosquitto(), "-c", str(path)], folder)
    stack.callback(program.end)
    wait_for_port(program, port)
    return program


def start_gateway(name: str, configuration: Path, stack: contextlib.ExitStack) -> Program:
    """Start a gateway; the stack ends it."""
    words = ["gateway", "-c", str(configuration), "--name", name]
    return start_command(f"gateway-{name}", words, configuration.parent, stack)


def start_alternating(name: str, configuration: Path, stack: contextlib.ExitStack) -> Program:
    """Start a gateway that turns its telemetry off and on (`bench_telemetry_gateway`); the stack ends it."""
    words = [sys.executable, "-m", "mqloom.lab.bench_telemetry_gateway", str(configuration), name]
    program = Program(f"gateway-{name}", [*words, str(slices_file(configuration.parent, name))], configuration.parent)
    stack.callback(program.end)
    return program


def slices_file(folder: Path, name: str) -> Path:
    """Return where such a gateway writes what its slices cost."""
    return folder / f"{name}.slices"


def start_command(name: str, words: Sequence[str], folder: Path, stack: contextlib.ExitStack) -> Program:
    """Start a subcommand of `mqloom` as a process; the stack ends it."""
    program = Program(name, [sys.executable, "-c", _CODE, *words], folder)
    stack.callback(program.end)
    return program


def chain(ports: Mapping[str, int]) -> str:
    """Return the part of a configuration that says which brokers there are, each joined to the next."""
    brokers = [f'\n[[brokers]]\nid = "{name}"\nport = {port}\n' for name, port in ports.items()]
    links = [f"\n[[links]]\nbetween = {json.dumps(pair)}\n" for pair in itertools.pairwise(ports)]
    return "".join([*brokers, *links])

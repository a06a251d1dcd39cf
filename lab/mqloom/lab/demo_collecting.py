"""A collector beside a demonstration: it gathers the telemetry of all gateways into a folder while one looks."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mqloom.core.command_amounts import in_units
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import collector_curve
from mqloom.spark_analytics.collecting import CollectPlan, CollectServer

WINDOW_S: Final = 1.0
ANY_PORT: Final = "tcp://127.0.0.1:*"
END_S: Final = 20.0
"""How long the collector may take to end."""


@contextlib.contextmanager
def collecting(spool: Path | None, keys: Path, tell: Callable[[str], None]) -> Iterator[list[str]]:
    """Collect into a folder until the end; give what the configuration is to say of it. Without a folder: nothing.

    Raises LocalError if the folder cannot be written, or a collector writes there already.
    """
    if spool is None:
        yield []
        return
    curve = collector_curve(telemetry_secrets(keys)[0])
    server = CollectServer(CollectPlan(spool=spool, listen=ANY_PORT, serve=ANY_PORT, curve=curve), tell)
    thread = threading.Thread(target=server.run, name="mqloom-demo-collector", daemon=True)
    thread.start()
    try:
        yield ["[telemetry]", f'endpoint = "{server.addresses[0]}"', f"window_s = {WINDOW_S}"]
    finally:
        server.stop()
        thread.join(END_S)
        server.close()
        counts = server.collector.counts
        tell(f"{spool} has {counts['records']:,} more records of telemetry, {in_units(counts['bytes'])}")

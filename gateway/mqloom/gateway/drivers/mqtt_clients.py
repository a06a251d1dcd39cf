"""The MQTT clients that a connection can be made with, by name."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from mqloom.gateway.drivers.asyncio_connection import AsyncioConnection
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan
from mqloom.gateway.drivers.paho_connection import PahoConnection

MakeConnection = Callable[[ConnectionPlan, "logging.LoggerAdapter[logging.Logger]"], Connection]

MQTT_CLIENTS: Final[Mapping[str, MakeConnection]] = {"asyncio": AsyncioConnection, "paho": PahoConnection}

MQTT_CLIENT: Final = "asyncio"
"""The one that is used if nobody says otherwise."""


def make_connection(plan: ConnectionPlan, log: logging.LoggerAdapter[logging.Logger]) -> Connection:
    """Return a connection by the usual client, to be opened."""
    return MQTT_CLIENTS[MQTT_CLIENT](plan, log)

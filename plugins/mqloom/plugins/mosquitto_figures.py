"""Mosquitto's figures of itself, as it publishes them on $SYS topics: numbers by name, and what of them is load.

Every `sys_interval` Mosquitto publishes, retained, those that have changed. They are kept by the name that they have
below `$SYS/broker/`. Of the averages over 1, 5 and 15 minutes only those over one are kept: whoever has these can
work out the others.
"""

import math
from typing import Final

from mqloom.gateway.interfaces import BrokerFigures

ROOT: Final = "$SYS/broker/"
TOPICS: Final = tuple(
    f"{ROOT}{name}"
    for name in (
        "load/#",
        "clients/#",
        "messages/#",
        "store/#",
        "subscriptions/#",
        "shared_subscriptions/#",
        "retained messages/#",
        "heap/#",
        "publish/#",
        "bytes/#",
        "uptime",
    )
)
"""What to subscribe to: all but the log, which is no figure, and of which there may be much."""

MEMORY: Final = "heap/current"
"""The bytes that the broker has allocated; a Mosquitto that was built without it does not publish it."""

FIGURES_MAX: Final = 128
"""Figures that are kept, three times as many as Mosquitto 2.0 has; further ones are passed over."""
NAME_LENGTH_MAX: Final = 128

_LONG_AVERAGES: Final = ("/5min", "/15min")
_SECONDS: Final = " seconds"


class MosquittoFigures:
    """What one broker says of itself at the moment."""

    def __init__(self) -> None:
        self._named: dict[str, float] = {}

    def heard(self, topic: str, payload: str) -> None:
        """Take one message; what is no number is passed over."""
        name = topic.removeprefix(ROOT)
        if name == topic or len(name) > NAME_LENGTH_MAX or name.endswith(_LONG_AVERAGES):
            return
        try:
            value = float(payload.removesuffix(_SECONDS))
        except ValueError:
            return
        if math.isfinite(value) and (name in self._named or len(self._named) < FIGURES_MAX):
            self._named[name] = value

    def forget(self) -> None:
        """The broker is out of reach: what it was is not what it is."""
        self._named.clear()

    def figures(self) -> BrokerFigures:
        """Return what it has said, by name and sorted."""
        return BrokerFigures(dict(sorted(self._named.items())), self._named.get(MEMORY))

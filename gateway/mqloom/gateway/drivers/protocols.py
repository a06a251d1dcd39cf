"""How a connection comes back: which MQTT to speak, what the broker allows, and how long to wait before the next try.

Which MQTT a broker speaks is asked before the first connection, by one of its own: MQTT 5's shortest CONNECT, of nobody
in particular. Whoever speaks MQTT 5 says yes or no, others that they do not know this version (CONNACK 1 of 3.1.1, or
0x84). The real CONNECT will not do for that: with its properties and its will some brokers of 3.1.1 read past its end,
and say nothing at all. Some brokers only close the connection; but so does a broker that is just starting, or what
stands before it. So it is asked UNANSWERED_MAX times, and then 3.1.1 is tried once.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.errors import LocalError
from mqloom.core.limits import ANSWER_S_MAX, RECONNECT_S_MAX, RECONNECT_S_MIN, UNANSWERED_MAX
from mqloom.core.tls import tls_context, tls_problem
from mqloom.gateway.drivers.mqtt import TOO_LARGE
from mqloom.gateway.interfaces import BrokerAddress

MQTT_3: Final = 4
"""MQTT 3.1.1, as it is numbered on the wire."""
MQTT_5: Final = 5

QUESTION: Final = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x00"
"""CONNECT of MQTT 5: clean start, 10 seconds of keep-alive, no properties, and a name that the broker chooses."""
FAREWELL: Final = b"\xe0\x00"
CONNACK: Final = 0x20
UNKNOWN_VERSIONS: Final = (0x01, 0x84)

OVERHEAD_BYTES: Final = 16
"""What a PUBLISH has at most besides topic, payload and properties: header, length, packet id, lengths of others."""


class SpokenProtocol:
    """Which MQTT one broker speaks: asked once, and again when that may be wrong."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address
        self._known = 0
        self._unanswered = 0

    async def find(self) -> int:
        """Return the version to connect with; raises OSError, TimeoutError among them, while the broker is away."""
        if not self._known:
            self._known = await _ask(self._address)
        if self._known:
            self._unanswered = 0
            return self._known
        self._unanswered += 1
        if self._unanswered < UNANSWERED_MAX:
            raise ConnectionResetError("it closes the connection without a word")
        self._unanswered = 0
        return MQTT_3

    def doubt(self) -> None:
        """The broker does not want this version, or has said nothing: ask again."""
        self._known = 0


def secure(address: BrokerAddress) -> ssl.SSLContext | None:
    """Return with what to wrap a connection, from the files as they are now; raises OSError if they cannot be used."""
    if address.tls is None:
        return None
    try:
        return tls_context(address.tls)
    except LocalError as error:
        raise OSError(f"not tried: {error}") from None


def absence(address: BrokerAddress, error: Exception) -> str:
    """Return what to say of a broker to which there was no connection."""
    if isinstance(error, UnicodeError):  # the resolver's own word for a label that is empty, or too long
        return f"{address.host!r} is no name of a host: mend it in the configuration"
    if not isinstance(error, OSError):
        return f"connecting failed by a mistake of ours, please report it: {error!r}"
    if address.tls is not None and isinstance(error, ConnectionResetError):
        return f"TLS with it fails: it ends the connection ({error}); does it accept our certificate?"
    return tls_problem(error) or f"it does not answer ({error or 'in time'})"


async def _ask(address: BrokerAddress) -> int:
    """Return which MQTT a broker speaks, or 0 if it does not say."""
    async with asyncio.timeout(ANSWER_S_MAX):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=secure(address))
        try:
            writer.write(QUESTION)
            answer = await reader.read(4)
            if len(answer) < 4 or answer[0] != CONNACK:
                return 0
            writer.write(FAREWELL)
            return MQTT_3 if answer[3] in UNKNOWN_VERSIONS else MQTT_5
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Backoff:
    """How long to wait before each try: longer each time, and never all at once after a broker was away."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._random = chance or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._longest_s = RECONNECT_S_MIN

    def next_s(self) -> float:
        """Return how long to wait now."""
        longest_s = self._longest_s
        self._longest_s = min(2 * longest_s, RECONNECT_S_MAX)
        return self._random.uniform(longest_s / 2, longest_s)

    def reset(self) -> None:
        """It is up: the next loss is another one."""
        self._longest_s = RECONNECT_S_MIN


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What a broker has said about itself in its CONNACK of MQTT 5; else what 3.1.1 assumes."""

    receive_maximum: int = 65_535
    packet_bytes_max: int = 0
    """0: no limit but MQTT's own."""
    has_retained: bool = True
    topic_aliases: int = 0
    """For how many topics it takes a number instead."""

    def problem(self, topic: str, payload: bytes, user_properties: Sequence[tuple[str, str]] = ()) -> str:
        """Return why a message can never be sent, or nothing."""
        if not self.packet_bytes_max or len(payload) + 4 * len(topic) < self.packet_bytes_max // 2:
            return ""
        size = OVERHEAD_BYTES + len(topic.encode()) + len(payload)
        size += sum(5 + len(name.encode()) + len(value.encode()) for name, value in user_properties)
        return TOO_LARGE if size > self.packet_bytes_max else ""

"""Server references of MQTT 5: where a broker sends its clients (section 4.11 of the standard, server redirection)."""

from typing import Final, NamedTuple

from mqloom.core.errors import OrderError
from mqloom.core.limits import HOST_LENGTH_MAX, REFERENCE_LENGTH_MAX, REFERENCES_MAX

PORT: Final = 1883
TLS_PORT: Final = 8883

USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
REFERRING: Final = (USE_ANOTHER_SERVER, SERVER_MOVED)
"""The reason codes with which a broker sends a client elsewhere, in CONNACK and DISCONNECT."""


class Reference(NamedTuple):
    """One place that a broker names."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def references_in(text: str, *, tls: bool) -> list[Reference]:
    """Return the places that a server reference names, in their order, with spaces between them.

    Each is `host`, `host:port` or `[address]:port`; without a port it is the one that clients use with TLS, or without.
    What is none is left out; of more than REFERENCES_MAX the first count. Raises OrderError if nothing is left.
    """
    if len(text) > REFERENCE_LENGTH_MAX:
        problem = f"a server reference of {len(text)} characters, the bound is {REFERENCE_LENGTH_MAX}"
        raise OrderError("malformed", problem)
    port = TLS_PORT if tls else PORT
    found = [each for each in (_reference(word, port) for word in text.split()) if each is not None]
    if not found:
        raise OrderError("malformed", f"a server reference that names no place: {text!r}")
    return found[:REFERENCES_MAX]


def _reference(word: str, port: int) -> Reference | None:
    if word.startswith("["):
        host, bracket, rest = word[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        number = rest[1:]
    elif word.count(":") > 1:  # an address of IPv6, which has no room for a port
        host, number = word, ""
    else:
        host, _, number = word.partition(":")
    if number and not (number.isascii() and number.isdigit() and 1 <= int(number) <= 65_535):
        return None
    if not 1 <= len(host) <= HOST_LENGTH_MAX:
        return None
    return Reference(host, int(number) if number else port)

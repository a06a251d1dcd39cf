"""How a client takes part in a federation, and whether it does at all."""

import os
from dataclasses import dataclass
from typing import Final

from mqloom.core.errors import LocalError
from mqloom.core.limits import ID_LENGTH_MAX, TOKEN_LENGTH_MAX
from mqloom.core.signatures import PublicKey

VARIABLE: Final = "MQLOOM_FEDERATION"
"""The environment variable that decides where a program does not say."""

PUBLIC_KEY_BYTES: Final = 32

YES: Final = ("1", "on", "true", "yes")
NO: Final = ("", "0", "off", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """What a gateway is to know of a client, each with a default that is mostly right; raises LocalError.

    `client` is its name there: the MQTT client id, or one made up. `gateway` need only be named on a broker that sends
    no retained message to a subscription with `+`. `token` is what its operator asks for, if so. For `lease_s` seconds
    the gateway keeps what this client wants when nothing is heard of it, 0 for ever: a minute, and a day with a session
    that its broker keeps. With `order_keys`, what `mqloom keys public` prints, the client is moved between brokers by
    orders that are signed with one of them; without, it is not.
    """

    client: str = ""
    gateway: str = ""
    token: str = ""
    lease_s: float | None = None
    order_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, bound in (("client", ID_LENGTH_MAX), ("gateway", ID_LENGTH_MAX), ("token", TOKEN_LENGTH_MAX)):
            if len(getattr(self, name)) > bound:
                raise LocalError(f"Federation: {name} has more than {bound} characters")
        if self.lease_s is not None and not 0 <= self.lease_s <= 86_400 * 366:
            raise LocalError("Federation: lease_s is not between 0 and a year")
        for text in self.order_keys:
            public_key(text)


def public_key(text: str) -> PublicKey:
    """Return the public half of an order key; raises LocalError."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) != PUBLIC_KEY_BYTES:
        raise LocalError(f"Federation: {text[:80]!r} in order_keys is no key: `mqloom keys public` prints those")
    return PublicKey(data)


def federation_of(given: "bool | Federation | None") -> Federation | None:
    """Return what a program asks for, or where it says nothing, the environment; raises LocalError."""
    if isinstance(given, Federation):
        return given
    if given is None:
        text = os.environ.get(VARIABLE, "").strip().lower()
        if text not in (*YES, *NO):
            raise LocalError(f"{VARIABLE}={text!r} says neither yes nor no: set it to 1 or 0")
        given = text in YES
    return Federation() if given else None

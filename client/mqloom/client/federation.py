"""How a client takes part in a federation, and whether it does at all."""

import os
from dataclasses import dataclass, replace
from typing import Final

from mqloom.core.errors import LocalError
from mqloom.core.limits import ID_LENGTH_MAX, TOKEN_LENGTH_MAX
from mqloom.core.signatures import PublicKey, public_key

VARIABLE: Final = "MQLOOM_FEDERATION"
"""The environment variable that decides where a program does not say."""

FOLDER_VARIABLE: Final = "MQLOOM_STATE_FOLDER"
"""The environment variable with the folder for clients' memories where a program names none."""

KEY_VARIABLE: Final = "MQLOOM_PUBLIC_KEY"
"""The environment variable with the order keys where a program names none: one, or more with commas between them."""

YES: Final = ("1", "on", "true", "yes")
NO: Final = ("", "0", "off", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """What a gateway is to know of a client, each with a default that is mostly right; raises LocalError.

    `client` is its name there: the MQTT client id, or one made up. `gateway` need only be named on a broker that sends
    no retained message to a subscription with `+`. `token` is what its operator asks for, if so. For `lease_s` seconds
    the gateway keeps what this client wants when nothing is heard of it, 0 for ever: a minute, and a day with a session
    that its broker keeps. With `order_keys`, what `mqloom keys public` prints, the client is moved between brokers by
    orders that are signed with one of them, and by its broker's own word (MQTT 5) to where the signed roster leads;
    without, or with `moves=False`, it is not. With `follows_strangers` it goes where its broker says although no roster
    has that place: its account and subscriptions are shown there. With `moves_without_tls` a client that has TLS is
    moved to brokers without it, too: its account can be read on the way there. `name` is the federation's, in case that
    its keys are those of others, too. In `state_folder` the client keeps, in a file by its name, which publications its
    program has taken: then its next life does not get them again.
    """

    client: str = ""
    gateway: str = ""
    token: str = ""
    lease_s: float | None = None
    order_keys: tuple[str, ...] = ()
    name: str = ""
    moves: bool = True
    follows_strangers: bool = False
    moves_without_tls: bool = False
    state_folder: str = ""

    def __post_init__(self) -> None:
        for name in ("client", "gateway", "name", "token"):
            bound = TOKEN_LENGTH_MAX if name == "token" else ID_LENGTH_MAX
            if len(getattr(self, name)) > bound:
                raise LocalError(f"Federation: {name} has more than {bound} characters")
        if self.lease_s is not None and not 0 <= self.lease_s <= 86_400 * 366:
            raise LocalError("Federation: lease_s is not between 0 and a year")
        _ = self.keys

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """The keys whose orders are obeyed."""
        try:
            return tuple(public_key(text) for text in self.order_keys) if self.moves else ()
        except ValueError as error:
            raise LocalError(f"Federation: order_keys: {error}") from None


def federation_of(given: "bool | Federation | None") -> Federation | None:
    """Return what a program asks for, or where it says nothing, the environment; raises LocalError."""
    if isinstance(given, Federation):
        return _with_folder(given if given.order_keys else _with_keys(given))
    if given is None:
        text = os.environ.get(VARIABLE, "").strip().lower()
        if text not in (*YES, *NO):
            raise LocalError(f"{VARIABLE}={text!r} says neither yes nor no: set it to 1 or 0")
        given = text in YES
    return _with_folder(_with_keys(Federation())) if given else None


def _with_folder(settings: Federation) -> Federation:
    """Return the same with the folder of the environment, if the program names none."""
    folder = settings.state_folder or os.environ.get(FOLDER_VARIABLE, "").strip()
    return replace(settings, state_folder=folder)


def _with_keys(settings: Federation) -> Federation:
    """Return the same with the keys of the environment."""
    keys = [text.strip() for text in os.environ.get(KEY_VARIABLE, "").split(",")]
    try:
        return replace(settings, order_keys=tuple(key for key in keys if key))
    except LocalError as error:
        raise LocalError(f"{KEY_VARIABLE} in the environment: {error}") from None

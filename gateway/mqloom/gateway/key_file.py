"""The file with a federation's keys: what `key_file` names, and `mqloom keys` writes.

    version = 1

    [[keys]]
    id = "5c0d81f2"
    kind = "blake2b"
    state = "sending"
    secret = "..."

There are four kinds: keys with which gateways seal what they say to each other (`blake2b`, there is at least one),
order keys with which they sign what they tell clients (`ed25519`; without one no client is ever moved), telemetry
keys, by which gateways and readers know the collector, and it them (`curve`; without one telemetry goes in the clear),
and one secret (`session`) from which the ids of gateways' sessions with brokers are made. That one is never rotated:
other ids would be other sessions, and what brokers keep in the old ones would be lost. Without it everybody knows them.

One key of each kind is used (`sending`), others count beside it (`accepted`), or count only for what was kept under
them, such as parked publications (`retired`). Keys of a kind that this release does not know are passed over: a later
one may have written them. A rotation, of one kind, has three steps, each of which is to reach all gateways, and for
order keys all clients, before the next:

    keys in the file                    next step
    sending                             add an accepted one, drop the retired: everybody can read it
    sending, accepted                   exchange the two: everybody seals with the new one
    sending, accepted (the older one)   retire the older one
"""

import os
import secrets
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from mqloom.core.errors import ConfigurationError
from mqloom.core.seals import SECRET_BYTES, Key, Keyring, key_of
from mqloom.core.signatures import SEED_BYTES, OrderKey, OrderKeys
from mqloom.core.telemetry_key_file import TELEMETRY_KIND, telemetry_key_name
from mqloom.gateway.tables import read_toml

KIND: Final = "blake2b"
ORDER_KIND: Final = "ed25519"
SESSION_KIND: Final = "session"

assert SEED_BYTES == SECRET_BYTES

NAMES: Final[Mapping[str, Callable[[bytes], str]]] = {
    KIND: lambda secret: key_of(secret).name,
    ORDER_KIND: lambda secret: OrderKey(secret).public.name,
    TELEMETRY_KIND: telemetry_key_name,
    SESSION_KIND: lambda secret: blake2b(secret, digest_size=4, person=b"mqloom-sess-id").hexdigest(),
}
"""The kinds that this release knows, each with how the id of a key is made from its secret."""

KEYS_MAX: Final = 16
"""Keys in one file; more: refused."""

HEAD: Final = """\
# The keys of an MQLoom federation. SECRET: whoever has this file can speak as any gateway, and order any client.
# Every gateway, and every command that asks or orders one, needs the same file. Written by `mqloom keys`.
"""


class KeyTable(Struct, frozen=True, kw_only=True):
    """[[keys]]: one key. `exchanged` says of an accepted one that it was the sending one before."""

    id: str
    kind: str = KIND
    state: Literal["sending", "accepted", "retired"]
    secret: str = ""
    exchanged: bool = False


class _Document(Struct, frozen=True, kw_only=True):
    keys: Annotated[list[KeyTable], Meta(min_length=1, max_length=KEYS_MAX)]
    version: Literal[1]


class Step(Enum):
    """A step of a rotation, with what is to be done then."""

    ADDED = "a second key was added, which is read but not used yet"
    EXCHANGED = "the new key is used now, the old one is still read"
    RETIRED = "the old key counts no more, except for what is parked under it; the rotation is over"


def read_keys(path: Path) -> list[KeyTable]:
    """Return the keys in a file; raises ConfigurationError with what is wrong with it."""
    try:
        document = read_toml(path)
    except ConfigurationError as error:
        problem = error.problems[0].replace("`mqloom init` writes a commented starter", "`mqloom keys new` writes one")
        raise ConfigurationError(str(path), (problem,)) from None
    try:
        tables = msgspec.convert(document, _Document).keys
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(path), (f"is no file of keys: {error}; `mqloom keys new` writes one",)) from None
    problems = [problem for table in tables if table.kind in NAMES for problem in _problems(table)]
    for kind in NAMES:
        states = [table.state for table in tables if table.kind == kind]
        if states.count("sending") != 1 and (states or kind == KIND):
            problems.append(f"{states.count('sending')} keys of kind {kind!r} and state 'sending': it must be one")
    if problems:
        raise ConfigurationError(str(path), tuple(problems))
    return tables


def _problems(table: KeyTable) -> list[str]:
    try:
        secret = bytes.fromhex(table.secret)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        return [f"key {table.id!r}: its secret is not {SECRET_BYTES} bytes in hexadecimal; is the file complete?"]
    name = NAMES[table.kind](secret)
    if name != table.id:
        return [f"key {table.id!r}: its secret is that of {name!r}; was the file changed by hand?"]
    return []


def keyring_in(path: Path) -> Keyring:
    """Return the keys that this release uses; raises ConfigurationError."""
    tables = [table for table in read_keys(path) if table.kind == KIND]

    def of(state: str) -> tuple[Key, ...]:
        return tuple(key_of(bytes.fromhex(table.secret)) for table in tables if table.state == state)

    return Keyring(of("sending")[0], of("accepted"), of("retired"))


def order_keys_in(path: Path) -> OrderKeys | None:
    """Return the order keys, if there are any; raises ConfigurationError."""
    tables = [table for table in read_keys(path) if table.kind == ORDER_KIND]

    def of(state: str) -> list[OrderKey]:
        return [OrderKey(bytes.fromhex(table.secret)) for table in tables if table.state == state]

    return OrderKeys(of("sending")[0], tuple(key.public for key in of("accepted"))) if tables else None


def session_secret_in(path: Path) -> bytes:
    """Return from what the ids of gateways' sessions are made; nothing without it. Raises ConfigurationError."""
    return next((bytes.fromhex(table.secret) for table in read_keys(path) if table.kind == SESSION_KIND), b"")


def is_open_to_others(path: Path) -> bool:
    """Whether somebody else than its owner may read the file."""
    return bool(path.stat().st_mode & 0o077)


def new_key(state: Literal["sending", "accepted"], kind: str = KIND) -> KeyTable:
    """Draw a key."""
    secret = secrets.token_bytes(SECRET_BYTES)
    return KeyTable(id=NAMES[kind](secret), kind=kind, state=state, secret=secret.hex())


def rotated(tables: list[KeyTable], new: KeyTable) -> tuple[list[KeyTable], Step]:
    """Return the keys after the next step of the rotation of those of `new`'s kind; it is used if that is the first."""
    others = [table for table in tables if table.kind != new.kind]
    changed, step = _rotated([table for table in tables if table.kind == new.kind], new)
    return [*changed, *others] if new.kind == KIND else [*others, *changed], step


def _rotated(tables: list[KeyTable], new: KeyTable) -> tuple[list[KeyTable], Step]:
    accepted = [table for table in tables if table.state == "accepted"]
    if not accepted:
        return [*(table for table in tables if table.state == "sending"), new], Step.ADDED
    if not accepted[0].exchanged:
        swapped = [
            replace(table, state="sending") if table.state == "accepted" else _exchanged(table)
            for table in tables
            if table.state != "retired"
        ]
        return swapped, Step.EXCHANGED
    retired = [replace(table, state="retired") if table.state == "accepted" else table for table in tables]
    return retired, Step.RETIRED


def _exchanged(table: KeyTable) -> KeyTable:
    return replace(table, state="accepted", exchanged=True)


def write_keys(path: Path, tables: list[KeyTable], *, is_new: bool) -> None:
    """Write a file that only its owner may read; as a whole or not at all. Raises ConfigurationError."""
    text = HEAD + "\nversion = 1\n"
    for table in tables:
        text += f'\n[[keys]]\nid = "{table.id}"\nkind = "{table.kind}"\nstate = "{table.state}"\n'
        text += f'secret = "{table.secret}"\n' + ("exchanged = true\n" if table.exchanged else "")
    part = path if is_new else path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not is_new:
            part.replace(path)
    except FileExistsError:
        hint = "to change its key: mqloom keys rotate" if is_new else "a rotation was broken off there: delete it"
        raise ConfigurationError(str(part), (f"there is such a file already; {hint}",)) from None
    except OSError as error:
        raise ConfigurationError(str(part), (f"cannot be written: {error.strerror}",)) from error

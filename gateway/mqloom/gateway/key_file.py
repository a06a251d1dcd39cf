"""The file with a federation's keys: what `key_file` names, and `mqloom keys` writes.

    version = 1

    [[keys]]
    id = "5c0d81f2"
    kind = "blake2b"
    state = "sending"
    secret = "..."

One key seals (`sending`), others count beside it (`accepted`), or count only for what was kept under them, such as
parked publications (`retired`). Keys of a kind that this release does not know are passed over: a later one may have
written them. A rotation has three steps, each of which is to reach all gateways before the next:

    keys in the file                    next step
    sending                             add an accepted one, drop the retired: everybody can read it
    sending, accepted                   exchange the two: everybody seals with the new one
    sending, accepted (the older one)   retire the older one
"""

import os
import secrets
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from mqloom.core.errors import ConfigurationError
from mqloom.core.seals import SECRET_BYTES, Key, Keyring, key_of
from mqloom.gateway.tables import read_toml

KIND: Final = "blake2b"

KEYS_MAX: Final = 16
"""Keys in one file; more: refused."""

HEAD: Final = """\
# The keys of an MQLoom federation. SECRET: whoever has this file can speak as any gateway, and order any.
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
    RETIRED = "the old key counts no more, except for what was parked under it; the rotation is over"


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
    problems = [problem for table in tables if table.kind == KIND for problem in _problems(table)]
    sending = sum(table.state == "sending" for table in tables if table.kind == KIND)
    if sending != 1:
        problems.append(f"{sending} keys of state 'sending': it must be one")
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
    if key_of(secret).name != table.id:
        return [f"key {table.id!r}: its secret is that of {key_of(secret).name!r}; was the file changed by hand?"]
    return []


def keyring_in(path: Path) -> Keyring:
    """Return the keys that this release uses; raises ConfigurationError."""
    tables = [table for table in read_keys(path) if table.kind == KIND]

    def of(state: str) -> tuple[Key, ...]:
        return tuple(key_of(bytes.fromhex(table.secret)) for table in tables if table.state == state)

    return Keyring(of("sending")[0], of("accepted"), of("retired"))


def is_open_to_others(path: Path) -> bool:
    """Whether somebody else than its owner may read the file."""
    return bool(path.stat().st_mode & 0o077)


def new_key(state: Literal["sending", "accepted"]) -> KeyTable:
    """Draw a key."""
    secret = secrets.token_bytes(SECRET_BYTES)
    return KeyTable(id=key_of(secret).name, state=state, secret=secret.hex())


def rotated(tables: list[KeyTable], new: KeyTable) -> tuple[list[KeyTable], Step]:
    """Return the keys after the next step of a rotation; `new` is used if that is the first."""
    assert all(table.kind == KIND for table in tables)
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

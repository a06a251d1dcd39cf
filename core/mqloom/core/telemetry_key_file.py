"""The telemetry keys in a federation's key file, for gateways, the collector and its readers, who need no other keys.

`mqloom keys` writes the file; this reads of it only what is of the kind `curve`. So it may be the whole file, or one
with telemetry keys alone (`mqloom keys telemetry --to`), which lets nobody speak as a gateway.
"""

import tomllib
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from mqloom.core.errors import ConfigurationError

TELEMETRY_KIND: Final = "curve"
SECRET_BYTES: Final = 32


class _Table(Struct, frozen=True):
    id: str
    state: Literal["sending", "accepted", "retired"]
    kind: str = ""
    secret: str = ""


class _Document(Struct, frozen=True):
    version: Literal[1]
    keys: list[_Table]


def telemetry_key_name(secret: bytes) -> str:
    """Return the id of a telemetry key."""
    return blake2b(secret, digest_size=4, person=b"mqloom-curve-id").hexdigest()


def telemetry_secrets(path: Path) -> tuple[bytes, ...]:
    """Return the telemetry keys that count, the one to use first, then one of a rotation that may be right instead.

    Empty if the file has none. Raises ConfigurationError.
    """
    try:
        document = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Document)
    except FileNotFoundError:
        raise ConfigurationError(str(path), ("there is no such file; `mqloom keys new` writes one",)) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(str(path), (f"is no file of keys: {error}; `mqloom keys new` writes one",)) from None
    tables = [table for table in document.keys if table.kind == TELEMETRY_KIND and table.state != "retired"]
    return tuple(_secret(path, table) for table in sorted(tables, key=lambda table: table.state != "sending"))


def _secret(path: Path, table: _Table) -> bytes:
    try:
        secret = bytes.fromhex(table.secret)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES or telemetry_key_name(secret) != table.id:
        problem = f"key {table.id!r}: its secret is not the one that was written; was the file changed by hand?"
        raise ConfigurationError(str(path), (problem,))
    return secret

"""Codec `user_properties`: the MQTT 5 user properties of a publication become attributes, whatever its payload.

    [plugins.settings.user_properties_codec]
    types = {volume = "int", price = "float"}

Values are text unless `types` says otherwise: a filter never guesses, so neither does the codec.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from mqloom.core.publication import Publication
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec, Settings
from mqloom.gateway.tables import explain_settings, read_table
from mqloom.plugins.text_values import READINGS, ValueType


class UserPropertiesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The types of those properties that are not text, by name."""

    types: dict[str, ValueType] = field(default_factory=dict)


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return explain_settings(UserPropertiesSettings, settings)


@hookimpl
def mqloom_codec(settings: Settings) -> Codec:
    """Offer the codec."""
    table = read_table(UserPropertiesSettings, settings, "", [])  # of mistakes in it `mqloom_check` tells
    types = table.types if table is not None else {}
    readers = {name: _reader(name, kind) for name, kind in types.items() if kind != "text"}

    def decode(publication: Publication) -> Attributes:
        """Return the properties; of several with one name the last. Raises ValueError for one not of its type."""
        properties: dict[str, object] = dict(publication.user_properties)
        for name, read in readers.items():
            if name in properties:
                properties[name] = read(str(properties[name]))
        return properties

    return Codec(name="user_properties", decode=decode)


def _reader(name: str, kind: ValueType) -> Callable[[str], object]:
    reading = READINGS[kind]
    pattern = re.compile(reading.pattern)

    def read(text: str) -> object:
        value = reading.read(text) if pattern.fullmatch(text) else None
        if value is None:
            raise ValueError(f"the user property {name!r} is no {kind}: {text[:100]!r}")
        return value

    return read

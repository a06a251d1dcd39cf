"""A configuration as telemetry tells it: each place with its value as JSON, without secrets, as one gateway sees it."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import TEXT_MAX, ConfigurationRecord, Record
from mqloom.gateway.configuration import Configuration

SECRET: Final = re.compile(
    r"token|secret|credential|authori[sz]ation|pwd|(pass(word|phrase|wd)|(api|access|private|shared)[-_]?key)(?!_(env|file))",
    re.IGNORECASE,
)
"""Names whose values are not told; in a `password_env` there is only the name of a variable."""

LOGIN: Final = re.compile(r"(?<=://)[^/?#\s\"]*@")
"""Who logs in, and how, in a URL."""

NOT_TOLD: Final = "not told"


def configuration_texts(configuration: Configuration, gateway: GatewayId, version: str) -> dict[str, str]:
    """Return the places of a configuration that concern a gateway, each with its value."""
    places: dict[str, object] = {"version": version}
    for name, table in (("federation", configuration.federation), ("telemetry", configuration.telemetry)):
        places |= {f"{name}.{key}": value for key, value in msgspec.structs.asdict(table).items()}
    own = msgspec.structs.asdict(configuration.broker(gateway))
    places |= {f"brokers.{gateway}.{key}": value for key, value in own.items()}
    places["brokers"] = [broker.id for broker in configuration.brokers]
    places["links"] = [link.between for link in configuration.links]
    places["codecs"] = configuration.codecs
    places["subscriptions"] = [each for each in configuration.subscriptions if each.broker == gateway]
    plugins = msgspec.structs.asdict(configuration.plugins)
    settings: Mapping[str, object] = plugins.pop("settings")
    places |= {f"plugins.{key}": value for key, value in plugins.items()}
    places |= {f"plugins.settings.{plugin}": value for plugin, value in settings.items()}
    return {place: _text(place, value) for place, value in places.items()}


def _text(place: str, value: object) -> str:
    told = _without_secrets(msgspec.to_builtins(value), place.rpartition(".")[2])
    return msgspec.json.encode(told).decode()[:TEXT_MAX]


def _without_secrets(value: object, key: str) -> object:
    if SECRET.search(key):
        return NOT_TOLD
    if isinstance(value, dict):
        return {each: _without_secrets(inner, str(each)) for each, inner in value.items()}
    if isinstance(value, str):
        return LOGIN.sub(f"{NOT_TOLD}@", value)
    return [_without_secrets(inner, "") for inner in value] if isinstance(value, list | tuple) else value


def changes(before: Mapping[str, str], after: Mapping[str, str], at: float) -> list[Record]:
    """Return what is different, place by place."""
    return [
        ConfigurationRecord(at, place[:TEXT_MAX], before.get(place, ""), after.get(place, ""))
        for place in sorted({*before, *after})
        if before.get(place) != after.get(place)
    ]


def again(settings: Mapping[str, str], at: float) -> list[Record]:
    """Return all of it for whoever has not heard of it: nothing is different."""
    return [ConfigurationRecord(at, place[:TEXT_MAX], settings[place], settings[place]) for place in sorted(settings)]

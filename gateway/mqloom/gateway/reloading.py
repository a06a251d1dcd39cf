"""A configuration that was read again, beside the one a gateway runs with: what holds now, what waits for a restart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from mqloom.core.ids import GatewayId
from mqloom.gateway.configuration_checks import Federation
from mqloom.gateway.manager import LoadedPlugin

RELOADED: Final = frozenset(
    {"name", "data", "telemetry_s", "federate", "key_file", "client_host", "client_port", "client_tls", "telemetry"}
)
"""Keys of [federation] and of the gateway's [[brokers]] that hold at once, as do [[codecs]], [[subscriptions]] and
[telemetry], of which all does but what is kept in memory at most."""

TELEMETRY: Final = ("endpoint", "window_s", "groups_max", "plugins")

BUILT_IN: Final = {
    "mqloom_matcher": "matcher",
    "mqloom_overlay": "overlay",
    "mqloom_adapter": "broker adapter",
    "mqloom_offload": "way to choose whom to move",
}
"""What a plugin offers that is part of a running gateway, by hook."""

NONE: Final[tuple[tuple[str, ...], Mapping[str, object]]] = ((), {})


def changed(old: Federation, new: Federation, gateway: GatewayId) -> list[str]:
    """Return what is different from the configuration before and holds at once, each with its place.

    Keys in a file are not looked at, nor what a plugin does that has the name, hooks and settings that it had.
    """
    before, after = old.configuration, new.configuration
    places = [f"federation.{key}" for key in _changed_keys(before.federation, after.federation)]
    if bool(before.federation.key_file) != bool(after.federation.key_file):  # that waits for a restart
        places.remove("federation.key_file")
    gone = [topics for topics in before.federation.data if topics not in after.federation.data]
    if gone:
        places.append(f"no data any more: {', '.join(gone)}")
    places += [f"brokers.{key} of {gateway}" for key in _changed_keys(before.broker(gateway), after.broker(gateway))]
    others = {broker.id: broker for broker in before.brokers if broker.id != gateway}
    for broker in after.brokers:
        keys = _changed_keys(others[broker.id], broker) if broker.id in others else ()
        places += [f"brokers.{key} of {broker.id}" for key in keys if key != "federate"]
    places += _came_and_went("brokers", [{str(broker.id) for broker in one.brokers} for one in (before, after)])
    places += _came_and_went(
        "links", [{"-".join(sorted(link.between)) for link in one.links} for one in (before, after)]
    )
    if before.codecs != after.codecs:
        places.append("codecs")
    mine = [[each for each in one.subscriptions if each.broker == gateway] for one in (before, after)]
    if mine[0] != mine[1]:
        places.append("subscriptions")
    places += [
        f"telemetry.{key}" for key in TELEMETRY if getattr(before.telemetry, key) != getattr(after.telemetry, key)
    ]
    had, has = _by_name(old), _by_name(new)
    places += [
        f"plugins: {name} ({'gone' if name not in has else 'new' if name not in had else 'other settings'})"
        for name in sorted({*had, *has})
        if had.get(name) != has.get(name) and not BUILT_IN.keys() & {*had.get(name, NONE)[0], *has.get(name, NONE)[0]}
    ]
    return places


def _came_and_went(what: str, before_and_after: Sequence[set[str]]) -> list[str]:
    before, after = before_and_after
    return [f"{what}: {each} ({'new' if each in after else 'gone'})" for each in sorted(before ^ after)]


def _changed_keys(old: Struct, new: Struct) -> Iterator[str]:
    for field in msgspec.structs.fields(old):
        if field.name in RELOADED and getattr(old, field.name) != getattr(new, field.name):
            yield field.encode_name


def left_as_it_was(old: Federation, new: Federation, gateway: GatewayId) -> list[str]:
    """Return what differs from how the gateway began and cannot be changed while it runs, each with its place."""
    before, after = old.configuration, new.configuration
    places = [f"federation.{key}" for key in _differing(before.federation, after.federation)]
    if bool(before.federation.key_file) != bool(after.federation.key_file):  # other keys hold at once
        places.append("federation.key_file")
    if before.telemetry.held_bytes_max != after.telemetry.held_bytes_max:
        places.append("telemetry.held_bytes_max")
    mine = after.broker(gateway)
    places += [f"brokers.{key} of {gateway}" for key in _differing(before.broker(gateway), mine)]
    others = {broker.id: broker for broker in before.brokers if broker.id != gateway}
    now = {broker.id: broker for broker in after.brokers if broker.id != gateway}
    places += [f"brokers: {each}" for each in sorted({*others} & {*now}) if any(_differing(others[each], now[each]))]
    return [*places, *_plugins(old, new)]


def _differing(old: Struct, new: Struct) -> Iterator[str]:
    for field in msgspec.structs.fields(old):
        if field.name not in RELOADED and getattr(old, field.name) != getattr(new, field.name):
            yield field.encode_name


def changed_agents(old: Federation, new: Federation) -> list[str]:
    """Return the plugins whose agents are not what they were: other settings, or read afresh, come or gone."""
    before, after = _by_name(old), _by_name(new)
    modules = [{plugin.name: plugin.module for plugin in one.manager.plugins} for one in (old, new)]
    return [
        name
        for name in sorted({*before, *after})
        if "mqloom_agent" in {*before.get(name, NONE)[0], *after.get(name, NONE)[0]}
        and (before.get(name) != after.get(name) or modules[0][name] is not modules[1][name])
    ]


def _plugins(old: Federation, new: Federation) -> Iterator[str]:
    """Yield the plugins that came, went or have other settings, and offer what is built in."""
    before, after = _by_name(old), _by_name(new)
    for name in sorted({*before, *after}):
        if before.get(name) == after.get(name):
            continue
        hooks = {*before.get(name, NONE)[0], *after.get(name, NONE)[0]}
        for hook, what in BUILT_IN.items():
            if hook in hooks:
                yield f"plugins: the {what} of {name}"


def _by_name(federation: Federation) -> dict[str, tuple[tuple[str, ...], Mapping[str, object]]]:
    settings = federation.configuration.plugins.settings

    def signature(plugin: LoadedPlugin) -> tuple[tuple[str, ...], Mapping[str, object]]:
        return plugin.hooks, settings.get(plugin.name, {})

    return {plugin.name: signature(plugin) for plugin in federation.manager.plugins}

"""Whether a configuration describes a federation that can work: every mistake, each in a sentence with its place."""

import itertools
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from mqloom.core.errors import ConfigurationError, FilterError, LocalError, PluginError, TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.layout import RESERVED
from mqloom.core.limits import HOPS_MAX
from mqloom.core.subscription import Subscription
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.tls import tls_context
from mqloom.core.topics import check_topic, check_topic_filter, topic_filter_covers, topic_filters_intersect
from mqloom.gateway.configuration import (
    GATEWAY_MARK,
    BrokerTable,
    CodecTable,
    Configuration,
    Draft,
    PluginsTable,
    SubscriptionTable,
    read_draft,
)
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.key_file import is_open_to_others, read_keys
from mqloom.gateway.manager import Manager
from mqloom.gateway.plugin_loading import find_plugins, load_manager
from mqloom.gateway.tables import nearest

OUTPUT_BYTES_S_MIN: Final = 1_000
"""A smaller limit on what clients get is a mistake: it is in bytes a second."""


ENDPOINT: Final = re.compile(r"tcp://(\[[0-9A-Fa-f:]+\]|[^/:\s]+):(?P<port>[1-9]\d{0,4})|ipc://\S+")
"""Where a collector can be."""

PORT_MAX: Final = 65_535


class Federation(NamedTuple):
    """A configuration without mistakes, and the plugins it asks for."""

    configuration: Configuration
    manager: Manager


def load_federation(path: Path) -> Federation:
    """Return what a file describes, with its plugins loaded: what a gateway starts from.

    Raises ConfigurationError with every mistake of form, of meaning, and of what plugins do not offer.
    """
    draft = read_draft(path)
    problems = [*draft.problems, *_meaning_problems(draft)]
    manager = None
    if draft.plugins is not None:
        try:
            manager = load_manager(draft.folder, draft.plugins)
            problems += _choice_problems(draft, manager)
        except PluginError as error:
            problems.append(str(error))
    configuration = replace(draft, problems=tuple(problems)).finish()
    assert manager is not None
    return Federation(configuration, manager)


def _meaning_problems(draft: Draft) -> Iterator[str]:
    yield from _data_problems(draft)
    yield from _client_problems(draft)
    yield from _codec_problems(draft)
    yield from _broker_problems(draft)
    yield from _link_problems(draft)
    yield from _subscription_problems(draft)
    yield from _plugin_problems(draft)
    yield from _key_problems(draft)
    yield from _telemetry_problems(draft)


def _telemetry_problems(draft: Draft) -> Iterator[str]:
    endpoint = "" if draft.telemetry is None else draft.telemetry.endpoint
    found = ENDPOINT.fullmatch(endpoint)
    if endpoint and (found is None or int(found["port"] or 0) > PORT_MAX):
        yield f"telemetry.endpoint: {endpoint!r} is no address of ZeroMQ: it should look like tcp://collector.example:5570"


def _key_problems(draft: Draft) -> Iterator[str]:
    if draft.federation is not None and draft.federation.key_file:
        path = draft.folder / draft.federation.key_file
        try:
            read_keys(path)
        except ConfigurationError as error:
            yield from (f"federation.key_file: {path}: {problem}" for problem in error.problems)


def hints(federation: Federation) -> list[str]:
    """Return what is no mistake, but better otherwise."""
    configuration = federation.configuration
    return [*_key_hints(configuration), *_overlay_hints(federation), *_telemetry_hints(configuration)]


def _overlay_hints(federation: Federation) -> list[str]:
    configuration = federation.configuration
    kind = federation.manager.overlays()[configuration.federation.overlay]
    found: dict[str, list[str]] = {}
    if kind.hints is None:
        return []
    for broker in configuration.brokers:
        for hint in kind.hints(broker.overlay_settings):
            found.setdefault(hint, []).append(broker.id)
    return [f"overlay {kind.name} at {', '.join(brokers)}: {hint}" for hint, brokers in found.items()]


def _telemetry_hints(configuration: Configuration) -> list[str]:
    path, endpoint = configuration.key_path, configuration.telemetry.endpoint
    if not endpoint.startswith("tcp://") or path is None or telemetry_secrets(path):
        return []
    text = f"telemetry.endpoint: {path} has no telemetry key: what gateways tell the collector is not encrypted"
    return [f"{text}; `mqloom keys telemetry` adds one"]


def _key_hints(configuration: Configuration) -> list[str]:
    path = configuration.key_path
    if path is None and configuration.links:
        text = "federation.key_file: the federation has no key: whoever may write to mqloom/ on a broker can speak as a"
        return [f"{text} gateway; `mqloom keys new` makes one"]
    if path is not None and is_open_to_others(path):
        return [f"federation.key_file: {path} can be read by others than its owner: chmod 600 {path}"]
    return []


# ---- topics ------------------------------------------------------------------------------------------------------


def _data_problems(draft: Draft) -> Iterator[str]:
    valid: list[tuple[str, str]] = []
    for number, topics in enumerate(draft.federation.data if draft.federation is not None else (), 1):
        place = f"federation.data#{number}"
        try:
            check_topic_filter(topics)
        except TopicError as error:
            yield f"{place}: {error}"
            continue
        if topic_filters_intersect(topics, f"{RESERVED}/#"):
            yield f"{place}: {topics!r} includes {RESERVED}/, which is ours: name only the topics that carry data"
        valid.append((place, topics))
    for (first, one), (place, other) in itertools.combinations(valid, 2):
        if topic_filters_intersect(one, other):
            yield f"{place}: {other!r} overlaps {one!r} ({first}): a publication would be taken in twice"


def _client_problems(draft: Draft) -> Iterator[str]:
    if draft.federation is not None and draft.federation.mqtt_client not in MQTT_CLIENTS:
        name = draft.federation.mqtt_client
        yield f"federation.mqtt_client: there is no {name!r}; {nearest(name, MQTT_CLIENTS)}"


def _data(draft: Draft) -> list[str]:
    """Return the data topics that are topic filters at all."""
    return [topics for topics in draft.federation.data if _is_filter(topics)] if draft.federation is not None else []


def _is_filter(topics: str) -> bool:
    try:
        check_topic_filter(topics)
    except TopicError:
        return False
    return True


def _outside_problem(draft: Draft, place: str, topics: str) -> Iterator[str]:
    data = _data(draft)
    if data and not any(topic_filters_intersect(topics, each) for each in data):
        yield f"{place}: {topics!r} is in none of federation.data: nothing would ever come"


def _codec_problems(draft: Draft) -> Iterator[str]:
    earlier: list[tuple[str, str]] = []
    for place, codec, _ in draft.codecs:
        if codec is None:
            continue
        yield from _twice_problems(f"{place}.codec", codec)
        try:
            check_topic_filter(codec.topics)
        except TopicError as error:
            yield f"{place}.topics: {error}"
            continue
        yield from _outside_problem(draft, f"{place}.topics", codec.topics)
        for first, topics in earlier:
            if topic_filter_covers(topics, codec.topics):
                yield f"{place}: is never used: {first} with {topics!r} comes first; put the narrower one above it"
                break
        earlier.append((place, codec.topics))


def _codec_places(place: str, codec: CodecTable) -> list[str]:
    """Return where each of the codecs is named."""
    return (
        [place] if isinstance(codec.codec, str) else [f"{place}#{number}" for number in range(1, len(codec.codec) + 1)]
    )


def _twice_problems(place: str, codec: CodecTable) -> Iterator[str]:
    for index, name in enumerate(codec.names):
        if name in codec.names[:index]:
            yield f"{_codec_places(place, codec)[index]}: {name!r} is in the list already"


# ---- brokers and links -------------------------------------------------------------------------------------------


def _broker_problems(draft: Draft) -> Iterator[str]:
    if not draft.brokers:
        yield "there is no broker: write at least one [[brokers]] with an `id`"
    ids: dict[str, str] = {}
    addresses: dict[tuple[str, int], str] = {}
    for place, broker, sound in draft.brokers:
        if broker is None:
            continue
        if broker.id in ids:
            yield f"{place}.id: {broker.id!r} is the id of {ids[broker.id]} already; give each broker its own"
        ids.setdefault(broker.id, place)
        if not _is_host(broker.host):
            yield f"{place}.host: {broker.host!r} is no host: write its name or address alone, and the port in `port`"
        for number, topics in enumerate(broker.federate, 1):
            yield from _federate_problems(draft, f"{place}.federate#{number}", topics)
        if not sound:  # a default in the place of a mistake would lead to wrong conclusions
            continue
        if 0 < broker.output_bytes_s_max < OUTPUT_BYTES_S_MIN:
            text = f"{broker.output_bytes_s_max:g} bytes a second serve nobody: at least {OUTPUT_BYTES_S_MIN:,}, or 0"
            yield f"{place}.output_bytes_s_max: {text} for no limit"
        yield from _login_problems(place, broker)
        yield from _tls_problems(draft, place, broker)
        address = (broker.host.lower(), broker.port)
        if address in addresses:
            yield f"{place}: {broker.host}:{broker.port} is the address of {addresses[address]} already"
        addresses.setdefault(address, place)


def _is_host(host: str) -> bool:
    """Whether it can be a name or an address: the resolver would raise for a label that is empty, or too long."""
    if "/" in host or host.count(":") == 1 or host.split() != [host]:
        return False
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _federate_problems(draft: Draft, place: str, topics: str) -> Iterator[str]:
    try:
        Subscription.parse(topics)
    except TopicError as error:
        yield f"{place}: {error}"
        return
    yield from _outside_problem(draft, place, topics)


def _login_problems(place: str, broker: BrokerTable) -> Iterator[str]:
    if broker.password_env and not broker.username:
        yield f"{place}.password_env: a password needs a `username` with it"
    if broker.link_password_env and not broker.link_username:
        yield f"{place}.link_password_env: a password needs a `link_username` with it"


def _tls_problems(draft: Draft, place: str, broker: BrokerTable) -> Iterator[str]:
    """Certificates of other gateways may be on other machines; all else must be here, and right."""
    keys = [key for key in ("tls_ca", "tls_certificate", "tls_key") if getattr(broker, key)]
    if keys and not broker.tls:
        yield f"{place}.{keys[0]}: only with `tls = true`"
        return
    if broker.tls_key and not broker.tls_certificate:
        yield f"{place}.tls_key: a key needs a `tls_certificate` with it"
        return
    if broker.tls and broker.adapter == "amqtt":
        yield f"{place}.tls: the embedded broker speaks no TLS; it listens on one machine, for trying things out"
    files = broker.tls_files(draft.folder, broker.id)
    if files is None:
        return
    if GATEWAY_MARK in broker.tls_certificate + broker.tls_key and not Path(files.certificate).exists():
        files = replace(files, certificate="", key="")
    try:
        tls_context(files)
    except LocalError as error:
        yield f"{place}.tls: {error}"


def _ids(draft: Draft) -> tuple[list[GatewayId], bool]:
    """Return the ids that could be read, and whether that is all of them."""
    ids = [broker.id for _, broker, _ in draft.brokers if broker is not None]
    return ids, len(ids) == len(draft.brokers)


def _link_problems(draft: Draft) -> Iterator[str]:
    """Unknown ends, links to oneself, links twice, cycles, splits: the tree grows link by link, and groups join."""
    ids, complete = _ids(draft)
    whole = complete
    group = {broker: {broker} for broker in ids}
    tree: dict[GatewayId, list[GatewayId]] = {broker: [] for broker in ids}
    known: dict[frozenset[GatewayId], str] = {}
    for place, link, _ in draft.links:
        unknown = [end for end in link.between if end not in tree] if link is not None else []
        if link is None or unknown:
            yield from (f"{place}: there is no broker {end!r}; {nearest(end, ids)}" for end in unknown if complete)
            whole = False
            continue
        one, other = link.between
        pair = frozenset(link.between)
        if one == other:
            yield f"{place}: {one!r} is linked to itself"
        elif pair in known:
            yield f"{place}: {one!r} and {other!r} are linked by {known[pair]} already"
        elif group[one] is group[other]:
            way = " - ".join([*_way(tree, one, other), one])
            yield f"{place}: closes a cycle, {way}; primary links form a tree: remove one of these"
        else:
            known[pair] = place
            tree[one].append(other)
            tree[other].append(one)
            small, large = sorted((group[one], group[other]), key=len)
            large |= small
            group.update(dict.fromkeys(small, large))
    parts = {id(members): sorted(members) for members in group.values()}
    if len(parts) > 1 and whole:
        listed = " | ".join(", ".join(part) for part in sorted(parts.values()))
        yield f"links: the primary network is split into {len(parts)} parts, {listed}; link them"
    yield from _length_problems(tree)


def _length_problems(tree: Mapping[GatewayId, Collection[GatewayId]]) -> Iterator[str]:
    if tree:
        end = list(_search(tree, next(iter(tree))))[-1]  # the farthest from anywhere is one end of a longest way
        way = _way(tree, end, list(_search(tree, end))[-1])
        if len(way) - 1 > HOPS_MAX:
            yield f"links: from {way[0]!r} to {way[-1]!r} it is {len(way) - 1} links; {HOPS_MAX} at most are crossed"


def _way(tree: Mapping[GatewayId, Collection[GatewayId]], start: GatewayId, end: GatewayId) -> list[GatewayId]:
    """Return the brokers on the way between two that are connected, both included."""
    towards_end = _search(tree, end)
    way = [start]
    while way[-1] != end:
        way.append(towards_end[way[-1]])
    return way


def _search(tree: Mapping[GatewayId, Collection[GatewayId]], start: GatewayId) -> dict[GatewayId, GatewayId]:
    """Return everybody connected, the nearest first, each with the next broker on its way to `start`."""
    found = {start: start}
    queue = [start]
    for broker in queue:
        for neighbour in tree[broker]:
            if neighbour not in found:
                found[neighbour] = broker
                queue.append(neighbour)
    return found


# ---- standing subscriptions --------------------------------------------------------------------------------------


def _subscription_problems(draft: Draft) -> Iterator[str]:
    ids, complete = _ids(draft)
    for place, subscription, _ in draft.subscriptions:
        if subscription is None:
            continue
        if subscription.broker not in ids and complete:
            yield f"{place}.broker: there is no broker {subscription.broker!r}; {nearest(subscription.broker, ids)}"
        try:
            Subscription.parse(subscription.topics)
            yield from _outside_problem(draft, f"{place}.topics", subscription.topics)
        except TopicError as error:
            yield f"{place}.topics: {error}"
        try:
            Subscription.parse("#", subscription.where)
        except FilterError as error:
            yield f"{place}.where, column {error.column}:\n" + textwrap.indent(error.pointer(), " " * 6)
        yield from _into_problems(draft, place, subscription)


def _into_problems(draft: Draft, place: str, subscription: SubscriptionTable) -> Iterator[str]:
    into = subscription.into
    try:
        check_topic(into)
    except TopicError as error:
        yield f"{place}.into: {error}"
        return
    if into.endswith("/"):
        yield f"{place}.into: {into!r} ends with a slash; one is put between it and the topic anyway"
    if topic_filters_intersect(f"{into}/#", f"{RESERVED}/#"):
        yield f"{place}.into: {into!r} is inside {RESERVED}/, which is ours: choose another"
    for topics in _data(draft):
        if topic_filters_intersect(f"{into}/#", topics):
            yield f"{place}.into: what is put below {into!r} would be taken in again by the data topics {topics!r}"


# ---- plugins -----------------------------------------------------------------------------------------------------


def _plugin_problems(draft: Draft) -> Iterator[str]:
    if draft.plugins is None:
        return
    plugins = draft.plugins
    directory = draft.folder / plugins.directory
    if plugins.directory != PluginsTable().directory and not directory.is_dir():
        yield f"plugins.directory: there is no folder {str(directory)!r}"
    names = [found.name for found in find_plugins([draft.folder / name for name in plugins.files], directory)]
    for number, name in enumerate(plugins.disabled, 1):
        if name not in names:
            yield f"plugins.disabled#{number}: there is no plugin {name!r}; {nearest(name, names)}"
    for name in plugins.settings:
        if name not in names:
            yield f"plugins.settings.{name}: there is no plugin of this name; {nearest(name, names)}"


def _choice_problems(draft: Draft, manager: Manager) -> Iterator[str]:
    """Names that no plugin offers, and what plugins say of their settings. Raises PluginError."""
    yield from manager.settings_problems()
    codecs, adapters = manager.codecs(), manager.adapters()
    choices: list[tuple[str, str, Collection[str]]] = []
    if draft.federation is not None:
        choices.append(("federation.matcher", draft.federation.matcher, manager.matchers()))
        choices.append(("federation.overlay", draft.federation.overlay, manager.overlays()))
    for place, codec, _ in draft.codecs:
        if codec is not None:
            places = _codec_places(f"{place}.codec", codec)
            choices += [(each, name, codecs) for each, name in zip(places, codec.names, strict=True)]
    choices += [
        (f"{place}.adapter", broker.adapter, adapters) for place, broker, _ in draft.brokers if broker is not None
    ]
    for place, name, offered in choices:
        if name not in offered:
            yield f"{place}: no plugin offers {name!r}; {nearest(name, offered)}"
    yield from _overlay_problems(draft, manager)


def _overlay_problems(draft: Draft, manager: Manager) -> Iterator[str]:
    """What the overlay says of its settings."""
    kind = None if draft.federation is None else manager.overlays().get(draft.federation.overlay)
    if kind is None or draft.federation is None:
        return
    for place, broker, _ in draft.brokers:
        if broker is not None and broker.overlay_settings:
            try:
                kind.build(broker.id, (), broker.overlay_settings)
            except ValueError as error:
                yield f"{place}.overlay_settings: {error}"

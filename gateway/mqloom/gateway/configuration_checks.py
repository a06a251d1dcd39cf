"""Whether a configuration describes a federation that can work: every mistake, each in a sentence with its place."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from mqloom.core.errors import ConfigurationError, FilterError, TopicError
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.layout import RESERVED
from mqloom.core.topics import check_topic, check_topic_filter, topic_filters_intersect
from mqloom.gateway.configuration import Configuration, SubscriptionTable
from mqloom.gateway.manager import Manager
from mqloom.gateway.tables import nearest


def check_configuration(configuration: Configuration) -> None:
    """Check what needs no plugin; raises ConfigurationError with every mistake."""
    problems = [
        *_broker_problems(configuration),
        *_link_problems(configuration),
        *_data_problems(configuration),
        *_codec_problems(configuration),
        *_subscription_problems(configuration),
    ]
    if problems:
        raise ConfigurationError(configuration.source, tuple(problems))


def check_choices(configuration: Configuration, manager: Manager) -> None:
    """Check the names that plugins offer; raises ConfigurationError with every mistake."""
    federation = configuration.federation
    problems: list[str] = []

    def choose(place: str, name: str, offered: Collection[str]) -> None:
        if name not in offered:
            problems.append(f"{place}: no plugin offers {name!r}; {nearest(name, offered)}")

    choose("federation.matcher", federation.matcher, manager.matchers())
    choose("federation.overlay", federation.overlay, manager.overlays())
    for place, codec in _numbered("codecs", configuration.codecs):
        choose(f"{place}.codec", codec.codec, manager.codecs())
    for place, broker in _numbered("brokers", configuration.brokers):
        choose(f"{place}.adapter", broker.adapter, manager.adapters())
    loaded = [plugin.name for plugin in manager.plugins]
    for name in configuration.plugins.settings:
        if name not in loaded:
            problems.append(f"plugins.settings.{name}: no plugin of this name is loaded; {nearest(name, loaded)}")
    if problems:
        raise ConfigurationError(configuration.source, tuple(problems))


def _broker_problems(configuration: Configuration) -> Iterator[str]:
    if not configuration.brokers:
        yield "there is no broker: write at least one [[brokers]] with an `id`"
    ids: dict[str, str] = {}
    addresses: dict[tuple[str, int], str] = {}
    for place, broker in _numbered("brokers", configuration.brokers):
        if broker.id in ids:
            yield f"{place}: id {broker.id!r} is taken by {ids[broker.id]}"
        address = (broker.host, broker.port)
        if address in addresses:
            yield f"{place}: {broker.host}:{broker.port} is the address of {addresses[address]} already"
        ids.setdefault(broker.id, place)
        addresses.setdefault(address, f"{place} ({broker.id})")


def _link_problems(configuration: Configuration) -> Iterator[str]:
    """Unknown ends, links to oneself, links twice; then cycles and splits, by joining groups link by link."""
    ids = [broker.id for broker in configuration.brokers]
    group = {broker: {broker} for broker in ids}
    known: dict[frozenset[GatewayId], str] = {}
    whole = True
    for place, link in _numbered("links", configuration.links):
        one, other = link.between
        unknown = [end for end in link.between if end not in ids]
        for end in unknown:
            yield f"{place}: there is no broker {end!r}; {nearest(end, ids)}"
        if unknown:
            whole = False
        elif one == other:
            yield f"{place}: {one!r} is linked to itself"
        elif frozenset(link.between) in known:
            yield f"{place}: {one!r} and {other!r} are linked by {known[frozenset(link.between)]} already"
        elif group[one] is group[other]:
            yield f"{place}: closes a cycle, {one!r} and {other!r} are connected without it; primary links form a tree"
        else:
            known[frozenset(link.between)] = place
            joined = group[one] | group[other]
            for member in joined:
                group[member] = joined
    parts = {id(members): sorted(members) for members in group.values()}
    if len(parts) > 1 and whole:
        listed = " | ".join(", ".join(part) for part in sorted(parts.values()))
        yield f"links: the primary network is split into {len(parts)} parts ({listed}); link them"


def _data_problems(configuration: Configuration) -> Iterator[str]:
    valid: list[tuple[str, str]] = []
    for index, topics in enumerate(configuration.federation.data, 1):
        place = f"federation.data, item {index}"
        try:
            check_topic_filter(topics)
        except TopicError as error:
            yield f"{place}: {error}"
            continue
        if topic_filters_intersect(topics, f"{RESERVED}/#"):
            yield f"{place}: {topics!r} includes {RESERVED}/, which is ours: name the topics that carry data"
        valid.append((place, topics))
    for (_, one), (place, other) in itertools.combinations(valid, 2):
        if topic_filters_intersect(one, other):
            yield f"{place}: {other!r} overlaps {one!r}: a publication would be taken in twice"


def _codec_problems(configuration: Configuration) -> Iterator[str]:
    for place, codec in _numbered("codecs", configuration.codecs):
        try:
            check_topic_filter(codec.topics)
        except TopicError as error:
            yield f"{place}.topics: {error}"


def _subscription_problems(configuration: Configuration) -> Iterator[str]:
    ids = [broker.id for broker in configuration.brokers]
    for place, subscription in _numbered("subscriptions", configuration.subscriptions):
        if subscription.broker not in ids:
            yield f"{place}: there is no broker {subscription.broker!r}; {nearest(subscription.broker, ids)}"
        try:
            Filter.parse(subscription.where)
        except FilterError as error:
            yield f"{place}.where, {error}: {subscription.where!r}"
        yield from _topic_problems(configuration, place, subscription)


def _topic_problems(configuration: Configuration, place: str, subscription: SubscriptionTable) -> Iterator[str]:
    data = [topics for topics in configuration.federation.data if _is_filter(topics)]
    try:
        check_topic_filter(subscription.topics)
        if not any(topic_filters_intersect(subscription.topics, topics) for topics in data):
            yield f"{place}.topics: {subscription.topics!r} is in none of federation.data: nothing would ever come"
    except TopicError as error:
        yield f"{place}.topics: {error}"
    try:
        check_topic(subscription.into)
    except TopicError as error:
        yield f"{place}.into: {error}"
        return
    below = f"{subscription.into}/#"
    if topic_filters_intersect(below, f"{RESERVED}/#"):
        yield f"{place}.into: {subscription.into!r} is inside {RESERVED}/, which is ours"
    for topics in data:
        if topic_filters_intersect(below, topics):
            yield f"{place}.into: {subscription.into!r} is inside the data topics {topics!r}: it would be taken in again"


def _is_filter(topics: str) -> bool:
    try:
        check_topic_filter(topics)
    except TopicError:
        return False
    return True


Table = TypeVar("Table")


def _numbered(name: str, tables: Sequence[Table]) -> Iterator[tuple[str, Table]]:
    """Number tables as the operator counts them."""
    return ((f"{name}[{index}]", table) for index, table in enumerate(tables, 1))

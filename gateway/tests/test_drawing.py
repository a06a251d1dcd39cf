import itertools
from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.configuration import (
    BrokerTable,
    CodecTable,
    Configuration,
    FederationTable,
    LinkTable,
    PluginsTable,
    SubscriptionTable,
)
from mqloom.gateway.drawing import PLAIN, draw


def federation(
    brokers: list[str], links: list[tuple[str, str]], subscriptions: list[SubscriptionTable] | None = None
) -> Configuration:
    return Configuration(
        source="federation.toml",
        folder=Path(),
        federation=FederationTable(name="f", data=["stocks/#", "sensors/+"]),
        brokers=[BrokerTable(id=GatewayId(broker)) for broker in brokers],
        links=[LinkTable(between=[GatewayId(one), GatewayId(other)]) for one, other in links],
        codecs=[CodecTable(topics="a/#", codec=["topic_template", "json"]), CodecTable(topics="#", codec="json")],
        plugins=PluginsTable(),
        subscriptions=subscriptions or [],
    )


def tree(configuration: Configuration) -> list[str]:
    return [line.replace("  127.0.0.1:1883, mqtt", "") for line in draw(configuration).splitlines()[6:]]


def test_what_holds_for_all_stands_on_top() -> None:
    assert draw(federation(["a"], [])).splitlines() == [
        "federation f, matcher content, overlay tree",
        "  data   stocks/#",
        "  data   sensors/+",
        "  codec  topic_template, json for a/#",
        "  codec  json for #",
        "",
        "a  127.0.0.1:1883, mqtt",
    ]


def test_a_tree_is_drawn_from_the_first_broker() -> None:
    links = [("b", "a"), ("b", "c"), ("a", "d"), ("d", "e")]
    assert tree(federation(["a", "b", "c", "d", "e"], links)) == [
        "a",
        "├── b",
        "│   └── c",
        "└── d",
        "    └── e",
    ]


def test_standing_subscriptions_stand_under_their_broker() -> None:
    def wants(broker: str, where: str = "") -> SubscriptionTable:
        return SubscriptionTable(broker=broker, topics="stocks/#", into="in", where=where)

    subscriptions = [wants("a"), wants("b", "x > 3\n  AND y = 'z'"), wants("b"), wants("c")]
    assert tree(federation(["a", "b", "c"], [("a", "b"), ("a", "c")], subscriptions)) == [
        "a",
        "│   wants stocks/#, into in",
        "├── b",
        "│       wants stocks/# where x > 3 AND y = 'z', into in",
        "│       wants stocks/#, into in",
        "└── c",
        "        wants stocks/#, into in",
    ]


def test_a_broker_is_drawn_with_its_address_and_adapter() -> None:
    broker = BrokerTable(id=GatewayId("a"), host="::1", port=8883, adapter="amqtt", username="ann", password_env="P")
    configuration = federation(["b"], [])
    configuration.brokers[0] = broker
    assert draw(configuration).splitlines()[-1] == "a  [::1]:8883, amqtt, as ann"


def test_the_plain_strokes_are_ascii() -> None:
    drawing = draw(federation(["a", "b", "c"], [("a", "b"), ("a", "c")]), PLAIN)
    assert drawing.isascii()
    assert [line[:5] for line in drawing.splitlines()[-2:]] == ["|-- b", "`-- c"]


@pytest.mark.parametrize("length", [1, 2, 3_000])
def test_a_long_line_of_brokers_is_drawn_too(length: int) -> None:
    names = [f"b{number}" for number in range(length)]
    lines = tree(federation(names, list(itertools.pairwise(names))))
    assert [line.strip(" └─") for line in lines] == names

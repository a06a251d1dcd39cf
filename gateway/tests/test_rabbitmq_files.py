"""RabbitMQ's definitions: routing keys of topic filters, and passwords as RabbitMQ hashes them."""

import base64
import hashlib
import json
import re

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.accounts import Account
from mqloom.gateway.configuration import BrokerTable
from mqloom.gateway.rabbitmq_files import definitions, main_file, routing_keys


@pytest.mark.parametrize(
    ("topic_filter", "keys", "others"),
    [
        ("stocks/#", ["stocks", "stocks.a", "stocks.a.b", "stocks.#"], ["stocksa", "other.stocks"]),
        ("a/+/c", ["a.b.c", "a..c", "a.*.c"], ["a.b", "a.b.c.d"]),
        (
            "mqloom/v1/east%20side/link/west",
            ["mqloom.v1.east%20side.link.west"],
            ["mqloom.v1.east%20side.link.west.ack"],
        ),
        ("#", ["a", "a.b"], []),
    ],
)
def test_a_topic_filter_becomes_the_routing_keys_that_it_includes(
    topic_filter: str, keys: list[str], others: list[str]
) -> None:
    pattern = re.compile(routing_keys([topic_filter]))
    assert [key for key in keys if not pattern.search(key)] == []
    assert [key for key in others if pattern.search(key)] == []


def test_who_may_nothing_may_write_no_key() -> None:
    assert not re.search(routing_keys([]), "a")


def test_the_definitions_name_each_account_with_what_it_may() -> None:
    account = Account("west", "a gateway", ("a/#",), ("b",), GatewayId("west"), "WEST")
    salt = b"1234"
    text = definitions([Account("", "anybody", (), ()), account], {"west": "secret"}, [salt])
    found = json.loads(text)
    assert [user["name"] for user in found["users"]] == ["west"]
    hashed = base64.b64decode(found["users"][0]["password_hash"])
    assert hashed == salt + hashlib.sha256(salt + b"secret").digest()
    assert found["topic_permissions"][0]["write"] == "^b$"
    assert "secret" not in text


def test_sessions_outlast_a_day() -> None:
    assert "mqtt.subscription_ttl = 315360000000" in main_file(BrokerTable(id=GatewayId("a")), "/f", anonymous=False)

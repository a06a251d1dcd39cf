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
        ("a/+/c", ["a.b.c", "a..c", "a.*.c"], ["a.b", "a.b.c.d", "a.#.c"]),
        ("a/+", ["a.b", "a.", "a.*"], ["a", "a.b.c", "a.#"]),  # whoever may `a/+` must not bind `a/#`
        ("+/+", ["a.b", "*.*"], ["a", "a.#", "#.a", "#"]),
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


WEST = GatewayId("west")
OWN = Account("west", "a gateway", ("a/#",), ("b",), WEST, "WEST")


def test_the_definitions_name_each_account_with_what_it_may() -> None:
    salt = b"1234"
    text = definitions(BrokerTable(id=WEST), [OWN], {"west": "secret"}, [salt])
    found = json.loads(text)
    assert [(user["name"], user["tags"]) for user in found["users"]] == [("west", "")]
    hashed = base64.b64decode(found["users"][0]["password_hash"])
    assert hashed == salt + hashlib.sha256(salt + b"secret").digest()
    assert found["topic_permissions"][0]["write"] == "^b$"
    assert "secret" not in text


def test_whoever_does_not_log_in_has_an_account_and_rabbitmq_its_password() -> None:
    passwords = {"anonymous": "nobody's", "west": "secret"}
    nobody = Account("", "anybody", ("a/#",), ())
    found = json.loads(definitions(BrokerTable(id=WEST), [nobody, OWN], passwords, [b"1234", b"5678"]))
    assert [user["name"] for user in found["users"]] == ["anonymous", "west"]
    assert found["topic_permissions"][0] | {"read": "^a(\\..*)?$", "write": "^$"} == found["topic_permissions"][0]
    lines = main_file(BrokerTable(id=WEST), "/f", nobody="nobody's").splitlines()
    assert {"mqtt.allow_anonymous = true", "mqtt.default_user = anonymous", "mqtt.default_pass = nobody's"} <= {*lines}
    assert "mqtt.allow_anonymous = false" in main_file(BrokerTable(id=WEST), "/f")


def test_only_the_gateway_that_asks_the_management_interface_may_and_at_the_port_where_it_asks() -> None:
    broker = BrokerTable(id=WEST, adapter="rabbitmq", host="localhost")
    visitor = Account("link-east", "another gateway", (), (), GatewayId("east"), "EAST")
    found = json.loads(definitions(broker, [OWN, visitor], {"west": "x", "link-east": "y"}, [b"1234", b"5678"]))
    assert [(user["name"], user["tags"]) for user in found["users"]] == [("west", "monitoring"), ("link-east", "")]
    lines = main_file(broker, "/f", management_port=1_234).splitlines()
    assert "management.tcp.port = 1234" in lines
    assert "management.tcp.ip = 127.0.0.1" in lines  # it takes no names
    assert "mqtt.listeners.tcp.default = 127.0.0.1:1883" in lines
    assert "management.tcp.ip" not in main_file(BrokerTable(id=WEST, host="w.example"), "/f")


def test_with_tls_it_asks_for_certificates_if_gateways_have_some_and_listens_nowhere_else() -> None:
    plain = main_file(BrokerTable(id=WEST, tls=True), "/f", "/ca.pem").splitlines()
    assert {"mqtt.listeners.tcp = none", "mqtt.listeners.ssl.default = 127.0.0.1:1883"} <= {*plain}
    assert "ssl_options.certfile = /f/broker.pem" in plain
    assert not [line for line in plain if "verify" in line or line.startswith("mqtt.listeners.tcp.")]
    both = BrokerTable(id=WEST, tls=True, tls_ca="ca.pem", tls_certificate="{gateway}.pem")
    lines = main_file(both, "/f", "/ca.pem").splitlines()
    assert {"ssl_options.cacertfile = /ca.pem", "ssl_options.fail_if_no_peer_cert = true"} <= {*lines}


def test_nobody_but_the_gateway_may_have_the_queues_of_its_sessions() -> None:
    visitor = Account("link-east", "another gateway", (), (), GatewayId("east"), "EAST")
    desk = Account("desk", "a client", (), ())
    passwords = {"west": "x", "link-east": "y", "desk": "z"}
    found = json.loads(definitions(BrokerTable(id=WEST), [OWN, visitor, desk], passwords, [b"1234"] * 3))

    def may(account: int, client: str) -> list[bool]:
        permissions = found["permissions"][account]
        queue = f"mqtt-subscription-{client}qos1"
        return [bool(re.search(permissions[what], queue)) for what in ("configure", "write", "read")]

    for client in ("mqloom-west", "mqloom-west-park-east-0123456789abcdef", "mqloom-west-control"):
        assert may(0, client) == [True] * 3
        assert may(1, client) == may(2, client) == [False] * 3
    assert may(1, "mqloom-east-to-west") == may(1, "mqloom-doctor-12345678") == [True] * 3
    assert may(2, "mqloom-east-to-west") == [False] * 3
    assert may(2, "desk") == may(1, "auto-1") == [True] * 3
    assert re.search(found["permissions"][2]["write"], "amq.topic")
    assert not re.search(found["permissions"][2]["configure"], "amq.topic")


def test_sessions_outlast_a_day() -> None:
    assert "mqtt.subscription_ttl = 315360000000" in main_file(BrokerTable(id=WEST), "/f")

"""Mosquitto's files: what is kept, who may, and TLS where the configuration says so."""

import base64
import hashlib

from mqloom.core.ids import GatewayId
from mqloom.gateway.accounts import Account
from mqloom.gateway.configuration import BrokerTable
from mqloom.gateway.mosquitto_files import ROUNDS, access_list, main_file, password_file

WEST = GatewayId("west")


def test_nothing_is_dropped_and_all_is_kept_on_disk() -> None:
    lines = main_file(BrokerTable(id=WEST), "/f", "me", anonymous=False).splitlines()
    for line in (
        "max_queued_messages 0",
        "persistence true",
        "message_size_limit 8388677",
        "allow_anonymous false",
        "listener 1883 127.0.0.1",
    ):
        assert line in lines
    assert "listener 1883" in main_file(BrokerTable(id=WEST, host="w.example"), "/f", "me", anonymous=True).splitlines()


def test_with_tls_it_asks_for_certificates_if_gateways_have_some() -> None:
    plain = BrokerTable(id=WEST, tls=True)
    assert "certfile /f/broker.pem" in main_file(plain, "/f", "me", anonymous=False)
    assert "require_certificate" not in main_file(plain, "/f", "me", "/ca.pem", anonymous=False)
    both = BrokerTable(id=WEST, tls=True, tls_ca="ca.pem", tls_certificate="{gateway}.pem")
    text = main_file(both, "/f", "me", "/ca.pem", anonymous=False)
    assert "cafile /ca.pem\nrequire_certificate true\n" in text


def test_the_adapter_that_reads_the_log_gets_one_and_only_the_gateway_may_read_it() -> None:
    broker = BrokerTable(id=WEST, adapter="mosquitto")
    assert "log_type unsubscribe" in main_file(broker, "/f", "me", anonymous=False)
    accounts = [Account("west", "it", ("a", "b"), ("b", "c"), WEST), Account("link", "other", ("d",), ())]
    assert access_list(broker, accounts) == (
        "# it\nuser west\ntopic readwrite b\ntopic read a\ntopic write c\ntopic read $SYS/broker/#\n\n"
        "# other\nuser link\ntopic read d\n"
    )


def test_a_password_is_hashed_as_mosquitto_does() -> None:
    salt = bytes(range(12))
    name, _, rest = password_file({"west": "secret"}, [salt]).strip().partition(":")
    _, kind, rounds, salt_text, digest = rest.split("$")
    assert (name, kind, int(rounds), base64.b64decode(salt_text)) == ("west", "7", ROUNDS, salt)
    assert base64.b64decode(digest) == hashlib.pbkdf2_hmac("sha512", b"secret", salt, ROUNDS)

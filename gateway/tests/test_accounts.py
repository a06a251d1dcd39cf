"""Each account may do what its part of the protocol needs, and nothing else; a configuration without is explained."""

from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.core.topics import topic_filter_covers, topic_matches
from mqloom.gateway.accounts import Account, accounts_of
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.configuration_checks import load_federation

TEXT = """
[federation]
name = "two"
data = ["stocks/#"]
[[brokers]]
id = "west"
port = 1901
username = "west"
password_env = "WEST_PASSWORD"
link_username = "link-{gateway}"
link_password_env = "WEST_LINK_{gateway}"
[[brokers]]
id = "east side"
port = 1902
username = "east"
password_env = "EAST_PASSWORD"
link_username = "link-{gateway}"
link_password_env = "EAST_LINK_{gateway}"
[[links]]
between = ["west", "east side"]
[[subscriptions]]
broker = "east side"
topics = "stocks/#"
into = "hot"
"""


def read(folder: Path, text: str = TEXT) -> Configuration:
    path = folder / "federation.toml"
    path.write_text(text)
    return load_federation(path).configuration


def accounts(folder: Path, broker: str, *clients: str, anonymous: bool = False) -> dict[str, Account]:
    configuration = read(folder)
    listed = accounts_of(configuration, configuration.broker(broker), clients, anonymous=anonymous)
    return {account.name: account for account in listed}


def may(filters: tuple[str, ...], topic: str) -> bool:
    return any(topic_matches(each, topic) for each in filters)


def test_every_gateway_has_an_account_on_its_broker_and_one_on_each_other(tmp_path: Path) -> None:
    found = accounts(tmp_path, "east side")
    assert {name: (each.user, each.variable) for name, each in found.items()} == {
        "east": ("east side", "EAST_PASSWORD"),
        "link-west": ("west", "EAST_LINK_WEST"),
    }
    assert accounts(tmp_path, "west")["link-east side"].variable == "WEST_LINK_EAST_SIDE"


def test_a_neighbour_writes_its_own_link_and_reads_what_comes_back_and_no_more(tmp_path: Path) -> None:
    west = accounts(tmp_path, "east side")["link-west"]
    assert set(west.writes) == {"mqloom/v1/east%20side/link/west", "mqloom/v1/east%20side/link/west/urgent"}
    assert set(west.reads) == {"mqloom/v1/east%20side/link/west/ack", "mqloom/v1/east%20side/status"}


def test_a_client_writes_its_record_and_the_data_and_never_a_link(tmp_path: Path) -> None:
    client = accounts(tmp_path, "east side", "desk")["desk"]
    assert may(client.writes, "stocks/a")
    assert may(client.writes, "mqloom/v1/east%20side/sub/desk")
    assert may(client.reads, "mqloom/v1/east%20side/sub/desk")  # an earlier life of it may have wanted more
    assert not may(client.reads, "mqloom/v1/east%20side/sub/other")
    assert may(client.reads, "mqloom/v1/east%20side/out/desk/stocks/a")
    assert may(client.reads, "hot/stocks/a")
    assert not may(client.writes, "mqloom/v1/east%20side/sub/other")
    assert may(client.writes, "mqloom/v1/east%20side/answer/desk")
    assert not may(client.writes, "mqloom/v1/east%20side/answer/other")
    assert may(client.reads, "mqloom/v1/roster")
    assert not may(client.writes, "mqloom/v1/roster")
    assert may(accounts(tmp_path, "east side")["east"].writes, "mqloom/v1/roster")
    assert not may(accounts(tmp_path, "east side")["link-west"].writes, "mqloom/v1/roster")
    assert not may(client.writes, "mqloom/v1/east%20side/link/west")
    assert not may(client.writes, "mqloom/v1/east%20side/status")
    nobody = accounts(tmp_path, "east side", anonymous=True)[""]
    assert not any(topic_filter_covers(each, "mqloom/v1/x") for each in (*nobody.reads, *nobody.writes))


TELEMETRY = '[telemetry]\nendpoint = "tcp://127.0.0.1:5570"\n'


def test_where_telemetry_is_collected_gateways_carry_alerts_and_clients_only_read_them(tmp_path: Path) -> None:
    configuration = read(tmp_path, TEXT + TELEMETRY)
    listed = accounts_of(configuration, configuration.broker("west"), ["desk"], anonymous=True, alerts="watch")
    found = {account.name: account for account in listed}
    assert {name for name, each in found.items() if may(each.writes, "mqloom/v1/alerts")} == {"west", "watch"}
    assert {name for name, each in found.items() if may(each.reads, "mqloom/v1/alerts")} == {
        "west",
        "watch",
        "desk",
        "",
    }
    for name in ("desk", "", "watch"):
        for topic in ("mqloom/v1/alerts/x", "mqloom/v1/west/order/x", "mqloom/v1/west/link/east%20side", "mqloom/v1/x"):
            assert not may(found[name].writes, topic)
    assert may(found["watch"].writes, "mqloom/v1/alerts/fence/abc")
    assert not may(found["watch"].writes, "stocks/a")
    without = {each.name: each for each in accounts_of(read(tmp_path), configuration.broker("west"), ["desk"])}
    assert not any(may((*each.reads, *each.writes), "mqloom/v1/alerts") for each in without.values())


def test_a_gateway_writes_data_only_where_it_republishes_for_plain_clients(tmp_path: Path) -> None:
    assert "stocks/#" not in accounts(tmp_path, "west")["west"].writes
    assert "hot/#" in accounts(tmp_path, "east side")["east"].writes
    configuration = read(tmp_path, TEXT.replace("port = 1901", 'port = 1901\nfederate = ["stocks/#"]'))
    assert "stocks/#" in accounts_of(configuration, configuration.broker("west"))[0].writes


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('username = "west"\npassword_env = "WEST_PASSWORD"\n', "", 'add username = "west" and password_env'),
        ('link_username = "link-{gateway}"\nlink_password_env = "WEST_LINK_{gateway}"\n', "", "link_username = "),
        ('username = "west"', 'username = "link-east side"', "the account of two"),
        ('username = "west"', 'username = "we:st"', "no name for an account"),
    ],
)
def test_what_is_missing_is_said_with_the_lines_to_add(tmp_path: Path, old: str, new: str, problem: str) -> None:
    configuration = read(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as raised:
        accounts_of(configuration, configuration.broker("west"))
    assert problem in str(raised.value)

from pathlib import Path

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import TEXT_MAX, ConfigurationRecord
from mqloom.gateway.configuration import read_draft
from mqloom.gateway.configuration_texts import changes, configuration_texts

WEST = GatewayId("west")
TEXT = """
[federation]
name = "two"
data = ["stocks/#"]
[[brokers]]
id = "west"
password_env = "WEST"
username = "u"
[[brokers]]
id = "east"
port = 1884
[[links]]
between = ["west", "east"]
[[subscriptions]]
broker = "east"
topics = "stocks/#"
into = "hot"
[plugins.settings.quota]
tokens = {desk = "sha256:2c26b4"}
subscriptions_max = 5
"""


def texts(folder: Path, text: str = TEXT) -> dict[str, str]:
    path = folder / "federation.toml"
    path.write_text(text)
    return configuration_texts(read_draft(path).finish(), WEST, "1.2.3")


def test_every_place_that_concerns_a_gateway_is_told_as_json(tmp_path: Path) -> None:
    found = texts(tmp_path)
    assert found["version"] == '"1.2.3"'
    assert found["federation.data"] == '["stocks/#"]'
    assert found["brokers.west.port"] == "1883"
    assert found["brokers.west.password_env"] == '"WEST"'
    assert found["brokers"] == '["west","east"]'
    assert found["links"] == '[["west","east"]]'
    assert found["subscriptions"] == "[]"
    assert found["telemetry.window_s"] == "10.0"
    assert "brokers.east.port" not in found


def test_secrets_in_settings_of_plugins_are_not_told(tmp_path: Path) -> None:
    assert texts(tmp_path)["plugins.settings.quota"] == '{"tokens":"not told","subscriptions_max":5}'


def test_secrets_are_known_by_many_names_and_in_urls(tmp_path: Path) -> None:
    names = ("api_key", "private-key", "passphrase", "passwd", "pwd", "credentials", "Authorization")
    settings = "\n".join(f'{name} = "0451"' for name in names)
    urls = 'url = "http://guest:0451@rabbit:15672/api"\nurls = ["amqps://guest:0451@rabbit/x?y@z"]'
    harmless = 'key_file = "federation.keys"\nmailbox = "http://rabbit/@all"'
    found = texts(tmp_path, f"{TEXT}[plugins.settings.other]\n{settings}\n{urls}\n{harmless}\n")
    told = found["plugins.settings.other"]
    assert "0451" not in told
    assert '"url":"http://not told@rabbit:15672/api"' in told
    assert '"key_file":"federation.keys","mailbox":"http://rabbit/@all"' in told


def test_only_what_is_different_is_told_with_what_it_was(tmp_path: Path) -> None:
    before = texts(tmp_path)
    after = texts(tmp_path, TEXT.replace("subscriptions_max = 5", "") + "[plugins.settings.balance]\nmode = 'on'\n")
    assert changes(before, after, 7.0) == [
        ConfigurationRecord(7.0, "plugins.settings.balance", "", '{"mode":"on"}'),
        ConfigurationRecord(7.0, "plugins.settings.quota", before["plugins.settings.quota"], '{"tokens":"not told"}'),
    ]
    assert changes(after, after, 7.0) == []
    assert len(changes({}, after, 7.0)) == len(after)


def test_a_value_that_is_long_is_cut(tmp_path: Path) -> None:
    topics = ", ".join(f'"stocks/{number}"' for number in range(1_000))
    found = texts(tmp_path, TEXT.replace('"stocks/#"]', f"{topics}]"))
    assert len(found["federation.data"]) == TEXT_MAX

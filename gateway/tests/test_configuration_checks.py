from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.core.limits import HOPS_MAX
from mqloom.gateway.configuration import read_draft
from mqloom.gateway.configuration_checks import load_federation

SOUND = """
[federation]
name = "sound"
data = ["stocks/#", "sensors/+/temperature"]
[[brokers]]
id = "paris"
[[brokers]]
id = "london"
port = 1884
[[brokers]]
id = "rome"
port = 1885
[[links]]
between = ["paris", "london"]
[[links]]
between = ["london", "rome"]
[[subscriptions]]
broker = "rome"
topics = "stocks/#"
where = "symbol = 'YHOO'"
into = "federated"
"""


def problems_of(folder: Path, text: str) -> list[str]:
    path = folder / "federation.toml"
    path.write_text(text)
    try:
        load_federation(path)
    except ConfigurationError as error:
        return list(error.problems)
    return []


def changed(old: str, new: str) -> str:
    assert SOUND.count(old) == 1
    return SOUND.replace(old, new)


def more(tables: str) -> str:
    return f"{SOUND}\n{tables}\n"


def test_a_sound_configuration_has_no_mistakes(tmp_path: Path) -> None:
    assert problems_of(tmp_path, SOUND) == []


def test_what_is_loaded_is_the_configuration_with_its_plugins(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(SOUND)
    configuration, manager = load_federation(path)
    assert configuration == read_draft(path).finish()
    assert "json" in manager.codecs()


DATA = 'data = ["stocks/#", "sensors/+/temperature"]'
SECOND_LINK = 'between = ["london", "rome"]'
INTO = 'into = "federated"'
WHERE = "where = \"symbol = 'YHOO'\""

BROKEN = {
    "an unknown table": (
        more("[[broker]]\nid = 'x'"),
        "unknown table 'broker'; did you mean 'brokers'?",
    ),
    "an unknown key": (
        changed("port = 1884", "prot = 1884\nport = 1886"),
        "brokers#2: unknown key 'prot'; did you mean 'port'?",
    ),
    "a value of the wrong type": (
        changed("port = 1884", "port = '1884'"),
        "brokers#2.port: expected a whole number, got text",
    ),
    "a value out of bounds": (
        changed("port = 1884", "port = 65536"),
        "brokers#2.port: expected a whole number <= 65535",
    ),
    "a link to one only": (
        more("[[links]]\nbetween = ['rome']"),
        "links#3.between: expected a list of at least 2 items",
    ),
    "a link to nobody known": (
        changed(SECOND_LINK, 'between = ["london", "roma"]'),
        "links#2: there is no broker 'roma'; did you mean 'rome'?",
    ),
    "a link to oneself": (
        more("[[links]]\nbetween = ['rome', 'rome']"),
        "links#3: 'rome' is linked to itself",
    ),
    "a link twice": (
        more("[[links]]\nbetween = ['rome', 'london']"),
        "links#3: 'rome' and 'london' are linked by links#2 already",
    ),
    "a cycle": (
        more("[[links]]\nbetween = ['rome', 'paris']"),
        "links#3: closes a cycle, rome - london - paris - rome; primary links form a tree: remove one of these",
    ),
    "a split": (
        changed(f"[[links]]\n{SECOND_LINK}", ""),
        "links: the primary network is split into 2 parts, london, paris | rome; link them",
    ),
    "no broker": (
        '[federation]\nname = "x"\ndata = ["a"]\n',
        "there is no broker: write at least one [[brokers]] with an `id`",
    ),
    "an id twice": (
        more("[[brokers]]\nid = 'paris'\nport = 1890"),
        "brokers#4.id: 'paris' is the id of brokers#1 already; give each broker its own",
    ),
    "an address twice": (
        changed("port = 1885", "port = 1884"),
        "brokers#3: 127.0.0.1:1884 is the address of brokers#2 already",
    ),
    "a URL for a host": (
        changed("port = 1885", "host = 'mqtt://rome.example'"),
        "brokers#3.host: 'mqtt://rome.example' is no host: write its name or address alone, and the port in `port`",
    ),
    "a port in the host": (
        changed("port = 1885", "host = 'rome.example:1885'"),
        "brokers#3.host: 'rome.example:1885' is no host: write its name or address alone, and the port in `port`",
    ),
    "a host with an empty label": (
        changed("port = 1885", "host = 'rome..example'"),
        "brokers#3.host: 'rome..example' is no host: write its name or address alone, and the port in `port`",
    ),
    "a limit that serves nobody": (
        changed("port = 1885", "port = 1885\noutput_bytes_s_max = 20"),
        "brokers#3.output_bytes_s_max: 20 bytes a second serve nobody: at least 1,000, or 0 for no limit",
    ),
    "a word that is none of those it can be": (
        changed("port = 1885", "port = 1885\nclient_tls = 'maybe'"),
        "brokers#3.client_tls: there is no 'maybe'; it is one of 'same', 'on', 'off'",
    ),
    "a password for nobody": (
        changed("port = 1885", "port = 1885\npassword_env = 'P'"),
        "brokers#3.password_env: a password needs a `username` with it",
    ),
    "data that is no topic filter": (
        changed(DATA, 'data = ["stocks/#", "a#"]'),
        "federation.data#2: topic 'a#': + and # are a level by themselves, not part of one as in 'a#'",
    ),
    "data that overlaps": (
        changed(DATA, 'data = ["stocks/#", "stocks/A"]'),
        "federation.data#2: 'stocks/A' overlaps 'stocks/#' (federation.data#1): a publication would be taken in twice",
    ),
    "data that includes our own topics": (
        changed(DATA, 'data = ["stocks/#", "mqloom/#"]'),
        "federation.data#2: 'mqloom/#' includes mqloom/, which is ours: name only the topics that carry data",
    ),
    "data that includes an into": (
        changed(INTO, 'into = "stocks/seen"'),
        "subscriptions#1.into: what is put below 'stocks/seen' would be taken in again by the data topics 'stocks/#'",
    ),
    "an into in our own topics": (
        changed(INTO, 'into = "mqloom"'),
        "subscriptions#1.into: 'mqloom' is inside mqloom/, which is ours: choose another",
    ),
    "an into that is no topic": (
        changed(INTO, 'into = "a/+"'),
        "subscriptions#1.into: topic 'a/+': a topic to publish to has no wildcards + or #",
    ),
    "a subscription at nobody known": (
        changed('broker = "rome"', 'broker = "parsi"'),
        "subscriptions#1.broker: there is no broker 'parsi'; did you mean 'paris'?",
    ),
    "a subscription to nothing": (
        changed('topics = "stocks/#"', 'topics = "news/#"'),
        "subscriptions#1.topics: 'news/#' is in none of federation.data: nothing would ever come",
    ),
    "a subscription to no topic filter": (
        changed('topics = "stocks/#"', 'topics = "#/stocks"'),
        "subscriptions#1.topics: topic '#/stocks': # is the last level of a topic filter or none",
    ),
    "a codec for no topic filter": (
        more("[[codecs]]\ntopics = ''\ncodec = 'json'"),
        "codecs#1.topics: topic '': a topic has at least one character",
    ),
    "a codec behind a wider one": (
        more("[[codecs]]\ntopics = '#'\ncodec = 'json'\n[[codecs]]\ntopics = 'stocks/#'\ncodec = 'json'"),
        "codecs#2: is never used: codecs#1 with '#' comes first; put the narrower one above it",
    ),
    "a codec for nothing": (
        more("[[codecs]]\ntopics = 'news'\ncodec = 'json'"),
        "codecs#1.topics: 'news' is in none of federation.data: nothing would ever come",
    ),
    "a codec that nobody offers": (
        more("[[codecs]]\ntopics = '#'\ncodec = 'jason'"),
        "codecs#1.codec: no plugin offers 'jason'; did you mean 'json'?",
    ),
    "a codec in a list that nobody offers": (
        more("[[codecs]]\ntopics = '#'\ncodec = ['json', 'user_property']"),
        "codecs#1.codec#2: no plugin offers 'user_property'; did you mean 'user_properties'?",
    ),
    "a codec twice in a list": (
        more("[[codecs]]\ntopics = '#'\ncodec = ['json', 'cbor', 'json']"),
        "codecs#1.codec#3: 'json' is in the list already",
    ),
    "no codec in a list": (
        more("[[codecs]]\ntopics = '#'\ncodec = []"),
        "codecs#1.codec: expected a list that is not empty",
    ),
    "a codec that is a number": (
        more("[[codecs]]\ntopics = '#'\ncodec = 3"),
        "codecs#1.codec: expected text or a list, got a whole number",
    ),
    "a mistake in a template": (
        more(
            "[[codecs]]\ntopics = '#'\ncodec = ['topic_template', 'json']\n"
            "[plugins.settings.topic_template_codec]\ntemplates = ['{a:txt}']"
        ),
        "plugins.settings.topic_template_codec: templates#1: '{a:txt}': there is no type 'txt'; did you mean 'text'?",
    ),
    "certificates without TLS": (
        changed("port = 1884", "port = 1884\ntls_ca = 'ca.pem'"),
        "brokers#2.tls_ca: only with `tls = true`",
    ),
    "a key without a certificate": (
        changed("port = 1884", "port = 1884\ntls = true\ntls_key = 'us.key'"),
        "brokers#2.tls_key: a key needs a `tls_certificate` with it",
    ),
    "TLS with the embedded broker": (
        changed("port = 1884", "port = 1884\ntls = true\nadapter = 'amqtt'"),
        "brokers#2.tls: the embedded broker speaks no TLS; it listens on one machine, for trying things out",
    ),
    "a client that there is not": (
        changed(DATA, f"{DATA}\nmqtt_client = 'pahoo'"),
        "federation.mqtt_client: there is no 'pahoo'; did you mean 'paho'?",
    ),
    "a matcher that nobody offers": (
        changed(DATA, f"{DATA}\nmatcher = 'scam'"),
        "federation.matcher: no plugin offers 'scam'; did you mean 'scan'?",
    ),
    "an overlay that nobody offers": (
        changed(DATA, f"{DATA}\noverlay = 'trees'"),
        "federation.overlay: no plugin offers 'trees'; did you mean 'tree'?",
    ),
    "settings for nobody": (
        more("[plugins.settings.alow_list]\nclients = []"),
        "plugins.settings.alow_list: there is no plugin of this name; did you mean 'allow_list'?",
    ),
    "settings that their plugin does not know": (
        more("[plugins.settings.allow_list]\nclient = []"),
        "plugins.settings.allow_list: unknown key 'client'; did you mean 'clients'?",
    ),
    "nobody disabled": (
        more("[plugins]\ndisabled = ['json_line']"),
        "plugins.disabled#1: there is no plugin 'json_line'; did you mean 'json_lines'?",
    ),
    "no plugins table": (
        f"plugins = 3\n{SOUND}",
        "plugins: must be a table, written [plugins], not a number",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_configuration_is_told_its_one_mistake(tmp_path: Path, kind: str) -> None:
    text, problem = BROKEN[kind]
    assert problems_of(tmp_path, text) == [problem]


def test_a_bad_filter_is_pointed_at(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, changed(WHERE, "where = \"symbol = = 'YHOO'\""))
    place, text, pointer = problem.splitlines()
    assert place == "subscriptions#1.where, column 10:"
    assert text.strip() == "symbol = = 'YHOO'"
    assert pointer.index("^") - text.index("symbol") == 9


def test_certificates_that_are_not_there_or_none_are_told_with_their_path(tmp_path: Path) -> None:
    text = changed("port = 1884", "port = 1884\ntls = true\ntls_ca = 'ca.pem'\ntls_certificate = '{gateway}.pem'")
    assert problems_of(tmp_path, text) == [f"brokers#2.tls: {tmp_path}/ca.pem: no such file or directory"]
    (tmp_path / "ca.pem").write_text("junk")
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(f"brokers#2.tls: {tmp_path}/ca.pem: holds no certificate of an authority in PEM")
    without = text.replace("tls_ca = 'ca.pem'\n", "")
    assert problems_of(tmp_path, without) == []  # no gateway's certificate is here: it may be on another machine
    (tmp_path / "london.pem").write_text("junk")
    (problem,) = problems_of(tmp_path, without)
    assert problem.startswith(f"brokers#2.tls: {tmp_path}/london.pem: are no certificate and its key in PEM")


def test_an_adapter_that_nobody_offers_is_told(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, changed("port = 1884", "port = 1884\nadapter = 'mqt'"))
    assert problem == "brokers#2.adapter: no plugin offers 'mqt'; did you mean 'mqtt'?"


def test_a_missing_plugin_folder_is_told_with_its_path(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, more("[plugins]\ndirectory = 'gone'"))
    assert problems == [f"plugins.directory: there is no folder {str(tmp_path / 'gone')!r}"]


def test_a_plugin_that_does_not_load_is_told_with_the_other_mistakes(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, changed(INTO, 'into = "+"') + "[plugins]\nfiles = ['gone.py']")
    assert problems == [
        "subscriptions#1.into: topic '+': a topic to publish to has no wildcards + or #",
        f"plugin 'gone' (file {tmp_path / 'gone.py'}): there is no such file",
    ]


def test_settings_of_a_disabled_plugin_may_stay(tmp_path: Path) -> None:
    text = more("[plugins]\ndisabled = ['allow_list']\n[plugins.settings.allow_list]\nclients = ['a']")
    assert problems_of(tmp_path, text) == []


def test_disabling_what_the_default_codec_needs_is_told(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, more("[plugins]\ndisabled = ['json_codec']"))
    assert (
        problem == "codecs (the default).codec: no plugin offers 'json'; known are 'cbor', 'msgpack', 'user_properties'"
    )


def test_mistakes_of_form_do_not_hide_mistakes_of_meaning(tmp_path: Path) -> None:
    text = (
        changed("port = 1884", "prot = 1884")
        .replace(WHERE, 'where = "symbol ="')
        .replace(DATA, 'data = ["#"]\nmatcher = "scam"')
    )
    problems = problems_of(tmp_path, f"{text}\n[[links]]\nbetween = ['rome', 'paris']\n[[links]]\nbetween = ['x', 'y']")
    assert [problem.splitlines()[0].partition(";")[0] for problem in problems] == [
        "brokers#2: unknown key 'prot'",
        "federation.data#1: '#' includes mqloom/, which is ours: name only the topics that carry data",
        "links#3: closes a cycle, rome - london - paris - rome",
        "links#4: there is no broker 'x'",
        "links#4: there is no broker 'y'",
        "subscriptions#1.where, column 9:",
        "subscriptions#1.into: what is put below 'federated' would be taken in again by the data topics '#'",
        "federation.matcher: no plugin offers 'scam'",
    ]


def test_a_broker_without_an_id_does_not_make_its_links_wrong(tmp_path: Path) -> None:
    assert problems_of(tmp_path, changed('id = "rome"', "")) == ["brokers#3: key 'id' is missing"]


def test_a_link_that_cannot_be_read_does_not_split_the_network(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, changed(SECOND_LINK, "between = 'london'"))
    assert problems == ["links#2.between: expected a list, got text"]


def test_without_readable_data_topics_nothing_is_said_about_what_they_contain(tmp_path: Path) -> None:
    assert problems_of(tmp_path, changed(DATA, "data = 5")) == ["federation.data: expected a list, got a whole number"]


def line_of(length: int) -> str:
    brokers = "".join(f"[[brokers]]\nid = 'b{number}'\nport = {2_000 + number}\n" for number in range(length + 1))
    links = "".join(f"[[links]]\nbetween = ['b{number}', 'b{number + 1}']\n" for number in range(length))
    return f"[federation]\nname = 'line'\ndata = ['a']\n{brokers}{links}"


def test_a_network_as_long_as_publications_can_cross_is_sound(tmp_path: Path) -> None:
    assert problems_of(tmp_path, line_of(HOPS_MAX)) == []


def test_a_network_longer_than_publications_can_cross_is_told(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, line_of(HOPS_MAX + 1))
    assert problem.startswith("links: from 'b")
    assert problem.endswith(f"it is {HOPS_MAX + 1} links; {HOPS_MAX} at most are crossed")


def test_an_address_of_ipv6_is_a_host(tmp_path: Path) -> None:
    assert problems_of(tmp_path, changed("port = 1885", "host = '::1'")) == []


def test_what_is_federated_must_be_a_topic_filter_and_within_the_data(tmp_path: Path) -> None:
    assert problems_of(tmp_path, changed("port = 1885", 'port = 1885\nfederate = ["#", "stocks/+/x"]')) == []
    wrong = changed("port = 1885", 'port = 1885\nfederate = ["stocks/#", "a/#/b", "weather/#"]')
    one, other = problems_of(tmp_path, wrong)
    assert one.startswith("brokers#3.federate#2: topic 'a/#/b': # is the last level")
    assert other == "brokers#3.federate#3: 'weather/#' is in none of federation.data: nothing would ever come"

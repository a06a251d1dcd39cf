"""Everything that a gateway reads and writes is among what a doctor tries, and nothing that would be taken for real."""

import inspect
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.topics import topic_filters_intersect, topic_matches
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.doctor_topics import needs_abroad, needs_at_home
from mqloom.gateway.drivers.sorting import control_subscriptions
from mqloom.gateway.key_file import ORDER_KIND, new_key, write_keys

TEXT = """
[federation]
name = "one"
data = ["stocks/#", "sensors/+"]
[[brokers]]
id = "west"
[[subscriptions]]
broker = "west"
topics = "stocks/#"
into = "hot"
"""
WEST, EAST = GatewayId("west"), GatewayId("east")


@pytest.mark.parametrize("gives_orders", [False, True])
def test_all_that_the_gateway_subscribes_to_is_tried(tmp_path: Path, gives_orders: bool) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(TEXT.replace('name = "one"', 'name = "one"\nkey_file = "our.keys"'))
    order_keys = [new_key("sending", ORDER_KIND)] if gives_orders else []
    write_keys(tmp_path / "our.keys", [new_key("sending"), *order_keys], is_new=True)
    configuration = load_federation(path).configuration
    needs = needs_at_home(configuration, configuration.broker("west"), "mark")
    tried = {reading.topics for reading in needs.readings}
    subscriptions = control_subscriptions(WEST, gives_orders=gives_orders)
    assert {subscription.topic for subscription in subscriptions} <= tried
    assert (layout.roster() in tried) == gives_orders
    assert {"stocks/#", "sensors/+"} <= tried
    assert "hot/#" in {writing.topics for writing in needs.writings}


def test_a_probe_goes_to_topics_made_up_for_it_and_never_to_data_or_to_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(TEXT)
    configuration = load_federation(path).configuration
    needs = needs_at_home(configuration, configuration.broker("west"), "mark")
    written = [reading.through for reading in needs.readings if reading.through]
    written += [writing.topic for writing in needs.writings if writing.topic]
    harmless = (layout.fence(WEST), layout.trial(WEST))
    assert all("mark" in topic or topic in harmless for topic in written)
    kept = {layout.status(WEST), layout.place(WEST), layout.portrait(WEST), layout.report(WEST)}
    assert not kept & set(written)
    assert not any(topic_matches(data, topic) for data in configuration.federation.data for topic in written)
    assert all(not reading.payload for reading in needs.readings if reading.topics == layout.records(WEST))


@pytest.mark.parametrize("data_topics", [[], ["stocks/probe"]])
def test_data_topics_are_written_to_only_where_somebody_says_so(tmp_path: Path, data_topics: list[str]) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(TEXT.replace('id = "west"', 'id = "west"\nfederate = ["stocks/#"]'))
    configuration = load_federation(path).configuration
    needs = needs_at_home(configuration, configuration.broker("west"), "mark", data_topics)
    tried = {topics: "".join(data_topics) for topics in ("stocks/#",)} | {"sensors/+": ""}
    assert {each.topics: each.topic for each in needs.writings if each.topics in tried} == tried
    assert {each.topics: each.through for each in needs.readings if each.topics in tried} == tried


OTHERS: dict[str, str] = {
    "all_status": "read by clients",
    "alert_fences": "of whoever publishes alerts",
    "level": "part of a topic",
    "parks": "part of a topic",
}
"""What `layout` has that a gateway neither reads nor writes."""


def topics_in_the_layout() -> dict[str, list[str]]:
    """Return, by the names of its functions, every topic and filter of ours, those of the gateway WEST."""
    values = {"chunk": 0, "client": ClientId("c"), "topic": "t", "sender": EAST, "neighbour": EAST, "urgent": False}
    found = {}
    for name, function in inspect.getmembers(layout, inspect.isfunction):
        signature = inspect.signature(function, eval_str=True)
        if name.startswith("_") or name in OTHERS or function.__module__ != layout.__name__:
            continue
        if signature.return_annotation is str:
            found[name] = [function(**{each: values.get(each, WEST) for each in signature.parameters})]
        elif name == "links":
            found[name] = list(layout.links(WEST))
    return found


def test_no_topic_of_the_layout_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    more = 'adapter = "mosquitto"\n[telemetry]\nendpoint = "tcp://127.0.0.1:1"\n'
    text = TEXT.replace('id = "west"\n', f'id = "west"\n{more}').replace(
        'name = "one"', 'name = "one"\nkey_file = "our.keys"'
    )
    path.write_text(text)
    write_keys(tmp_path / "our.keys", [new_key("sending"), new_key("sending", ORDER_KIND)], is_new=True)
    configuration = load_federation(path).configuration
    needs = needs_at_home(configuration, configuration.broker("west"), "mark")
    read, written = [each.topics for each in needs.readings], [each.topics for each in needs.writings]
    found = topics_in_the_layout()
    assert len(found) > 25
    forgotten = {
        name
        for name, topics in found.items()
        if not all(any(topic_filters_intersect(known, topic) for known in (*read, *written)) for topic in topics)
    }
    assert forgotten == set()
    kept = ("status", "place", "portrait", "report", "drain", "interest", "interest_read", "here", "roster", "mirror")
    for name in (*kept, "out", "control", "ack", "park", "fence", "dead", "alerts"):
        assert any(topic_filters_intersect(known, found[name][0]) for known in written), name
    assert {"stocks/#", "sensors/+"} <= {*written}


def test_abroad_a_gateway_needs_its_own_link_alone() -> None:
    needs = needs_abroad(WEST, EAST)
    assert [writing.topic for writing in needs.writings] == [
        layout.link(WEST, EAST),
        layout.link(WEST, EAST, urgent=True),
    ]
    assert [reading.topics for reading in needs.readings] == [layout.ack(WEST, EAST), layout.status(WEST)]

"""Everything that a gateway reads and writes is among what a doctor tries, and nothing that would be taken for real."""

from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.topics import topic_matches
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
    written += [writing.topic for writing in needs.writings]
    assert all("mark" in topic or topic == layout.fence(WEST) for topic in written)
    kept = {layout.status(WEST), layout.place(WEST), layout.portrait(WEST), layout.report(WEST)}
    assert not kept & set(written)
    assert not any(topic_matches(data, topic) for data in configuration.federation.data for topic in written)
    assert all(not reading.payload for reading in needs.readings if reading.topics == layout.records(WEST))


def test_abroad_a_gateway_needs_its_own_link_alone() -> None:
    needs = needs_abroad(WEST, EAST)
    assert [writing.topic for writing in needs.writings] == [
        layout.link(WEST, EAST),
        layout.link(WEST, EAST, urgent=True),
    ]
    assert [reading.topics for reading in needs.readings] == [layout.ack(WEST, EAST), layout.status(WEST)]

"""What comes by a gateway's control connection is told by its topic, whoever made that up."""

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.sorting import Kind, Sorter

US = GatewayId("US")


def test_links_are_remembered_but_not_those_of_long_names() -> None:
    sorter = Sorter(US)
    long = GatewayId("x" * 10_000)
    for sender in (GatewayId("THEM"), long):
        for _ in range(2):
            assert sorter.kind(layout.link(US, sender, urgent=True)) == Kind("link", sender, urgent=True)
    assert list(sorter._links) == [layout.link(US, GatewayId("THEM"), urgent=True)]

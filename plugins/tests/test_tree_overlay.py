import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import Overlay
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import tree_overlay

A, B, C, HERE = GatewayId("a"), GatewayId("b"), GatewayId("c"), GatewayId("here")


def overlay(*neighbours: GatewayId) -> Overlay:
    kinds = Manager([LoadedPlugin("tree_overlay", "test", tree_overlay)], {}).overlays()
    return kinds["tree"].build(HERE, neighbours, {})


def test_a_subscription_of_our_own_travels_to_every_neighbour() -> None:
    assert list(overlay(C, A, B).spread(None)) == [C, A, B]


def test_a_subscription_of_a_neighbour_travels_to_all_others() -> None:
    assert list(overlay(C, A, B).spread(A)) == [C, B]


def test_a_publication_goes_where_it_is_wanted_in_the_order_of_the_configuration() -> None:
    assert list(overlay(C, A, B).route({B, C}, None)) == [C, B]


def test_a_publication_never_goes_back_to_where_it_came_from() -> None:
    assert list(overlay(C, A, B).route({A, B}, A)) == [B]


def test_a_publication_that_nobody_wants_goes_nowhere() -> None:
    assert list(overlay(C, A, B).route(set(), A)) == []


def test_a_single_broker_has_nowhere_to_send_to() -> None:
    alone = overlay()
    assert list(alone.spread(None)) == list(alone.route(set(), None)) == []


def test_a_gateway_cannot_be_its_own_neighbour() -> None:
    with pytest.raises(AssertionError):
        overlay(A, HERE)

"""What a look at a node shows: links, what waits and is parked, and how far its own publications are taken care of."""

from mqloom.core.events import LinkLost, Woke
from mqloom.core.limits import LINK_GRACE_S
from mqloom.core.messages import Announce
from mqloom.gateway.holdings import Parking, Progress
from mqloom.gateway.links import LinkState
from mqloom.lab.gate import ANN, A, Gate, key, parts_of


def gate() -> Gate:
    """Return a node with one neighbour, who wants everything."""
    each = Gate(parts_of(A)).up(A)
    each.hear(A, Announce(key(A, 1), "#", "", A))
    return each


def test_what_a_neighbour_has_not_taken_care_of_waits_and_the_oldest_is_known() -> None:
    each = gate()
    assert each.node.look().progress == Progress(None, 0)
    each.publish(b"1", b"2")
    look = each.node.look()
    assert (look.links[A], look.holdings.flows[A], look.holdings.duties) == (LinkState.UP, 2, 2)
    assert (look.progress, look.parks[A]) == (Progress(0, 2), Parking(False, 0))
    each.ack(A)
    look = each.node.look()
    assert (look.progress, look.holdings.flows[A]) == (Progress(None, 2), 0)


def test_what_is_parked_for_a_neighbour_that_is_away_is_counted() -> None:
    each = gate()
    each.handle(LinkLost(neighbour=A))
    each.now += LINK_GRACE_S + 1
    each.handle(Woke())
    each.publish(b"1", b"2", b"3")
    look = each.node.look()
    assert (look.links[A], look.parks[A]) == (LinkState.DOWN, Parking(True, 3))
    assert look.progress == Progress(None, 3)  # our broker has them: they are taken care of


def test_clients_and_subscriptions_are_counted() -> None:
    each = gate()
    each.record(ANN, {"one": ("a/#", ""), "two": ("b/#", "")})
    look = each.node.look()
    assert (look.clients, look.subscriptions_here, look.subscriptions_elsewhere) == (1, 2, 1)

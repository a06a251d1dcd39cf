"""Overlays while a primary link is moved: soft links keep off, and maps end as if it had always been where it is."""

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    LinkStood,
    MoveNear,
    MoveOver,
    NeighboursChanged,
    NeighbourTold,
    OpenSoftLink,
    OverlayStarted,
    TellNeighbour,
)
from mqloom.lab.overlay_net import OverlayNet
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.bodies import View, decode, encode

US, A, B, C, D = (GatewayId(name) for name in ("us", "a", "b", "c", "d"))
Near = Mapping[GatewayId, Sequence[GatewayId]]
Link = tuple[GatewayId, GatewayId]


def way(near: Near, start: GatewayId, end: GatewayId) -> list[GatewayId]:
    """Return the gateways between two, with both."""
    ways = [[start]]
    while ways[0][-1] != end:
        found = ways.pop(0)
        ways += [[*found, each] for each in near[found[-1]] if each not in found]
    return ways[0]


def net_of(links: Sequence[Link], gateways: Sequence[GatewayId], delta: int) -> OverlayNet:
    wishes: dict[str, object] = {"strategy": "S2", "delta": delta, "weave_s": 1.0, "fanout": 8}
    net = OverlayNet(links, dict.fromkeys(gateways, wishes), delay_s=0.01)
    net.start()
    net.run(1.0)
    return net


def seen(net: OverlayNet) -> dict[GatewayId, dict[GatewayId, list[GatewayId]]]:
    """Return the maps: for each gateway its ways to all that it knows."""
    for overlay in net.overlays.values():
        overlay.check()
    return {
        gateway: {other: list(overlay.way_to(other)) for other in net.overlays if overlay.knows(other)}
        for gateway, overlay in net.overlays.items()
    }


def busy(net: OverlayNet, until: float, randomness: random.Random) -> None:
    """Let publications flow, so that soft links are wanted."""
    gateways = list(net.overlays)
    while net.now < until:
        origin = randomness.choice(gateways)
        net.publish(origin, {each for each in gateways if randomness.random() < 0.3})
        net.run(net.now + 0.1)


def touching(net: OverlayNet, near: Near, path: Sequence[GatewayId]) -> set[Link]:
    """Return the soft links that touch a path."""
    return {link for link in net.soft if set(way(near, *link)) & set(path)}


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 12), st.integers(2, 5), st.integers(0, 2**32))
def test_after_any_move_every_map_is_that_of_the_new_network_and_meanwhile_soft_links_keep_off(
    count: int, delta: int, seed: int
) -> None:
    randomness = random.Random(seed)
    gateways = [GatewayId(f"g{number}") for number in range(count)]
    links = [(gateways[randomness.randrange(number)], gateways[number]) for number in range(1, count)]
    net = net_of(links, gateways, delta)
    busy(net, 4.0, randomness)
    near = {gateway: list(others) for gateway, others in net.neighbours.items()}
    paths = [way(near, one, other) for one in gateways for other in gateways]
    path = randomness.choice([path for path in paths if 3 <= len(path) <= delta + 1])
    mover, old, new = path[0], path[1], path[-1]
    net.freeze(path)
    assert not touching(net, near, path)
    busy(net, 7.0, randomness)
    assert not touching(net, near, path)
    net.adopt(mover, new)
    net.run(9.0)  # there is a cycle now: nodes see to it that publications do not go round
    assert not touching(net, near, path)
    net.switch(mover, old, new)
    net.run(net.now + randomness.choice((0.0, 0.02)))
    net.part(old, mover)
    net.run(10.0)
    busy(net, 12.0, randomness)
    assert not touching(net, net.neighbours, path)
    net.thaw()
    net.run(13.0)
    moved = [link for link in links if set(link) != {mover, old}]
    assert seen(net) == seen(net_of([*moved, (mover, new)], gateways, delta))
    for origin in gateways:
        everybody = set(gateways) - {origin}
        assert net.publish(origin, everybody).reached.keys() == set(gateways)


# ---- one overlay ---------------------------------------------------------------------------------------------------


def weaving(*neighbours: GatewayId) -> TreeOverlay:
    overlay = TreeOverlay(US, neighbours, {"strategy": "S2", "delta": 3})
    overlay.handle(OverlayStarted(), 0.0)
    for neighbour in neighbours:
        overlay.handle(LinkStood(neighbour, True), 0.0)
    return overlay


def test_one_that_is_no_neighbour_any_more_is_off_the_map_with_all_behind_it_and_the_others_are_told() -> None:
    overlay = weaving(A, B)
    overlay.handle(NeighbourTold(A, encode(View(1, [C], [0]))), 0.0)
    overlay.handle(NeighbourTold(B, encode(View(1, [D], [0]))), 0.0)
    assert list(overlay.way_to(C)) == [A, C]
    changed, told = overlay.handle(NeighboursChanged((B,)), 0.0)
    assert changed == AnchorsChanged()
    assert isinstance(told, TellNeighbour)
    assert told.neighbour == B
    assert decode(told.body).gateways == []  # type: ignore[union-attr]
    assert (list(overlay.way_to(C)), list(overlay.way_to(A))) == ([], [])
    assert list(overlay.spread(None)) == [B]
    assert list(overlay.spread(B)) == []
    assert list(overlay.route([B], None)) == [B]
    overlay.check()


def test_a_neighbour_is_where_we_have_it_whatever_another_one_says() -> None:
    """One that moved to us is still behind the other for those who have not heard of it."""
    overlay = weaving(A)
    overlay.handle(NeighbourTold(A, encode(View(1, [B, C], [0, 1]))), 0.0)
    assert list(overlay.way_to(C)) == [A, B, C]
    overlay.handle(NeighboursChanged((A, B)), 0.0)
    assert list(overlay.way_to(B)) == [B]
    assert not overlay.knows(C)
    overlay.handle(LinkStood(B, True), 0.0)
    overlay.handle(NeighbourTold(B, encode(View(1, [C], [0]))), 0.0)
    assert list(overlay.way_to(C)) == [B, C]
    overlay.check()


def test_a_neighbour_that_was_down_and_is_gone_is_not_down_when_it_is_back() -> None:
    overlay = weaving(A, B)
    overlay.handle(LinkStood(A, False), 0.0)
    overlay.handle(NeighboursChanged((B,)), 0.0)
    overlay.handle(NeighboursChanged((B, A)), 0.0)
    assert sorted(overlay.route([A, B], None)) == [A, B]
    overlay.check()


def test_without_a_map_neighbours_may_change_and_nobody_is_told_anything() -> None:
    overlay = TreeOverlay(US, [A, B])
    assert (overlay.reach, list(overlay.way_to(C))) == (0, [])
    assert [each for each in overlay.handle(NeighboursChanged((B, C)), 0.0) if isinstance(each, TellNeighbour)] == []
    assert list(overlay.spread(None)) == [B, C]
    assert list(overlay.route([B, C], B)) == [C]
    for event in (MoveNear((A, B, C)), MoveOver()):
        assert list(overlay.handle(event, 0.0)) == []


def test_it_reaches_as_far_as_soft_links_span() -> None:
    assert weaving(A).reach == 3


@pytest.mark.parametrize(
    ("path", "is_closed"), [((A, C, B), True), ((US, A, B), True), ((B, D, GatewayId("x")), False)]
)
def test_soft_links_that_touch_a_path_are_closed_and_not_opened_again_until_the_move_is_over(
    path: tuple[GatewayId, ...], is_closed: bool
) -> None:
    overlay = weaving(A, B)
    overlay.handle(NeighbourTold(A, encode(View(1, [C], [0]))), 0.0)
    opened = overlay.handle(LinkStood(A, False), 0.0)  # it is gone around
    assert OpenSoftLink(C) in opened
    overlay.handle(LinkStood(C, True), 0.1)
    closed = list(overlay.handle(MoveNear(path), 0.2))
    assert closed == ([CloseSoftLink(C)] if is_closed else [])
    overlay.handle(LinkStood(A, True), 0.3)
    again = overlay.handle(LinkStood(A, False), 0.4)
    assert OpenSoftLink(C) not in again
    overlay.handle(MoveOver(), 0.5)
    overlay.handle(LinkStood(A, True), 0.6)
    assert (OpenSoftLink(C) in overlay.handle(LinkStood(A, False), 0.7)) is is_closed
    overlay.check()

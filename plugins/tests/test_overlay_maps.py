"""The maps: what overlays tell each other, and what a gateway sees through its links."""

import random
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import CountOverlay, LinkStood, NeighbourTold, OverlayEffect, TellNeighbour
from mqloom.lab.overlay_net import OverlayNet
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.bodies import View, decode, encode
from mqloom.plugins.overlay.limits import BODY_BYTES_MAX, VIEW_GATEWAYS_MAX
from mqloom.plugins.overlay.master_map import MasterMap, Tree, bits
from mqloom.plugins.overlay.neighbourhood import Neighbourhood
from mqloom.plugins.overlay.working_map import WorkingMap

Links = Sequence[tuple[GatewayId, GatewayId]]
US, A, B, C, D, E = (GatewayId(name) for name in ("us", "a", "b", "c", "d", "e"))


@st.composite
def trees(draw: st.DrawFn, least: int = 2, most: int = 40) -> Links:
    count = draw(st.integers(least, most))
    randomness = random.Random(draw(st.integers(0, 2**32)))
    reach = draw(st.sampled_from([2, 5, 100]))  # few to choose from: long ways
    return [
        (GatewayId(f"g{randomness.randrange(max(0, each - reach), each)}"), GatewayId(f"g{each}"))
        for each in range(1, count)
    ]


def around(links: Links) -> dict[GatewayId, list[GatewayId]]:
    near: dict[GatewayId, list[GatewayId]] = {}
    for one, other in links:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    return near


def way(near: Mapping[GatewayId, Sequence[GatewayId]], start: GatewayId, end: GatewayId) -> list[GatewayId]:
    """The gateways after `start` up to `end`."""
    stack: list[tuple[GatewayId, list[GatewayId]]] = [(start, [])]
    while stack:
        here, path = stack.pop()
        if here == end:
            return path
        stack += [(each, [*path, each]) for each in near[here] if each not in path and each != start]
    raise AssertionError


def map_of(links: Links, us: GatewayId, delta: int) -> MasterMap:
    net = OverlayNet(links, {gateway: {"strategy": "S2", "delta": delta} for gateway in around(links)})
    net.start()
    net.run(1.0)
    return net.overlays[us]._map


# ---- the master map ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(2, 6))
def test_every_gateway_learns_the_tree_within_delta_and_no_more(links: Links, delta: int) -> None:
    near = around(links)
    net = OverlayNet(links, {gateway: {"strategy": "S1", "delta": delta} for gateway in near})
    net.start()
    net.run(1.0)
    for us, overlay in net.overlays.items():
        overlay.check()
        master = overlay._map
        ways = {other: way(near, us, other) for other in near if other != us}
        assert set(master.gateways) == {other for other, path in ways.items() if len(path) <= delta}
        for number, gateway in enumerate(master.gateways):
            path = ways[gateway]
            assert master.names(master.ways[number]) == path
            assert master.distances[number] == len(path)
            assert master.gateways[master.sides[number]] == path[0]
            beyond = {other for other in master.gateways if gateway in ways[other]}
            assert set(master.names(master.subtrees[number])) == beyond
        assert master.distances == sorted(master.distances)


def ignored(reason: str) -> CountOverlay:
    return CountOverlay("overlay_ignored", reason)


def tell(overlay: TreeOverlay, neighbour: GatewayId, tree: Tree, number: int = 1) -> list[OverlayEffect]:
    view = View(number, [gateway for gateway, _ in tree], [parent for _, parent in tree])
    return list(overlay.handle(NeighbourTold(neighbour, encode(view)), 0.0))


def seeing(*neighbours: GatewayId) -> TreeOverlay:
    return TreeOverlay(US, neighbours, {"strategy": "S2"})


def test_a_neighbour_is_told_what_is_behind_us_when_its_link_comes_up() -> None:
    overlay = seeing(A, B)
    tell(overlay, B, [(C, 0), (D, 1)])
    (told,) = overlay.handle(LinkStood(A, True), 0.0)
    assert isinstance(told, TellNeighbour)
    assert (told.neighbour, told.urgent) == (A, False)
    assert decode(told.body) == View(1, [B, C, D], [0, 1, 2])


def test_a_neighbour_that_keeps_no_map_is_not_passed_on() -> None:
    overlay = seeing(A, B)
    (told,) = overlay.handle(LinkStood(A, True), 0.0)
    assert isinstance(told, TellNeighbour)
    assert decode(told.body) == View(1, [], [])
    (told,) = tell(overlay, B, [])
    assert isinstance(told, TellNeighbour)
    assert decode(told.body) == View(2, [B], [0])


def test_a_link_that_goes_down_takes_nothing_off_the_map() -> None:
    overlay = seeing(A)
    overlay.handle(LinkStood(A, True), 0.0)
    tell(overlay, A, [(C, 0)])
    overlay.handle(LinkStood(A, False), 0.0)
    assert overlay.anchor_here(C, A) == C


@pytest.mark.parametrize(
    "tree",
    [
        [(US, 0)],
        [(C, 0), (C, 0)],
        [(A, 0)],
        [(C, 1)],
        [(C, 0), (D, 1), (E, 0)],
    ],
    ids=["ourselves", "twice", "itself", "its own parent", "farther before nearer"],
)
def test_a_view_that_is_no_tree_behind_the_neighbour_is_ignored_and_counted(tree: Tree) -> None:
    overlay = seeing(A, B)
    assert tell(overlay, A, tree) in ([ignored("malformed")], [ignored("contradicted")])
    assert overlay._map.gateways == [A, B]


@given(st.binary(max_size=200))
def test_no_body_raises(body: bytes) -> None:
    overlay = seeing(A)
    assert all(isinstance(each, CountOverlay) for each in overlay.handle(NeighbourTold(A, body), 0.0))
    overlay.check()


def test_a_body_that_is_too_large_and_one_of_a_stranger_are_ignored_and_counted() -> None:
    overlay = seeing(A)
    assert overlay.handle(NeighbourTold(A, bytes(BODY_BYTES_MAX + 1)), 0.0) == [ignored("malformed")]
    assert tell(overlay, B, [(C, 0)]) == [ignored("stranger")]


def test_a_gateway_in_two_places_is_believed_to_be_where_it_was_first_until_it_leaves_there() -> None:
    overlay = seeing(A, B)
    tell(overlay, A, [(C, 0)])
    assert tell(overlay, B, [(C, 0), (D, 1)], number=7) == [ignored("contradicted")]
    assert overlay.anchor_here(C, A) == C
    assert overlay.anchor_here(D, B) == B
    tell(overlay, A, [], number=2)
    assert overlay.anchor_here(C, A) == A
    assert overlay.anchor_here(D, B) == D
    assert overlay._neighbourhood.number_of(B) == 7


def test_a_neighbour_cannot_be_behind_another() -> None:
    overlay = seeing(A, B)
    assert tell(overlay, A, [(B, 0)]) == [ignored("contradicted")]


def test_what_a_neighbour_sees_farther_than_we_do_is_left_out() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "S2", "delta": 2})
    tell(overlay, A, [(B, 0), (C, 1)])
    assert overlay._map.gateways == [A, B]


@pytest.mark.parametrize("name", ["x", "\U000103d5" * 120])
def test_a_view_always_fits_into_a_body_and_is_a_tree(name: str) -> None:
    hub = Neighbourhood(US, [A, B, C], 4)
    for side in (B, C):
        behind = [GatewayId(f"{name}{side}{each}") for each in range(300)]
        assert hub.take(side, View(1, behind, [0] * 300))
    tree = hub.tree_for(A)
    assert 100 < len(tree) <= VIEW_GATEWAYS_MAX
    body = encode(View(1, [gateway for gateway, _ in tree], [parent for _, parent in tree]))
    assert len(body) <= BODY_BYTES_MAX
    decode(body)


# ---- anchors ----------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(trees(), st.integers(1, 5))
def test_an_anchor_is_the_subscriber_within_delta_else_delta_hops_towards_it(links: Links, delta: int) -> None:
    near = around(links)
    net = OverlayNet(links, {gateway: {"strategy": "S1", "delta": delta} for gateway in near})
    net.start()
    net.run(1.0)
    for here, anchors in net.anchors().items():
        for subscriber, anchor in anchors.items():
            path = way(near, here, subscriber)
            assert anchor == path[min(delta, len(path)) - 1]


# ---- the working map --------------------------------------------------------------------------------------------

N1, N2, N3, N4, X1, X2, X3, X5 = (GatewayId(name) for name in ("n1", "n2", "n3", "n4", "x1", "x2", "x3", "x5"))
FIGURE_3: Links = [(A, N1), (A, N2), (N1, X1), (X1, X2), (X2, N4), (N4, X5), (N1, X3), (X3, N3)]


def test_figures_3_and_4_of_the_paper() -> None:
    master = map_of(FIGURE_3, A, 4)
    working = WorkingMap(master, [N3, N4])
    number = master.numbers

    def names(vector: int) -> set[GatewayId]:
        return set(master.names(vector))

    assert names(working.links) == {N1, N2, N3, N4}
    assert names(working.between(number[N4])) == {N1, N4}
    assert names(working.beyond(number[N1])) == {N1, N3, N4}
    assert names(working.behind(number[N1])) == {N2}
    assert {each: master.gateways[working.substitute(number[each])] for each in (X1, X2, X3, N4)} == {
        X1: N1,
        X2: N1,
        X3: N1,
        N4: N4,
    }


def test_the_anchor_of_x5_becomes_n4_before_n1_tells_a() -> None:
    net = OverlayNet(FIGURE_3, {gateway: {"strategy": "S1"} for gateway in around(FIGURE_3)})
    net.start()
    net.run(1.0)
    assert net.anchors()[N1][X5] == X5
    assert net.overlays[N1].anchor_for(X5, A) == N4
    assert net.anchors()[A][X5] == N4


def contracted(
    us: GatewayId, near: Mapping[GatewayId, Sequence[GatewayId]], known: Sequence[GatewayId], linked: set[GatewayId]
) -> tuple[dict[GatewayId, GatewayId], dict[GatewayId, set[GatewayId]]]:
    """Section 3, step 1, to the letter: whom each gateway is substituted with, and the graph that is left."""
    ways = {other: way(near, us, other) for other in known}
    graph = {each: {other for other in near[each] if other == us or other in ways} for each in [us, *known]}
    stands_for = {each: each for each in known}
    for gone in sorted(known, key=lambda each: -len(ways[each])):
        if gone in linked:
            continue
        (closer,) = [other for other in graph[gone] if other == us or len(ways[other]) < len(ways[gone])]
        for other in graph.pop(gone):
            graph[other].discard(gone)
            if other != closer:
                graph[other].add(closer)
                graph[closer].add(other)
        stands_for = {each: closer if stand == gone else stand for each, stand in stands_for.items()}
    return stands_for, graph


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(2, 5), st.data())
def test_links_that_come_and_go_leave_the_map_that_edge_contraction_builds_from_nothing(
    links: Links, delta: int, data: st.DataObject
) -> None:
    near = around(links)
    us = data.draw(st.sampled_from(sorted(near)))
    master = map_of(links, us, delta)
    working = WorkingMap(master)
    linked = set(near[us])
    for _ in range(data.draw(st.integers(0, 8))):
        gateway = data.draw(st.sampled_from(master.gateways))
        if gateway in linked:
            working.remove(gateway)
            linked -= {gateway} - set(near[us])
        else:
            working.add(gateway)
            linked.add(gateway)
    assert working.links == WorkingMap(master, linked).links
    stands_for, graph = contracted(us, near, master.gateways, linked)
    ways = {other: way(graph, us, other) for other in linked}  # type: ignore[arg-type] # sets serve as well
    for number, gateway in enumerate(master.gateways):
        assert master.gateways[working.substitute(number)] == stands_for[gateway]
        if gateway in linked:
            assert set(master.names(working.between(number))) == set(ways[gateway])
            assert set(master.names(working.beyond(number))) == {o for o in linked if gateway in ways[o]}
            assert set(master.names(working.behind(number))) == {o for o in linked if ways[o][0] != ways[gateway][0]}
    ordered = [master.gateways[each] for each in bits(working.links)]
    assert [len(way(near, us, each)) for each in ordered] == sorted(len(way(near, us, each)) for each in ordered)


def test_maps_of_45_gateways_and_35_links_are_built_within_the_papers_time() -> None:
    trees = {side: [(GatewayId(f"{side}{each}"), (each + 1) // 2) for each in range(14)] for side in (A, B, C)}

    def build() -> float:
        start = time.perf_counter()
        master = MasterMap(US, [A, B, C], trees)
        working = WorkingMap(master, master.gateways[:35])
        assert (len(master), working.links.bit_count()) == (45, 35)
        return time.perf_counter() - start

    assert min(build() for _ in range(20)) < 0.0008  # section 7

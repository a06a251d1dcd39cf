"""Where publications go: the figures of the paper, and every publication exactly once whatever links there are."""

from collections.abc import Collection, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.lab.overlay_net import OverlayNet
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.limits import MEMO_MAX, TRAFFIC_MAX
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.overlay.router import Router
from mqloom.plugins.overlay.strategies import forward_s1, forward_s2
from mqloom.plugins.overlay.working_map import WorkingMap

A, N1, N2, N3, N4, N5, N6, X = (GatewayId(name) for name in ("a", "n1", "n2", "n3", "n4", "n5", "n6", "x"))
FIGURE_2: Sequence[tuple[GatewayId, GatewayId]] = [(A, N1), (N1, N2), (N2, N3), (N2, N4), (N4, N5), (N4, N6), (A, X)]
BEHIND_N1 = [(N2, 0), (N3, 1), (N4, 1), (N5, 3), (N6, 3)]


def figure_2(strategy: str, *soft: GatewayId) -> Router:
    router = Router(MasterMap(A, [N1, X], {N1: BEHIND_N1}), strategy)
    router.set_map(router.working.master, soft)
    return router


def test_s0_sends_one_copy_to_the_neighbour() -> None:
    assert figure_2("S0").route({N3, N5, N6}, None) == (N1,)


def test_s1_sends_one_copy_to_the_farthest_on_all_ways() -> None:
    assert figure_2("S1", N2, N3, N4, N5, N6).route({N3, N5, N6}, None) == (N2,)
    assert figure_2("S1", N2, N3, N4, N5, N6).route({N5, N6}, None) == (N4,)
    assert figure_2("S1", N3, N5, N6).route({N3, N5, N6}, None) == (N1,)


def test_s2_sends_to_each_anchor_that_has_none_nearer_on_its_way() -> None:
    assert figure_2("S2", N2, N3, N4, N5, N6).route({N3, N5, N6}, None) == (N5, N6, N3)
    assert figure_2("S2", N2, N3, N4, N5, N6).route({N3, N4, N5}, None) == (N4, N3)
    assert figure_2("S2", N2, N5).route({N3, N5}, None) == (N2,)


def test_the_copy_with_the_most_behind_it_leaves_first() -> None:
    assert figure_2("S0").route({N3, X}, None) == (N1, X)
    assert figure_2("S2", N3, N4, N6).route({N3, N5, X}, None) == (N3, N4, X)
    assert figure_2("S2", N3, N4).route({N3, N5, N6, X}, None) == (N4, N3, X)


def test_s1_sends_one_copy_to_each_side() -> None:
    assert set(figure_2("S1", N5).route({N5, X}, None)) == {N5, X}


def test_nothing_goes_to_the_side_it_came_from_even_over_a_soft_link() -> None:
    assert figure_2("S2", N3, N5).route({N3, N5, X}, N6) == (X,)


def test_a_source_that_is_not_on_the_map_excludes_nothing() -> None:
    assert figure_2("S2", N5).route({N5, X}, GatewayId("far")) == (N5, X)


def test_an_anchor_that_is_not_on_the_map_could_be_on_any_side() -> None:
    router = figure_2("S2", N5)
    assert router.route({GatewayId("far"), N5}, None) == (N1, X)
    assert router.route({GatewayId("far")}, N5) == (X,)
    assert router.unknown == 2


def test_a_neighbour_that_is_down_keeps_its_copy_and_is_gone_around() -> None:
    for strategy in ("S1", "S2"):
        router = figure_2(strategy, N3, N5)
        router.set_down([N1])
        assert router.route({N1, N3, N5}, None) == (N1, N5, N3)
        assert router.explain({N1, N3, N5}, None).bypassed == [N1]
        router.set_down([])
        assert router.route({N1, N3, N5}, None) == (N1,)


def test_answers_remembered_count_who_was_wanted_on_each_side_whatever_the_links() -> None:
    router = figure_2("S2", N2)
    for _ in range(3):
        assert router.route([N5], None) == (N2,)
    router.route({N3, N6}, X)
    router.set_link(N5, up=True)
    assert router.route([N5, X], None) == (N5, X)
    router.route([N5, X], N1)
    vector = router.working.master.vector
    assert router.traffic() == {vector([N5]): 4, vector([N3, N6]): 1, vector([X]): 2}
    assert router.traffic() == {}


def test_the_memory_of_answers_is_bounded_and_loses_no_count() -> None:
    router = figure_2("S2", N5)
    for number in range(3 * MEMO_MAX):
        router.route({N5, GatewayId(f"far{number}")}, N1)
        router.check()
    assert router.traffic() == {router.working.master.vector([X]): 3 * MEMO_MAX}


def test_of_too_many_different_wishes_the_rarest_are_forgotten() -> None:
    behind = [GatewayId(f"b{number}") for number in range(12)]
    router = Router(MasterMap(A, [X], {X: [(each, 0) for each in behind]}), "S2")
    for wanted in range(1, TRAFFIC_MAX + MEMO_MAX):
        anchors = [each for number, each in enumerate(behind) if wanted >> number & 1]
        for _ in range(1 + (wanted % 7 == 0)):
            router.route(anchors, None)
    router.set_link(behind[0], up=True)
    router.check()
    counts = router.traffic()
    assert len(counts) < TRAFFIC_MAX
    assert sum(count == 2 for count in counts.values()) == (TRAFFIC_MAX + MEMO_MAX - 1) // 7


def test_what_was_counted_on_another_map_is_forgotten() -> None:
    router = figure_2("S2")
    router.route([N5], None)
    router.set_map(MasterMap(A, [N1, X], {}), ())
    assert router.traffic() == {}


def test_an_explanation_says_who_gets_it_for_whom_and_what_was_left_out() -> None:
    told = figure_2("S2", N4).explain({N3, N5, N6, X, GatewayId("far")}, X)
    assert (told.strategy, told.side, told.dropped, told.unknown) == ("S2", X, [X], ["far"])
    assert told.copies == {N1: [N3, N5, N6]}
    assert figure_2("S2", N4).explain({N5, N6}, X).copies == {N4: [N5, N6]}


# ---- against the figures to the letter --------------------------------------------------------------------------


def letter_s1(working: WorkingMap, anchors: set[int]) -> set[int]:
    """Figure 5, lines 3 to 15."""

    def numbers(vector: int) -> set[int]:
        return {each for each in range(len(working.master)) if vector >> each & 1}

    intersection: set[int] = set()
    for each in anchors:
        between = numbers(working.between(each))
        if not intersection & between:
            intersection |= between
        else:
            intersection &= between | numbers(working.behind(each))
    forward: set[int] = set()
    for each in sorted(numbers(working.links), reverse=True):
        beyond = numbers(working.beyond(each))
        if anchors & beyond and each in intersection:
            forward.add(each)
            anchors -= beyond
    assert not anchors
    return forward


def letter_s2(working: WorkingMap, anchors: set[int]) -> set[int]:
    """Figure 6, lines 3 to 9."""
    forward: set[int] = set()
    for each in range(len(working.master)):
        if each in anchors:
            forward.add(each)
            anchors -= {other for other in anchors if working.beyond(each) >> other & 1}
    return forward


@st.composite
def mapped(draw: st.DrawFn) -> WorkingMap:
    """A map of random shape, within 5 hops, and some links."""
    neighbours = [GatewayId(f"side{each}") for each in range(draw(st.integers(1, 4)))]
    trees = {}
    for side in neighbours:
        tree: list[tuple[GatewayId, int]] = []
        above = [0]
        for size in draw(st.lists(st.integers(1, 4), max_size=4)):
            first = len(tree) + 1
            tree += [(GatewayId(f"{side}.{first + each}"), draw(st.sampled_from(above))) for each in range(size)]
            above = list(range(first, first + size))
        trees[side] = tree
    master = MasterMap(A, neighbours, trees)
    return WorkingMap(master, draw(st.sets(st.sampled_from(master.gateways))))


@settings(max_examples=200, deadline=None)
@given(mapped(), st.data())
def test_the_strategies_do_what_the_figures_say(working: WorkingMap, data: st.DataObject) -> None:
    linked = [each for each in range(len(working.master)) if working.links >> each & 1]
    anchors = data.draw(st.sets(st.sampled_from(linked)))
    vector = sum(1 << each for each in anchors)
    assert forward_s1(working, vector) == sum(1 << each for each in letter_s1(working, set(anchors)))
    assert forward_s2(working, vector) == sum(1 << each for each in letter_s2(working, set(anchors)))


# ---- whole federations ------------------------------------------------------------------------------------------

Near = Mapping[GatewayId, Sequence[GatewayId]]


@st.composite
def federations(draw: st.DrawFn, strategies: Sequence[str] = ("S0", "S1", "S2", "SH"), most: int = 40) -> OverlayNet:
    """Overlays of any strategy whose maps are settled, each with some soft links to whom its map shows."""
    count = draw(st.integers(2, most))
    randomness = draw(st.randoms(use_true_random=False))
    reach = draw(st.sampled_from([2, 4, 100]))
    delta = draw(st.integers(2, 5))
    links = [
        (GatewayId(f"g{randomness.randrange(max(0, each - reach), each)}"), GatewayId(f"g{each}"))
        for each in range(1, count)
    ]
    names = [GatewayId(f"g{each}") for each in range(count)]
    chosen = [strategies[randomness.randrange(len(strategies))] for _ in names]
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    net = OverlayNet(
        links, {name: {"strategy": each, "delta": delta} for name, each in zip(names, chosen, strict=True)}
    )
    net.start()
    net.run(1.0)
    for overlay in net.overlays.values():
        if overlay.settings.strategy != "S0":
            link(overlay, [each for each in overlay._map.gateways if randomness.random() < share])
    return net


def link(overlay: TreeOverlay, gateways: Collection[GatewayId]) -> None:
    overlay._router.set_map(overlay._map, gateways)


def side(near: Near, here: GatewayId, other: GatewayId) -> frozenset[GatewayId]:
    """Everybody on the side of `here` on which `other` is."""
    for first in near[here]:
        seen = {here, first}
        stack = [first]
        while stack:
            new = [each for each in near[stack.pop()] if each not in seen]
            seen.update(new)
            stack += new
        if other in seen:
            return frozenset(seen - {here})
    raise AssertionError


@settings(max_examples=150, deadline=None)
@given(federations(), st.data())
def test_every_gateway_that_wants_it_gets_a_publication_exactly_once(net: OverlayNet, data: st.DataObject) -> None:
    names = sorted(net.overlays)
    origin = data.draw(st.sampled_from(names))
    wanting = data.draw(st.sets(st.sampled_from(names)))
    journey = net.publish(origin, wanting)
    assert set(journey.reached.values()) == {1}
    assert wanting <= journey.reached.keys() | {origin}
    came: dict[GatewayId, GatewayId] = {}
    for here, target in journey.hops:
        if here in came:
            assert target not in side(net.neighbours, here, came[here]), "it went towards where it came from"
        came[target] = here
        beyond = net.overlays.keys() - side(net.neighbours, target, here)
        assert wanting & beyond, "nobody there, or beyond, wants it"


@settings(max_examples=60, deadline=None)
@given(federations(["S1", "S2"], 25), st.data())
def test_a_crashed_gateway_costs_nobody_else_a_publication(net: OverlayNet, data: st.DataObject) -> None:
    names = sorted(net.overlays)
    for overlay in net.overlays.values():
        link(overlay, ())
    crashed = data.draw(st.sampled_from(names))
    net.crash(crashed)
    net.run(2.0)
    origin = data.draw(st.sampled_from([each for each in names if each != crashed]))
    wanting = data.draw(st.sets(st.sampled_from(names)))
    journey = net.publish(origin, wanting)
    assert wanting <= journey.reached.keys() | {origin}
    for overlay in net.overlays.values():
        overlay.check()

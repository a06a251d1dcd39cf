"""Which soft links a gateway opens, keeps and gives up."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import CloseSoftLink, OpenSoftLink
from mqloom.plugins.overlay.limits import BANNED_PERIODS, IDLE_PERIODS
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.overlay.weaving import Effects, Weaving

US, A, B, C, D, E, F, G = (GatewayId(name) for name in ("us", "a", "b", "c", "d", "e", "f", "g"))
MAP = MasterMap(US, [A, B], {A: [(C, 0), (D, 0), (E, 1)], B: [(F, 0), (G, 1)]})
PERIOD_S = 20.0


class Loom:
    """A weaving whose links come up at once, unless told otherwise."""

    def __init__(self, fanout: int = 35, max_links: int = 70, master: MasterMap = MAP) -> None:
        self.weaving = Weaving(fanout=fanout, max_links=max_links, period_s=PERIOD_S, loads=Loads(None))
        self.master = master
        self.now = 0.0
        self.down = 0
        assert self.weaving.remap(master, 0.0) == []

    def period(self, publications: Mapping[GatewayId, int], *, come_up: bool = True) -> Effects:
        self.now += PERIOD_S
        effects = self.weaving.weave(self.master, publications, self.down, self.now)
        for effect in effects:
            if isinstance(effect, OpenSoftLink) and come_up:
                assert self.weaving.stood(effect.gateway, up=True)
        self.weaving.check(self.master)
        return effects

    def candidates(self) -> set[GatewayId]:
        return set(self.weaving.profiled()) - set(self.weaving.soft())


def test_the_search_begins_two_hops_away_and_goes_on_beside_links_with_traffic() -> None:
    loom = Loom()
    assert loom.candidates() == {C, D, F}
    loom.period({F: 10})
    assert loom.weaving.soft() == [F]
    assert loom.candidates() == {C, D, G}, "G is next to F; E is next to C, which had none"


def test_the_best_candidates_are_opened_within_the_fanout() -> None:
    loom = Loom(fanout=3)
    assert loom.period({C: 5, D: 6, F: 5}) == [OpenSoftLink(D)]
    loom = Loom(fanout=4)
    assert loom.period({C: 5, D: 6, F: 5}) == [OpenSoftLink(D), OpenSoftLink(C)], "of two alike the first on the map"


def test_a_farther_link_gains_more() -> None:
    loom = Loom(fanout=3)
    loom.period({A: 10, C: 0, D: 0, F: 0})
    loom.period({A: 10, C: 1})
    assert {E} & set(loom.weaving.profiled())
    loom = Loom(fanout=2)
    loom.period({C: 6, D: 1})
    loom.period({C: 6, E: 6})
    assert {each.gateway: each.gain for each in loom.weaving.describe(MAP, 0)}[E] == 12


def test_a_soft_link_is_replaced_by_a_clearly_better_candidate_only() -> None:
    loom = Loom(fanout=3)
    assert loom.period({D: 10, C: 9}) == [OpenSoftLink(D)]
    assert all(loom.period({D: 10, C: 15}) == [] for _ in range(20))
    changes = [effects for _ in range(5) if (effects := loom.period({D: 10, C: 25}))]
    assert changes == [[CloseSoftLink(D), OpenSoftLink(C)]]


def test_one_lucky_period_is_no_reason_to_change_places() -> None:
    loom = Loom(fanout=3)
    for _ in range(5):
        loom.period({D: 10, C: 5})
    assert loom.period({D: 10, C: 40}) == []
    assert loom.period({D: 10, C: 5}) == []


def test_links_of_about_the_same_gain_never_change_places() -> None:
    loom = Loom(fanout=3)
    loom.period({D: 10, C: 9})
    for round_ in range(20):
        assert loom.period({D: 6, C: 14} if round_ % 2 else {D: 14, C: 6}) == []


def test_a_soft_link_without_use_is_closed_in_the_end_and_one_used_now_and_then_is_not() -> None:
    loom = Loom()
    loom.period({C: 10, D: 10})
    for round_ in range(1, IDLE_PERIODS):
        assert loom.period({} if round_ % 10 else {D: 1}) == []
    assert loom.period({}) == [CloseSoftLink(C)]


def test_a_link_that_does_not_come_up_is_given_up_and_left_alone_for_a_while() -> None:
    loom = Loom()
    assert loom.period({C: 10}, come_up=False) == [OpenSoftLink(C)]
    assert loom.period({C: 10}, come_up=False) == [CloseSoftLink(C)]
    for _ in range(BANNED_PERIODS - 1):
        assert loom.period({A: 10}) == []
        assert C not in loom.weaving.profiled()
    loom.period({A: 10})
    assert C in loom.weaving.profiled()


def test_a_link_that_breaks_is_kept_for_a_period_in_which_it_may_come_back() -> None:
    loom = Loom()
    loom.period({C: 10})
    assert loom.weaving.stood(C, up=False)
    assert loom.weaving.up() == []
    assert loom.period({C: 10}) == []
    assert loom.period({C: 10}) == [CloseSoftLink(C)]


def test_how_a_link_stands_that_is_not_ours_is_no_news() -> None:
    assert not Loom().weaving.stood(C, up=True)


def test_links_around_a_neighbour_that_is_down_go_before_all_others() -> None:
    loom = Loom(fanout=4)
    assert loom.period({D: 10, F: 20}) == [OpenSoftLink(F), OpenSoftLink(D)]
    loom.down = 1
    assert loom.weaving.bypass(MAP, loom.down, loom.now) == [CloseSoftLink(F), OpenSoftLink(C)]
    loom.weaving.check(MAP)
    loom.weaving.stood(C, up=True)
    assert loom.period({F: 100}) == []


def test_links_around_two_neighbours_that_are_down_do_not_displace_each_other() -> None:
    loom = Loom(fanout=4)
    loom.down = 3
    assert loom.weaving.bypass(MAP, loom.down, 0.0) == [OpenSoftLink(C), OpenSoftLink(D)]
    loom.weaving.stood(C, up=True)
    loom.weaving.stood(D, up=True)
    assert loom.period({F: 100}) == []


def test_links_to_whoever_left_the_map_are_closed() -> None:
    loom = Loom()
    loom.period({F: 10})
    assert loom.weaving.remap(MasterMap(US, [A, B], {A: [(C, 0)]}), loom.now) == [CloseSoftLink(F)]


def test_candidates_stay_within_the_links_allowed() -> None:
    loom = Loom(fanout=2, max_links=4)
    loom.period({C: 3, D: 2, F: 1})
    assert len(loom.weaving.profiled()) == 2


def test_a_loaded_gateway_on_the_way_raises_the_gain() -> None:
    loads = Loads(None)
    loads._loads = {A: 150, B: 20}
    assert loads.scaling(MAP, MAP.numbers[C]) == 2.0
    assert loads.scaling(MAP, MAP.numbers[F]) == 1.0
    assert loads.scaling(MAP, MAP.numbers[A]) == 1.0, "itself is not bypassed"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(0, 4),
    st.lists(st.tuples(st.dictionaries(st.sampled_from(MAP.gateways), st.integers(0, 50)), st.booleans()), max_size=12),
)
def test_the_limits_hold_whatever_the_traffic(
    fanout: int, more: int, periods: list[tuple[dict[GatewayId, int], bool]]
) -> None:
    loom = Loom(fanout, fanout + more)
    for publications, come_up in periods:
        loom.period(publications, come_up=come_up)

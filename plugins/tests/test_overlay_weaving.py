"""Which soft links a gateway opens, keeps and gives up."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import CloseSoftLink, OpenSoftLink
from mqloom.plugins.overlay.limits import BANNED_PERIODS, IDLE_PERIODS
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.overlay.weaving import Effects, Weaving
from mqloom.plugins.overlay.worth import Traffic

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

    def period(self, wanted: Mapping[GatewayId, int], *, come_up: bool = True) -> Effects:
        """Let a period pass in which so many publications wanted each of these gateways, and no other."""
        return self.period_of({1 << self.master.numbers[each]: count for each, count in wanted.items()}, come_up)

    def period_of(self, traffic: Traffic, come_up: bool = True) -> Effects:
        self.now += PERIOD_S
        effects = self.weaving.weave(self.master, traffic, "S2", self.down, self.now)
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


H, P, Q, R = (GatewayId(name) for name in ("h", "p", "q", "r"))
HUB = MasterMap(US, [A, B], {A: [(H, 0), (P, 1), (Q, 1), (R, 1)], B: [(F, 0), (G, 0)]})
"""Three gateways behind one."""


def hub_loom(**wanted: int) -> Loom:
    """A loom that has seen candidates for everybody, and had no place for any."""
    loom = Loom(fanout=2, master=HUB)
    for _ in range(4):
        loom.period({GatewayId(each): count for each, count in wanted.items()})
    assert loom.candidates() == {H, P, Q, R, F, G}
    return loom


def test_a_single_place_goes_to_the_link_that_serves_several() -> None:
    loom = hub_loom(p=4, q=4, r=4, f=1)
    loom.weaving._fanout = 3
    assert loom.period({P: 4, Q: 4, R: 4, F: 1}) == [OpenSoftLink(H)]


def test_after_one_link_is_chosen_another_counts_for_what_it_would_add() -> None:
    loom = hub_loom(p=1, q=1, r=1, f=4, g=4)
    loom.weaving._fanout = 4
    assert loom.period({P: 1, Q: 1, R: 1, F: 4, G: 4}) == [OpenSoftLink(F), OpenSoftLink(G)]
    for _ in range(5):
        assert loom.period({P: 1, Q: 1, R: 1, F: 4, G: 4}) == []
    # H would gain 20, and P alone 13, enough for the places of F and G; beside H it would gain half of that.
    assert loom.period({P: 24, Q: 24, R: 24, F: 4, G: 4}) == [CloseSoftLink(G), OpenSoftLink(H)]


def test_where_there_is_room_for_all_who_want_the_same_none_waits_for_the_others() -> None:
    loom = Loom(master=HUB)
    everybody = {HUB.vector([H, F]): 5, HUB.vector([P, Q, R]): 5}
    for _ in range(3):
        loom.period_of(everybody)
    assert set(loom.weaving.up()) >= {P, Q, R}, "each alone would gain nothing: A gets it for the other two"


def test_of_two_links_that_can_stand_for_each_other_only_one_makes_place() -> None:
    loom = hub_loom(p=10, q=2, r=2)
    loom.weaving._fanout = 4
    assert loom.period({P: 10, Q: 2, R: 2}) == [OpenSoftLink(P), OpenSoftLink(H)]
    for _ in range(10):
        assert loom.period({P: 10, Q: 2, R: 2}) == []
    gains = {each.gateway: each.gain for each in loom.weaving.describe(HUB, 0)}
    assert gains[P] == pytest.approx(10, abs=1)
    assert gains[H] == pytest.approx(4, abs=1)
    # F and G would each gain 25. That is more than enough for the place of P while H is there, not when H has gone.
    assert loom.period({P: 10, Q: 2, R: 2, F: 100, G: 100}) == [CloseSoftLink(H), OpenSoftLink(F)]


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

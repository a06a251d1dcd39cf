"""What links gain beside others: by hand, and against asking the router of a gateway that has them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.overlay.router import Router
from mqloom.plugins.overlay.worth import Gain, Worth

US, A, B, C, D, E, F = (GatewayId(name) for name in ("us", "a", "b", "c", "d", "e", "f"))
MAP = MasterMap(US, [A, B], {A: [(C, 0), (D, 1), (E, 1)], B: [(F, 0)]})
NUMBER = MAP.numbers


def worth(*soft: GatewayId, strategy: str = "S2", loads: Loads | None = None, **wanted: int) -> Worth:
    """Links there are, and how many publications wanted these gateways, named by their letters."""
    traffic = {MAP.vector(GatewayId(each) for each in letters): count for letters, count in wanted.items()}
    return Worth(MAP, MAP.primary | MAP.vector(soft), strategy, traffic, loads or Loads(None))


def test_a_link_that_serves_two_gains_from_both() -> None:
    found = worth(d=5, e=4)
    assert found.gain(NUMBER[C]) == Gain(9, 9.0)
    assert found.gain(NUMBER[D]) == Gain(5, 10.0)


def test_a_link_gains_only_what_the_others_leave_to_it() -> None:
    found = worth(C, d=5, e=4)
    assert found.gain(NUMBER[D]) == Gain(5, 5.0)
    assert found.gain(NUMBER[C]) == Gain(9, 9.0)
    found.relink(MAP.primary | MAP.vector([C, D]))
    assert found.gain(NUMBER[C]) == Gain(4, 4.0)
    assert found.gain(NUMBER[D]) == Gain(5, 5.0)


def test_a_link_past_somebody_who_wants_it_gains_nothing() -> None:
    assert worth(ad=5).gain(NUMBER[D]) == Gain(0, 0.0)
    assert worth(C, cd=5).gain(NUMBER[D]) == Gain(0, 0.0)


def test_primary_links_have_publications_and_no_gain() -> None:
    assert worth(F, d=5, f=1, b=2).gain(NUMBER[A]) == Gain(5, 0.0)
    assert worth(F, d=5, f=1, b=2).gain(NUMBER[B]) == Gain(2, 0.0)


def test_under_s1_what_two_want_goes_no_farther_than_both_ways_do() -> None:
    assert worth(strategy="S1", de=3).gain(NUMBER[D]) == Gain(0, 0.0)
    assert worth(strategy="S1", de=3).gain(NUMBER[C]) == Gain(3, 3.0)
    assert worth(D, E, de=3).gain(NUMBER[D]) == Gain(3, 12.0), "S2 needs both, or sends it to A"


def test_busy_gateways_that_are_bypassed_raise_the_gain() -> None:
    loads = Loads(None)
    loads._loads = {A: 150}
    assert worth(c=3, f=3, loads=loads).gain(NUMBER[C]) == Gain(3, 6.0)
    assert worth(c=3, f=3, loads=loads).gain(NUMBER[F]) == Gain(3, 3.0)


def bypassed(soft: set[GatewayId], strategy: str, wanted: dict[frozenset[GatewayId], int]) -> int:
    """Ask a router with these links, publication by publication."""
    router = Router(MAP, strategy)
    router.set_map(MAP, soft)
    return sum(
        count * sum(MAP.distances[NUMBER[target]] - 1 for target in router.route(anchors, None))
        for anchors, count in wanted.items()
    )


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["S1", "S2"]),
    st.sets(st.sampled_from([C, D, E, F])),
    st.dictionaries(st.frozensets(st.sampled_from(MAP.gateways), min_size=1), st.integers(1, 9), max_size=6),
    st.sets(st.sampled_from([C, D, E, F])),
)
def test_a_gain_is_what_a_router_with_the_link_bypasses_more(
    strategy: str, soft: set[GatewayId], wanted: dict[frozenset[GatewayId], int], before: set[GatewayId]
) -> None:
    router = Router(MAP, strategy)
    for anchors, count in wanted.items():
        for _ in range(count):
            router.route(anchors, None)
    found = Worth(MAP, MAP.primary | MAP.vector(before), strategy, router.traffic(), Loads(None))
    found.relink(MAP.primary | MAP.vector(soft))
    for gateway in (C, D, E, F):
        more = bypassed(soft | {gateway}, strategy, wanted) - bypassed(soft - {gateway}, strategy, wanted)
        assert found.gain(NUMBER[gateway]).gain == more

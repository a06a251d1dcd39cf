import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mqloom.agents.press import calibrated, count, pack, profile_of
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import Sample
from mqloom.gateway.offload_interfaces import Bits, Group, Profile

Attributes = Mapping[str, str | int]


def subscription(where: str) -> Subscription:
    return Subscription.parse("#", where)


def wishes_of(wanted: Mapping[str, Sequence[Subscription]]) -> dict[ClientId, dict[SubscriptionKey, Subscription]]:
    numbers = iter(range(1_000_000))
    return {
        ClientId(client): {SubscriptionKey(GatewayId("here"), 1, next(numbers)): each for each in many}
        for client, many in wanted.items()
    }


def samples_of(
    publications: Sequence[Attributes],
    wishes: Mapping[ClientId, Mapping[SubscriptionKey, Subscription]],
    covering: Sequence[Subscription] = (),
) -> list[Sample]:
    return [
        Sample(
            [key for many in wishes.values() for key, each in many.items() if each.where.matches(publication)],
            any(each.where.matches(publication) for each in covering),
            100 + place,
        )
        for place, publication in enumerate(publications)
    ]


def profiled(
    wanted: Mapping[str, Sequence[str]],
    publications: Sequence[Attributes] = (),
    covering: Sequence[str] = (),
    movable: Iterable[str] | None = None,
) -> Profile:
    wishes = wishes_of({client: [subscription(each) for each in many] for client, many in wanted.items()})
    there = [subscription(each) for each in covering]
    may_move = [ClientId(client) for client in (wanted if movable is None else movable)]
    return profile_of(samples_of(publications, wishes, there), wishes, may_move, there, input_rate=3.0)


def of(profile: Profile, client: str) -> Group:
    return profile.groups[place_of(profile, client)]


def place_of(profile: Profile, client: str) -> int:
    return next(place for place, group in enumerate(profile.groups) if client in group.clients)


def written(bits: Bits, samples: int) -> str:
    """Return bits as the paper writes them: the first sample is the rightmost."""
    return f"{int(bits[0]):0{samples}b}"


TABLE_1_PUBLICATIONS: list[Attributes] = [
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
]
TABLE_1_CANDIDATES = {
    "all": ["[class,=,'STOCK']"],
    "over 15": ["[class,=,'STOCK'],[volume,>,15]"],
    "over 150": ["[class,=,'STOCK'],[volume,>,150]"],
    "sports": ["[class,=,'SPORTS']"],
}
TABLE_1_COVERING = [
    "[class,=,'STOCK'],[volume,>,50]",
    "[class,=,'STOCK'],[volume,<,5]",
    "[class,=,'MOVIES']",
]


def test_the_bit_vectors_are_those_of_table_1() -> None:
    profile = profiled(TABLE_1_CANDIDATES, TABLE_1_PUBLICATIONS, TABLE_1_COVERING)
    vectors = {name: written(profile.bits[place_of(profile, name)], 6) for name in TABLE_1_CANDIDATES}
    assert vectors == {"all": "110111", "over 15": "110100", "over 150": "100000", "sports": "001000"}
    assert written(profile.accepting, 6) == "110001"


def test_rate_and_extra_input_are_those_of_the_papers_example() -> None:
    profile = profiled(TABLE_1_CANDIDATES, TABLE_1_PUBLICATIONS, TABLE_1_COVERING)
    bits = profile.bits[place_of(profile, "all")]
    assert profile.input_rate * int(count(bits)) / profile.samples == 2.5
    assert profile.input_rate * int(count(bits & ~profile.accepting)) / profile.samples == 1.0


def test_who_is_in_the_covering_set_here_and_who_is_covered_there() -> None:
    profile = profiled(TABLE_1_CANDIDATES, TABLE_1_PUBLICATIONS, TABLE_1_COVERING)
    assert {name for name in TABLE_1_CANDIDATES if of(profile, name).is_maximal} == {"all", "sports"}
    assert {name for name in TABLE_1_CANDIDATES if of(profile, name).is_covered} == {"over 150"}
    below = {place_of(profile, "over 15"), place_of(profile, "over 150")}
    assert set(of(profile, "all").covers) == below
    assert not of(profile, "sports").covers


def test_what_is_wanted_there_in_the_same_words_is_covered_there() -> None:
    assert of(profiled({"one": ["a > 1"]}, covering=["a > 1"]), "one").is_covered


def test_clients_that_want_the_same_are_one_group() -> None:
    profile = profiled({"one": ["a > 1"], "two": ["a > 1"], "three": ["a > 2"], "four": ["a > 1"]}, [{"a": 2}])
    group = of(profile, "one")
    assert group.clients == ["one", "two", "four"]
    assert group.subscribers == 3
    assert len(profile.groups) == 2
    assert len(profile.bits) == 2


def test_who_must_stay_counts_as_a_subscriber_only_and_the_order_is_the_callers() -> None:
    profile = profiled({"one": ["a > 1"], "two": ["a > 1"], "three": ["a > 1"]}, movable=["three", "one"])
    (group,) = profile.groups
    assert group.clients == ["three", "one"]
    assert group.subscribers == 3


def test_a_group_that_must_stay_is_in_the_profile_for_what_it_takes() -> None:
    profile = profiled({"one": ["a > 1"]}, [{"a": 2}, {"a": 0}], movable=[])
    (group,) = profile.groups
    assert group.clients == []
    assert count(profile.bits).tolist() == [1]


def test_a_client_of_several_subscriptions_has_the_bits_of_all_of_them() -> None:
    profile = profiled({"one": ["a > 1", "b = 1"]}, [{"a": 2}, {"b": 1}, {"a": 0}, {"a": 2, "b": 1}])
    (group,) = profile.groups
    assert written(profile.bits[0], 4) == "1011"
    assert group.subscriptions == 2


def test_a_client_without_subscriptions_is_in_no_group() -> None:
    assert profiled({"one": []}).groups == []


def test_of_a_subscription_in_two_groups_the_larger_one_stands_for_both() -> None:
    profile = profiled({"narrow": ["a > 1"], "wide": ["a > 1", "b = 1"]})
    assert of(profile, "wide").is_maximal
    assert not of(profile, "narrow").is_maximal
    assert of(profile, "wide").covers == [place_of(profile, "narrow")]


def test_what_only_two_cover_together_hangs_below_neither() -> None:
    profile = profiled({"one": ["a > 1"], "other": ["b = 1"], "both": ["a > 2", "b = 1 AND c = 1"]})
    assert not of(profile, "both").is_maximal
    assert not of(profile, "one").covers
    assert not of(profile, "other").covers


def test_a_group_is_covered_there_only_with_all_that_it_wants() -> None:
    profile = profiled({"both": ["a > 2", "b = 1"], "one": ["a > 3"]}, covering=["a > 1"])
    assert not of(profile, "both").is_covered
    assert of(profile, "one").is_covered


def test_bytes_are_the_mean_of_what_matched_and_of_everything_where_nothing_did() -> None:
    profile = profiled({"one": ["a > 1"], "never": ["z = 1"]}, [{"a": 2}, {"a": 0}, {"a": 4}])
    assert of(profile, "one").bytes_each == 101.0  # 100 and 102
    assert of(profile, "never").bytes_each == 101.0


def test_a_sample_of_somebody_who_has_gone_counts_for_nobody() -> None:
    wishes = wishes_of({"one": [subscription("a > 1")]})
    gone = SubscriptionKey(GatewayId("here"), 1, 999)
    profile = profile_of([Sample([gone], False, 10)], wishes, [ClientId("one")], (), 1.0)
    assert count(profile.bits).tolist() == [0]


def test_what_comes_in_whoever_goes_is_a_row_of_its_own() -> None:
    wishes = wishes_of({"one": [subscription("a > 1")]})
    samples = [Sample([], False, 10, comes_anyway=each) for each in (True, False, True)]
    profile = profile_of(samples, wishes, [ClientId("one")], (), 1.0)
    assert profile.staying is not None
    assert written(profile.staying, 3) == "101"


def test_without_samples_or_clients_there_is_an_empty_profile() -> None:
    assert profile_of([], {}, [], [], 0.0).bits.shape == (0, 1)
    profile = profiled({"one": ["a > 1"]})
    assert count(profile.bits).tolist() == [0]
    assert profile.accepting.shape == (1,)


@given(st.integers(0, 5), st.integers(0, 200), st.integers(0, 2**32))
def test_the_first_sample_is_the_lowest_bit_of_the_first_word(rows: int, samples: int, seed: int) -> None:
    matched = np.random.default_rng(seed).integers(0, 2, (rows, samples)).astype(bool)
    bits = pack(matched)
    assert bits.dtype == np.uint64
    for row in range(rows):
        for place in range(samples):
            word, bit = divmod(place, 64)
            assert bool(int(bits[row, word]) >> bit & 1) == bool(matched[row, place])
    assert count(bits).tolist() == matched.sum(axis=1).tolist()


def test_a_profile_does_not_depend_on_the_order_of_sets() -> None:
    wanted = {f"client {n}": [f"a > {n % 7}", f"b = {n % 3}"] for n in range(30)}
    first = profiled(wanted, [{"a": 5, "b": 1}])
    again = profiled({client: list(reversed(many)) for client, many in wanted.items()}, [{"a": 5, "b": 1}])
    assert first.groups == again.groups
    assert (first.bits == again.bits).all()


def test_covering_agrees_with_trying_all_pairs() -> None:
    generator = random.Random(8)
    wanted = {
        str(n): [f"a > {generator.randrange(20)} AND b <= {generator.randrange(20)}" for _ in range(1 + n % 2)]
        for n in range(60)
    }
    covering = ["a > 10 AND b <= 10"]
    profile = profiled(wanted, covering=covering)
    sets = [[subscription(each) for each in wanted[group.clients[0]]] for group in profile.groups]
    there = subscription(covering[0])
    for place, (group, here) in enumerate(zip(profile.groups, sets, strict=True)):
        others = [each for number, many in enumerate(sets) if number != place for each in many]
        alone = [each for each in here if not any(other.covers(each) for other in others)]
        assert group.is_maximal or not alone
        assert group.is_covered == all(there.covers(each) for each in here)
        for below in group.covers:
            assert all(any(each.covers(other) for each in here) for other in sets[below])
            assert not profile.groups[below].is_maximal


def test_all_groups_together_make_the_output_that_was_measured() -> None:
    profile = profiled({"one": ["a > 1"], "two": ["a > 1"], "three": ["a > 2"]}, [{"a": 2}, {"a": 3}])
    fitted = calibrated(profile, 1_000.0)
    rates = fitted.input_rate * count(fitted.bits) / fitted.samples
    sent = sum(
        group.subscribers * rate * group.bytes_each for group, rate in zip(fitted.groups, rates.tolist(), strict=True)
    )
    assert abs(sent - 1_000.0) < 1e-6


def test_sizes_are_corrected_within_bounds_only() -> None:
    profile = profiled({"one": ["a > 1"]}, [{"a": 2}])
    assert calibrated(profile, 1e9).groups[0].bytes_each == 300.0
    assert calibrated(profile, 1e-9).groups[0].bytes_each == 50.0
    assert calibrated(profile, 0.0) is profile
    assert calibrated(profiled({"one": ["a > 1"]}, [{"a": 0}]), 1.0).groups[0].bytes_each == 100.0


def test_all_groups_together_make_the_deliveries_that_were_counted() -> None:
    profile = profiled({"one": ["a > 1"], "two": ["a > 1"], "three": ["a > 2"]}, [{"a": 2}, {"a": 3}])
    # Three a second come in; the first two get all of them, the third every other one: 7.5 a second by the samples.
    assert calibrated(profile, 1_000.0, 9.0).deliveries_factor == 1.2
    assert calibrated(profile, 0.0, 9.0).deliveries_factor == 1.2
    assert calibrated(profile, 1_000.0, 900.0).deliveries_factor == 3.0
    assert calibrated(profile, 1_000.0).deliveries_factor == 1.0

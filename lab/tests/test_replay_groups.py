import numpy as np

from mqloom.lab.replay_groups import COVERING_MAX, GroupKey, Kind, intake_of, kinds_of


def rates(**by_where: float) -> dict[GroupKey, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return {("stocks/#", where.replace("_", " ")): np.array([rate, 2 * rate]) for where, rate in by_where.items()}


WHERES = {
    ("stocks/#", ""): np.array([10.0, 10.0]),
    ("stocks/#", "volume > 1"): np.array([6.0, 8.0]),
    ("stocks/#", "volume > 5"): np.array([2.0, 8.0]),
    ("stocks/#", "volume < 0"): np.array([1.0, 1.0]),
}


def by_where(kinds: list[Kind]) -> dict[str, Kind]:
    return {kind.group[1]: kind for kind in kinds}


def test_a_kind_is_what_nobody_below_wants_and_each_group_gets_what_it_got() -> None:
    kinds = kinds_of(WHERES)
    found = by_where(kinds)
    assert found[""].own.tolist() == [3.0, 1.0]
    assert found["volume > 1"].own.tolist() == [4.0, 0.0]
    assert found["volume > 5"].own.tolist() == [2.0, 8.0]
    for kind in kinds:
        got = sum(other.own for other in kinds if kind.number <= other.number <= kind.last)
        assert np.array_equal(got, WHERES[kind.group])
    assert intake_of(kinds).tolist() == [10.0, 10.0]


def test_the_ranges_cover_each_other_as_the_groups_did() -> None:
    found = by_where(kinds_of(WHERES))
    for wide, narrow, is_covered in (
        ("", "volume > 5", True),
        ("volume > 1", "volume > 5", True),
        ("volume > 5", "volume > 1", False),
        ("volume > 1", "volume < 0", False),
    ):
        assert found[wide].subscription.covers(found[narrow].subscription) is is_covered
        kind = {"kind": found[narrow].number}
        assert found[wide].subscription.where.matches(kind) is is_covered


def test_groups_that_overlap_have_kinds_of_their_own() -> None:
    groups = {("a/#", "x > 1"): np.array([5.0]), ("a/#", "x < 3"): np.array([4.0])}
    assert intake_of(kinds_of(groups)).tolist() == [9.0]


def test_a_group_that_has_more_than_what_covers_it_makes_that_more_too() -> None:
    groups = {("a/#", ""): np.array([5.0, 5.0]), ("a/#", "x > 1"): np.array([1.0, 7.0])}
    wide, narrow = kinds_of(groups)
    assert (wide.group[1], narrow.group[1]) == ("", "x > 1")
    assert wide.total.tolist() == [5.0, 7.0]


def test_texts_that_were_cut_and_groups_past_the_bound_stand_alone() -> None:
    groups = {("a/#", f"x > {number}"): np.array([float(1_000 - number)]) for number in range(COVERING_MAX + 5)}
    groups["a/#", "x > 'cut"] = np.array([5_000.0])
    kinds = kinds_of(groups)
    alone = [kind for kind in kinds if kind.number == kind.last]
    assert ("a/#", "x > 'cut") in {kind.group for kind in alone}
    assert len(alone) == 1 + 5 + 1 + 1  # the cut one, those past the bound (one fewer within it), and the narrowest

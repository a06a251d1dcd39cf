"""Small measurements, with an obviously right engine and with wrong ones."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from mqloom.core.filter import Filter
from mqloom.core.plotting import PlotError, check_plot
from mqloom.lab import bench_match, command_bench
from mqloom.lab.bench_checks import plain_ids
from mqloom.lab.bench_match import Plan, Result, measure
from mqloom.lab.bench_plot import curves_of, draw
from mqloom.lab.command_bench import configure
from mqloom.lab.peers import DESTINATIONS, ContentEngine, Id, PeerMissingError, text_id
from mqloom.lab.peers_python import BruteForce, NumpyScan
from mqloom.lab.peers_trees import BoostPeer, RTreeBatched, RTreePeer, compile_boost
from mqloom.lab.workloads import WORKLOADS, Event, build_workload
from mqloom.plugins.content import Engine

SLOW_PEERS = frozenset(("boost r-tree",))


class PlainEngine:
    """Tries every filter."""

    def __init__(self) -> None:
        self.kept: dict[Id, tuple[Filter, int | None]] = {}

    def add(self, id: Id, filter: Filter, destination: int | None = None) -> None:  # noqa: A002 - the engine's words
        assert id not in self.kept
        self.kept[id] = (filter, destination)

    def remove(self, id: Id) -> None:  # noqa: A002 - as above
        del self.kept[id]

    def match(self, attributes: Event) -> Collection[Id]:
        return [id_ for id_, (where, _) in self.kept.items() if where.matches(attributes)]

    def match_batch(self, batch: list[Event]) -> list[Collection[Id]]:
        return [self.match(each) for each in batch]

    def destinations(self, attributes: Event) -> Collection[int]:
        found = (self.kept[id_][1] for id_ in self.match(attributes))
        return {each for each in found if each is not None}

    def destinations_batch(self, batch: list[Event]) -> list[Collection[int]]:
        return [self.destinations(each) for each in batch]

    def stats(self) -> dict[str, object]:
        return {"bytes": 100 * len(self.kept)}


class Forgetful(PlainEngine):
    """Does not find one of those that match."""

    def match(self, attributes: Event) -> Collection[Id]:
        return list(super().match(attributes))[1:]


class Stubborn(PlainEngine):
    """Leaves something behind where it is told to forget."""

    def remove(self, id: Id) -> None:  # noqa: A002 - as above
        del self.kept[id]
        self.kept[-1] = (Filter.ALL, 0)


class Stuttering(PlainEngine):
    """Finds all twice, in batches."""

    def match_batch(self, batch: list[Event]) -> list[Collection[Id]]:
        return [[*each, *each] for each in super().match_batch(batch)]


class Everywhere(PlainEngine):
    """Sends everything to all destinations."""

    def destinations(self, attributes: Event) -> Collection[int]:
        return set(range(DESTINATIONS))


def plan(workload: str, subscriptions: int = 60, without: frozenset[str] = SLOW_PEERS) -> Plan:
    return Plan(
        workload=workload, subscriptions=subscriptions, events=40, rounds=2, lap_s=0.001, laps_s_max=2, without=without
    )


def run(plan: Plan, make_engine: Callable[[], ContentEngine]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        return measure(plan, make_engine, Path(folder))


def wrong_modes(make_engine: Callable[[], ContentEngine]) -> set[str]:
    return {each.mode for each in run(plan("stock"), make_engine).disagreements}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_all_peers_agree_with_brute_force(workload: str) -> None:
    result = run(plan(workload, 300), Engine)
    assert result.disagreements == []
    assert result.checked_events == 40


def test_an_engine_that_misses_a_match_is_found_out() -> None:
    assert "one by one" in wrong_modes(Forgetful)


def test_an_engine_that_repeats_an_id_is_found_out() -> None:
    assert wrong_modes(Stuttering) == {"batched"}


def test_an_engine_that_sends_where_nobody_asked_is_found_out() -> None:
    assert {"destinations", "destinations batched"} >= wrong_modes(Everywhere) != set()


def test_an_engine_that_goes_wrong_with_deletes_is_found_out() -> None:
    result = run(plan("stock"), Stubborn)
    assert result.disagreements
    assert "after inserts and deletes: extra -1" in str(result.disagreements[0])


def test_the_answers_of_a_sample_of_subscriptions_are_checked_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_match, "BRUTE_FORCE_MAX", 50)
    right = run(plan("stock"), PlainEngine)
    assert right.disagreements == []
    assert right.missing["brute force"] == "not measured over 50 subscriptions"
    assert run(plan("stock"), Forgetful).disagreements


def rows_of(result: Result) -> set[tuple[str, str]]:
    return {(row.engine, row.mode) for row in result.rows}


OUR_ROWS = {
    ("mqloom", mode)
    for mode in ("one by one", "batched", "destinations", "destinations batched", "one by one, text ids")
}
PLAIN_ROWS = {("numpy scan", "one by one"), ("numpy scan", "one by one, text ids"), ("brute force", "one by one")}


def test_every_engine_that_can_take_part_has_a_row() -> None:
    assert rows_of(run(plan("stock"), PlainEngine)) == OUR_ROWS | PLAIN_ROWS


def test_the_rtree_of_pypi_takes_part_on_box() -> None:
    pytest.importorskip("rtree")
    result = run(plan("box"), PlainEngine)
    assert rows_of(result) == OUR_ROWS | PLAIN_ROWS | {("rtree", "one by one"), ("rtree", "batched")}
    assert result.missing == {"boost r-tree": "left out, as asked"}


def test_peers_that_are_not_installed_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rtree", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    result = run(plan("box", without=frozenset()), PlainEngine)
    assert rows_of(result) == OUR_ROWS | PLAIN_ROWS
    assert result.missing == {
        "rtree": "PyPI's rtree is not installed; pip install rtree",
        "boost r-tree": "g++ is not installed",
    }


def test_ratios_are_to_the_fastest_that_is_not_ours_and_has_ids_of_the_same_type() -> None:
    rows = run(plan("stock"), PlainEngine).rows
    for of_texts in (False, True):
        alike = [row for row in rows if row.mode.endswith("text ids") is of_texts]
        best = max(row.events_per_s for row in alike if row.engine != "mqloom")
        assert [row.ratio_to_best_other for row in alike] == [row.events_per_s / best for row in alike]


def test_without_any_other_there_is_no_ratio() -> None:
    rows = run(plan("stock", without=frozenset(("numpy scan", "brute force"))), PlainEngine).rows
    assert {row.ratio_to_best_other for row in rows} == {None}


def test_the_engine_is_left_with_what_it_had() -> None:
    made: list[PlainEngine] = []

    def make() -> PlainEngine:
        made.append(PlainEngine())
        return made[-1]

    result = run(plan("stock"), make)
    workload = build_workload("stock", 60, 1, seed=1)
    measured, texts, traced = ({id_: where for id_, (where, _) in engine.kept.items()} for engine in made)
    assert measured == traced == dict(enumerate(workload.filters))
    assert texts == {text_id(number): where for number, where in enumerate(workload.filters)}
    assert result.memory.reported == 100


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command take no longer than the tests above."""

    def quicker(asked: Plan, *rest: object) -> Result:
        return measure(plan(asked.workload, asked.subscriptions, asked.without), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(command_bench, "measure", quicker)


def call(*words: str, make_engine: Callable[[], ContentEngine] | None = None) -> int:
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(["match", *words])
    return command_bench.run(arguments) if make_engine is None else command_bench.bench_match(arguments, make_engine)


@pytest.mark.usefixtures("quick")
def test_json_has_the_promised_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--workload", "stock", "--subscriptions", "80", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["bench"], printed["workload"], printed["subscriptions"]) == ("match", "stock", 80)
    for row in printed["rows"]:
        assert set(row) == {"engine", "mode", "events_per_s", "matches_per_event", "ratio_to_best_other"}
        assert row["events_per_s"] > 0
    for figure in ("build_s", "insert_us", "delete_us", "bytes_per_subscription"):
        assert printed[figure] > 0
    assert printed["agree"] is True


@pytest.mark.usefixtures("quick")
def test_a_wrong_engine_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--subscriptions", "80", make_engine=Forgetful) == 1
    assert "WRONG" in capsys.readouterr().out
    assert call("--subscriptions", "80", make_engine=PlainEngine) == 0
    assert "all agree on 40 events" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--subscriptions", "0"), ("--workload", "cake"), ("--events", "-1")])
def test_what_cannot_be_measured_is_a_usage_mistake(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call(*words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_the_plot_is_drawn_at_all_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(command_bench, "SIZES", (20, 40))
    path = tmp_path / "curve.svg"
    assert call("--subscriptions", "30", "--json", "--plot", str(path), make_engine=PlainEngine) == 0
    assert "<svg" in path.read_text("utf-8")
    printed = json.loads(capsys.readouterr().out)
    assert printed["subscriptions"] == 30
    assert [each["subscriptions"] for each in printed["sizes"]] == [20, 30, 40]


def test_without_matplotlib_a_plot_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqloom.core.plotting.find_spec", lambda name: None)
    with pytest.raises(PlotError, match=r"pip install 'mqloom\[plot\]'"):
        call("--plot", "curve.png", make_engine=PlainEngine)


@pytest.mark.parametrize(
    ("name", "problem"), [("curve", "ends in .png, .svg or .pdf"), ("no/such/folder/curve.png", "there is no folder")]
)
def test_a_plot_that_cannot_be_written_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(PlotError, match=problem):
        check_plot(tmp_path / name)


def test_a_peer_left_out_at_one_size_has_a_shorter_curve(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    few = run(plan("stock", 20), PlainEngine)
    many = run(plan("stock", 40, without=frozenset(("brute force",))), PlainEngine)
    curves = curves_of([few, many])
    assert len(curves["brute force", "one by one"]) == 1
    assert len(curves["numpy scan", "one by one"]) == 2
    draw([few, many], tmp_path / "curve.png")


# ---- peers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("subscriptions", [200, 4_100])
def test_the_scan_finds_what_brute_force_finds(workload: str, subscriptions: int) -> None:
    made = build_workload(workload, subscriptions, 4, seed=2)
    strange: list[Event] = [{}, {"symbol": 5, "class": "STOCK", "w": "x"}, {"class": None, "volume": True, "w": 3.5}]
    events = [*made.events, *strange] if subscriptions == 200 else made.events
    scan, plain = NumpyScan(made.filters, events), BruteForce(made.filters, events)
    numbers = range(len(events))
    expected = [sorted(plain_ids(each)) for each in plain.answers(numbers)]
    assert [sorted(plain_ids(each)) for each in scan.answers(numbers)] == expected
    found = scan.with_texts().answers(numbers)
    assert [sorted(plain_ids(each)) for each in found] == expected
    assert all(type(id_) is str for each in found for id_ in each)


def test_both_ways_of_asking_rtree_find_what_brute_force_finds() -> None:
    pytest.importorskip("rtree")
    made = build_workload("box", 400, 50, seed=2)
    tree = RTreePeer(made.filters, made.events)
    expected = [sorted(plain_ids(each)) for each in BruteForce(made.filters, made.events).answers(range(50))]
    for peer in (tree, RTreeBatched(tree, made.events)):
        assert [sorted(plain_ids(each)) for each in peer.answers(range(50))] == expected


@pytest.mark.full
@pytest.mark.timeout(240)
def test_boosts_tree_finds_what_brute_force_finds_and_times_itself(tmp_path: Path) -> None:
    made = build_workload("box", 400, 50, seed=2)
    try:
        program = compile_boost(tmp_path)
    except PeerMissingError as error:
        pytest.skip(str(error))
    peer = BoostPeer(program, made.filters, made.events)
    try:
        expected = [sorted(plain_ids(each)) for each in BruteForce(made.filters, made.events).answers(range(50))]
        assert [sorted(plain_ids(each)) for each in peer.answers(range(50))] == expected
        lap = peer.lap(0.01)
        assert lap.seconds >= 0.01
        assert lap.events > 0
        assert lap.matches > 0
    finally:
        peer.close()


def test_a_program_that_ends_is_a_peer_that_is_missing(tmp_path: Path) -> None:
    made = build_workload("box", 4, 4, seed=2)
    program = tmp_path / "ends"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o700)
    with pytest.raises(PeerMissingError, match="code 7"):
        BoostPeer(program, made.filters, made.events)

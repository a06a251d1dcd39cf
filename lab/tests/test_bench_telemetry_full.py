"""What telemetry costs at full load: a gateway that has no time left, and what counts of its slices."""

import json
import shutil
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.errors import LocalError
from mqloom.lab.bench_telemetry_cost import TelemetryPlan
from mqloom.lab.bench_telemetry_full import (
    OVER,
    RUNS_MAX,
    SATURATED,
    Slice,
    drive_until_full,
    full_cost_of,
    measure_full,
    taken_of,
)

RUN_S = 10.0
PLAN = TelemetryPlan(run_s=RUN_S)

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None, reason="there is no mosquitto here"
)


def piece(is_on: int, publications: int, cpu_s: float = 0.25) -> Slice:
    return {"on": is_on, "took_s": 0.25, "cpu_s": cpu_s, "waited_s": 0.0, "publications": publications}


def test_only_slices_without_time_left_count_and_a_window_in_one_of_them_does_too() -> None:
    full = [piece(number % 2, 1_000 if number % 2 else 1_010) for number in range(40)]
    full[1] = piece(1, 500)  # a window ends here, and takes half of it
    idle = [piece(number % 2, 10, 0.01) for number in range(10)]
    found = full_cost_of([*idle, *full, *idle])
    assert found.pairs == 20
    assert found.cost_share == pytest.approx(20 * 1_010 / (19 * 1_000 + 500) - 1)
    assert found.cost_low <= found.cost_share <= found.cost_high
    assert found.busy_ratio == pytest.approx(1.0)
    shared = [dict(each) | {"cpu_s": 0.1, "waited_s": 0.15} for each in full]
    assert full_cost_of(shared).pairs == 20  # it had no time left either: others had its core
    with pytest.raises(LocalError, match=r"in 0 of 5 pairs .* it was at work for 4% of the time"):
        full_cost_of(idle)
    with pytest.raises(LocalError, match=r"in 2 of 3 pairs .* run longer"):
        full_cost_of([*full[:4], *idle[:2]])


def test_runs_in_which_there_cannot_be_enough_pairs_are_refused_before_anything_begins(tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(LocalError, match=r"a run of 1\.4 s has no 3 pairs of slices: it must take 1\.5 s at least"):
        measure_full(TelemetryPlan(run_s=1.4), tmp_path, told.append)
    assert told == []
    assert not list(tmp_path.iterdir())


def test_what_a_gateway_takes_is_told_by_its_busier_half() -> None:
    used, taken = taken_of([piece(1, 2_000), piece(0, 2_000), piece(1, 0, 0.0), piece(0, 100, 0.01)])
    assert (used, taken) == pytest.approx((1.0, 8_000.0))
    assert taken_of([]) == (0.0, 0.0)


class Machine:
    """A gateway that can take so much in a search, in the run after it, in the next search, and so on; then no more
    and no less. What else there is can give it so much.
    """

    def __init__(self, *capacities: float, others: float = 1e9) -> None:
        self.capacities = list(capacities)
        self.others = others
        self.is_searching = True
        self.tries: list[tuple[float, int]] = []
        self.runs: list[float] = []
        self.told: list[str] = []

    def drive(self, rate: float, seconds: float, rivals: int) -> list[Slice]:
        is_searching = seconds != RUN_S
        if is_searching != self.is_searching and len(self.capacities) > 1:
            self.capacities.pop(0)
        self.is_searching = is_searching
        if is_searching:
            self.tries.append((rate, rivals))
        else:
            self.runs.append(rate)
        most = self.capacities[0] / (1 + rivals)
        taken = min(rate, self.others, most)
        return [piece(number % 2, round(taken / 4), 0.25 * taken / most) for number in range(int(seconds * 4))]


def test_a_gateway_that_can_take_more_once_other_load_ends_is_searched_on_with_and_runs_again() -> None:
    machine = Machine(3_000, 10_000)  # others used its core while it was searched
    found = drive_until_full(machine.drive, PLAN, machine.told.append, 4)
    assert found.pairs == RUN_S * 2
    assert found.taken_per_s == pytest.approx(10_000)
    assert machine.runs == pytest.approx([OVER * 3_000, OVER**2 * 10_000])
    assert [rate for rate, _ in machine.tries] == [4_000, 8_000, 16_000]
    assert any("searching on" in each for each in machine.told)


def test_where_what_it_can_take_varies_it_is_given_more_over_each_time_and_what_it_took_in_a_run_counts() -> None:
    machine = Machine(3_000, 10_000, 3_000, 5_000)
    assert drive_until_full(machine.drive, PLAN, machine.told.append, 4).taken_per_s == pytest.approx(5_000)
    assert machine.runs == pytest.approx([OVER * 3_000, OVER**2 * OVER * 3_000])


def test_a_gateway_that_has_time_left_in_every_run_is_told_so_after_a_bounded_number_of_them() -> None:
    machine = Machine(*(10.0**power for power in range(4, 12)))
    with pytest.raises(LocalError, match=r"in 0 of 20 pairs of slices .* what it can take changes"):
        drive_until_full(machine.drive, PLAN, machine.told.append, 4)
    assert len(machine.runs) == RUNS_MAX
    assert sum("searching on" in each for each in machine.told) == RUNS_MAX - 1


def test_one_run_is_enough_where_nothing_else_is_done_and_rivals_share_its_core_where_others_give_too_little() -> None:
    machine = Machine(10_000)
    assert drive_until_full(machine.drive, PLAN, machine.told.append, 4).rivals == 0
    assert (machine.runs, len(machine.tries)) == ([OVER * 10_000], 3)
    machine = Machine(10_000, others=6_000)
    assert drive_until_full(machine.drive, PLAN, machine.told.append, 4).rivals == 1
    assert machine.tries == [(4_000, 0), (8_000, 0), (8_000, 1)]
    assert machine.runs == [OVER * 5_000]
    machine = Machine(10_000, others=6_000)  # no core of its own, and so no rivals for it
    with pytest.raises(LocalError, match=r"of 1,024,000 publications .* something else is short"):
        drive_until_full(machine.drive, PLAN, machine.told.append, 0)
    assert machine.tries[-1] == (1_024_000, 0)
    assert not machine.runs


@needs_mosquitto
@pytest.mark.full  # a saturated core, timed: that has no place among tests that share two cores
@pytest.mark.timeout(240)
def test_a_gateway_is_driven_until_it_has_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--only", "full", "--subscribers", "5", "--run-s", "5"]
    assert main(["bench", "telemetry", "--json", *words]) == 0
    full = json.loads(capsys.readouterr().out)["full"]
    assert full["pairs"] >= 3
    assert full["busy_ratio"] > SATURATED - 0.05
    assert full["taken_per_s"] > 100
    assert full["us_on"] > 0 < full["us_off"]
    assert full["cost_low"] <= full["cost_share"] <= full["cost_high"]

"""The offload plugins choose what the paper's pseudocode chooses, written down plainly (Algorithms 1 to 4).

Errata are corrected here as they are there: see the docstring of output_offload.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId
from mqloom.core.load import Metric, difference
from mqloom.gateway.offload_interfaces import OffloadBounds, OffloadTask
from mqloom.lab.offload_tasks import made_up_task
from mqloom.plugins.offload import input_offload, match_offload, output_offload

Brokers = tuple[BrokerEstimate, BrokerEstimate]


class Report(NamedTuple):
    group: int
    number: int
    difference: float
    is_covered: bool
    reduced: float
    could_reduce: float
    added: float
    bytes_s_each: float


def fullest(estimate: BrokerEstimate) -> float:
    return max(estimate.cpu_ratio, estimate.input_ratio, estimate.memory_ratio)


@dataclass
class Goal:
    """What is compared, when it is enough, what is forbidden."""

    figure: Callable[[BrokerEstimate], float]
    difference: Callable[[BrokerEstimate, BrokerEstimate], float]
    is_done: Callable[[BrokerEstimate, BrokerEstimate], bool]
    is_full: Callable[[BrokerEstimate], bool]
    is_too_dear: Callable[[BrokerEstimate, BrokerEstimate], bool]
    takes_nearest: bool = True
    reversible: float = 0.0


class Session:
    def __init__(self, task: OffloadTask) -> None:
        self.task = task
        self.profile = task.profile
        self.local, self.remote = task.local, task.remote
        self.bits = [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in task.profile.bits]
        self.there = int.from_bytes(task.profile.accepting.astype("<u8").tobytes(), "little")
        staying = task.profile.staying
        self.staying = 0 if staying is None else int.from_bytes(staying.astype("<u8").tobytes(), "little")
        self.left = [list(group.clients) for group in task.profile.groups]
        self.subscribers = [group.subscribers for group in task.profile.groups]
        self.covered = {place for place, group in enumerate(task.profile.groups) if group.is_covered}
        self.chosen: list[ClientId] = []
        self.differences: list[float] = []

    def rate(self, bits: int) -> float:
        return self.profile.input_rate * bits.bit_count() / max(1, self.profile.samples)

    def reduces(self, group: int) -> float:
        others = self.staying
        for other, bits in enumerate(self.bits):
            if other != group and self.subscribers[other]:
                others |= bits
        return self.rate(self.bits[group] & ~others)

    def after(self, group: int, number: int) -> Brokers:
        own = self.profile.groups[group]
        reduced = self.reduces(group) if number == self.subscribers[group] else 0.0
        added = self.rate(self.bits[group] & ~self.there)
        subscriptions = number * own.subscriptions
        bytes_s = number * (self.rate(self.bits[group]) * own.bytes_each)
        gets = number * (self.rate(self.bits[group]) * self.profile.deliveries_factor)
        return (
            self.local.after(rate=-reduced, subscriptions=-subscriptions, bytes_s=-bytes_s, deliveries_s=-gets),
            self.remote.after(rate=added, subscriptions=subscriptions, bytes_s=bytes_s, deliveries_s=gets),
        )

    def number_of(self, group: int, goal: Goal) -> int:
        """As many as are enough and there is room for; if they cost too much, as many as do not, one by one."""
        number = self.enough(group, goal)
        if not number or not goal.is_too_dear(*self.after(group, number)):
            return number
        return next(fewer for fewer in range(number) if goal.is_too_dear(*self.after(group, fewer + 1)))

    def enough(self, group: int, goal: Goal) -> int:
        """Add one after the other until it is enough, or the next would be too much."""
        most = min(len(self.left[group]), self.task.bounds.moves_max - len(self.chosen))
        for number in range(1, most + 1):
            brokers = self.after(group, number)
            if goal.is_full(brokers[1]):
                return number - 1
            if goal.is_done(*brokers):
                if goal.takes_nearest and number > 1:
                    before = abs(goal.difference(*self.after(group, number - 1)))
                    if before <= abs(goal.difference(*brokers)):
                        return number - 1
                return number
        return most

    def compute_reports(self, groups: Iterable[int], goal: Goal) -> list[Report]:
        reports = []
        for group in groups:
            number = self.number_of(group, goal)
            if not number:
                continue  # with nothing to offload, the report is dropped
            local, remote = self.after(group, number)
            if goal.figure(local) >= goal.figure(self.local):
                continue
            could = self.reduces(group)
            reports.append(
                Report(
                    group,
                    number,
                    goal.difference(local, remote),
                    group in self.covered,
                    could if number == self.subscribers[group] else 0.0,
                    could,
                    self.rate(self.bits[group] & ~self.there),
                    self.rate(self.bits[group]) * self.profile.groups[group].bytes_each,
                )
            )
        return reports

    def promising(self, reports: Sequence[Report], goal: Goal) -> list[Report]:
        now = abs(goal.difference(self.local, self.remote))
        return [report for report in reports if abs(report.difference) < now]

    def update(self, report: Report) -> None:
        self.local, self.remote = self.after(report.group, report.number)
        self.chosen += self.left[report.group][: report.number]
        del self.left[report.group][: report.number]
        self.subscribers[report.group] -= report.number
        self.there |= self.bits[report.group]
        self.differences.append(report.difference)
        waiting = [report.group]
        while waiting:
            self.covered.add(group := waiting.pop())
            waiting += self.profile.groups[group].covers

    def covering_set(self) -> list[int]:
        groups = self.profile.groups
        above = {
            place: [each for each, group in enumerate(groups) if place in group.covers] for place in range(len(groups))
        }
        return [
            place
            for place, group in enumerate(groups)
            if group.is_maximal or (above[place] and not any(self.subscribers[each] for each in above[place]))
        ]


def goal_of(metric: Metric, task: OffloadTask, guarded: Sequence[Metric] = ()) -> Goal:
    bounds = task.bounds
    reversible = max(bounds.balance, bounds.reversal)

    def gap(local: BrokerEstimate, remote: BrokerEstimate, of: Metric = metric) -> float:
        return difference(of, local.of(of), remote.of(of), bounds.delay_factor_s)

    def is_too_dear(local: BrokerEstimate, remote: BrokerEstimate) -> bool:
        worse = 0.0
        for each in guarded:
            beyond = max(0.0, -gap(local, remote, each) - reversible)
            worse += max(0.0, beyond - max(0.0, -gap(task.local, task.remote, each) - reversible))
        return worse > 0.5 * max(0.0, abs(gap(task.local, task.remote)) - abs(gap(local, remote)))

    return Goal(
        figure=lambda local: local.of(metric),
        difference=gap,
        is_done=lambda local, remote: gap(local, remote) <= bounds.balance,
        is_full=lambda remote: remote.utilisation > bounds.overload,
        is_too_dear=is_too_dear,
        reversible=reversible,
    )


def algorithm_1(
    session: Session,
    goal: Goal,
    candidates: Callable[[], Iterable[int]],
    key: Callable[[Report], tuple[float, ...]],
    counts: Callable[[Report], bool] = lambda report: True,
) -> None:
    if goal.is_done(session.local, session.remote):
        return
    while True:
        reports = session.promising(session.compute_reports(candidates(), goal), goal)
        reports = [report for report in reports if counts(report)]
        if not reports:
            return
        session.update(min(reports, key=key))
        if goal.is_done(session.local, session.remote):
            return


def reference_input(task: OffloadTask) -> Session:
    session = Session(task)
    goal = goal_of("input", task, () if task.is_overloaded else ("match", "output"))
    algorithm_1(
        session,
        goal,
        session.covering_set,
        lambda report: (abs(report.difference), report.number),
        lambda report: report.reduced > 0 and report.difference >= -goal.reversible,
    )
    everyone = range(len(task.profile.groups))
    algorithm_1(session, goal, lambda: everyone, lambda report: (report.bytes_s_each, report.added))
    return session


def reference_match(task: OffloadTask) -> Session:
    session = Session(task)
    goal = goal_of("match", task, () if task.is_overloaded else ("input", "output"))
    if task.is_overloaded:
        goal = Goal(
            figure=fullest,
            difference=lambda local, remote: fullest(local) - fullest(remote),
            is_done=lambda local, _: fullest(local) < task.bounds.overload,
            is_full=goal.is_full,
            is_too_dear=goal.is_too_dear,
            takes_nearest=False,
        )
    everyone = range(len(task.profile.groups))
    algorithm_1(session, goal, lambda: everyone, lambda report: (report.bytes_s_each, report.added))
    return session


class OutputReference:
    """Algorithms 2, 3 and 4."""

    def __init__(self, task: OffloadTask) -> None:
        self.session = Session(task)
        self.groups = range(len(task.profile.groups))
        self.one, self.two = (goal_of("output", task, () if task.is_overloaded else ("input",)) for _ in range(2))
        self.ignore_set: set[int] = set()
        if task.is_overloaded:
            done, bounds = self.one.is_done, task.bounds
            self.two.is_done = lambda here, there: done(here, there) or here.output_ratio < bounds.overload
            self.two.takes_nearest = False

    def run(self) -> Session:
        if not self.is_done(self.one):
            while not self.phase_1() and not self.phase_2():
                pass
        return self.session

    def is_done(self, goal: Goal) -> bool:
        return goal.is_done(self.session.local, self.session.remote)

    def promising(self, groups: Iterable[int], goal: Goal) -> list[Report]:
        session = self.session
        return session.promising(
            session.compute_reports((group for group in groups if group not in self.ignore_set), goal), goal
        )

    def phase_1(self) -> bool:
        while True:
            reports = self.promising((group for group in self.groups if group in self.session.covered), self.one)
            type_1 = [report for report in reports if report.reduced > 0]
            type_2 = [report for report in reports if report.could_reduce > 0 and report.reduced == 0]
            type_3 = [report for report in reports if report.could_reduce == 0]
            listed = type_1 or type_2 or type_3
            if not listed:
                return False
            best = min(listed, key=lambda report: (abs(report.difference), report.number))
            self.ignore_set.add(best.group)
            self.session.update(best)
            if self.is_done(self.one):
                return True

    def phase_2(self) -> bool:
        while not self.is_done(self.two):
            reports = self.promising((group for group in self.groups if group not in self.session.covered), self.two)
            if not reports:
                return True
            best = min(reports, key=lambda report: (abs(report.difference), report.added, report.number))
            self.ignore_set.add(best.group)
            self.session.update(best)
            if not self.is_done(self.two) and self.session.profile.groups[best.group].covers:
                return False
        return True


def reference_output(task: OffloadTask) -> Session:
    return OutputReference(task).run()


def check_same(metric: Metric, task: OffloadTask) -> None:
    offload, reference = {
        "input": (input_offload, reference_input),
        "match": (match_offload, reference_match),
        "output": (output_offload, reference_output),
    }[metric]
    choice, session = offload.choose(task), reference(task)
    assert list(choice.clients) == session.chosen
    assert [card.difference for card in choice.cards] == session.differences
    assert (choice.local, choice.remote) == (session.local, session.remote)


@pytest.mark.parametrize("metric", ["input", "match", "output"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_small_questions_are_answered_as_the_pseudocode_does(metric: Metric, data: st.DataObject) -> None:
    task = made_up_task(
        metric,
        random.Random(data.draw(st.integers(0, 2**32))),
        groups=data.draw(st.integers(0, 7)),
        clients_max=data.draw(st.integers(1, 5)),
        samples=data.draw(st.sampled_from([0, 1, 9, 70])),
        is_overloaded=data.draw(st.booleans()),
        bounds=OffloadBounds(
            overload=data.draw(st.sampled_from([0.9, 2.0])),
            reversal=data.draw(st.sampled_from([0.0, 0.05])),
            moves_max=data.draw(st.sampled_from([3, 10_000])),
        ),
    )
    check_same(metric, task)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("metric", ["input", "match", "output"])
@pytest.mark.parametrize("is_overloaded", [False, True])
@pytest.mark.parametrize(("groups", "clients_max", "seeds"), [(40, 1, 150), (20, 40, 60), (150, 3, 8)])
def test_larger_questions_are_answered_as_the_pseudocode_does(
    metric: Metric, is_overloaded: bool, groups: int, clients_max: int, seeds: int
) -> None:
    for seed in range(seeds):
        task = made_up_task(
            metric, random.Random(seed), groups=groups, clients_max=clients_max, is_overloaded=is_overloaded
        )
        check_same(metric, task)

"""What is told about a run of paper 000's model: windows, differences, sessions and messages."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mqloom.core.ids import ClientId
from mqloom.core.load import Load
from mqloom.lab.padres_ledger import Ledger
from mqloom.lab.padres_outcome import IdleSession, Outcome, Session
from mqloom.lab.padres_setups import SIMULATION

B1, B2, B3, B4 = SIMULATION.edges


def load(output: float, delay_s: float = 0.01) -> Load:
    return Load(
        input_ratio=0.2,
        delay_s=delay_s,
        output_ratio=output,
        input_rate=20.0,
        output_bytes_s=1.0,
        output_bytes_s_max=2.0,
        subscriptions=7,
    )


def clients(first: int, end: int) -> tuple[ClientId, ...]:
    return tuple(ClientId(f"s{number}") for number in range(first, end))


@pytest.fixture
def outcome() -> Outcome:
    """B1 has 0.3 more output than the others for the first 60 s, and 8 ms more of delay for all of 120 s."""
    times = [10.0 * number for number in range(1, 13)]
    loads = {edge: [(at, load(0.5)) for at in times] for edge in SIMULATION.edges}
    loads[B1] = [(at, load(0.8 if at <= 60 else 1.2 if at == 120 else 0.5, 0.018)) for at in times]
    counted = [(0.0, Counter()), *((at, Counter(PIE=int(at) // 5)) for at in times)]
    sessions = [Session(30.0, B1, B2, clients(0, 12)), Session(58.0, B1, B3, clients(12, 16))]
    return Outcome(setup=SIMULATION, loads=loads, sessions=sessions, counted=counted, ledger=Ledger(3), published=9)


def test_windows_are_means(outcome: Outcome) -> None:
    means = outcome.means("output", 0.0, 120.0)
    assert [window[B1] for window in means] == pytest.approx([0.8, (5 * 0.5 + 1.2) / 6])
    assert [window[B2] for window in means] == pytest.approx([0.5] * 2)
    shorter = outcome.means("output", 0.0, 119.0, 30.0)
    assert [window[B1] for window in shorter] == pytest.approx([0.8, 0.8, 0.5])


def test_differences_of_delays_are_normalised(outcome: Outcome) -> None:
    assert outcome.share_within("output", 0.1, 0.0, 90.0, 30.0) == pytest.approx(1 / 3)
    assert outcome.share_within("output", 0.1, 60.0, 90.0, 30.0) == 1.0
    assert outcome.share_within("match", 0.1, 0.0, 120.0) == 1.0
    assert outcome.share_within("match", 0.05, 0.0, 120.0) == 0.0
    assert outcome.share_within("match", 0.1, 100.0, 110.0) == 0.0  # no whole window


def test_the_last_session_is_that_of_its_time(outcome: Outcome) -> None:
    assert outcome.last_session(0.0, 120.0) == 58.0
    assert outcome.last_session(0.0, 50.0) == 30.0
    assert outcome.last_session(70.0, 120.0) == 70.0
    assert [each.ordered for each in outcome.sessions_within(31.0, 120.0)] == [4]


def test_who_is_moved_back_oscillates_and_who_is_moved_on_does_not(outcome: Outcome) -> None:
    assert outcome.returned(0.0, 120.0) == 0
    on = Session(70.0, B2, B3, clients(0, 5))
    back = Session(80.0, B3, B1, clients(2, 5))
    again = Session(90.0, B1, B3, clients(2, 3))
    moved = replace(outcome, sessions=[*outcome.sessions, on, back, again])
    assert moved.returned(0.0, 75.0) == 0
    assert moved.returned(0.0, 85.0) == 3
    assert moved.returned(0.0, 120.0) == 4
    assert moved.returned(40.0, 120.0) == 1  # what was before counts no longer


def test_what_goes_back_for_whatever_reason_is_a_reversal_and_what_goes_on_is_none(outcome: Outcome) -> None:
    on = Session(70.0, B2, B3, clients(0, 5), metric="output")
    back = Session(80.0, B3, B1, clients(20, 25), metric="input")  # who had not come from there
    other = Session(90.0, B4, B1, clients(30, 31))
    again = Session(95.0, B3, B1, clients(25, 26))
    moved = replace(outcome, sessions=[*outcome.sessions, on, back, other, again])
    assert moved.reversals(0.0, 120.0) == [back]
    assert moved.reversals(70.0, 120.0) == []


def test_sessions_that_move_nobody_are_told_apart(outcome: Outcome) -> None:
    idle = [IdleSession(at, B1, B2, "output", False) for at in (20.0, 40.0)]
    found = replace(outcome, idle=idle)
    assert found.idle_within(30.0, 120.0) == idle[1:]
    assert found.sessions_within(0.0, 120.0) == outcome.sessions_within(0.0, 120.0)


def test_overload_is_of_the_fullest(outcome: Outcome) -> None:
    assert outcome.overloaded_share(0.0, 60.0) == 0.0
    assert outcome.overloaded_share(100.0, 120.0) == 0.5


def test_messages_are_counted_between_two_times(outcome: Outcome) -> None:
    assert outcome.messages("PIE", 0.0, 120.0) == 24
    assert outcome.messages("PIE", 60.0, 90.0) == 6
    assert outcome.messages("nothing", 60.0, 90.0) == 0


def test_delays_are_means_of_what_came() -> None:
    ledger = Ledger(1)
    ledger.deliver(np.array([1.0, 2.0, 31.0]), np.array([1, 3, 2]), np.array([0.5, 0.1, 0.2]))
    assert ledger.mean_delay_s(0.0, 10.0) == pytest.approx(0.2)
    assert ledger.mean_delay_s(0.0, 40.0) == pytest.approx(0.2)
    assert ledger.mean_delay_s(10.0, 30.0) == 0.0

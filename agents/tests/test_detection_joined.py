"""Edges of one cluster, back to back: PIE goes where filters want it, and nowhere else. Nobody is moved here."""

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.agents.adaptive import AdaptivePie
from mqloom.agents.averages import Average
from mqloom.agents.detector import Detection, Detector
from mqloom.agents.pie import Pie, PieAsk, PieBoard, PiePublisher, subject_of
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import OVERLOADED
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load

IDLE = Load(
    input_ratio=0.0,
    delay_s=0.0,
    output_ratio=0.0,
    input_rate=0.0,
    output_bytes_s=0.0,
    output_bytes_s_max=1_000.0,
    subscriptions=0,
)
LoadAt = Callable[[float], float]


class Edge:
    """One edge: what its agent does with PIE and detector, without sessions."""

    def __init__(self, name: str, input_ratio: LoadAt, options: BalanceSettings, randomness: random.Random) -> None:
        self.name = GatewayId(name)
        self.input_ratio = input_ratio
        self.board = PieBoard("local", options)
        self.publisher = PiePublisher("local", self.name, "B0", options)
        self.adaptive = AdaptivePie("local", self.name, ("B0",), options)
        self.detector = Detector("local", options, randomness, 0.0)
        self.period = Average(options.pie_windows("local"))
        self.found: Detection | None = None
        self.heard = 0
        self.state: BalanceState | None = None

    def turn(self, now: float, is_window: bool) -> list[Pie | PieAsk]:
        load = replace(IDLE, input_ratio=self.input_ratio(now))
        if is_window:
            self.detector.sampled(load, now)
            self.period.add(load)
        others = self.board.fresh(now)
        if self.detector.is_due(now):
            self.found = self.detector.detect(self.detector.average or load, others, now)
        said: list[Pie | PieAsk] = []
        is_interval = now >= self.publisher.next_at or self.detector.state is not self.state
        self.state = self.detector.state
        mean = self.period.load or load
        pie = self.publisher.due(mean, self.detector.state, (), now)
        if pie is not None:
            said.append(pie)
            self.adaptive.published(pie.load)
        wanted = self.adaptive.check(mean, self.detector.state, others) if is_interval else None
        if wanted is not None and wanted.ask is not None:
            said.append(wanted.ask)
        return said

    def hear(self, message: Pie | PieAsk, now: float) -> None:
        subject = subject_of(message)
        if not any(Filter.parse(where).matches(subject) for where in self.adaptive.wheres):
            return
        self.heard += 1
        if isinstance(message, Pie):
            self.board.take(message, now)
        else:
            self.publisher.asked(message)


def run(loads: Mapping[str, LoadAt], options: BalanceSettings, until: int) -> dict[str, Edge]:
    randomness = random.Random(7)
    edges = {name: Edge(name, load, options, randomness) for name, load in loads.items()}
    for now in range(until):
        for edge in edges.values():
            for message in edge.turn(float(now), now % 10 == 0):
                for other in edges.values():
                    if other is not edge:
                        other.hear(message, float(now))
    return edges


def partners(edge: Edge) -> list[str]:
    return [action.partner for action in edge.found.actions] if edge.found else []


ADAPTIVE, PLAIN = BalanceSettings(), BalanceSettings(adaptive_pie=False)


@pytest.mark.parametrize("options", [ADAPTIVE, PLAIN], ids=["adaptive", "plain"])
def test_who_becomes_overloaded_finds_idle_brokers_that_have_nothing_to_say(options: BalanceSettings) -> None:
    loads: dict[str, LoadAt] = {
        "B1": lambda now: 0.0 if now < 200 else 1.5,
        "B2": lambda _: 0.0,
        "B3": lambda _: 0.3,
    }
    edges = run(loads, options, 260)  # a detection interval and a window after it began
    assert edges["B1"].detector.state is OVERLOADED
    assert partners(edges["B1"]) == ["B2", "B3"]


@pytest.mark.parametrize("options", [ADAPTIVE, PLAIN], ids=["adaptive", "plain"])
def test_who_is_overloaded_finds_a_partner_that_has_hardly_less(options: BalanceSettings) -> None:
    edges = run({"B1": lambda _: 0.96, "B2": lambda _: 0.88}, options, 100)
    assert partners(edges["B1"]) == ["B2"]


@pytest.mark.parametrize("options", [ADAPTIVE, PLAIN], ids=["adaptive", "plain"])
def test_while_somebody_is_overloaded_nobody_else_starts_a_session_and_afterwards_they_do(
    options: BalanceSettings,
) -> None:
    loads: dict[str, LoadAt] = {
        "B1": lambda now: 1.5 if 100 <= now < 300 else 0.5,
        "B2": lambda _: 0.4,
        "B3": lambda _: 0.1,
    }
    during = run(loads, options, 299)
    assert partners(during["B1"]) == ["B3", "B2"]
    assert during["B2"].found is not None
    assert during["B2"].found.text == "B1 is overloaded and comes first"
    after = run(loads, options, 420)
    assert partners(after["B2"]) == ["B3"]


def test_who_was_lighter_and_is_not_any_more_is_no_partner() -> None:
    loads: dict[str, LoadAt] = {"B1": lambda _: 0.5, "B2": lambda now: 0.1 if now < 300 else 0.8}
    assert partners(run(loads, ADAPTIVE, 299)["B1"]) == ["B2"]
    later = run(loads, ADAPTIVE, 420)
    assert partners(later["B1"]) == []
    assert partners(later["B2"]) == ["B1"]


def test_adaptive_pie_spares_most_of_the_messages_when_load_is_noisy_and_balanced() -> None:
    def noisy(seed: int) -> LoadAt:
        randomness = random.Random(seed)
        figures = [0.5 + randomness.uniform(-0.08, 0.08) for _ in range(300)]
        return lambda now: figures[int(now / 10)]

    loads = {f"B{number}": noisy(number) for number in range(1, 5)}
    heard = {
        options.adaptive_pie: sum(edge.heard for edge in run(loads, options, 3_000).values())
        for options in (ADAPTIVE, PLAIN)
    }
    assert heard[True] < 0.35 * heard[False]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 0.93, 1.2]), min_size=2, max_size=5))
def test_without_lag_adaptive_pie_finds_the_partners_that_plain_pie_finds(figures: list[float]) -> None:
    def steady(figure: float) -> LoadAt:
        return lambda _: figure

    loads = {f"B{number}": steady(figure) for number, figure in enumerate(figures)}
    adaptive = run(loads, BalanceSettings(adaptive_lag=0.0), 150)
    plain = run(loads, PLAIN, 150)
    for name, edge in adaptive.items():
        assert partners(edge) == partners(plain[name])

"""What load agents tell each other is lost, doubled and late by the plan, and comes whole when that is over."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentEvent,
    AgentView,
    AgentWoke,
    ControlReceived,
    WakeAgentAt,
)
from mqloom.lab.plan import ControlsPlan
from mqloom.lab.poor_hearing import LATE_S_MAX, PoorHearing

SENT = 400
UNTIL = 1_000.0


class Listener:
    """Notes what comes when, and sleeps for a minute each time."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[tuple[float, bytes]] = []
        self.woken = 0

    def see(self, view: AgentView) -> None:
        raise AssertionError("there is nothing to see here")

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        if isinstance(event, ControlReceived):
            self.heard.append((now, event.body))
            return []
        self.woken += 1
        return [WakeAgentAt(now + 60.0)]


def hear(plan: ControlsPlan, until: float = UNTIL) -> tuple[Listener, Counter[str]]:
    """Return who has been sent one control publication a second, woken whenever it wanted, and what went wrong."""
    listener, counts = Listener(), Counter[str]()
    hearing = PoorHearing(listener, plan, random.Random(1), until, counts)
    wake_at = 0.0
    for number in range(SENT + 2 * int(LATE_S_MAX)):
        now = float(number)
        events: list[AgentEvent] = [AgentWoke()] if now >= wake_at else []
        if number < SENT:
            events.append(ControlReceived(GatewayId("other"), b"%d" % number))
        for event in events:
            for effect in hearing.handle(event, now):
                assert isinstance(effect, WakeAgentAt)
                wake_at = effect.at
    return listener, counts


def test_nothing_happens_to_what_no_plan_spoils() -> None:
    listener, counts = hear(ControlsPlan())
    assert listener.heard == [(float(number), b"%d" % number) for number in range(SENT)]
    assert not +counts
    assert listener.woken > SENT / 60  # as it wanted, though it was told much meanwhile


def test_some_are_lost_some_come_twice_and_each_is_counted() -> None:
    listener, counts = hear(ControlsPlan(lost=0.3, doubled=0.3))
    assert counts["lost"] == pytest.approx(0.3 * SENT, rel=0.2)
    assert counts["doubled"] == pytest.approx(0.3 * (SENT - counts["lost"]), rel=0.25)
    times = Counter(body for _, body in listener.heard)
    assert len(times) == SENT - counts["lost"]
    assert sum(number == 2 for number in times.values()) == counts["doubled"]


def test_what_is_late_comes_in_its_time_and_is_overtaken() -> None:
    listener, counts = hear(ControlsPlan(late=0.3))
    assert counts["late"] == pytest.approx(0.3 * SENT, rel=0.2)
    delays = [now - int(body) for now, body in listener.heard]
    assert len(delays) == SENT
    assert LATE_S_MAX / 2 < max(delays) <= LATE_S_MAX + 1
    assert [body for _, body in listener.heard] != [b"%d" % number for number in range(SENT)]


def test_when_the_plan_is_over_everything_comes() -> None:
    listener, counts = hear(ControlsPlan(lost=1.0), until=100.0)
    assert counts["lost"] == 100
    assert [int(body) for _, body in listener.heard] == list(range(100, SENT))

"""Bars and lines of the demonstration of load balancing."""

from mqloom.agents.decisions import Decision
from mqloom.core.estimators import BrokerEstimate, DelayModel, estimate_of
from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.lab.demo_overload_view import bar, decision_line, summary

BIKE, CAR = GatewayId("BIKE"), GatewayId("CAR")


def load(output: float) -> Load:
    return Load(
        input_ratio=0.1,
        delay_s=0.01,
        output_ratio=output,
        input_rate=10,
        output_bytes_s=output * 1_000,
        output_bytes_s_max=1_000,
        subscriptions=5,
    )


def estimate(output: float) -> BrokerEstimate:
    return estimate_of(load(output), DelayModel(0.0, 0.01))


def decision(**known: object) -> Decision:
    return Decision(
        level="local",
        is_offloading=True,
        began_at=110.0,
        session="BIKE-1",
        partner=CAR,
        metric="output",
        **known,  # type: ignore[arg-type]
    )


def test_a_bar_is_full_from_1_on_and_says_by_how_much() -> None:
    assert bar(0.5).plain == "████░░░░ 0.50"
    assert bar(0.0).plain == "░░░░░░░░ 0.00"
    assert bar(1.7).plain == "████████ 1.70"
    assert bar(None).plain == "-"


def test_a_line_says_how_far_a_session_is() -> None:
    begun = decision(is_overload=True)
    assert decision_line(BIKE, begun, 100.0) == "  10 s BIKE → CAR, output overload: looking for whom to move"
    begun.chosen = 4
    assert decision_line(BIKE, begun, 100.0).endswith(": moving 4")
    begun.end("done", "", 115.0)
    begun.moved, begun.predicted, begun.predicted_partner = 4, estimate(0.5), estimate(0.4)
    assert decision_line(BIKE, begun, 100.0).endswith(": 4 moved; predicted 0.50, 0.40")
    begun.observed, begun.observed_partner = load(0.6), load(0.3)
    assert decision_line(BIKE, begun, 100.0).endswith("; predicted 0.50, 0.40; came 0.60, 0.30")


def test_a_line_says_why_nobody_was_moved() -> None:
    ended = decision(outcome="cancelled", reason="nobody is worth moving")
    assert decision_line(BIKE, ended, 100.0) == "  10 s BIKE → CAR, output: cancelled; nobody is worth moving"


def test_what_was_lost_is_told_as_wrong() -> None:
    verdict: dict[str, object] = dict.fromkeys(
        ("published", "expected", "delivered", "lost", "duplicated", "unasked", "sessions", "moved"), 1
    )
    text = summary(verdict | {"brokers": [], "predictions": []})
    assert "1 lost, 1 duplicated" in text
    assert text.endswith("SOMETHING IS WRONG.")

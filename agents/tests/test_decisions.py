from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import DECISIONS_MAX, SHOWN_MAX, Decision, Decisions
from mqloom.agents.detector import Action
from mqloom.agents.mediation import SessionId
from mqloom.agents.sessions import SessionOver
from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import Load
from mqloom.gateway.offload_interfaces import OffloadChoice, ReportCard

B = GatewayId("b")


def estimate(output: float) -> BrokerEstimate:
    return BrokerEstimate(
        input_rate=10.0,
        subscriptions=50,
        delay=DelayModel(0.001, 0.0),
        output_bytes_s=output,
        output_bytes_s_max=1.0,
    )


def load(output: float) -> Load:
    return Load(
        input_ratio=0.4,
        delay_s=0.04,
        output_ratio=output,
        input_rate=10.0,
        output_bytes_s=output,
        output_bytes_s_max=1.0,
        subscriptions=50,
    )


def decision(**fields: object) -> Decision:
    return Decision(level="local", is_offloading=True, began_at=10.0, partner=B, metric="output", **fields)  # type: ignore[arg-type]


def test_the_error_is_a_share_of_what_came() -> None:
    done = decision(moved=3, predicted=estimate(0.44), observed=load(0.4))
    assert done.error("own", "output") is not None
    assert abs((done.error("own", "output") or 0) - 0.1) < 1e-9
    assert abs((done.error("own", "match") or 0) - 0.25) < 1e-9
    assert done.error("partner", "output") is None


def test_what_is_next_to_nothing_is_not_judged() -> None:
    done = decision(moved=3, predicted=estimate(0.44), observed=load(0.001))
    assert done.error("own", "output") is None


def test_without_a_move_there_is_no_error() -> None:
    assert decision(predicted=estimate(0.44), observed=load(0.4)).error("own", "output") is None


def test_of_many_cards_and_clients_the_first_are_kept() -> None:
    cards = [ReportCard(n, 1, 0.1, False, 0.0, 0.0, 1.0) for n in range(SHOWN_MAX + 7)]
    clients = [ClientId(str(n)) for n in range(SHOWN_MAX + 7)]
    done = decision()
    done.chose(OffloadChoice(clients, cards, estimate(0.3), estimate(0.3), "balanced"))
    shown = done.shown(20.0, is_whole=True)
    assert len(shown.cards) == len(shown.clients) == SHOWN_MAX
    assert shown.cards_more == 7
    assert shown.choice == "balanced"
    assert shown.began_s_ago == 10.0
    assert shown.took_s is None


def test_in_short_there_is_no_more_than_what_a_list_shows() -> None:
    shown = decision(why="overloaded", own=IDLE).shown(20.0, is_whole=False)
    assert shown.why == ""
    assert shown.own is None
    assert shown.outcome == "lasts"


def test_who_was_considered_is_told_with_the_answer() -> None:
    actions = [Action(B, "output", 0.5, False), Action(GatewayId("c"), "input", 0.2, False)]
    done = decision(actions=actions)
    done.answers[B, "output"] = "is BUSY"
    considered = done.shown(20.0, is_whole=True).considered
    assert [(each.broker, each.answer) for each in considered] == [("b", "is BUSY"), ("c", "not asked")]


def test_the_line_of_a_session_says_how_it_ended_and_why() -> None:
    done = decision(session="a-1-1", why="overloaded: output 0.98", is_overload=True)
    done.chose(OffloadChoice([ClientId("x")], [], estimate(0.5), estimate(0.4), "balanced"))
    done.over(SessionOver(SessionId("a-1-1"), B, True, "done", 1, (ClientId("x"),)), 15.0)
    line = done.summary()
    for part in (
        "a-1-1 to b: done",
        "for output (overload)",
        "moved 1 clients",
        "predicted output 0.5 here, 0.4 there",
    ):
        assert part in line
    done.moved = -1
    assert "an unknown number" in done.summary()


def test_decisions_are_bounded_and_found_by_their_session() -> None:
    kept = Decisions()
    for n in range(DECISIONS_MAX + 5):
        kept.add(decision(session=f"s{n}"))
    assert len(kept.last()) == DECISIONS_MAX
    assert kept.last()[0].session == f"s{DECISIONS_MAX + 4}"
    assert kept.find("s0") is None
    assert kept.find("s9") is not None

"""`mqloom balance` beside running gateways, what it says when nobody answers, and its words for a session."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqloom.core.balance_records import (
    BalanceAnswer,
    CardShown,
    Considered,
    EstimationError,
    Figures,
    SeenBroker,
    SessionShown,
)
from mqloom.core.command import main
from mqloom.gateway.balance_view import SESSIONS_SHOWN, explain_lines, status_lines
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

ON = '[plugins.settings.balance]\nmode = "advise"'
FULL = Figures(input_ratio=0.97, delay_s=0.0123, output_ratio=0.5, utilisation=0.97, subscriptions=1_200)
EASY = Figures(input_ratio=0.2, delay_s=0.001, output_ratio=0.1, utilisation=0.2, subscriptions=9)
SHORT = SessionShown(
    session="west-1f4-2",
    level="local",
    is_offloading=True,
    partner="east",
    metric="input",
    is_overload=True,
    is_advice=False,
    began_s_ago=61.2,
    took_s=4.25,
    outcome="done",
    reason="",
    moved=12,
    stayed=1,
)


def test_running_agents_are_asked_and_who_has_none_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, ("ONE", "TWO"), ON)
    words = ["-c", str(path)]
    with gateways_in_thread(path, ("ONE", "TWO")):
        assert main(["balance", "status", *words, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert {gateway: (each["role"], each["mode"]) for gateway, each in told["gateways"].items()} == {
            "ONE": ("edge", "advise"),
            "TWO": ("edge", "advise"),
        }
        assert main(["balance", "status", *words]) == 0
        assert "no sessions yet" in capsys.readouterr().out
        assert main(["balance", "explain", "ONE-1-1", *words]) == 1
        assert "no gateway knows session 'ONE-1-1'" in capsys.readouterr().err
    assert main(["balance", "status", *words]) == 1
    assert "ONE: it does not answer" in capsys.readouterr().err


def test_a_gateway_without_load_agents_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.toml"
    write_chain(path, ("ONE",))
    with gateways_in_thread(path, ("ONE",)):
        assert main(["balance", "status", "-c", str(path)]) == 1
    assert "ONE: there is no agent 'pie' at ONE (there is none): is its plugin on?" in capsys.readouterr().err


def test_brokers_and_sessions_are_tables() -> None:
    west = BalanceAnswer(
        gateway="west", role="edge", cluster="hub", mode="on", state="OK", own=FULL, sessions=(SHORT,) * 30
    )
    east = BalanceAnswer(gateway="east", role="edge", cluster="hub", mode="on", state="STABILIZING")
    lines = status_lines([west, east])
    assert " ".join(lines[0].split()) == "GATEWAY ROLE CLUSTER MODE STATE INPUT DELAY OUTPUT SUBSCRIPTIONS"
    assert lines[1].split() == ["west", "edge", "hub", "on", "OK", "97%", "12.30", "ms", "50%", "1,200"]
    assert lines[2].split()[4:] == ["STABILIZING", "-", "-", "-", "-"]
    assert " ".join(lines[5].split()) == "west west-1f4-2 local to east input, overload 61 s 12 done"
    assert len(lines) == 5 + SESSIONS_SHOWN + 1
    assert lines[-1].startswith("and 10 earlier ones")


def test_a_session_is_explained() -> None:
    whole = replace(
        SHORT,
        why="input 0.97 is over 0.95",
        own=FULL,
        seen=(SeenBroker(broker="east", cluster="hub", state="OK", figures=EASY),),
        considered=(Considered(broker="east", metric="input", difference=0.77, answer="agreed"),),
        cards=(
            CardShown(
                clients=12, difference=0.004, is_covered=True, rate_reduced=3.5, rate_added=0.0, bytes_s_each=210.0
            ),
        ),
        cards_more=3,
        clients=("desk", "till"),
        stayed_why={"till": "it does not answer"},
        choice="it is balanced",
        covering_left_out=7,
        predicted=EASY,
        observed=FULL,
        error=EstimationError(input=0.5, match=None, output=0.08),
    )
    text = "\n".join(explain_lines("west", whole))
    for part in (
        "west gives load to east, for input, overload; begun 61 s ago, it took 4.2 s",
        "seen: input 0.97 is over 0.95",
        "east (OK, cluster hub): input 20%, delay 1.00 ms, output 10%, 9 subscriptions",
        "east, input less by 0.77: agreed",
        "12 clients of 210 B/s each, which the other broker gets already: input here -3.5/s, there +0/s",
        "and 3 more",
        "it ended there: it is balanced",
        "7 subscriptions of the partner's covering set were not told",
        "moved: 12 clients, 1 stayed",
        "till stayed: it does not answer",
        "predicted for west: input 20%",
        "came at west: input 97%, delay 12.30 ms, output 50%, 1,200 subscriptions; wrong by input 50%, output 8%",
    ):
        assert part in text


def test_advice_says_whom_it_would_move() -> None:
    advice = replace(SHORT, is_advice=True, moved=0, stayed=0, chosen=12, outcome="cancelled", clients=("desk", "till"))
    answer = BalanceAnswer(gateway="west", role="edge", cluster="hub", mode="advise", state="OK", sessions=(advice,))
    assert " ".join(status_lines([answer])[-1].split()).endswith("61 s would 12 cancelled")
    text = "\n".join(explain_lines("west", advice))
    assert "only advice: it would move 12 clients\n    among them desk, till" in text

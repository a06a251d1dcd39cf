"""`mqloom route` beside running gateways, and what it says when nobody answers."""

import json
import time
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.core.records import Question, RouteAnswer, Way
from mqloom.gateway.command_route import ask, explain
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

ONE, TWO = GatewayId("ONE"), GatewayId("TWO")
HOT = '[[subscriptions]]\nbroker = "TWO"\ntopics = "stocks/#"\nwhere = "volume > 10"\ninto = "hot"'


def test_a_running_gateway_says_where_a_publication_would_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, ("ONE", "TWO"), HOT)
    words = ["route", "-c", str(path), "--at", "ONE", "--topic", "stocks/a", "--payload"]
    with gateways_in_thread(path, ("ONE", "TWO")) as drivers:
        deadline = time.monotonic() + 10
        while not drivers[ONE].node.subscription_counts()[1]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert main([*words, '{"volume": 11}', "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["anchors"] == {"TWO": 1}
        assert [way["gateway"] for way in answer["ways"]] == ["TWO"]
        assert main([*words, '{"volume": 10}']) == 0
        assert "0 subscriptions known at ONE want it" in capsys.readouterr().out
        assert main(["route", "-c", str(path), "--at", "ONE", "--topic", "else"]) == 1
        assert "only stocks/# take part" in capsys.readouterr().err
        assert main(["route", "-c", str(path), "--at", "ONE", "--topic", "else", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["answer"] == "refused"
        assert drivers[ONE].node.counters.total("publications_in") == 0
        question = Question(number=1, topic="stocks/a")
        with pytest.raises(BrokerError, match=r"NOBODY does not answer within 0\.3 s; is it running"):
            ask(GatewayId("NOBODY"), BrokerAddress("127.0.0.1", ports[ONE]), question, wait_s=0.3)
    assert main([*words, "x"]) == 1
    assert f"127.0.0.1:{ports[ONE]}: it does not answer; is it running" in capsys.readouterr().err
    assert main(["route", "-c", str(path), "--at", "TOW", "--topic", "stocks/a"]) == 1
    assert "did you mean 'TWO'" in capsys.readouterr().err


def test_an_answer_is_told_in_words() -> None:
    answer = RouteAnswer(
        answer="route",
        strategy="S2",
        here=1,
        anchors={TWO: 2},
        ways=(Way(gateway=TWO, kind="soft", serves=(TWO,)),),
        unheard=(ONE,),
        bypassed=(ONE,),
        left_out=4,
        undecoded=("json: on 'a': it is no object",),
    )
    assert explain(ONE, answer).splitlines() == [
        "at least 3 subscriptions known at ONE want it: 1 of its own clients",
        "  2 towards TWO",
        "  and more, towards 4 other gateways",
        "not read by codec json: on 'a': it is no object",
        "1 copy leaves, by S2",
        "  to TWO over a soft link, serves TWO",
        "not yet heard from, so they get everything: ONE",
        "down, so their copies wait, and they are bypassed where it can be: ONE",
    ]
    assert explain(ONE, RouteAnswer(answer="route", here=1)).splitlines() == [
        "1 subscription known at ONE wants it: 1 of its own clients",
        "no copy leaves",
    ]

"""The demonstration of load balancing on real embedded brokers: load spreads, and nothing is lost or repeated."""

import asyncio
import json

import pytest

from mqloom.agents.settings import read_settings, settings_hints
from mqloom.core.command import main
from mqloom.lab.demo_overload import HEAD, PERIODS, RATE, STRENGTHS, WEAKEST, WINDOW_S, Overload, running_overload
from mqloom.lab.demo_overload_view import summary, view
from mqloom.lab.demo_trading import settled

OVERLOAD_LOW = 0.9


def is_spread(demo: Overload) -> bool:
    """Whether clients are on several edges, and those of the weakest get what they want."""
    windows = demo.last.get(WEAKEST, ())
    is_light = len(windows) > 2 and all(load.output_ratio < OVERLOAD_LOW for load in list(windows)[-3:])
    return is_light and any(decision.moved > 0 and decision.outcome == "done" for _, decision in demo.sessions())


async def run_until_spread(seconds_max: float) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    async with running_overload(1, RATE, lambda text: None) as demo:
        start, count = loop.time(), 0
        while loop.time() < start + seconds_max and not is_spread(demo):
            while count < (loop.time() - start) * RATE:
                demo.publish_one(loop.time())
                count += 1
            demo.look(loop.time())
            await asyncio.sleep(0.02)
        view(demo, None)
        await settled(demo)
        return demo.verdict()


def test_the_weakest_broker_gives_load_away_until_it_has_no_more_than_it_can_send() -> None:
    verdict = asyncio.run(run_until_spread(30.0))
    brokers = {broker["id"]: broker for broker in verdict["brokers"]}  # type: ignore[attr-defined]
    assert brokers[WEAKEST]["before"]["output"] > OVERLOAD_LOW
    assert brokers[WEAKEST]["after"]["output"] < brokers[WEAKEST]["before"]["output"]
    assert sum(broker["subscribers"] > 0 for broker in brokers.values()) > 1
    assert brokers[HEAD]["subscribers"] == 0
    assert (verdict["lost"], verdict["duplicated"], verdict["unasked"]) == (0, 0, 0)
    assert verdict["expected"] == verdict["delivered"] != 0
    first = verdict["predictions"][0]  # type: ignore[index]
    assert (first["from"], first["metric"]) == (WEAKEST, "output")
    assert first["moved"] > 0
    assert all(0 < figure < 1 for figure in first["predicted"])
    assert "All is well" in summary(verdict)


@pytest.mark.full
@pytest.mark.timeout(180)
def test_after_a_minute_utilisations_are_near_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--overload", "--seconds", "60", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    outputs = [broker["after"]["output"] for broker in verdict["brokers"] if broker["id"] in STRENGTHS]
    assert max(outputs) - min(outputs) < 0.3  # the trigger is 0.1, and windows of a second differ by as much
    assert max(outputs) < OVERLOAD_LOW
    assert all(broker["subscribers"] for broker in verdict["brokers"] if broker["id"] in STRENGTHS)
    assert (verdict["lost"], verdict["duplicated"]) == (0, 0)


def test_the_command_prints_one_object_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--overload", "--seconds", "1", "--json", "--seed", "2"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["published"] >= 8
    assert (verdict["lost"], verdict["duplicated"], verdict["unasked"]) == (0, 0, 0)
    assert [broker["id"] for broker in verdict["brokers"]] == [HEAD, *STRENGTHS]
    # A first session may have begun, and on a slow machine have moved somebody.
    assert len(verdict["predictions"]) <= verdict["sessions"] <= 1
    assert ("no session has moved anybody yet" in summary(verdict)) is (verdict["predictions"] == [])


def test_soft_links_and_overload_are_two_demonstrations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--overload", "--overlay", "S2"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_its_settings_are_sound() -> None:
    settings = {**PERIODS, "window_s": WINDOW_S}
    assert settings_hints(settings) == []
    assert read_settings(settings).mode == "on"

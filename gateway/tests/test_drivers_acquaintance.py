"""How a broker behaves is found out on short visits: on the embedded broker, and on one that is played by hand."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mqloom.core import layout
from mqloom.core.events import BrokerKnown
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.mirrors import chunk_of, encode_chunk
from mqloom.core.topics import topic_matches
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.drivers import acquaintance, protocols
from mqloom.gateway.drivers.acquaintance import Acquainted, acquaint
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received
from mqloom.gateway.interfaces import BrokerAddress

US = GatewayId("US")
KEPT = {layout.intake(US): b'["stocks/+"]'}
LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": US})


@dataclass
class Habits:
    """How the broker that is played behaves."""

    traits: Traits = USUAL
    refuses: bool = False
    deaf_to: list[int] = field(default_factory=list)  # which publishes it does not acknowledge, counted from 1
    published: int = 0
    retained: dict[str, bytes] = field(default_factory=dict)
    unacknowledged: list[tuple[int, str, bytes]] = field(default_factory=list)
    sessions: int = 0


class PlayedConnection:
    """A connection to a broker with these habits; there is one session."""

    def __init__(self, plan: ConnectionPlan, habits: Habits) -> None:
        self._plan = plan
        self._habits = habits
        self._loop = asyncio.get_running_loop()
        self._packet = max((packet for packet, _, _ in habits.unacknowledged), default=0)

    def open(self) -> None:
        habits = self._habits
        if habits.refuses and self._plan.subscriptions:
            return
        if self._plan.clean_session:
            habits.unacknowledged.clear()
        again = habits.unacknowledged.copy()
        if not habits.traits.keeps_packet_ids:
            again = [(number, topic, payload) for number, (_, topic, payload) in enumerate(again, 1)]
            habits.unacknowledged[:] = again
        if habits.traits.repeats_at_once:
            for packet, topic, payload in again:
                self._hand(Received(topic, payload, 1, False, (1, packet), True))
        for topic, payload in habits.retained.items():
            for wanted, *_ in self._plan.subscriptions:
                if wanted == topic or (habits.traits.replays_to_wildcards and topic_matches(wanted, topic)):
                    self._hand(Received(topic, payload, 1, True, (1, self._next(topic, payload))))
        self._loop.call_soon(self._plan.on_up)

    def _next(self, topic: str, payload: bytes) -> int:
        self._packet += 1
        self._habits.unacknowledged.append((self._packet, topic, payload))
        return self._packet

    def _hand(self, message: Received) -> None:
        self._loop.call_soon(self._plan.on_messages, [message])

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False, then: Callable[[], None]) -> bool:
        self._habits.published += 1
        if self._habits.published in self._habits.deaf_to:
            return True
        if retain:
            self._habits.retained.pop(topic, None)
            if payload:
                self._habits.retained[topic] = payload
        if any(topic_matches(wanted, topic) for wanted, *_ in self._plan.subscriptions):
            self._hand(Received(topic, payload, 1, False, (1, self._next(topic, payload))))
        self._loop.call_soon(then)
        return True

    def acknowledge(self, tokens: Sequence[tuple[int, int]]) -> None:
        packets = [packet for _, packet in tokens]
        kept = [each for each in self._habits.unacknowledged if each[0] not in packets]
        self._habits.unacknowledged[:] = kept

    async def close(self) -> None:
        pass


def found(habits: Habits) -> BrokerKnown:
    return acquainted(habits).known


def acquainted(habits: Habits) -> Acquainted:
    def connect(plan: ConnectionPlan, _: Any) -> Connection:
        return cast(Connection, PlayedConnection(plan, habits))

    async def run() -> Acquainted:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return await acquaint(BrokerAddress("none", 1), US, ["stocks/+"], connect, LOG, ended)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquaintance, "REPEAT_S_MAX", 0.05)
    monkeypatch.setattr(acquaintance, "TRY_S_MAX", 1.0)


@pytest.mark.parametrize(
    "traits",
    [
        USUAL,
        Traits(replays_to_wildcards=False),
        Traits(keeps_packet_ids=False),
        Traits(repeats_at_once=False),
        Traits(replays_to_wildcards=False, keeps_packet_ids=False),
    ],
)
def test_each_habit_is_found_out_and_nothing_is_left_behind(traits: Traits) -> None:
    habits = Habits(traits)
    assert found(habits).traits == traits
    assert habits.retained == KEPT
    assert habits.unacknowledged == []


def test_the_mirror_is_read_where_wildcards_get_nothing_and_a_broken_part_is_passed_over() -> None:
    me, you = ClientId("me"), ClientId("you")
    retained = {layout.mirror(US, chunk_of(each)): encode_chunk({each: b"wish"}) for each in (me, you)}
    retained[layout.mirror(US, (chunk_of(me) + 1) % 64)] = b"?"
    assert set(found(Habits(Traits(replays_to_wildcards=False), retained=dict(retained))).records) == {
        (me, b"wish"),
        (you, b"wish"),
    }
    assert found(Habits(retained=retained)).records == ()


@pytest.mark.parametrize("traits", [USUAL, Traits(replays_to_wildcards=False)])
def test_what_the_session_of_the_intake_may_have_is_read_and_nothing_is_none(traits: Traits) -> None:
    habits = Habits(traits, retained={layout.intake(US): b'["stocks/#","news/+"]'})
    assert acquainted(habits).former == ["stocks/#", "news/+"]
    assert habits.retained == {layout.intake(US): b'["stocks/#","news/+","stocks/+"]'}  # before any of it is there
    assert acquainted(Habits(traits)).former == ()
    assert acquainted(Habits(traits, refuses=True)).former is None  # then nobody may write over it


@pytest.mark.parametrize("data", [b"?", b"{}", b'["a/#/b"]', b'["\xff"]', b'["' + b"a" * 300_000 + b'"]'])
def test_what_no_broker_would_take_for_topics_is_passed_over(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert acquainted(Habits(retained={layout.intake(US): data})).former == ()
    assert "on mqloom/v1/US/intake: " in caplog.text


def test_a_broker_that_does_not_let_us_is_taken_for_a_usual_one_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquaintance, "TRY_S_MAX", 0.05)
    habits = Habits(Traits(keeps_packet_ids=False), refuses=True)
    assert found(habits) == BrokerKnown(traits=USUAL)
    assert "could not be tried out on mqloom/v1/US/subs/+" in caplog.text
    assert habits.retained == {}


def test_a_broker_that_does_not_acknowledge_at_first_is_tried_again_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquaintance, "TRY_S_MAX", 0.05)
    monkeypatch.setattr(protocols, "RECONNECT_S_MIN", 0.01)
    habits = Habits(Traits(keeps_packet_ids=False), deaf_to=[1, 2])
    assert found(habits).traits == habits.traits
    assert caplog.text.count("none:1 did not acknowledge a retained message on mqloom/v1/US/") == 2
    assert "tried again" in caplog.text
    assert habits.retained == KEPT


def test_a_broker_that_does_not_acknowledge_at_the_end_is_known_all_the_same(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquaintance, "TRY_S_MAX", 0.05)
    habits = Habits(Traits(keeps_packet_ids=False), deaf_to=[5])
    assert found(habits).traits == habits.traits
    assert list(habits.retained) == [layout.trial(US)]
    assert "may stay there until the next start" in caplog.text


def test_a_gateway_that_is_to_end_does_not_wait_for_its_broker() -> None:
    class Silent(PlayedConnection):
        def open(self) -> None:
            pass

    async def run() -> Acquainted:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.set_result(None)
        return await acquaint(
            BrokerAddress("none", 1), US, [], lambda plan, _: cast(Connection, Silent(plan, Habits())), LOG, ended
        )

    assert asyncio.run(asyncio.wait_for(run(), 5)) == Acquainted(BrokerKnown(traits=USUAL))

"""What agents ask of their gateway: computations, moves, answers to operators; each is answered once."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from mqloom.core import layout
from mqloom.core.agent_records import AgentAnswer, AgentQuestion, decode_agent_answer, encode_agent_question
from mqloom.core.effects import Effect, PublishLocally, RunBeside
from mqloom.core.events import Asked, LoadMeasured, OrderAnswered, Ordered, RanBeside
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    AGENT_ANSWER_BYTES_MAX,
    COMPUTATIONS_MAX,
    COMPUTE_S,
    MIGRATION_JOBS_MAX,
    PROFILE_SAMPLES_MAX,
)
from mqloom.core.messages import Announce
from mqloom.core.migration_records import MigrationRequest, encode_migration
from mqloom.core.orders import MoveOrder, OrderAnswer, encode_order_answer, is_order, read_order
from mqloom.core.records import Wish
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    AgentAsked,
    AgentEffect,
    AgentEnded,
    AgentEvent,
    AgentWoke,
    AnswerOperator,
    ClientsMoved,
    Compute,
    Computed,
    LoadSampled,
    MoveClients,
    PublishControl,
    TakeProfile,
)
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.rosters import OrderParts
from mqloom.lab.gate import ANN, BOB, US, A, Gate, key, parts_of, wakings
from mqloom.lab.gate_agents import EAST, KEY, LOAD, ORDERS, Asking, Office

OPERATOR = ClientId("operator")


# ---- computations ------------------------------------------------------------------------------------------------


def test_a_computation_is_run_by_the_driver_and_its_result_told() -> None:
    office = Office()
    effects = office.order(Compute("one", lambda: 1), Compute("two", lambda: 2))
    first, second = (each for each in effects if isinstance(each, RunBeside))
    assert (first.function(), second.function()) == (1, 2)
    office.handle(RanBeside(number=second.number, problem="ValueError: no"))
    office.handle(RanBeside(number=first.number, result=1))
    assert office.answers() == [Computed("two", None, "ValueError: no"), Computed("one", 1)]


def test_one_that_takes_too_long_is_answered_once() -> None:
    office = Office()
    [effect] = [each for each in office.order(Compute("one", lambda: 1)) if isinstance(each, RunBeside)]
    office.wait(COMPUTE_S)
    office.handle(RanBeside(number=effect.number, result=1))
    [answer] = office.answers()
    assert isinstance(answer, Computed)
    assert "it took more than" in answer.problem


def test_too_many_at_once_are_answered_with_a_problem() -> None:
    office = Office()
    effects = office.order(*(Compute(str(number), lambda: 1) for number in range(COMPUTATIONS_MAX + 1)))
    assert sum(isinstance(each, RunBeside) for each in effects) == COMPUTATIONS_MAX
    [answer] = office.answers()
    assert isinstance(answer, Computed)
    assert (answer.token, answer.problem[:2]) == (str(COMPUTATIONS_MAX), f"{COMPUTATIONS_MAX} ")


def test_an_agent_that_asks_again_with_every_answer_does_not_hold_up_its_gateway() -> None:
    office = Office(orders=None)
    move = MoveClients("t", [ANN], EAST, 5.0)
    office.agent.answer = lambda event: [move] if isinstance(event, ClientsMoved) else []
    office.order(move)
    assert len(office.answers()) == 1
    assert office.now in wakings(office.wait())
    assert len(office.answers()) == 1


# ---- moves -------------------------------------------------------------------------------------------------------


def orders_in(effects: list[Effect]) -> dict[ClientId, MoveOrder]:
    found = [each for each in effects if isinstance(each, PublishLocally) and is_order(each.payload)]
    return {order.client: order for order in (read_order(each.payload, [KEY.public]) for each in found)}


def say(office: Office, order: MoveOrder, answer: str) -> list[Effect]:
    said = msgspec.convert({"session": order.session, "answer": answer, "problem": "not me"}, OrderAnswer)
    return office.handle(OrderAnswered(client=order.client, data=encode_order_answer(said)))


def test_clients_are_moved_and_the_agent_told_when_all_have_moved_or_stayed() -> None:
    office = Office()
    for client in (ANN, BOB):
        office.travels(client)
    effects = office.order(MoveClients("t", [ANN, BOB, ClientId("carl")], EAST, 5.0))
    orders = orders_in([*effects, *office.wait()])
    assert {order.to for order in orders.values()} == {EAST}
    say(office, orders[ANN], "moved")
    assert office.answers() == []
    say(office, orders[BOB], "stayed")
    [answer] = office.answers()
    assert isinstance(answer, ClientsMoved)
    assert (answer.token, list(answer.moved)) == ("t", [ANN])
    assert set(answer.stayed) == {BOB, "carl"}
    assert answer.stayed[BOB] == "not me"


def test_when_time_is_up_who_is_served_there_has_moved_and_who_waits_stays() -> None:
    office = Office()
    clients = [ClientId(f"c{number:02}") for number in range(60)]
    for client in clients:
        office.travels(client)
    office.order(MoveClients("t", clients, EAST, 5.0))
    orders = orders_in(office.wait())
    assert len(orders) == 50
    say(office, orders[clients[0]], "arrived")
    office.wait(5.0)
    [answer] = office.answers()
    assert isinstance(answer, ClientsMoved)
    assert list(answer.moved) == [clients[0]]
    assert len(answer.stayed) == 59
    assert set(answer.under_way) == set(clients[1:50])
    assert orders_in(office.wait(1.0)) == {}


@pytest.mark.parametrize(
    ("to", "parts", "problem"),
    [
        (EAST, None, "the federation has no order key"),
        (GatewayId("nowhere"), ORDERS, "not in the configuration"),
        (US, ORDERS, "they are at US already"),
    ],
)
def test_a_move_that_cannot_be_is_answered_at_once(to: GatewayId, parts: OrderParts | None, problem: str) -> None:
    office = Office(orders=parts)
    office.travels(ANN)
    office.order(MoveClients("t", [ANN], to, 5.0))
    [answer] = office.answers()
    assert isinstance(answer, ClientsMoved)
    assert problem in answer.stayed[ANN]
    assert office.counted("migrations_refused") == {"agent": 1}


def test_too_many_moves_at_once_are_refused() -> None:
    office = Office()
    office.travels(ANN)
    office.travels(BOB)
    office.order(*(MoveClients(str(number), [ANN, BOB], EAST, 5.0) for number in range(MIGRATION_JOBS_MAX + 1)))
    refused = [each for each in office.answers() if isinstance(each, ClientsMoved) and "requests" in each.stayed[ANN]]
    assert [each.token for each in refused] == [str(MIGRATION_JOBS_MAX)]


# ---- operators ---------------------------------------------------------------------------------------------------


def answered(effects: list[Effect]) -> list[AgentAnswer]:
    topic = layout.control(US, OPERATOR)
    found = [each for each in effects if isinstance(each, PublishLocally) and each.topic == topic]
    return [decode_agent_answer(each.payload) for each in found]


def ask(office: Office, agent: str = "pie") -> list[Effect]:
    question = encode_agent_question(AgentQuestion(number=7, agent=agent, body=b"status"))
    return office.handle(Asked(client=OPERATOR, data=question))


def test_an_operators_question_is_for_the_agent_and_so_is_its_answer() -> None:
    office = Office()
    ask(office)
    assert office.answers() == [AgentAsked(OPERATOR, 7, b"status")]
    effects = office.order(AnswerOperator(OPERATOR, 7, b"well"))
    assert answered([*effects, *office.wait()]) == [AgentAnswer(answer="agent", number=7, body=b"well")]


def test_a_question_to_an_agent_that_is_not_there_is_refused() -> None:
    office = Office()
    [answer] = answered(ask(office, "cake"))
    assert (answer.answer, answer.number) == ("refused", 7)
    assert "no agent 'cake' at US (there is pie)" in answer.problem
    assert office.counted("questions_refused") == {"agent": 1}
    office.handle(Asked(client=OPERATOR, data=b'{"agent": "pie", "extra": 1}'))
    office.handle(Asked(client=ClientId("x" * 200), data=b'{"agent": "pie", "number": 1}'))
    assert office.counted("questions_refused") == {"agent": 1, "client": 1, "malformed": 1}


def test_an_answer_that_is_too_long_is_refused_and_the_operator_told() -> None:
    office = Office()
    effects = office.order(AnswerOperator(OPERATOR, 7, bytes(AGENT_ANSWER_BYTES_MAX + 1)))
    [answer] = answered([*effects, *office.wait()])
    assert "ask for less" in answer.problem


# ---- what agents see ---------------------------------------------------------------------------------------------


def test_an_agent_sees_neighbours_wishes_the_covering_set_and_who_can_be_moved() -> None:
    office = Office(A)
    view = office.agent.view
    assert view is not None
    assert list(view.neighbours()) == [A]
    office.record(ANN, {"high": ("a/#", "x > 5"), "all": ("a/#", "x > 1")})
    office.travels(BOB, subscriptions={"one": Wish(topics="b/#")})
    wide, narrow, other = (Subscription.parse(*each) for each in (("a/#", "x > 1"), ("a/#", "x > 5"), ("b/#", "")))
    assert view.wishes() == {ANN: {key(US, 1): narrow, key(US, 2): wide}, BOB: {key(US, 3): other}}
    assert set(view.covering_set()) == {wide, other}
    assert list(view.movable()) == [BOB]
    office.order(MoveClients("t", [BOB], EAST, 5.0))
    assert list(view.movable()) == []


@pytest.mark.parametrize("neighbours", [(), (A, GatewayId("B"))])
def test_the_covering_set_is_of_our_own_clients_whoever_is_near(neighbours: tuple[GatewayId, ...]) -> None:
    office = Office(*neighbours)
    office.record(ANN, {"high": ("a/#", "x > 5"), "all": ("a/#", "x > 1")})
    if neighbours:
        office.hear(A, Announce(key(A, 1), "#", ""))
    assert office.agent.view is not None
    assert list(office.agent.view.covering_set()) == [Subscription.parse("a/#", "x > 1")]
    office.record(ANN, {"high": ("a/#", "x > 5")})
    if not neighbours:
        assert list(office.agent.view.covering_set()) == [Subscription.parse("a/#", "x > 5")]


def test_an_agent_sees_that_its_broker_is_drained() -> None:
    office = Office()
    assert office.agent.view is not None
    assert not office.agent.view.is_draining()
    request = MigrationRequest(number=1, action="drain", to=(EAST,))
    office.handle(Ordered(client=OPERATOR, data=encode_migration(request)))
    assert office.agent.view.is_draining()


def test_without_an_order_key_nobody_can_be_moved() -> None:
    office = Office(orders=None)
    office.travels(BOB)
    assert office.agent.view is not None
    assert list(office.agent.view.movable()) == []


def test_an_agent_finds_offload_kinds_by_name() -> None:
    agent = Asking()
    kind = OffloadKind("mine", lambda task: None)  # type: ignore[arg-type, return-value]
    Gate(replace(parts_of(agents=[agent]), offloads={"mine": kind}))
    assert agent.view is not None
    assert agent.view.offload("mine") is kind
    assert agent.view.offload("other") is None


def test_every_agent_is_told_the_load() -> None:
    office = Office()
    office.handle(LoadMeasured(load=LOAD))
    assert office.agent.happened[-1] == LoadSampled(LOAD)
    office.handle(LoadMeasured(load=LOAD, broker={"heap/current": 5.0}))
    assert office.agent.happened[-1] == LoadSampled(LOAD, {"heap/current": 5.0})


# ---- mistakes ----------------------------------------------------------------------------------------------------


def test_an_agent_that_fails_waits_for_nothing() -> None:
    office = Office()
    office.order(TakeProfile("t", (), 2, 30.0), Compute("c", lambda: 1))

    def fail(event: AgentEvent) -> Sequence[AgentEffect]:
        raise RuntimeError("a bug")

    office.agent.answer = fail
    office.handle(LoadMeasured(load=LOAD))
    office.answers()
    office.publish(b"{}", b"{}")
    office.handle(RanBeside(number=1, result=1))
    office.wait(999.0)
    assert office.answers() == []
    assert office.counted("plugin_failures") == {"pie": 1}


@pytest.mark.parametrize("successor", [None, Asking()])
def test_an_agent_that_is_replaced_sends_nobody_else_away(successor: Asking | None) -> None:
    office = Office()
    clients = [ClientId(f"c{number:02}") for number in range(60)]
    for client in clients:
        office.travels(client)
    office.order(MoveClients("t", clients, EAST, 500.0))
    orders = orders_in(office.wait())
    assert len(orders) == 50
    office.answers()
    agents = {office.agent.name: successor}
    other = Reconfigured(codecs=[], standing=[], federate=[], data=["a/#"], orders=ORDERS, agents=agents)
    office.node.handle(other, office.now)
    for client in clients[:50]:
        say(office, orders[client], "moved")
    assert orders_in([*office.wait(), *office.wait(1.0)]) == {}  # those whose turn had not come stay
    office.wait(999.0)
    assert office.answers() == [AgentEnded()]
    if successor is not None:
        assert {type(event) for event in successor.happened} <= {AgentWoke, LoadSampled}


@pytest.mark.parametrize(
    "mistake",
    [
        TakeProfile("t", (), 0, 30.0),
        TakeProfile("t", (), PROFILE_SAMPLES_MAX + 1, 30.0),
        TakeProfile("t", (), 1, 0.0),
        TakeProfile("t", ("x > 1",), 1, 1.0),  # type: ignore[arg-type]
        Compute("t", 1),  # type: ignore[arg-type]
        MoveClients("t", (), EAST, float("inf")),
        AnswerOperator(OPERATOR, 1, "text"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_done_is_the_agents_failure_and_nothing_of_its_answer_is_done(mistake: AgentEffect) -> None:
    office = Office(A)
    effects = office.order(PublishControl(b"", 1), mistake)
    assert office.counted("plugin_failures") == {"pie": 1}
    assert not [each for each in effects if not isinstance(each, PublishLocally) and type(each).__name__ == "SendFrame"]

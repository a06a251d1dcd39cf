"""What agents ask of their gateway: profiles, computations, moves, answers to operators; each is answered once."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from mqloom.core import layout
from mqloom.core.agent_records import AgentAnswer, AgentQuestion, decode_agent_answer, encode_agent_question
from mqloom.core.effects import Effect, PublishLocally, RunBeside
from mqloom.core.events import Asked, LoadMeasured, OrderAnswered, Ordered, RanBeside, RecordReceived, Woke
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    AGENT_ANSWER_BYTES_MAX,
    COMPUTATIONS_MAX,
    COMPUTE_S,
    MIGRATION_JOBS_MAX,
    PROFILE_BYTES_MAX,
    PROFILE_KEYS,
    PROFILE_SAMPLES_MAX,
    PROFILE_SLICE,
)
from mqloom.core.load import Load
from mqloom.core.messages import Announce
from mqloom.core.migration_records import MigrationRequest, encode_migration
from mqloom.core.orders import MoveOrder, OrderAnswer, RosterBroker, encode_order_answer, is_order, read_order
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    AgentAsked,
    AgentEffect,
    AgentEvent,
    AgentView,
    AgentWoke,
    AnswerOperator,
    ClientsMoved,
    Compute,
    Computed,
    LoadSampled,
    MoveClients,
    PublishControl,
    Sample,
    TakeProfile,
)
from mqloom.gateway.agent_interfaces import ProfileTaken as Taken
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.rosters import OrderParts
from mqloom.lab.gate import ANN, BOB, JSON, US, A, Gate, delivered, key, parts_of, publication, wakings

KEY = OrderKey(b"k" * 32)
EAST = GatewayId("east")
BROKERS = {each: RosterBroker(host=each) for each in (US, EAST)}
ORDERS = OrderParts(federation="bank", keys=OrderKeys(KEY), brokers=BROKERS, wall_at=lambda now: 1e6 + now)
OPERATOR = ClientId("operator")
LOAD = Load(
    input_ratio=0.5,
    delay_s=0.1,
    output_ratio=0.2,
    input_rate=5,
    output_bytes_s=9,
    output_bytes_s_max=10,
    subscriptions=3,
)


class Asking:
    """An agent that asks for what it is told to, with its next event, and sees its gateway."""

    name = "pie"

    def __init__(self) -> None:
        self.happened: list[AgentEvent] = []
        self.orders: list[AgentEffect] = []
        self.view: AgentView | None = None
        self.answer: Callable[[AgentEvent], Sequence[AgentEffect]] = lambda event: ()

    def see(self, view: AgentView) -> None:
        self.view = view

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        self.happened.append(event)
        orders, self.orders = self.orders, []
        return [*orders, *self.answer(event)]


class Office(Gate):
    """A node with an agent."""

    def __init__(self, *neighbours: GatewayId, orders: OrderParts | None = ORDERS) -> None:
        self.agent = Asking()
        super().__init__(replace(parts_of(*neighbours, agents=[self.agent]), orders=orders))
        if neighbours:
            self.up(*neighbours)

    def order(self, *orders: AgentEffect) -> list[Effect]:
        """Let the agent order something; returns what is done."""
        self.agent.orders = list(orders)
        return self.handle(LoadMeasured(load=LOAD))

    def answers(self) -> list[AgentEvent]:
        """Return what the agent was told, once."""
        happened, self.agent.happened = self.agent.happened, []
        return [event for event in happened if not isinstance(event, AgentWoke | LoadSampled)]

    def wait(self, seconds: float = 0.0) -> list[Effect]:
        self.now += seconds
        return self.handle(Woke())

    def settle(self) -> list[AgentEvent]:
        """Wake as often as is asked for at once; return what the agent was told."""
        while self.now in wakings(self.wait()):
            pass
        return self.answers()

    def travels(self, client: ClientId, **fields: object) -> None:
        record = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame", incarnation="first")
        data = encode_record(msgspec.structs.replace(record, **fields))
        self.handle(RecordReceived(client=client, data=data))


# ---- profiles ----------------------------------------------------------------------------------------------------


def test_a_profile_says_what_each_publication_matches_here_and_there() -> None:
    office = Office(A)
    office.record(ANN, {"low": ("a/#", "x < 5"), "all": ("a/#", "")})
    office.record(BOB, {"high": ("a/#", "x >= 5")})
    there = Subscription.parse("a/b", "x >= 7")
    office.order(TakeProfile("t", [there], 3, 30.0))
    office.now = 2.0
    effects = office.publish(b'{"x": 1}', b'{"x": 9}')
    assert len(delivered(effects, ANN)) == 2
    assert office.answers() == []
    office.now = 4.0
    office.hear(A, publication(0, b'{"x": 6}'))
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (taken.token, taken.took_s) == ("t", 4.0)
    low, everything, high = key(US, 1), key(US, 2), key(US, 3)
    size = len("a/b") + len(b'{"x": 1}')
    assert [(set(keys), *rest) for keys, *rest in taken.samples] == [
        ({low, everything}, False, size),
        ({high, everything}, True, size),
        ({high, everything}, False, size),
    ]


def test_what_others_want_is_not_in_a_profile() -> None:
    office = Office(A)
    office.hear(A, Announce(key(A, 1), "a/#", ""))
    office.order(TakeProfile("t", (), 1, 30.0))
    office.publish(b"{}")
    assert [taken.samples for taken in office.answers() if isinstance(taken, Taken)] == [[Sample([], False, 5)]]


def test_a_profile_ends_when_its_time_is_over() -> None:
    office = Office()
    effects = office.order(TakeProfile("t", (), 50, 30.0))
    assert 30.0 in wakings(effects)
    office.publish(b"{}")
    office.wait(29.9)
    assert office.answers() == []
    office.wait(0.1)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (len(taken.samples), taken.took_s) == (1, 30.0)
    office.publish(b"{}")
    office.wait(99.0)
    assert office.answers() == []


def test_a_new_profile_replaces_the_one_before() -> None:
    office = Office()
    office.order(TakeProfile("first", (), 2, 30.0))
    office.publish(b"{}")
    office.order(TakeProfile("second", (), 2, 30.0))
    office.publish(b"{}", b"{}", b"{}")
    office.wait(60.0)
    assert [taken.token for taken in office.answers() if isinstance(taken, Taken)] == ["second"]


def test_a_large_covering_set_is_tried_in_slices_and_publications_go_on_meanwhile() -> None:
    office = Office()
    office.record(ANN, {"all": ("#", "")})
    office.answers()
    covering = [Subscription.parse("a/b", f"x = {number}") for number in range(PROFILE_SLICE * 5)]
    office.order(TakeProfile("t", covering, 3, 30.0))
    office.publish(b'{"x": 0}', b'{"x": -1}', b'{"x": %d}' % (len(covering) - 1))
    assert office.answers() == []
    assert len(delivered(office.publish(b"{}"))) == 1  # which is a waking, too
    rounds = 0
    while not (answers := office.answers()):
        office.wait()
        rounds += 1
    assert 5 <= rounds <= 8
    [taken] = answers
    assert isinstance(taken, Taken)
    assert [sample.is_wanted_there for sample in taken.samples] == [True, False, True]


def test_samples_that_thousands_want_are_sorted_in_slices_too() -> None:
    office = Office()
    wanting = 1_000
    office.record(ANN, {f"w{number}": ("#", "") for number in range(wanting)})
    office.answers()
    office.order(TakeProfile("t", (), 50, 30.0))
    office.publish(*[b"{}"] * 50)
    rounds = 0
    while not (answers := office.answers()):
        office.wait()
        rounds += 1
    assert rounds >= 50 * wanting // (PROFILE_SLICE * PROFILE_KEYS) - 2  # the first go along with the publications
    [taken] = answers
    assert isinstance(taken, Taken)
    assert [len(sample.keys) for sample in taken.samples] == [wanting] * 50


def test_another_configuration_ends_a_profile_with_what_there_is() -> None:
    office = Office()
    office.order(TakeProfile("t", (), 50, 30.0))
    office.publish(b"{}")
    office.node.handle(Reconfigured(codecs=(("#", JSON),), standing=(), federate=(), data=("#",), orders=ORDERS), 5.0)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (len(taken.samples), taken.took_s) == (1, 5.0)


def test_samples_hold_so_many_bytes_and_no_more() -> None:
    office = Office()
    office.order(TakeProfile("t", (), 50, 30.0))
    large = b"x" * (PROFILE_BYTES_MAX // 5)
    for _ in range(7):
        office.publish(large)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert len(taken.samples) == 6


def test_a_subscription_that_has_ended_since_is_not_in_the_profile() -> None:
    office = Office()
    office.record(ANN, {"one": ("a/#", "")})
    office.order(TakeProfile("t", (), 2, 30.0))
    office.publish(b"{}")
    office.record(ANN, {})
    office.publish(b"{}")
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert [list(sample.keys) for sample in taken.samples] == [[], []]


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

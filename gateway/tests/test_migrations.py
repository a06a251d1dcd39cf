"""Moving clients, the gateway's side: by a node whose clients, operator and broker are played by hand."""

from dataclasses import replace

import msgspec
import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally
from mqloom.core.errors import OrderError
from mqloom.core.events import DrainRead, OrderAnswered, Ordered, RecordReceived, RecordsRead, Started, Woke
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    ANSWERS_BURST,
    DRAIN_REST_S,
    ID_LENGTH_MAX,
    MIGRATION_GRACE_S,
    MIGRATION_JOBS_MAX,
    MIGRATION_PROBLEMS_MAX,
    MIGRATION_S,
    MIGRATION_SILENCE_S,
    MIGRATION_WORD_S,
)
from mqloom.core.migration_records import (
    Bounds,
    DrainMark,
    MigrationAnswer,
    MigrationRequest,
    decode_mark,
    decode_migration_answer,
    encode_mark,
    encode_migration,
)
from mqloom.core.orders import (
    MoveOrder,
    OrderAnswer,
    OrderDesk,
    RosterBroker,
    decode_order_answer,
    encode_order_answer,
    is_order,
    read_order,
    sign_roster,
)
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.migrations import ORDERS_BATCH
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.pace import Pace
from mqloom.gateway.rosters import OrderParts
from mqloom.lab.gate import ANN, BOB, US, Gate, logs, parts_of, wakings

KEY = OrderKey(b"k" * 32)
EAST, NORTH = GatewayId("east"), GatewayId("north")
BROKERS = {each: RosterBroker(host=each) for each in (US, EAST, NORTH)}
WALL = 1_000_000.0
ORDERS = OrderParts(federation="bank", keys=OrderKeys(KEY), brokers=BROKERS, wall_at=lambda now: WALL + now)
OPERATOR = ClientId("operator")
KEYLESS = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame")
HERE = msgspec.structs.replace(KEYLESS, incarnation="first")
CAROL = ClientId("carol")


def parts(orders: OrderParts | None = ORDERS, *, pace: Pace | None = None) -> NodeParts:
    return replace(parts_of(), orders=orders, pace=pace)


class Desk(Gate):
    """A node that orders clients."""

    def write(self, client: ClientId, record: Record | None = HERE, **fields: object) -> list[Effect]:
        data = b"" if record is None else encode_record(msgspec.structs.replace(record, **fields))
        return self.handle(RecordReceived(client=client, data=data))

    def ask(
        self, action: str, *clients: ClientId, to: tuple[GatewayId, ...] = (EAST,), **bounds: float
    ) -> list[Effect]:
        limits = msgspec.convert(bounds, Bounds)
        request = msgspec.convert({"number": 7, "action": action}, MigrationRequest)
        request = msgspec.structs.replace(request, clients=clients, to=to, bounds=limits)
        return self.handle(Ordered(client=OPERATOR, data=encode_migration(request)))

    def answer(self, client: ClientId, order: MoveOrder, answer: str, problem: str = "") -> list[Effect]:
        said = msgspec.convert({"session": order.session, "answer": answer, "problem": problem}, OrderAnswer)
        return self.handle(OrderAnswered(client=client, data=encode_order_answer(said)))

    def wait(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.handle(Woke())


def orders(effects: list[Effect]) -> dict[ClientId, MoveOrder]:
    found = {}
    for effect in effects:
        if isinstance(effect, PublishLocally) and "/ctl/" in effect.topic and is_order(effect.payload):
            order = read_order(effect.payload, [KEY.public])
            assert effect.topic == layout.control(US, order.client)
            assert (effect.qos, effect.retain) == (1, False)
            found[order.client] = order
    return found


def told(effects: list[Effect], operator: ClientId = OPERATOR) -> list[MigrationAnswer]:
    topic = layout.control(US, operator)
    return [
        decode_migration_answer(each.payload)
        for each in effects
        if isinstance(each, PublishLocally) and each.topic == topic
    ]


def marks(effects: list[Effect]) -> list[bytes]:
    return [each.payload for each in effects if isinstance(each, PublishLocally) and each.topic == layout.drain(US)]


def counted(desk: Desk) -> dict[str, int]:
    return {name: count for name, count in desk.node.counters.snapshot().items() if name.startswith("migrations")}


@pytest.fixture
def desk() -> Desk:
    return Desk(parts())


# ---- one client ----------------------------------------------------------------------------------------------------


def test_a_client_is_ordered_and_the_operator_told_until_it_has_moved(desk: Desk) -> None:
    desk.write(ANN)
    effects = desk.ask("migrate", ANN)
    assert orders(effects) == {
        ANN: MoveOrder(
            federation="bank",
            client=ANN,
            incarnation="first",
            session=orders(effects)[ANN].session,
            source=US,
            to=EAST,
            number=1,
            issued_at=WALL,
            expires_at=WALL + MIGRATION_S,
        )
    }
    order = orders(effects)[ANN]
    assert told(effects) == [MigrationAnswer(answer="migrating", number=7, under_way=1, left=1)]
    desk.answer(ANN, order, "moving")
    desk.write(ANN, moving_to=EAST)
    desk.answer(ANN, order, "arrived")
    desk.write(ANN, leaving_to=EAST)
    desk.now = 1.0
    effects = desk.answer(ANN, order, "moved")
    assert told(effects) == [MigrationAnswer(answer="done", number=7, moved=1, left=1)]
    desk.write(ANN, subscriptions={}, moved_to=EAST)
    assert counted(desk) == {"migrations_made": 1, "migrations_ordered": 1}
    assert told(desk.wait(100.0)) == []


def test_the_order_is_one_that_the_client_obeys(desk: Desk) -> None:
    desk.write(ANN)
    effects = desk.ask("migrate", ANN)
    desk_of_ann = OrderDesk(client=ANN, incarnation="first", keys=[KEY.public])
    roster = desk.node._rosters.roster
    assert roster is not None
    (order,) = (each.payload for each in effects if isinstance(each, PublishLocally) and is_order(each.payload))
    with pytest.raises(OrderError):
        desk_of_ann.take_order(order, US, WALL)
    desk_of_ann.take_roster(sign_roster(roster, KEY), WALL)
    assert desk_of_ann.take_order(order, US, WALL).to == EAST


@pytest.mark.parametrize("last", ["answer", "record"])
def test_a_move_is_over_by_the_answer_or_by_the_record_whichever_comes(desk: Desk, last: str) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.now = 1.0
    by_answer = last == "answer"
    effects = desk.answer(ANN, order, "moved") if by_answer else desk.write(ANN, subscriptions={}, moved_to=EAST)
    assert told(effects)[-1].answer == "done"
    assert counted(desk)["migrations_made"] == 1


def test_one_that_stays_says_why(desk: Desk) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.now = 1.0
    effects = desk.answer(ANN, order, "stayed", "east does not answer")
    assert told(effects) == [
        MigrationAnswer(answer="done", number=7, stayed=1, left=1, problems={"ann": "east does not answer"})
    ]
    assert counted(desk)["migrations_stayed.stayed"] == 1
    assert any("client 'ann' stays: east does not answer" in line for line in logs(effects))


def test_one_that_says_nothing_is_given_up_when_its_time_is_over_and_may_move_all_the_same(desk: Desk) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN, deadline_s=5.0))[ANN]
    assert order.expires_at == WALL + 5.0
    assert told(desk.wait(5.0 + MIGRATION_GRACE_S - 0.1))[-1].answer == "migrating"
    (answer,) = told(desk.wait(MIGRATION_WORD_S))
    assert (answer.answer, answer.stayed) == ("done", 1)
    assert "does not answer" in answer.problems["ann"]
    desk.answer(ANN, order, "moved")
    assert counted(desk) == {"migrations_ordered": 1, "migrations_stayed.silent": 1}


def test_one_that_was_started_again_before_it_obeyed_is_not_waited_for(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, incarnation="second")
    assert counted(desk)["migrations_stayed.restarted"] == 1
    assert orders(desk.ask("migrate", ANN))[ANN].incarnation == "second"


def test_one_that_was_started_again_on_its_way_stays_and_is_not_waited_for(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, moving_to=EAST)
    desk.write(ANN, incarnation="second", moving_to=EAST)  # it is served here, and leaves the other
    assert counted(desk)["migrations_stayed.restarted"] == 1
    answer = told(desk.wait(1.0))[-1]
    assert (answer.answer, answer.stayed) == ("done", 1)
    assert "started again" in answer.problems["ann"]


def test_one_that_was_started_again_when_it_was_served_there_goes_on(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, moving_to=EAST)
    desk.write(ANN, leaving_to=EAST)
    desk.write(ANN, incarnation="second", leaving_to=EAST)
    desk.write(ANN, incarnation="second", subscriptions={}, moved_to=EAST)
    assert counted(desk) == {"migrations_ordered": 1, "migrations_made": 1}


def test_one_that_is_gone_is_not_waited_for(desk: Desk) -> None:
    desk.write(ANN, lease_s=3.0)
    desk.ask("migrate", ANN)
    answer = told(desk.wait(3.0))[-1]
    assert "it is gone" in answer.problems["ann"]
    assert answer.left == 0
    assert counted(desk)["migrations_stayed.gone"] == 1


def test_one_on_its_way_already_is_not_ordered_again(desk: Desk) -> None:
    desk.write(ANN)
    desk.write(BOB, moved_from=NORTH)
    desk.ask("migrate", ANN)
    effects = desk.ask("migrate", ANN, BOB)
    assert orders(effects) == {}
    problems = told(effects)[-1].problems
    assert list(problems) == ["ann", "bob"]
    assert all(problem.startswith("it is being moved already: wait") for problem in problems.values())


def test_clients_that_are_not_here_or_cannot_be_moved_are_named(desk: Desk) -> None:
    desk.write(ANN)
    desk.write(BOB, KEYLESS)
    desk.write(CAROL, KEYLESS, format="plain")
    effects = desk.ask("migrate", ANN, BOB, CAROL, ClientId("nobody"), ANN)
    answer = told(effects)[-1]
    assert answer.unknown == ("nobody",)
    assert answer.immovable == {"bob": "keyless", "carol": "plain"}
    assert (answer.under_way, answer.left) == (1, 1)
    desk.now = 1.0
    last = told(desk.answer(ANN, orders(effects)[ANN], "moved"))[-1]
    assert (last.fixed, last.fixed_by) == (2, {"keyless": 1, "plain": 1})
    assert last.immovable == answer.immovable


def test_one_that_wants_nothing_any_more_is_not_here(desk: Desk) -> None:
    desk.write(BOB, KEYLESS)
    desk.write(BOB, KEYLESS, subscriptions={})
    answer = told(desk.ask("migrate", BOB))[-1]
    assert (answer.unknown, answer.immovable, answer.fixed) == (("bob",), {}, 0)


def test_a_drain_names_the_first_that_it_leaves_behind_of_each_kind(desk: Desk) -> None:
    for number in range(MIGRATION_PROBLEMS_MAX + 5):
        desk.write(ClientId(f"keyless{number:02}"), KEYLESS)
    desk.write(CAROL, KEYLESS, format="plain")
    answer = told(desk.ask("drain"))[-1]
    assert (answer.answer, answer.left, answer.fixed) == ("done", 0, MIGRATION_PROBLEMS_MAX + 6)
    assert answer.fixed_by == {"keyless": MIGRATION_PROBLEMS_MAX + 5, "plain": 1}
    named = {f"keyless{number:02}": "keyless" for number in range(MIGRATION_PROBLEMS_MAX)}
    assert answer.immovable == {**named, "carol": "plain"}


def test_a_client_that_is_at_the_target_stays(desk: Desk) -> None:
    desk.write(ANN)
    effects = desk.ask("migrate", ANN, to=(US,))
    assert orders(effects) == {}
    assert told(effects)[-1].problems == {"ann": "it is at US already"}


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "to", "problem"),
    [
        ("migrate", ("south",), "'south' is not in the configuration of US"),
        ("migrate", (), "no target was named"),
        ("drain", ("US",), "US cannot send its clients to itself"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_words(
    desk: Desk, action: str, to: tuple[GatewayId, ...], problem: str
) -> None:
    desk.write(ANN)
    effects = desk.ask(action, ANN, to=to)
    (answer,) = told(effects)
    assert (answer.answer, answer.number) == ("refused", 7)
    assert problem in answer.problem
    assert orders(effects) == {}
    assert counted(desk) == {"migrations_refused.request": 1}


def test_without_an_order_key_nobody_is_moved() -> None:
    desk = Desk(parts(None))
    desk.write(ANN)
    effects = desk.ask("migrate", ANN)
    assert "no order key" in told(effects)[0].problem
    assert orders(effects) == {}


def test_a_request_that_cannot_be_read_is_answered_at_the_pace_of_refusals() -> None:
    desk = Desk(parts(pace=Pace()))
    answers = 0
    for _ in range(ANSWERS_BURST + 50):
        effects = desk.handle(Ordered(client=OPERATOR, data=b'{"number": 7, "action": "fly"}'))
        answers += len(told(effects))
    assert answers == ANSWERS_BURST
    assert counted(desk) == {"migrations_refused.malformed": ANSWERS_BURST + 50}
    long = ClientId("x" * (ID_LENGTH_MAX + 1))
    assert told(desk.handle(Ordered(client=long, data=b'{"action": "drain"}')), long) == []


def test_answers_that_are_nobodys_count_for_nothing(desk: Desk) -> None:
    desk.write(ANN)
    desk.write(BOB)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.answer(BOB, order, "moved")
    desk.handle(OrderAnswered(client=ANN, data=b"{"))
    assert counted(desk) == {"migrations_ordered": 1, "migrations_refused.stale": 1, "migrations_refused.answer": 1}
    assert desk.node._migrations.under_way == 1


def test_more_requests_than_are_worked_on_are_refused_until_one_is_done(desk: Desk) -> None:
    clients = [ClientId(f"c{number}") for number in range(MIGRATION_JOBS_MAX + 1)]
    for client in clients:
        desk.write(client)
    given = [orders(desk.ask("migrate", client)) for client in clients[:-1]]
    (answer,) = told(desk.ask("migrate", clients[-1]))
    assert "try again when one is done" in answer.problem
    desk.now = 1.0
    desk.answer(clients[0], given[0][clients[0]], "moved")
    assert orders(desk.ask("migrate", clients[-1]))


# ---- drains --------------------------------------------------------------------------------------------------------


def crowd(desk: Desk, count: int) -> list[ClientId]:
    clients = [ClientId(f"c{number}") for number in range(count)]
    for client in clients:
        desk.write(client)
    return clients


def test_a_drain_sends_all_away_in_turn_within_its_bounds_and_keeps_a_mark(desk: Desk) -> None:
    clients = crowd(desk, 5)
    effects = desk.ask("drain", to=(EAST, NORTH), at_once=2)
    assert [decode_mark(mark) for mark in marks(effects)] == [DrainMark(to=(EAST, NORTH), bounds=Bounds(at_once=2))]
    given = orders(effects)
    assert [order.to for order in given.values()] == [EAST, NORTH]
    assert all(order.number == 5 for order in given.values())
    while given:
        desk.now += 1.0
        client, order = next(iter(given.items()))
        del given[client]
        effects = desk.write(client, subscriptions={}, moved_to=order.to)
        given.update(orders(effects))
        assert desk.node._migrations.under_way <= 2
    assert told(effects) == [MigrationAnswer(answer="done", number=7, moved=5)]
    assert desk.node._migrations.is_draining
    assert counted(desk) == {"migrations_made": len(clients), "migrations_ordered": len(clients)}


def test_whoever_comes_while_it_is_drained_is_ordered_at_once_but_not_whoever_arrives(desk: Desk) -> None:
    assert told(desk.ask("drain"))[-1].answer == "done"
    assert list(orders(desk.write(ANN))) == [ANN]
    assert orders(desk.write(BOB, moved_from=NORTH)) == {}
    assert list(orders(desk.write(BOB))) == [BOB]


def test_many_orders_are_not_signed_in_one_go(desk: Desk) -> None:
    crowd(desk, ORDERS_BATCH + 10)
    first = desk.ask("drain", at_once=1_000)
    assert len(orders(first)) == ORDERS_BATCH
    assert min(wakings(first)) <= desk.now
    assert len(orders(desk.wait(0.0))) == 10


def test_one_that_stays_is_tried_again_after_a_rest_by_another_order(desk: Desk) -> None:
    desk.write(ANN)
    first = orders(desk.ask("drain", to=(EAST, NORTH)))[ANN]
    desk.now = 1.0
    answer = told(desk.answer(ANN, first, "stayed", "east is down"))[-1]
    assert (answer.answer, answer.waiting, answer.stayed) == ("migrating", 1, 0)
    desk.write(ANN)
    assert orders(desk.wait(DRAIN_REST_S - 1.0)) == {}
    second = orders(desk.wait(1.0))[ANN]
    assert second.to == NORTH
    assert second.session != first.session


def test_one_that_is_gone_is_not_tried_again_by_a_drain(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("drain")
    desk.now = 1.0
    answer = told(desk.write(ANN, None))[-1]
    assert (answer.answer, answer.stayed, answer.left) == ("done", 0, 0)
    assert orders(desk.wait(DRAIN_REST_S)) == {}


def test_one_that_says_nothing_to_an_operator_is_drained_after_all(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN, to=(NORTH,))
    assert orders(desk.ask("drain")) == {}  # it is on its way for somebody else
    desk.wait(DRAIN_REST_S)
    effects = desk.wait(MIGRATION_S + MIGRATION_GRACE_S)
    assert [order.to for order in orders(effects).values()] == [EAST]
    assert told(effects)[-1].answer == "migrating"


def test_one_that_is_moved_for_an_operator_is_drained_by_that(desk: Desk) -> None:
    desk.write(ANN)
    (order,) = orders(desk.ask("migrate", ANN, to=(NORTH,))).values()
    waiting = told(desk.ask("drain"))[-1]
    assert (waiting.answer, waiting.waiting, waiting.under_way) == ("migrating", 1, 0)
    desk.now = 1.0
    done = told(desk.write(ANN, subscriptions={}, moved_to=order.to))[-1]
    assert (done.answer, done.waiting, done.left) == ("done", 0, 0)
    assert orders(desk.wait(DRAIN_REST_S)) == {}


def test_an_undrained_broker_orders_nobody_else(desk: Desk) -> None:
    clients = crowd(desk, 3)
    (order,) = orders(desk.ask("drain", at_once=1)).values()
    effects = desk.ask("undrain", to=())
    assert marks(effects) == [b""]
    assert not desk.node._migrations.is_draining
    assert orders(desk.write(ANN)) == {}
    desk.now = 1.0
    effects = desk.answer(clients[0], order, "moved")
    assert orders(effects) == {}
    assert told(effects)[-1] == MigrationAnswer(answer="done", number=7, moved=1, left=4)


@pytest.mark.parametrize("given", [ORDERS, None])
def test_a_mark_that_is_not_obeyed_is_removed_all_the_same(given: OrderParts | None) -> None:
    desk = Desk(parts(given))
    desk.handle(DrainRead(data=b"{"))
    effects = desk.ask("undrain", to=())
    assert marks(effects) == [b""]
    assert told(effects) == [MigrationAnswer(answer="done", number=7)]


def test_a_drain_that_is_ordered_again_goes_on_with_other_bounds(desk: Desk) -> None:
    crowd(desk, 3)
    desk.ask("drain", at_once=1)
    effects = desk.ask("drain", to=(NORTH,), at_once=50)
    assert [order.to for order in orders(effects).values()] == [NORTH, NORTH]
    assert told(desk.wait(MIGRATION_WORD_S))[-1].under_way == 3


def test_after_a_restart_a_drain_goes_on_by_its_mark() -> None:
    node = Node(parts(), 0.0)
    node.handle(Started(), 0.0)
    node.handle(DrainRead(data=encode_mark(DrainMark(to=(EAST,), bounds=Bounds()))), 0.0)
    effects = node.handle(RecordReceived(client=ANN, data=encode_record(HERE)), 0.0)
    assert list(orders(effects)) == [ANN]
    node.handle(RecordsRead(), 0.0)
    node.check()


def test_what_comes_on_the_topic_of_the_mark_later_is_not_obeyed(desk: Desk) -> None:
    desk.handle(DrainRead(data=encode_mark(DrainMark(to=(EAST,), bounds=Bounds()))))
    assert not desk.node._migrations.is_draining


def test_a_mark_that_cannot_be_read_is_counted() -> None:
    node = Node(parts(), 0.0)
    node.handle(DrainRead(data=b"{"), 0.0)
    assert node.counters.reasons("migrations_refused") == {"mark": 1}


def test_those_that_came_from_a_broker_are_sent_back_there_and_no_others(desk: Desk) -> None:
    desk.write(ANN, moved_from=NORTH)
    desk.write(ANN)
    desk.write(BOB)
    effects = desk.ask("return", to=(NORTH,))
    assert {client: order.to for client, order in orders(effects).items()} == {ANN: NORTH}


def test_one_that_was_moved_on_since_is_brought_back_too_and_by_a_gateway_that_was_started_again(desk: Desk) -> None:
    desk.write(ANN, visited=(NORTH, EAST))
    desk.write(BOB, visited=(EAST,))
    effects = desk.ask("return", to=(NORTH,))
    assert {client: order.to for client, order in orders(effects).items()} == {ANN: NORTH}


def test_an_operator_is_told_now_and_then_that_somebody_is_at_work(desk: Desk) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    assert told(desk.wait(MIGRATION_SILENCE_S - 0.1)) == []
    assert told(desk.wait(0.1))[-1].answer == "migrating"


def test_orders_go_on_with_other_keys_when_the_configuration_is_read_again(desk: Desk) -> None:
    desk.write(ANN)
    other = OrderKey(b"o" * 32)
    desk.node._migrations.change(replace(ORDERS, keys=OrderKeys(other)))
    effects = desk.ask("migrate", ANN)
    (payload,) = (each.payload for each in effects if isinstance(each, PublishLocally) and is_order(each.payload))
    assert read_order(payload, [other.public]).client == ANN
    assert decode_order_answer(b'{"session":"s","answer":"moved"}').answer == "moved"

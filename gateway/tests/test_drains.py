"""Draining a broker, and bringing back whom it had: the gateway's side."""

import pytest

from mqloom.core.events import DrainRead, RecordReceived, RecordsRead, Started
from mqloom.core.ids import ClientId
from mqloom.core.limits import DRAIN_REST_S, MIGRATION_GRACE_S, MIGRATION_S, MIGRATION_WORD_S
from mqloom.core.migration_records import Bounds, DrainMark, MigrationAnswer, decode_mark, encode_mark
from mqloom.core.records import encode_record
from mqloom.gateway.migrations import ORDERS_BATCH
from mqloom.gateway.node import Node
from mqloom.gateway.rosters import OrderParts
from mqloom.lab.gate import ANN, BOB, wakings
from mqloom.lab.ordering_gate import EAST, HERE, NORTH, ORDERS, OrderingGate, counted, marks, orders, parts, told


@pytest.fixture
def desk() -> OrderingGate:
    return OrderingGate(parts())


def crowd(desk: OrderingGate, count: int) -> list[ClientId]:
    clients = [ClientId(f"c{number}") for number in range(count)]
    for client in clients:
        desk.write(client)
    return clients


def test_a_drain_sends_all_away_in_turn_within_its_bounds_and_keeps_a_mark(desk: OrderingGate) -> None:
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


def test_whoever_comes_while_it_is_drained_is_ordered_at_once_but_not_whoever_arrives(desk: OrderingGate) -> None:
    assert told(desk.ask("drain"))[-1].answer == "done"
    assert list(orders(desk.write(ANN))) == [ANN]
    assert orders(desk.write(BOB, moved_from=NORTH)) == {}
    assert list(orders(desk.write(BOB))) == [BOB]


def test_many_orders_are_not_signed_in_one_go(desk: OrderingGate) -> None:
    crowd(desk, ORDERS_BATCH + 10)
    first = desk.ask("drain", at_once=1_000)
    assert len(orders(first)) == ORDERS_BATCH
    assert min(wakings(first)) <= desk.now
    assert len(orders(desk.wait(0.0))) == 10


def test_one_that_stays_is_tried_again_after_a_rest_by_another_order(desk: OrderingGate) -> None:
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


def test_one_that_is_gone_is_not_tried_again_by_a_drain(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("drain")
    desk.now = 1.0
    answer = told(desk.write(ANN, None))[-1]
    assert (answer.answer, answer.stayed, answer.left) == ("done", 0, 0)
    assert orders(desk.wait(DRAIN_REST_S)) == {}


def test_one_that_says_nothing_to_an_operator_is_drained_after_all(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN, to=(NORTH,))
    assert orders(desk.ask("drain")) == {}  # it is on its way for somebody else
    desk.wait(DRAIN_REST_S)
    effects = desk.wait(MIGRATION_S + MIGRATION_GRACE_S)
    assert [order.to for order in orders(effects).values()] == [EAST]
    assert told(effects)[-1].answer == "migrating"


def test_one_that_is_moved_for_an_operator_is_drained_by_that(desk: OrderingGate) -> None:
    desk.write(ANN)
    (order,) = orders(desk.ask("migrate", ANN, to=(NORTH,))).values()
    waiting = told(desk.ask("drain"))[-1]
    assert (waiting.answer, waiting.waiting, waiting.under_way) == ("migrating", 1, 0)
    desk.now = 1.0
    done = told(desk.write(ANN, subscriptions={}, moved_to=order.to))[-1]
    assert (done.answer, done.waiting, done.left) == ("done", 0, 0)
    assert orders(desk.wait(DRAIN_REST_S)) == {}


def test_an_undrained_broker_orders_nobody_else(desk: OrderingGate) -> None:
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
    desk = OrderingGate(parts(given))
    desk.handle(DrainRead(data=b"{"))
    effects = desk.ask("undrain", to=())
    assert marks(effects) == [b""]
    assert told(effects) == [MigrationAnswer(answer="done", number=7)]


def test_a_drain_that_is_ordered_again_goes_on_with_other_bounds(desk: OrderingGate) -> None:
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


def test_what_comes_on_the_topic_of_the_mark_later_is_not_obeyed(desk: OrderingGate) -> None:
    desk.handle(DrainRead(data=encode_mark(DrainMark(to=(EAST,), bounds=Bounds()))))
    assert not desk.node._migrations.is_draining


def test_a_mark_that_cannot_be_read_is_counted() -> None:
    node = Node(parts(), 0.0)
    node.handle(DrainRead(data=b"{"), 0.0)
    assert node.counters.reasons("migrations_refused") == {"mark": 1}


def test_those_that_came_from_a_broker_are_sent_back_there_and_no_others(desk: OrderingGate) -> None:
    desk.write(ANN, moved_from=NORTH)
    desk.write(ANN)
    desk.write(BOB)
    effects = desk.ask("return", to=(NORTH,))
    assert {client: order.to for client, order in orders(effects).items()} == {ANN: NORTH}


def test_one_that_was_moved_on_since_is_brought_back_too_even_by_a_gateway_started_again(
    desk: OrderingGate,
) -> None:
    desk.write(ANN, visited=(NORTH, EAST))
    desk.write(BOB, visited=(EAST,))
    effects = desk.ask("return", to=(NORTH,))
    assert {client: order.to for client, order in orders(effects).items()} == {ANN: NORTH}

"""Moving clients, the gateway's side: one by one, and what of it is refused."""

from dataclasses import replace

import pytest

from mqloom.core.effects import PublishLocally
from mqloom.core.errors import OrderError
from mqloom.core.events import OrderAnswered, Ordered
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    ANSWERS_BURST,
    ID_LENGTH_MAX,
    MIGRATION_GRACE_S,
    MIGRATION_JOBS_MAX,
    MIGRATION_PROBLEMS_MAX,
    MIGRATION_S,
    MIGRATION_SILENCE_S,
    MIGRATION_WORD_S,
)
from mqloom.core.migration_records import MigrationAnswer
from mqloom.core.orders import MoveOrder, OrderDesk, decode_order_answer, is_order, read_order, sign_roster
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.pace import Pace
from mqloom.lab.gate import ANN, BOB, US, logs
from mqloom.lab.ordering_gate import (
    CAROL,
    EAST,
    KEY,
    KEYLESS,
    NORTH,
    OPERATOR,
    ORDERS,
    WALL,
    OrderingGate,
    counted,
    orders,
    parts,
    told,
)


@pytest.fixture
def desk() -> OrderingGate:
    return OrderingGate(parts())


# ---- one client ----------------------------------------------------------------------------------------------------


def test_a_client_is_ordered_and_the_operator_told_until_it_has_moved(desk: OrderingGate) -> None:
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


def test_the_order_is_one_that_the_client_obeys(desk: OrderingGate) -> None:
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
def test_a_move_is_over_by_the_answer_or_by_the_record_whichever_comes(desk: OrderingGate, last: str) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.now = 1.0
    by_answer = last == "answer"
    effects = desk.answer(ANN, order, "moved") if by_answer else desk.write(ANN, subscriptions={}, moved_to=EAST)
    assert told(effects)[-1].answer == "done"
    assert counted(desk)["migrations_made"] == 1


def test_one_that_stays_says_why(desk: OrderingGate) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.now = 1.0
    effects = desk.answer(ANN, order, "stayed", "east does not answer")
    assert told(effects) == [
        MigrationAnswer(answer="done", number=7, stayed=1, left=1, problems={"ann": "east does not answer"})
    ]
    assert counted(desk)["migrations_stayed.stayed"] == 1
    assert any("client 'ann' stays: east does not answer" in line for line in logs(effects))


def test_one_that_says_nothing_is_given_up_when_its_time_is_over_and_may_move_all_the_same(desk: OrderingGate) -> None:
    desk.write(ANN)
    order = orders(desk.ask("migrate", ANN, deadline_s=5.0))[ANN]
    assert order.expires_at == WALL + 5.0
    assert told(desk.wait(5.0 + MIGRATION_GRACE_S - 0.1))[-1].answer == "migrating"
    (answer,) = told(desk.wait(MIGRATION_WORD_S))
    assert (answer.answer, answer.stayed) == ("done", 1)
    assert "does not answer" in answer.problems["ann"]
    desk.answer(ANN, order, "moved")
    assert counted(desk) == {"migrations_ordered": 1, "migrations_stayed.silent": 1}


def test_one_that_was_started_again_before_it_obeyed_is_not_waited_for(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, incarnation="second")
    assert counted(desk)["migrations_stayed.restarted"] == 1
    assert orders(desk.ask("migrate", ANN))[ANN].incarnation == "second"


def test_one_that_was_started_again_on_its_way_stays_and_is_not_waited_for(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, moving_to=EAST)
    desk.write(ANN, incarnation="second", moving_to=EAST)  # it is served here, and leaves the other
    assert counted(desk)["migrations_stayed.restarted"] == 1
    answer = told(desk.wait(1.0))[-1]
    assert (answer.answer, answer.stayed) == ("done", 1)
    assert "started again" in answer.problems["ann"]


def test_one_that_was_started_again_when_it_was_served_there_goes_on(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    desk.write(ANN, moving_to=EAST)
    desk.write(ANN, leaving_to=EAST)
    desk.write(ANN, incarnation="second", leaving_to=EAST)
    desk.write(ANN, incarnation="second", subscriptions={}, moved_to=EAST)
    assert counted(desk) == {"migrations_ordered": 1, "migrations_made": 1}


def test_one_that_is_gone_is_not_waited_for(desk: OrderingGate) -> None:
    desk.write(ANN, lease_s=3.0)
    desk.ask("migrate", ANN)
    answer = told(desk.wait(3.0))[-1]
    assert "it is gone" in answer.problems["ann"]
    assert answer.left == 0
    assert counted(desk)["migrations_stayed.gone"] == 1


def test_one_on_its_way_already_is_not_ordered_again(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.write(BOB, moved_from=NORTH)
    desk.ask("migrate", ANN)
    effects = desk.ask("migrate", ANN, BOB)
    assert orders(effects) == {}
    problems = told(effects)[-1].problems
    assert list(problems) == ["ann", "bob"]
    assert all(problem.startswith("it is being moved already: wait") for problem in problems.values())


def test_clients_that_are_not_here_or_cannot_be_moved_are_named(desk: OrderingGate) -> None:
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


def test_one_that_wants_nothing_any_more_is_not_here(desk: OrderingGate) -> None:
    desk.write(BOB, KEYLESS)
    desk.write(BOB, KEYLESS, subscriptions={})
    answer = told(desk.ask("migrate", BOB))[-1]
    assert (answer.unknown, answer.immovable, answer.fixed) == (("bob",), {}, 0)


def test_a_drain_names_the_first_that_it_leaves_behind_of_each_kind(desk: OrderingGate) -> None:
    for number in range(MIGRATION_PROBLEMS_MAX + 5):
        desk.write(ClientId(f"keyless{number:02}"), KEYLESS)
    desk.write(CAROL, KEYLESS, format="plain")
    answer = told(desk.ask("drain"))[-1]
    assert (answer.answer, answer.left, answer.fixed) == ("done", 0, MIGRATION_PROBLEMS_MAX + 6)
    assert answer.fixed_by == {"keyless": MIGRATION_PROBLEMS_MAX + 5, "plain": 1}
    named = {f"keyless{number:02}": "keyless" for number in range(MIGRATION_PROBLEMS_MAX)}
    assert answer.immovable == {**named, "carol": "plain"}


def test_a_client_that_is_at_the_target_stays(desk: OrderingGate) -> None:
    desk.write(ANN)
    effects = desk.ask("migrate", ANN, to=(US,))
    assert orders(effects) == {}
    assert told(effects)[-1].problems == {"ann": "it is at US already"}


def test_an_operator_is_told_now_and_then_that_somebody_is_at_work(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.ask("migrate", ANN)
    assert told(desk.wait(MIGRATION_SILENCE_S - 0.1)) == []
    assert told(desk.wait(0.1))[-1].answer == "migrating"


def test_orders_go_on_with_other_keys_when_the_configuration_is_read_again(desk: OrderingGate) -> None:
    desk.write(ANN)
    other = OrderKey(b"o" * 32)
    desk.node._migrations.change(replace(ORDERS, keys=OrderKeys(other)))
    effects = desk.ask("migrate", ANN)
    (payload,) = (each.payload for each in effects if isinstance(each, PublishLocally) and is_order(each.payload))
    assert read_order(payload, [other.public]).client == ANN
    assert decode_order_answer(b'{"session":"s","answer":"moved"}').answer == "moved"


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
    desk: OrderingGate, action: str, to: tuple[GatewayId, ...], problem: str
) -> None:
    desk.write(ANN)
    effects = desk.ask(action, ANN, to=to)
    (answer,) = told(effects)
    assert (answer.answer, answer.number) == ("refused", 7)
    assert problem in answer.problem
    assert orders(effects) == {}
    assert counted(desk) == {"migrations_refused.request": 1}


def test_without_an_order_key_nobody_is_moved() -> None:
    desk = OrderingGate(parts(None))
    desk.write(ANN)
    effects = desk.ask("migrate", ANN)
    assert "no order key" in told(effects)[0].problem
    assert orders(effects) == {}


def test_a_request_that_cannot_be_read_is_answered_at_the_pace_of_refusals() -> None:
    desk = OrderingGate(parts(pace=Pace()))
    answers = 0
    for _ in range(ANSWERS_BURST + 50):
        effects = desk.handle(Ordered(client=OPERATOR, data=b'{"number": 7, "action": "fly"}'))
        answers += len(told(effects))
    assert answers == ANSWERS_BURST
    assert counted(desk) == {"migrations_refused.malformed": ANSWERS_BURST + 50}
    long = ClientId("x" * (ID_LENGTH_MAX + 1))
    assert told(desk.handle(Ordered(client=long, data=b'{"action": "drain"}')), long) == []


def test_answers_that_are_nobodys_count_for_nothing(desk: OrderingGate) -> None:
    desk.write(ANN)
    desk.write(BOB)
    order = orders(desk.ask("migrate", ANN))[ANN]
    desk.answer(BOB, order, "moved")
    desk.handle(OrderAnswered(client=ANN, data=b"{"))
    assert counted(desk) == {"migrations_ordered": 1, "migrations_refused.stale": 1, "migrations_refused.answer": 1}
    assert desk.node._migrations.under_way == 1


def test_more_requests_than_are_worked_on_are_refused_until_one_is_done(desk: OrderingGate) -> None:
    clients = [ClientId(f"c{number}") for number in range(MIGRATION_JOBS_MAX + 1)]
    for client in clients:
        desk.write(client)
    given = [orders(desk.ask("migrate", client)) for client in clients[:-1]]
    (answer,) = told(desk.ask("migrate", clients[-1]))
    assert "try again when one is done" in answer.problem
    desk.now = 1.0
    desk.answer(clients[0], given[0][clients[0]], "moved")
    assert orders(desk.ask("migrate", clients[-1]))

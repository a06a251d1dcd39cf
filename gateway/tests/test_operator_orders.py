"""Orders of operators: each goes where it belongs, and who wants the configuration read is told what became of it."""

from collections.abc import Sequence

import pytest

from mqloom.core.effects import Effect, ReadConfiguration
from mqloom.core.events import ConfigurationRead, Ordered
from mqloom.core.ids import ClientId
from mqloom.core.limits import ID_LENGTH_MAX, RELOADS_MAX
from mqloom.core.reload_records import ReloadAnswer, ReloadRequest, decode_reload_answer, encode_reload
from mqloom.lab.gate import Gate, alone, said_to

OPERATOR = ClientId("operator")


def order(gate: Gate, data: bytes, operator: ClientId = OPERATOR) -> list[Effect]:
    return gate.handle(Ordered(client=operator, data=data))


def said(effects: Sequence[Effect], operator: ClientId = OPERATOR) -> list[ReloadAnswer]:
    return [decode_reload_answer(data) for data in said_to(effects, operator)]


def test_who_orders_it_is_told_what_changed_when_the_configuration_was_read() -> None:
    gate = alone()
    effects = order(gate, encode_reload(ReloadRequest(number=7)))
    assert [each for each in effects if isinstance(each, ReadConfiguration)] == [ReadConfiguration(operator=OPERATOR)]
    assert said(effects) == []
    effects = gate.handle(ConfigurationRead(operator=OPERATOR, changed=("federation.data",), waiting=("links",)))
    assert said(effects) == [
        ReloadAnswer(answer="reloaded", number=7, changed=("federation.data",), waiting=("links",))
    ]
    assert said(gate.handle(ConfigurationRead(operator=OPERATOR))) == []  # once


def test_a_mistake_in_the_configuration_is_told_and_counted() -> None:
    gate = alone()
    order(gate, encode_reload(ReloadRequest(number=7)))
    effects = gate.handle(ConfigurationRead(operator=OPERATOR, problem="line 3: no such key"))
    assert said(effects) == [ReloadAnswer(answer="refused", number=7, problem="line 3: no such key")]
    assert gate.counted("reloads_refused") == {"configuration": 1}


@pytest.mark.parametrize("data", [b'{"action": "reload"}', b'{"action": "reload", "number": 1, "now": true}'])
def test_an_order_that_is_none_is_refused_to_its_sender(data: bytes) -> None:
    gate = alone()
    [answer] = said(order(gate, data))
    assert answer.answer == "refused"
    assert answer.problem
    assert gate.counted("reloads_refused") == {"malformed": 1}


def test_a_name_that_is_too_long_gets_no_answer() -> None:
    gate = alone()
    operator = ClientId("x" * (ID_LENGTH_MAX + 1))
    assert said(order(gate, encode_reload(ReloadRequest(number=1)), operator), operator) == []
    assert gate.counted("reloads_refused") == {"client": 1}


def test_past_the_bound_operators_are_refused_until_others_have_their_answer() -> None:
    gate = alone()
    request = encode_reload(ReloadRequest(number=1))
    names = [ClientId(f"operator-{number}") for number in range(RELOADS_MAX + 1)]
    for name in names:
        effects = order(gate, request, name)
    assert [each.answer for each in said(effects, names[-1])] == ["refused"]
    assert gate.counted("reloads_refused") == {"many": 1}
    gate.handle(ConfigurationRead(operator=names[0]))
    assert ReadConfiguration(operator=names[-1]) in order(gate, request, names[-1])


@pytest.mark.parametrize(
    ("data", "counter"), [(b'{"action": "dance"}', "migrations_refused"), (b'{"move": 1}', "moves_refused")]
)
def test_all_other_orders_go_where_they_belong(data: bytes, counter: str) -> None:
    gate = alone()
    order(gate, data)
    assert gate.counted(counter) == {"malformed": 1}
    assert gate.counted("reloads_refused") == {}

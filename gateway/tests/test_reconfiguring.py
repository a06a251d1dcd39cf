"""A running node is given another configuration: what is new begins, what is gone ends, without a gap."""

from dataclasses import replace

from mqloom.core.events import InterestLearned
from mqloom.core.messages import Announce, Withdraw
from mqloom.core.publication import Publication
from mqloom.gateway.interfaces import Codec
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.subscribers import Standing
from mqloom.lab.gate import ANN, JSON, A, Gate, answers, local, parts_of, sent

LARGE, SMALL = Standing("stocks/#", "volume > 10", "large"), Standing("stocks/#", "volume < 10", "small")
HOLDS = Reconfigured(codecs=[("#", JSON)], standing=[LARGE], federate=(), data=["stocks/#"])


def gate(*standing: Standing) -> Gate:
    return Gate(replace(parts_of(standing=standing), data=["stocks/#"]))


def topics(each: Gate, payload: bytes) -> list[str]:
    return [topic for topic, _ in local(each.publish(payload, topic="stocks/a"))]


def test_a_standing_subscription_begins_before_another_ends() -> None:
    each = Gate(replace(parts_of(A, standing=[SMALL]), data=["stocks/#"])).up(A)
    said = sent(each.node.handle(HOLDS, each.now), A)
    assert [message.where for message in said if isinstance(message, Announce)] == ["volume > 10"]
    assert not [message for message in said if isinstance(message, Withdraw)]  # what is under way comes first
    assert each.node.subscription_counts() == (2, 0)


def test_alone_what_is_gone_has_ended_at_once_and_what_is_new_is_served() -> None:
    each = gate(SMALL)
    assert topics(each, b'{"volume": 5}') == ["small/stocks/a"]
    each.node.handle(HOLDS, each.now)
    assert topics(each, b'{"volume": 5}') == []
    assert topics(each, b'{"volume": 50}') == ["large/stocks/a"]
    each.node.check()


def test_what_stays_is_not_touched() -> None:
    each = gate(LARGE)
    assert local(each.node.handle(HOLDS, each.now)) == []
    assert each.node.subscription_counts() == (1, 0)
    assert topics(each, b'{"volume": 50}') == ["large/stocks/a"]


def test_other_codecs_read_from_now_on() -> None:
    def decode(publication: Publication) -> dict[str, object]:
        return {"volume": int(publication.payload)}

    each = gate(LARGE)
    assert topics(each, b"11") == []
    each.node.handle(replace(HOLDS, codecs=[("#", Codec("number", decode))]), each.now)
    assert topics(each, b"11") == ["large/stocks/a"]


def test_a_client_may_subscribe_to_what_is_data_now() -> None:
    each = gate()
    (refused,) = answers(each.record(ANN, {"news": ("news/#", "")}))
    assert "only stocks/# take part" in refused.problem
    each.node.handle(replace(HOLDS, standing=[], data=["stocks/#", "news/#"]), each.now)
    (answer,) = answers(each.record(ANN, {"all": ("news/#", "")}))
    assert answer.answer == "established"


def test_what_plain_clients_want_counts_when_it_becomes_data() -> None:
    each = gate()
    each.node.handle(replace(HOLDS, standing=[]), each.now)
    each.handle(InterestLearned(filters=("news/#",)))
    assert each.node.subscription_counts() == (0, 0)
    each.node.handle(replace(HOLDS, standing=[], data=["stocks/#", "news/#"]), each.now)
    assert each.node.subscription_counts() == (1, 0)


def test_what_plain_clients_always_get_can_be_changed() -> None:
    each = gate()
    each.node.handle(replace(HOLDS, standing=[], federate=["stocks/#"]), each.now)
    assert each.node.subscription_counts() == (1, 0)
    each.node.handle(replace(HOLDS, standing=[]), each.now)
    assert each.node.subscription_counts() == (0, 0)

"""Numbered publishes: in order, a window of them, and duties met by the broker's acknowledgement."""

from mqloom.core.effects import PublishLocally
from mqloom.core.limits import LOCAL_WINDOW
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.deliveries import Deliveries


def message(number: int = 0) -> PublishLocally:
    return PublishLocally(topic="t", payload=str(number).encode(), qos=1)


def test_a_duty_is_met_when_the_broker_has_every_message_for_it() -> None:
    custody = Custody()
    deliveries = Deliveries(custody)
    duty = custody.begin(FromBroker(1))
    deliveries.publish(message(1), [duty])
    deliveries.publish(message(2), [duty])
    custody.meet(duty)  # it is routed
    assert [(each.number, each.payload) for each in deliveries.drain()] == [(1, b"1"), (2, b"2")]
    assert deliveries.drain() == []
    deliveries.published([2])
    assert custody.met() == []
    deliveries.published([1])
    assert custody.met() == [FromBroker(1)]
    assert len(deliveries) == 0


def test_one_message_may_serve_several_duties_and_none() -> None:
    custody = Custody()
    deliveries = Deliveries(custody)
    duties = [custody.begin(FromBroker(number)) for number in range(2)]
    deliveries.publish(message(), duties)
    deliveries.publish(message(), ())
    for duty in duties:
        deliveries.met(duty)  # the claim of being routed, passed on
    deliveries.drain()
    assert custody.met() == []
    deliveries.published([1, 2])
    assert custody.met() == [FromBroker(0), FromBroker(1)]


def test_a_number_that_is_not_under_way_is_passed_over() -> None:
    deliveries = Deliveries(Custody())
    deliveries.publish(message(), ())
    deliveries.drain()
    deliveries.published([0, 1, 1, 99])
    assert len(deliveries) == 0


def test_no_more_than_the_window_is_under_way_and_the_rest_waits_in_order() -> None:
    deliveries = Deliveries(Custody())
    for number in range(LOCAL_WINDOW + 3):
        deliveries.publish(message(number), ())
    assert len(deliveries.drain()) == LOCAL_WINDOW
    assert len(deliveries) == LOCAL_WINDOW + 3
    deliveries.published([5, 6])
    assert [each.payload for each in deliveries.drain()] == [b"%d" % (LOCAL_WINDOW + step) for step in range(2)]
    assert deliveries.drain() == []


def test_what_nobody_needs_any_more_is_waited_for_no_longer_wherever_it_is() -> None:
    custody = Custody()
    deliveries = Deliveries(custody)
    duties = [custody.begin(FromBroker(number)) for number in range(LOCAL_WINDOW + 2)]
    for number, duty in enumerate(duties):
        topic = "park" if number % 2 else "t"
        deliveries.publish(PublishLocally(topic=topic, payload=b"", qos=1), [duty])
        deliveries.met(duty)
    deliveries.drain()
    deliveries.forget("park")
    assert custody.met() == [FromBroker(number) for number in range(1, LOCAL_WINDOW + 2, 2)]
    assert {each.topic for each in deliveries.drain()} == {"t"}
    assert len(deliveries) == len(duties) // 2
    deliveries.published(range(1, LOCAL_WINDOW + 3))  # late acknowledgements of what was forgotten among them
    assert custody.met() == [FromBroker(number) for number in range(0, LOCAL_WINDOW + 2, 2)]
    assert len(deliveries) == 0

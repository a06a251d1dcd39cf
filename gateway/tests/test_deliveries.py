"""Numbered publishes: in order, a window of them, and duties met by the broker's acknowledgement."""

from mqloom.core.counters import Counters
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import GatewayId
from mqloom.core.limits import LOCAL_WINDOW, REFUSED_AFTER_S, REFUSED_TRIES_MAX
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.deliveries import Deliveries
from mqloom.gateway.journal import Journal


def deliveries_of(custody: Custody, counters: Counters | None = None) -> Deliveries:
    return Deliveries(GatewayId("US"), custody, Journal(counters or Counters()))


def message(number: int = 0) -> PublishLocally:
    return PublishLocally(topic="t", payload=str(number).encode(), qos=1)


def test_a_duty_is_met_when_the_broker_has_every_message_for_it() -> None:
    custody = Custody()
    deliveries = deliveries_of(custody)
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
    deliveries = deliveries_of(custody)
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
    deliveries = deliveries_of(Custody())
    deliveries.publish(message(), ())
    deliveries.drain()
    deliveries.published([0, 1, 1, 99])
    assert len(deliveries) == 0


def test_no_more_than_the_window_is_under_way_and_the_rest_waits_in_order() -> None:
    deliveries = deliveries_of(Custody())
    for number in range(LOCAL_WINDOW + 3):
        deliveries.publish(message(number), ())
    assert len(deliveries.drain()) == LOCAL_WINDOW
    assert len(deliveries) == LOCAL_WINDOW + 3
    deliveries.published([5, 6])
    assert [each.payload for each in deliveries.drain()] == [b"%d" % (LOCAL_WINDOW + step) for step in range(2)]
    assert deliveries.drain() == []


def test_what_nobody_needs_any_more_is_waited_for_no_longer_wherever_it_is() -> None:
    custody = Custody()
    deliveries = deliveries_of(custody)
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


def refuse_until_given_up(deliveries: Deliveries, now: float = 0.0) -> float:
    """Refuse what is under way as often as it comes; return when that is over."""
    for count in range(1, REFUSED_TRIES_MAX + 1):
        [effect] = deliveries.drain()
        deliveries.refused(effect.number, "not authorized", now)
        if count < REFUSED_TRIES_MAX:
            deliveries.wake(now + REFUSED_AFTER_S / 2)
            assert deliveries.drain() == []
            assert deliveries.deadline == now + REFUSED_AFTER_S
            now += REFUSED_AFTER_S
            deliveries.wake(now)
    return now


def test_what_the_broker_refuses_is_published_again_and_nobody_is_told_before_it_has_it() -> None:
    custody = Custody()
    deliveries = deliveries_of(custody)
    duty = custody.begin(FromBroker(1))
    deliveries.publish(message(1), [duty])
    deliveries.met(duty)
    [effect] = deliveries.drain()
    deliveries.refused(effect.number, "quota exceeded", 0.0)
    deliveries.refused(effect.number, "quota exceeded", 0.0)  # told twice: once is enough
    assert (len(deliveries), custody.met()) == (1, [])
    deliveries.wake(REFUSED_AFTER_S)
    [again] = deliveries.drain()
    assert (again.topic, again.payload) == (effect.topic, effect.payload)
    deliveries.published([again.number])
    assert custody.met() == [FromBroker(1)]
    assert deliveries.deadline is None


def test_what_is_refused_too_often_goes_to_the_dead_topic_and_holds_up_nobody() -> None:
    custody, counters = Custody(), Counters()
    deliveries = deliveries_of(custody, counters)
    duty = custody.begin(FromBroker(1))
    deliveries.publish(message(1), [duty])
    deliveries.met(duty)
    refuse_until_given_up(deliveries)
    assert custody.met() == []
    [dead] = deliveries.drain()
    assert (dead.topic, dead.payload) == ("mqloom/v1/US/dead/t", b"1")
    deliveries.published([dead.number])
    assert custody.met() == [FromBroker(1)]
    assert counters.snapshot() == {"publications_dead.refused": 1}


def test_what_the_broker_does_not_even_take_as_dead_is_lost_and_counted() -> None:
    custody, counters = Custody(), Counters()
    deliveries = deliveries_of(custody, counters)
    duty = custody.begin(FromBroker(1))
    deliveries.publish(message(1), [duty])
    deliveries.met(duty)
    refuse_until_given_up(deliveries, refuse_until_given_up(deliveries))
    assert custody.met() == [FromBroker(1)]
    assert (deliveries.drain(), len(deliveries)) == ([], 0)
    assert counters.snapshot() == {"publications_dead.refused": 1, "publications_dropped.refused": 1}


def test_what_is_vital_is_never_given_up_until_nobody_needs_it() -> None:
    custody, counters = Custody(), Counters()
    deliveries = deliveries_of(custody, counters)
    duty = custody.begin(FromBroker(1))
    deliveries.publish(PublishLocally(topic="park", payload=b"", qos=1), [duty], is_vital=True)
    deliveries.met(duty)
    for count in range(3 * REFUSED_TRIES_MAX):
        [effect] = deliveries.drain()
        assert effect.topic == "park"
        deliveries.refused(effect.number, "not authorized", count * REFUSED_AFTER_S)
        deliveries.wake((count + 1) * REFUSED_AFTER_S)
    [effect] = deliveries.drain()
    deliveries.refused(effect.number, "not authorized", 1000.0)
    assert (custody.met(), counters.snapshot()) == ([], {})
    deliveries.forget("park")
    assert (custody.met(), len(deliveries)) == ([FromBroker(1)], 0)

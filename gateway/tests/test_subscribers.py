"""Local clients: what a record changes, when a lease runs out, and how a publication reaches each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import FRAME_BYTES_TARGET, PAYLOAD_BYTES_MAX
from mqloom.core.publication import Publication
from mqloom.core.records import Delivered, Format, Record, Wish, decode_envelope
from mqloom.gateway.custody import Duty, FromBroker
from mqloom.gateway.subscribers import Delivery, Difference, Owner, Standing, Subscribers

US = GatewayId("US")
ANN, BOB = ClientId("ann"), ClientId("bob")
WISH, OTHER = Wish(topics="a/#"), Wish(topics="b/#", where="x > 1")


def key(number: int) -> SubscriptionKey:
    return SubscriptionKey(US, 1, number)


def record(
    format: Format = "plain",  # noqa: A002 - the record's own word
    qos: int = 1,
    lease_s: float = 0,
    **wishes: Wish,
) -> Record:
    return Record(subscriptions=wishes, format=format, qos=qos, lease_s=lease_s)


class Desk:
    """Subscribers, and the part of a node that carries out what a record changes, without a wave in between."""

    def __init__(self) -> None:
        self.subscribers = Subscribers(US)
        self.number = 0

    def write(self, client: ClientId, new: Record, now: float = 0.0) -> Difference:
        difference = self.subscribers.compare(client, new, now)
        for name, wish in difference.begin.items():
            self.number += 1
            self.subscribers.begin(client, name, wish, key(self.number))
        for ending in difference.end:
            self.subscribers.end(ending)
        self.subscribers.discard_idle(client)
        self.subscribers.check()
        return difference


def matched(
    publication: Publication, *numbers: int, duty: Duty | None = None
) -> tuple[Publication, list[SubscriptionKey], Duty | None]:
    return publication, [key(number) for number in numbers], duty


def only_effects(deliveries: list[Delivery]) -> list[PublishLocally]:
    return [effect for effect, _ in deliveries]


def publication(topic: str = "a/b", payload: bytes = b"{}", qos: int = 1, sequence: int = 0) -> Publication:
    return Publication(GatewayId("A"), 1, sequence, 0, 1, topic, payload, qos, True, "text/plain", (("k", "v"),))


# ---- records -----------------------------------------------------------------------------------------------------


def test_everything_in_a_first_record_begins() -> None:
    desk = Desk()
    assert desk.write(ANN, record(one=WISH, two=OTHER)) == Difference({"one": WISH, "two": OTHER}, [], [])
    assert desk.subscribers.keys_of(ANN) == [key(1), key(2)]
    assert desk.subscribers.owner(key(2)) == Owner(ANN, "two")
    assert ANN in desk.subscribers
    assert len(desk.subscribers) == 1


def test_the_same_record_again_changes_nothing() -> None:
    desk = Desk()
    desk.write(ANN, record(one=WISH))
    assert desk.write(ANN, record(one=WISH)) == Difference({}, [], [key(1)])


def test_what_is_new_begins_what_is_gone_ends_and_what_changed_does_both() -> None:
    desk = Desk()
    desk.write(ANN, record(stays=WISH, goes=WISH, changes=WISH))
    difference = desk.write(ANN, record(stays=WISH, changes=OTHER, comes=OTHER))
    assert difference == Difference({"changes": OTHER, "comes": OTHER}, [key(2), key(3)], [key(1)])
    assert sorted(desk.subscribers.keys_of(ANN)) == [key(1), key(4), key(5)]


def test_a_subscription_that_is_ending_is_owned_until_it_is_forgotten() -> None:
    desk = Desk()
    desk.write(ANN, record(one=WISH))
    desk.write(ANN, record())
    assert desk.subscribers.is_ending(key(1))
    assert desk.subscribers.keys_of(ANN) == []
    assert ANN in desk.subscribers
    assert desk.subscribers.forget(key(1)) == Owner(ANN, "one")
    assert ANN not in desk.subscribers
    desk.subscribers.check()


def test_a_name_is_free_while_the_one_before_is_ending() -> None:
    desk = Desk()
    desk.write(ANN, record(one=WISH))
    desk.write(ANN, record())
    desk.write(ANN, record(one=WISH))
    assert desk.subscribers.is_ending(key(1))
    assert not desk.subscribers.is_ending(key(2))
    desk.subscribers.forget(key(1))
    assert desk.subscribers.keys_of(ANN) == [key(2)]
    desk.subscribers.check()


def test_a_client_of_which_nothing_was_taken_in_is_not_kept() -> None:
    subscribers = Subscribers(US)
    subscribers.compare(ANN, record(one=WISH, lease_s=5), 0.0)
    subscribers.discard_idle(ANN)
    assert ANN not in subscribers
    assert subscribers.deadline is None
    subscribers.discard_idle(ANN)


def test_an_unknown_client_has_no_subscriptions() -> None:
    assert Subscribers(US).keys_of(ANN) == []


# ---- leases ------------------------------------------------------------------------------------------------------


def test_a_lease_runs_out_once() -> None:
    desk = Desk()
    desk.write(ANN, record(lease_s=10, one=WISH), now=5.0)
    assert desk.subscribers.deadline == 15.0
    assert desk.subscribers.expired(14.9) == []
    assert desk.subscribers.expired(15.0) == [ANN]
    assert desk.subscribers.expired(16.0) == []
    assert desk.subscribers.deadline is None


def test_a_renewal_prolongs_a_lease() -> None:
    desk = Desk()
    desk.write(ANN, record(lease_s=10, one=WISH), now=0.0)
    desk.write(ANN, record(lease_s=10, one=WISH), now=4.0)
    assert desk.subscribers.deadline == 14.0
    assert desk.subscribers.expired(10.0) == []
    assert desk.subscribers.expired(14.0) == [ANN]


def test_a_renewal_at_the_same_time_expires_once() -> None:
    desk = Desk()
    for _ in range(3):
        desk.write(ANN, record(lease_s=10, one=WISH), now=0.0)
    assert desk.subscribers.expired(10.0) == [ANN]
    assert desk.subscribers.deadline is None


@pytest.mark.parametrize("second", [0.0, 1.0])
def test_a_later_record_may_shorten_the_lease_or_end_it(second: float) -> None:
    desk = Desk()
    desk.write(ANN, record(lease_s=10, one=WISH), now=0.0)
    desk.write(ANN, record(lease_s=second, one=WISH), now=0.0)
    assert desk.subscribers.deadline == (second or None)
    assert desk.subscribers.expired(10.0) == ([ANN] if second else [])


def test_the_lease_of_a_client_that_left_expires_for_nobody() -> None:
    desk = Desk()
    desk.write(ANN, record(lease_s=10, one=WISH), now=0.0)
    desk.write(BOB, record(lease_s=20, one=WISH), now=0.0)
    desk.write(ANN, record(), now=0.0)
    desk.subscribers.forget(key(1))
    assert desk.subscribers.expired(15.0) == []
    assert desk.subscribers.deadline == 20.0


def test_thousands_of_renewals_cost_no_memory() -> None:
    desk = Desk()
    desk.write(BOB, record(lease_s=1e6, one=WISH), now=0.0)
    for second in range(20_000):
        desk.subscribers.compare(ANN, record(lease_s=1e6, one=WISH), float(second))
        desk.subscribers.discard_idle(ANN) if second % 2 else None
    assert len(desk.subscribers._leases) < 3_000
    assert desk.subscribers.expired(1e6) == [BOB]


@given(st.lists(st.tuples(st.sampled_from([ANN, BOB]), st.integers(0, 5), st.integers(0, 4)), max_size=40))
def test_leases_run_out_when_a_plain_clock_says_so(script: list[tuple[ClientId, int, int]]) -> None:
    desk, until, now = Desk(), dict[ClientId, float](), 0.0
    for client, lease_s, wait in script:
        desk.write(client, record(lease_s=lease_s, one=WISH), now)
        until.pop(client, None)
        if lease_s:
            until[client] = now + lease_s
        assert desk.subscribers.deadline == min(until.values(), default=None)
        now += wait
        over = {known for known, at in until.items() if at <= now}
        assert set(desk.subscribers.expired(now)) == over
        until = {known: at for known, at in until.items() if known not in over}


# ---- deliveries --------------------------------------------------------------------------------------------------


def test_a_plain_client_gets_the_payload_below_its_topic_once() -> None:
    desk = Desk()
    desk.write(ANN, record(one=WISH, two=WISH))
    deliveries, count = desk.subscribers.deliver([matched(publication(), 1, 2)])
    assert only_effects(deliveries) == [
        PublishLocally(
            topic="mqloom/v1/US/out/ann/a/b",
            payload=b"{}",
            qos=1,
            content_type="text/plain",
            user_properties=(("k", "v"),),
        )
    ]
    assert count == 1


@pytest.mark.parametrize(("asked", "published", "got"), [(0, 1, 0), (1, 0, 0), (1, 1, 1), (1, 2, 1)])
@pytest.mark.parametrize("format", ["plain", "frame"])
def test_the_quality_of_service_is_the_lower_of_both(format: Format, asked: int, published: int, got: int) -> None:  # noqa: A002 - the record's own word
    desk = Desk()
    desk.write(ANN, record(format, asked, one=WISH))
    (((effect, _),), _) = desk.subscribers.deliver([matched(publication(qos=published), 1)])
    assert effect.qos == got


def test_a_frame_client_gets_one_envelope_for_a_batch_with_the_names_that_asked() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH, two=WISH))
    first, second = publication(sequence=1), publication(sequence=2, qos=0)
    (((effect, _),), count) = desk.subscribers.deliver([matched(first, 2, 1), matched(second, 2)])
    assert effect.topic == layout.out(US, ANN)
    assert decode_envelope(effect.payload) == (Delivered(first, ("one", "two")), Delivered(second, ("two",)))
    assert (effect.qos, effect.retain) == (1, False)
    assert count == 2


def test_several_clients_are_each_served_their_way() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH))
    desk.write(BOB, record(one=WISH))
    deliveries, count = desk.subscribers.deliver([matched(publication(), 1, 2)])
    assert [effect.topic for effect, _ in deliveries] == ["mqloom/v1/US/out/bob/a/b", "mqloom/v1/US/out/ann"]
    assert count == 2


def test_a_changed_format_counts_from_the_next_publication() -> None:
    desk = Desk()
    desk.write(ANN, record(one=WISH))
    desk.write(ANN, record("frame", one=WISH))
    (((effect, _),), _) = desk.subscribers.deliver([matched(publication(), 1)])
    assert effect.topic == layout.out(US, ANN)


def test_what_is_ending_still_delivers_under_its_name() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH))
    desk.write(ANN, record("frame"))
    (((effect, _),), _) = desk.subscribers.deliver([matched(publication(), 1)])
    assert decode_envelope(effect.payload)[0].names == ("one",)


def test_a_changed_filter_delivers_once_while_the_old_one_is_ending() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH))
    desk.write(ANN, record("frame", one=OTHER))
    (((effect, _),), count) = desk.subscribers.deliver([matched(publication(), 1, 2)])
    assert [delivered.names for delivered in decode_envelope(effect.payload)] == [("one",)]
    assert count == 1


def test_a_standing_subscription_republishes_below_its_topic_once() -> None:
    subscribers = Subscribers(US)
    for number, into in enumerate(["mirror", "mirror", "other"]):
        subscribers.begin_standing(Standing("a/#", "", into), key(number))
    deliveries, count = subscribers.deliver([matched(publication(qos=2), 0, 1, 2)])
    assert [(effect.topic, effect.qos, effect.retain) for effect, _ in deliveries] == [
        ("mirror/a/b", 2, False),
        ("other/a/b", 2, False),
    ]
    assert count == 2
    assert not subscribers.is_ending(key(0))
    subscribers.check()


def test_nothing_matched_is_nothing_delivered() -> None:
    assert Subscribers(US).deliver([]) == ([], 0)


def test_an_envelope_of_large_publications_is_cut() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH))
    sizes = [FRAME_BYTES_TARGET // 2 - 1_000] * 5 + [PAYLOAD_BYTES_MAX, 10, 10]
    batch = [publication(payload=bytes(size), sequence=number) for number, size in enumerate(sizes)]
    duties = [Duty(FromBroker(number)) for number in range(len(batch))]
    deliveries, count = desk.subscribers.deliver(
        [matched(each, 1, duty=duty) for each, duty in zip(batch, duties, strict=True)]
    )
    contents = [decode_envelope(effect.payload) for effect, _ in deliveries]
    assert [served for _, served in deliveries] == [duties[:2], duties[2:4], duties[4:5], duties[5:6], duties[6:]]
    assert [delivered.publication for content in contents for delivered in content] == batch
    assert [len(content) for content in contents] == [2, 2, 1, 1, 2]
    assert count == len(batch)


def test_every_delivery_names_the_duties_that_it_serves() -> None:
    desk = Desk()
    desk.write(ANN, record("frame", one=WISH))
    desk.write(BOB, record(one=WISH))
    desk.subscribers.begin_standing(Standing("a/#", "", "mirror"), key(3))
    first, second = Duty(FromBroker(1)), Duty(FromBroker(2))
    batch = [
        matched(publication(sequence=1), 1, 2, 3, duty=first),
        matched(publication(sequence=2), 1, duty=second),
        matched(publication(sequence=3, qos=0), 1, 2),
    ]
    deliveries, count = desk.subscribers.deliver(batch)
    assert [(effect.topic, effect.qos, duties) for effect, duties in deliveries] == [
        ("mirror/a/b", 1, [first]),
        ("mqloom/v1/US/out/bob/a/b", 1, [first]),
        ("mqloom/v1/US/out/bob/a/b", 0, []),
        ("mqloom/v1/US/out/ann", 1, [first, second]),
    ]
    assert count == 6
    assert first.claims == second.claims == 1  # whoever publishes them claims

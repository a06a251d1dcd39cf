"""The whole node: whatever a stranger may send, it goes on for the others."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqloom.core.events import (
    AcksReceived,
    Event,
    FencePassed,
    FramesReceived,
    IntakeLost,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
    RecordReceived,
    Woke,
)
from mqloom.core.ids import ClientId, Conversation, GatewayId, SubscriptionKey
from mqloom.core.limits import (
    HOPS_MAX,
)
from mqloom.core.messages import (
    Announce,
    Control,
    Established,
    Flush,
    Flushed,
    Freeze,
    Frozen,
    Hello,
    Mark,
    Parting,
    Passed,
    Synced,
    Thaw,
    Told,
    Want,
    Withdraw,
)
from mqloom.core.publication import Incoming, Publication
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.wire import Ack, Frame, encode, encode_ack
from mqloom.gateway.links import LinkState
from mqloom.gateway.subscribers import Standing
from mqloom.lab.gate import (
    ANN,
    BOB,
    US,
    A,
    B,
    Chatty,
    Gate,
    alone,
    answers,
    delivered,
    key,
    parts_of,
    payloads,
    sent,
    with_two,
)

numbers = st.integers(0, 3) | st.integers(0, 2**63 - 1)
gateways = st.sampled_from([US, A, B, GatewayId("X")])
keys = st.builds(SubscriptionKey, gateways, st.integers(0, 2), numbers)
paths = st.lists(gateways, min_size=3, max_size=5).map(tuple)
wheres = st.sampled_from(["", "x > 1", "x = 'a'", "x > > 1", "x LIKE '%a%'", "NOT x IN (1, 2)"]) | st.text(max_size=20)
hops = st.integers(0, 64)
subjects = st.dictionaries(st.sampled_from("xy"), st.sampled_from(["a", 1, True, 2.5]))
some_wheres = st.lists(wheres, max_size=3).map(tuple)
topic_filters = st.sampled_from(["#", "a/#", "a/b", "a/#/b", "$share/a/b", "safe"]) | st.text(min_size=1, max_size=9)
plain_topics = st.text(st.characters(exclude_characters="+#\0", codec="utf-8"), min_size=1, max_size=9)
hostile_messages = st.one_of(
    st.builds(Hello, st.none() | st.builds(Conversation, st.integers(0, 2), numbers), st.booleans()),
    st.builds(Announce, keys, topic_filters, wheres),
    st.builds(Announce, keys, topic_filters, wheres),
    st.just(Synced()),
    st.builds(Withdraw, keys),
    st.builds(Established, keys, st.booleans()),
    st.builds(Flush, gateways, st.integers(0, 2), numbers),
    st.builds(Flushed, gateways, st.integers(0, 2), numbers),
    st.builds(Freeze, gateways, numbers, paths, st.integers(0, 64)),
    st.builds(Frozen, gateways, numbers, st.sampled_from(["", "no"])),
    st.builds(Thaw, gateways, numbers, st.integers(0, 64)),
    st.builds(Passed, gateways, numbers, numbers, paths, st.integers(0, 63)),
    st.builds(Parting, numbers),
    st.builds(Mark, gateways, st.integers(0, 2), numbers),
    st.builds(Told, st.binary(max_size=9)),
    st.builds(Control, gateways, st.integers(0, 2), numbers, st.integers(0, 64), st.just("chatty"), st.binary()),
    st.builds(Control, gateways, st.integers(0, 2), numbers, hops, st.just("chatty"), st.binary(), subjects, hops),
    st.builds(Want, gateways, st.integers(0, 2), numbers, st.sampled_from(["chatty", "pie"]), some_wheres, hops, hops),
    st.builds(
        Publication,
        gateways,
        st.integers(0, 2),
        numbers,
        numbers,
        st.integers(0, HOPS_MAX),
        plain_topics,
        st.binary(max_size=9) | st.sampled_from([b'{"x": 1}', b"[]"]),
        st.integers(0, 2),
        packet=st.integers(0, 2),
        repeat=st.booleans(),
    ),
)
frames = st.builds(
    Frame,
    st.sampled_from([A, A, A, B]),
    st.builds(Conversation, st.integers(1, 2), st.integers(0, 3)),
    st.integers(0, 6),
    st.lists(hostile_messages, max_size=4).map(tuple),
)
strangers = st.sampled_from([A, GatewayId("X"), GatewayId(""), GatewayId("\0#+/")])
bytes_on_a_link = st.binary(max_size=40) | st.binary(max_size=40).map(lambda data: b"\x01" + data)
any_frames = st.builds(
    FramesReceived,
    sender=strangers,
    frames=st.lists(bytes_on_a_link | frames.map(encode), min_size=1, max_size=3).map(tuple),
    urgent=st.booleans(),
)
any_records = st.builds(
    RecordReceived,
    client=st.sampled_from([BOB, ClientId(""), ClientId("a/#+\0")]),
    data=st.binary(max_size=40)
    | st.builds(
        Record,
        subscriptions=st.dictionaries(
            st.text(min_size=1, max_size=3), st.builds(Wish, topics=topic_filters, where=wheres), max_size=4
        ),
        format=st.sampled_from(["plain", "frame"]),
        lease_s=st.sampled_from([0, 1e-9, 1, 1e6]),
    ).map(encode_record),
)
packets = st.integers(1, 3)
any_publications = st.builds(
    PublishesReceived,
    publications=st.lists(
        st.builds(Incoming, topic=plain_topics, payload=st.binary(max_size=40), retain=st.booleans())
        | st.builds(
            Incoming,
            topic=plain_topics,
            payload=st.binary(max_size=1),
            qos=st.just(1),
            receipt=st.just(1),
            packet=packets,
            again=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)
any_links = st.builds(LinkConnected, neighbour=st.just(A)) | st.builds(LinkLost, neighbour=st.just(A))
any_acks = st.builds(
    AcksReceived,
    neighbour=st.just(A),
    acks=st.lists(
        bytes_on_a_link
        | st.builds(
            Ack, st.sampled_from([A, A, B]), st.builds(Conversation, st.just(1), numbers), numbers, numbers
        ).map(encode_ack),
        max_size=3,
    ).map(tuple),
)
any_parked = st.builds(
    ParkedReceived,
    neighbour=st.sampled_from([A, B]),
    messages=st.lists(st.builds(Parked, data=bytes_on_a_link | frames.map(encode), receipt=st.just(1)), max_size=3).map(
        tuple
    ),
)
any_answers = st.one_of(
    st.builds(LocallyPublished, numbers=st.lists(numbers, max_size=3).map(tuple)),
    st.builds(FencePassed, number=numbers),
    st.just(IntakeLost()),
)
any_events = st.one_of(
    any_frames, any_frames, any_records, any_publications, any_links, any_acks, any_parked, any_answers, st.just(Woke())
)


def with_receipts(event: Event, gate: Gate) -> Event:
    """Number what a broker hands over, as a driver does."""
    if isinstance(event, PublishesReceived):
        return PublishesReceived(
            publications=tuple(
                replace(each, receipt=next(gate.receipts)) if each.qos else each for each in event.publications
            )
        )
    if isinstance(event, ParkedReceived):
        messages = tuple(replace(each, receipt=next(gate.receipts)) for each in event.messages)
        return ParkedReceived(neighbour=event.neighbour, messages=messages)
    return event


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(any_events, st.floats(0, 6)), max_size=25))
def test_whatever_a_neighbour_a_client_or_a_stranger_sends_the_node_goes_on_for_the_others(
    script: list[tuple[Event, float]],
) -> None:
    gate = Gate(parts_of(A, B, agents=[Chatty()], standing=[Standing("a/#", "", "mirror")])).up(A, B)
    gate.obliging = {B}
    gate.record(ANN, {"mine": ("safe", "")})
    gate.hear(B, Announce(key(B, 500), "safe", ""))
    for event, pause in script:
        gate.now += pause
        gate.handle(with_receipts(event, gate))
    effects = gate.publish(b"still here", topic="safe")
    assert [each.names for each in delivered(effects)] == [("mine",)]
    (forwarded,) = [message for message in sent(effects, B) if isinstance(message, Publication)]
    assert forwarded.id == (US, 1, gate.node.counters.total("publications_in") - 1)
    assert (forwarded.hops, forwarded.topic, forwarded.payload, forwarded.qos) == (1, "safe", b"still here", 1)


@settings(deadline=None)
@given(st.lists(bytes_on_a_link, min_size=1, max_size=5), st.booleans(), st.sampled_from([A, GatewayId("X")]))
def test_random_bytes_on_a_link_are_each_counted(data: list[bytes], urgent: bool, sender: GatewayId) -> None:
    gate = with_two()
    gate.handle(FramesReceived(sender=sender, frames=tuple(data), urgent=urgent))
    total = gate.node.counters.total
    assert total("frames_refused") == len(data)
    assert gate.node.link_states() == {A: LinkState.UP, B: LinkState.UP}


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=60))
def test_random_bytes_as_a_record_are_counted_and_answered(data: bytes) -> None:
    gate = with_two()
    effects = gate.handle(RecordReceived(client=ANN, data=data))
    assert gate.counted("subscriptions_refused") == {"record": 1}
    assert [answer.answer for answer in answers(effects)] == ["refused"]


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_as_a_payload_are_decoded_or_counted(data: bytes) -> None:
    gate = alone()
    gate.record(ANN, {"all": ("a/#", "")})
    assert payloads(gate.publish(data)) == [data]
    assert gate.node.counters.total("payloads_undecodable") <= 1

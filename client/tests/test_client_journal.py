"""A client's record at one broker: when it is written, what it says, and what is read there before."""

from mqloom.client.journal import NEVER, Journal
from mqloom.client.journey import Journey, record_of
from mqloom.client.limits import READ_HELD_S, READ_HELD_S_MAX, READ_S
from mqloom.client.wishes import Wishes
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Wish, decode_record

ME, EDGE = ClientId("me"), GatewayId("EDGE")
HOT = Wish(topics="stocks/#")


def journal(**wishes: Wish) -> Journal:
    return Journal(ME, Wishes(wishes, lasting=True), lease_s=60.0, token="secret")


def test_it_is_renewed_at_a_third_of_its_lease_and_one_that_is_deleted_is_not() -> None:
    written = journal(hot=HOT)
    publish = written.write(EDGE, 5.0)
    assert (publish.topic, publish.qos, publish.retain) == (layout.record(EDGE, ME), 1, True)
    assert decode_record(publish.payload).subscriptions == {"hot": HOT}
    assert written.write_at == 25.0
    nothing = journal()
    assert nothing.write(EDGE, 5.0).payload == b""
    assert nothing.write_at == NEVER


def test_one_that_leaves_writes_even_if_it_wants_nothing_for_it_must_be_answered() -> None:
    leaving = journal()
    leaving.leave("B")
    record = decode_record(leaving.write(EDGE, 0.0).payload)
    assert (record.leaving_to, record.subscriptions) == ("B", {})


def test_a_hurry_never_puts_off_what_is_due_sooner_and_keeps_its_distance_to_the_last() -> None:
    written = journal(hot=HOT)
    written.write(EDGE, 10.0)
    written.hurry(10.5, 1.0)
    assert written.write_at == 11.0
    written.hurry(10.6, 5.0)
    assert written.write_at == 11.0
    written.hurry(12.0, 1.0)
    assert written.write_at == 11.0


def test_what_was_there_counts_as_it_was_when_our_own_probe_came() -> None:
    reading = journal()
    reading.reads = True
    subscribe, probe = reading.begin_reading(EDGE, 1.0)
    assert subscribe.topic == probe.topic == layout.record(EDGE, ME)
    assert reading.read_by == 1.0 + READ_S
    other = record_of({"hot": HOT}, Journey(incarnation="earlier", moved_to=""), qos=1, lease_s=60.0, token="")
    assert not reading.hear(b"")
    assert not reading.hear(other)
    assert reading.hear(probe.payload)  # type: ignore[union-attr]
    journey, wishes = reading.end_reading(is_certain=True)
    assert journey == Journey(incarnation="earlier")
    assert wishes == {"hot": HOT}
    assert not reading.hear(other)  # later it is our own
    assert not reading.reads
    assert not reading.read_by


def test_a_probe_of_another_life_is_not_ours_and_no_record_either() -> None:
    reading, other = journal(), journal()
    reading.journey, other.journey = Journey(incarnation="two"), Journey(incarnation="one")
    reading.reads = True
    reading.begin_reading(EDGE, 0.0)
    assert not reading.hear(other.probe(EDGE, 0.0).payload)
    assert reading.end_reading(is_certain=True) == (Journey(incarnation="one"), {})


def test_it_is_asked_for_as_often_as_is_said_and_no_more() -> None:
    reading = journal()
    reading.tries_max = 2
    reading.begin_reading(EDGE, 0.0)
    assert reading.may_probe(READ_S)
    reading.probe(EDGE, READ_S)
    reading.is_behind = True  # but it is not patient
    assert not reading.may_probe(2 * READ_S)


def test_one_that_is_patient_asks_on_as_long_as_publications_come_and_no_longer_than_is_said() -> None:
    reading = journal()
    reading.tries_max, reading.is_patient, reading.is_behind = 1, True, True
    reading.reads = True
    reading.begin_reading(EDGE, 0.0)
    assert (reading.read_by, reading.is_late) == (READ_S, False)
    assert reading.may_probe(READ_S)
    reading.probe(EDGE, READ_S)
    assert (reading.read_by, reading.is_late) == (READ_S + READ_HELD_S, True)
    assert not reading.may_probe(READ_S + READ_HELD_S)  # nothing has come since
    reading.is_behind = True
    assert reading.may_probe(READ_HELD_S_MAX - 1.0)
    assert not reading.may_probe(READ_HELD_S_MAX)
    reading.probe(EDGE, READ_S + READ_HELD_S)
    assert reading.is_late
    reading.end_reading(is_certain=True)
    assert not reading.is_late


def test_a_record_may_stand_from_when_it_was_written_or_read_until_it_is_said_that_it_does_not() -> None:
    written = journal()
    written.write(EDGE, 0.0)
    assert not written.may_stand
    written.wishes.add("hot", HOT)
    written.write(EDGE, 1.0)
    written.wishes.forget("hot")
    written.write(EDGE, 2.0)  # and that may be lost
    assert written.may_stand
    reading = journal()
    reading.may_stand = True
    reading.end_reading(is_certain=False)
    assert reading.may_stand
    reading.end_reading(is_certain=True)
    assert not reading.may_stand


def test_every_word_shows_the_token_for_admission_asks_for_it() -> None:
    written = journal(hot=HOT)
    written.leave("B")
    for publish in (written.write(EDGE, 0.0), written.point(EDGE), written.probe(EDGE, 0.0)):
        assert decode_record(publish.payload).token == "secret"
    assert decode_record(written.point(EDGE).payload).moved_to == "B"

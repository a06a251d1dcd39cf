"""The mirror of clients' records: kept where it is needed, written when it changes, bounded."""

import pytest

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import MIRROR_EVERY_S
from mqloom.core.mirrors import chunk_of, decode_chunk
from mqloom.gateway.journal import Journal
from mqloom.gateway.mirror import Mirror

US = GatewayId("US")
ME = ClientId("me")


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def mirror(counters: Counters) -> Mirror:
    mirror = Mirror(US, Journal(counters))
    mirror.begin()
    return mirror


def test_where_the_broker_needs_none_nothing_is_written_or_remembered(counters: Counters) -> None:
    mirror = Mirror(US, Journal(counters))
    mirror.note(ME, b"wish")
    assert mirror.drain(0.0) == []
    assert mirror.deadline is None


def test_a_record_is_written_retained_into_the_chunk_of_its_client(mirror: Mirror) -> None:
    mirror.note(ME, b"wish")
    (effect,) = mirror.drain(0.0)
    assert (effect.topic, effect.qos, effect.retain) == (layout.mirror(US, chunk_of(ME)), 1, True)
    assert decode_chunk(effect.payload) == {ME: b"wish"}


def test_a_renewed_record_changes_nothing(mirror: Mirror) -> None:
    mirror.note(ME, b"wish")
    mirror.drain(0.0)
    mirror.note(ME, b"wish")
    assert mirror.drain(10.0) == []


def test_a_deleted_record_is_taken_out_and_an_empty_chunk_is_deleted(mirror: Mirror) -> None:
    mirror.note(ME, b"wish")
    mirror.drain(0.0)
    mirror.note(ME, b"")
    (effect,) = mirror.drain(10.0)
    assert effect.payload == b""
    mirror.note(ME, b"")
    assert mirror.drain(20.0) == []


def test_changes_soon_after_a_write_wait_for_the_next(mirror: Mirror) -> None:
    mirror.note(ME, b"one")
    mirror.drain(5.0)
    mirror.note(ME, b"two")
    mirror.note(ME, b"three")
    assert mirror.drain(5.1) == []
    assert mirror.deadline == 5.0 + MIRROR_EVERY_S
    (effect,) = mirror.drain(5.0 + MIRROR_EVERY_S)
    assert decode_chunk(effect.payload) == {ME: b"three"}


def test_a_record_that_does_not_fit_is_counted_and_the_others_stay(
    mirror: Mirror, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.mirror.MIRROR_CHUNK_BYTES_MAX", 100)
    other = next(name for name in (ClientId(f"c{n}") for n in range(10_000)) if chunk_of(name) == chunk_of(ME))
    mirror.note(other, b"small")
    mirror.note(ME, b"x" * 90)
    (effect,) = mirror.drain(0.0)
    assert decode_chunk(effect.payload) == {other: b"small"}
    assert counters.value("mirror_refused", "too large") == 1
    mirror.note(other, b"")
    mirror.note(ME, b"x" * 80)  # now there is room
    (effect,) = mirror.drain(10.0)
    assert decode_chunk(effect.payload) == {ME: b"x" * 80}

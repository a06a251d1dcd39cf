"""The mirror of clients' records, as it lies on a broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId
from mqloom.core.limits import MIRROR_CHUNK_BYTES_MAX, MIRROR_CHUNKS
from mqloom.core.mirrors import chunk_of, decode_chunk, encode_chunk

clients = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(ClientId)


@given(st.dictionaries(clients, st.binary(max_size=50), max_size=20))
def test_what_is_written_is_read_back(records: dict[ClientId, bytes]) -> None:
    assert decode_chunk(encode_chunk(records)) == records


@given(clients)
def test_every_client_has_its_chunk(client: ClientId) -> None:
    assert 0 <= chunk_of(client) < MIRROR_CHUNKS


def test_clients_are_spread_over_all_chunks() -> None:
    assert {chunk_of(ClientId(f"client-{number}")) for number in range(1_000)} == set(range(MIRROR_CHUNKS))


def test_nothing_is_no_bytes_which_deletes_it_on_the_broker() -> None:
    assert encode_chunk({}) == b""


@pytest.mark.parametrize("data", [b"?", b"\x81", b"\x93", b"x" * (2 * MIRROR_CHUNK_BYTES_MAX + 1)])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_chunk(data)

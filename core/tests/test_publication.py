"""A publication, and the one that goes out on a link."""

import msgspec
import pytest

from mqloom.core.ids import GatewayId, PublicationId
from mqloom.core.publication import Incoming, Publication

ORIGINAL = Publication(GatewayId("A"), 5, 9, 3, 2, "stocks/a", b"payload", 1, True, "text/csv", (("k", "v"),))


def test_its_id_is_where_and_when_it_entered() -> None:
    assert ORIGINAL.id == PublicationId(GatewayId("A"), 5, 9)


def test_one_hop_further_only_the_hops_differ() -> None:
    further = ORIGINAL.one_hop_further()
    assert further == msgspec.structs.replace(ORIGINAL, hops=3)
    assert further.id == ORIGINAL.id
    assert ORIGINAL.hops == 2


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ORIGINAL.hops = 3  # type: ignore[misc]


def test_what_a_client_sends_needs_no_more_than_a_topic_and_a_payload() -> None:
    incoming = Incoming(topic="a", payload=b"")
    assert (incoming.qos, incoming.retain, incoming.content_type, incoming.user_properties) == (0, False, "", ())

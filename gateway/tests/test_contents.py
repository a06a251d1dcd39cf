"""From payloads to attributes, whatever a codec does."""

from collections.abc import Callable, Mapping

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.contents import Contents
from mqloom.gateway.interfaces import Codec, Content
from mqloom.gateway.journal import Journal

Decode = Callable[[Publication], Mapping[str, object]]


def publication(topic: str, payload: bytes = b"7") -> Publication:
    return Publication(GatewayId("A"), 1, 0, 0, 0, topic, payload)


def number(publication: Publication) -> Mapping[str, object]:
    return {"number": int(publication.payload)}


def length(publication: Publication) -> Mapping[str, object]:
    return {"length": len(publication.payload)}


def broken(publication: Publication) -> Mapping[str, object]:
    raise KeyError("forgotten")


def nonsense(publication: Publication) -> Mapping[str, object]:
    return 7  # type: ignore[return-value]


def test_the_first_codec_whose_topics_match_decodes() -> None:
    contents = Contents([("a/#", Codec("number", number)), ("#", Codec("length", length))], Journal(Counters()))
    assert contents.decode([publication("a/b"), publication("c")]) == [
        Content("a/b", {"number": 7}),
        Content("c", {"length": 1}),
    ]


def test_where_no_codec_is_meant_there_are_no_attributes() -> None:
    counters = Counters()
    contents = Contents([("a/#", Codec("number", number))], Journal(counters))
    assert contents.decode([publication("c")]) == [Content("c", None)]
    assert counters.snapshot() == {}


def test_a_payload_that_cannot_be_read_is_counted_and_the_others_are_read() -> None:
    journal = Journal(Counters())
    contents = Contents([("#", Codec("number", number)), ("#", Codec("length", length))], journal)
    decoded = contents.decode([publication("a", b"seven"), publication("b")])
    assert decoded == [Content("a", None), Content("b", {"number": 7})]
    assert journal.counters.snapshot() == {"payloads_undecodable.number": 1}
    assert len(journal.drain()) == 1


@pytest.mark.parametrize("decode", [broken, nonsense])
def test_a_codec_that_fails_is_counted_as_a_plugins_failure_too(
    decode: Callable[[Publication], Mapping[str, object]],
) -> None:
    journal = Journal(Counters())
    contents = Contents([("#", Codec("mine", decode))], journal)
    assert contents.decode([publication("a")]) == [Content("a", None)]
    assert journal.counters.snapshot() == {"payloads_undecodable.mine": 1, "plugin_failures.mine": 1}


def test_the_attributes_are_the_nodes_own() -> None:
    shared = {"x": 1}
    contents = Contents([("#", Codec("shared", lambda _: shared))], Journal(Counters()))
    (content,) = contents.decode([publication("a")])
    shared["x"] = 2
    assert content.attributes == {"x": 1}

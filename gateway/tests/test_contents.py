"""From payloads to attributes, whatever a codec does."""

from collections.abc import Callable, Collection, Mapping

import pytest

from mqloom.core.counters import Counters
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.contents import Contents
from mqloom.gateway.interfaces import Codec, CodecChoice, Content
from mqloom.gateway.journal import Journal
from mqloom.gateway.mentions import MENTIONED_MAX, Mentions

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


def built(*choices: CodecChoice, journal: Journal | None = None, mentions: Mentions | None = None) -> Contents:
    return Contents(choices, journal or Journal(Counters()), mentions or Mentions())


def test_the_first_codec_whose_topics_match_decodes() -> None:
    contents = built(("a/#", Codec("number", number)), ("#", Codec("length", length)))
    assert contents.decode([publication("a/b"), publication("c")]) == [
        Content("a/b", {"number": 7}),
        Content("c", {"length": 1}),
    ]


def test_where_no_codec_is_meant_there_are_no_attributes() -> None:
    journal = Journal(Counters())
    contents = built(("a/#", Codec("number", number)), journal=journal)
    assert contents.decode([publication("c")]) == [Content("c", None)]
    assert journal.counters.snapshot() == {}


def test_a_payload_that_cannot_be_read_is_counted_and_the_others_are_read() -> None:
    journal = Journal(Counters())
    contents = built(("#", Codec("number", number)), ("#", Codec("length", length)), journal=journal)
    decoded = contents.decode([publication("a", b"seven"), publication("b")])
    assert decoded == [Content("a", None), Content("b", {"number": 7})]
    assert journal.counters.snapshot() == {"payloads_undecodable.number": 1}
    assert len(journal.drain()) == 1


@pytest.mark.parametrize("decode", [broken, nonsense])
def test_a_codec_that_fails_is_counted_as_a_plugins_failure_too(
    decode: Callable[[Publication], Mapping[str, object]],
) -> None:
    journal = Journal(Counters())
    contents = built(("#", Codec("mine", decode)), journal=journal)
    assert contents.decode([publication("a")]) == [Content("a", None)]
    assert journal.counters.snapshot() == {"payloads_undecodable.mine": 1, "plugin_failures.mine": 1}


def test_the_attributes_are_the_nodes_own() -> None:
    shared = {"x": 1}
    contents = built(("#", Codec("shared", lambda _: shared)))
    (content,) = contents.decode([publication("a")])
    shared["x"] = 2
    assert content.attributes == {"x": 1}


# ---- several codecs ----------------------------------------------------------------------------------------------


def topic(publication: Publication) -> Mapping[str, object]:
    if "/" not in publication.topic:
        raise ValueError("it has one level")
    return {"first": publication.topic.partition("/")[0], "number": "from the topic"}


def test_the_attributes_of_several_codecs_are_merged_and_of_one_name_the_first_counts() -> None:
    contents = built(("#", Codec("topic", topic), Codec("number", number), Codec("length", length)))
    assert contents.decode([publication("a/b")]) == [
        Content("a/b", {"first": "a", "number": "from the topic", "length": 1})
    ]


def test_what_one_of_several_codecs_cannot_read_is_counted_and_the_others_are_read() -> None:
    journal = Journal(Counters())
    contents = built(("#", Codec("topic", topic), Codec("number", number), Codec("mine", broken)), journal=journal)
    decoded = contents.decode([publication("a/b", b"seven"), publication("c")])
    assert decoded == [Content("a/b", {"first": "a", "number": "from the topic"}), Content("c", {"number": 7})]
    assert journal.counters.snapshot() == {
        "payloads_undecodable.topic": 1,
        "payloads_undecodable.number": 1,
        "payloads_undecodable.mine": 2,
        "plugin_failures.mine": 2,
    }


def test_what_none_of_several_codecs_can_read_has_no_attributes() -> None:
    contents = built(("#", Codec("topic", topic), Codec("number", number)))
    assert contents.decode([publication("c", b"seven")]) == [Content("c", None)]


# ---- leaving out what nobody mentions ----------------------------------------------------------------------------


class Sparing:
    """A codec that gives exactly what it is asked for, and remembers what that was."""

    def __init__(self) -> None:
        self.asked: list[Collection[str]] = []

    def codec(self) -> Codec:
        return Codec("sparing", lambda _: {"everything": 1}, self.decode_only)

    def decode_only(self, names: Collection[str]) -> Decode:
        self.asked.append(names)
        return lambda _: dict.fromkeys(sorted(names))


def test_a_codec_is_told_what_the_filters_mention_whenever_that_changes() -> None:
    sparing, mentions = Sparing(), Mentions()
    contents = built(("#", Codec("length", length), sparing.codec()), mentions=mentions)
    where = Filter.parse("a.b > 1 AND c = 2")
    seen = []
    for change in (mentions.add, mentions.add, mentions.remove, mentions.remove):
        change(where)
        seen += [content.attributes for content in contents.decode([publication("x"), publication("y")])]
    everything = {"length": 1, "a": None, "a.b": None, "c": None}
    assert seen == [everything] * 6 + [{"length": 1}] * 2
    assert sparing.asked == [{"a", "a.b", "c"}, set()]


def test_past_the_bound_everything_is_decoded() -> None:
    sparing, mentions = Sparing(), Mentions()
    contents = built(("#", sparing.codec()), mentions=mentions)
    for index in range(MENTIONED_MAX + 1):
        mentions.add(Filter.parse(f"x{index} = 1"))
    assert contents.decode([publication("x")]) == [Content("x", {"everything": 1})]
    mentions.remove(Filter.parse("x0 = 1"))
    (content,) = contents.decode([publication("x")])
    assert content.attributes is not None
    assert len(content.attributes) == MENTIONED_MAX


def test_a_codec_that_fails_to_spare_is_counted_and_decodes_everything() -> None:
    def spoiled(names: Collection[str]) -> Decode:
        raise KeyError("forgotten")

    journal = Journal(Counters())
    contents = built(("#", Codec("mine", length, spoiled)), journal=journal)
    assert contents.decode([publication("a")]) == [Content("a", {"length": 1})]
    assert journal.counters.snapshot() == {"plugin_failures.mine": 1}

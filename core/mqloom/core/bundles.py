"""Publications that stand together in a frame, written as one: what they have in common is said once.

A publication's identity, marks and flags take about 37 bytes, a quarter of what small payloads have. Next to each other
there are mostly publications of one origin and epoch that have come equally far. So these three, and the first of their
sequences, are written once for all, and of each only what is its own: about 13 bytes. A publication with something
unusual about it, such as properties, is written in full. Only `wire` knows of this: whoever reads a frame gets
publications.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from mqloom.core.ids import GatewayName, Number
from mqloom.core.limits import FRAME_MESSAGES_MAX, HOPS_MAX
from mqloom.core.messages import Message
from mqloom.core.publication import PayloadBytes, PlainTopicText, Publication

NUMBER_MAX: Final = 2**63 - 1

_Difference = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class Bundled(Struct, frozen=True, array_like=True, gc=False):
    """What is one publication's own: how far it is behind the first, and its origin's mark behind it."""

    behind_first: _Difference
    mark_behind: _Difference
    topic: PlainTopicText
    payload: PayloadBytes
    qos: Annotated[int, Meta(ge=0, le=2)]
    packet: Annotated[int, Meta(ge=0, le=65_535)]


class Bundle(Struct, frozen=True, array_like=True, tag=17, gc=False):
    """Publications of one origin and epoch that have crossed equally many links, in order."""

    origin: GatewayName
    epoch: Number
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    first: Number
    publications: Annotated[tuple[Bundled, ...], Meta(min_length=1, max_length=FRAME_MESSAGES_MAX)]


def bundle(messages: Sequence[Message]) -> Iterator[Message | Bundle]:
    """Yield the messages in their order, with publications next to each other in bundles where that can be."""
    head: Publication | None = None
    gathered: list[Bundled] = []
    for message in messages:
        if not isinstance(message, Publication) or not _is_usual(message):
            if head is not None:
                yield _bundle(head, gathered)
                head = None
            yield message
            continue
        if head is None or not _go_together(head, message):
            if head is not None:
                yield _bundle(head, gathered)
            head, gathered = message, []
        sequence = message.sequence
        gathered.append(
            Bundled(
                sequence - head.sequence,
                sequence - message.low_water,
                message.topic,
                message.payload,
                message.qos,
                message.packet,
            )
        )
    if head is not None:
        yield _bundle(head, gathered)


def unbundle(bundle: Bundle) -> Iterator[Publication]:
    """Yield the publications; raises ValueError if there can be none with such numbers."""
    origin, epoch, hops, first = bundle.origin, bundle.epoch, bundle.hops, bundle.first
    for each in bundle.publications:
        sequence = first + each.behind_first
        low_water = sequence - each.mark_behind
        if not (0 <= sequence <= NUMBER_MAX and 0 <= low_water <= NUMBER_MAX):
            raise ValueError(f"a bundle with the sequence {sequence} and the mark {low_water}")
        yield Publication(
            origin, epoch, sequence, low_water, hops, each.topic, each.payload, each.qos, packet=each.packet
        )


def _bundle(head: Publication, gathered: Sequence[Bundled]) -> Bundle:
    return Bundle(head.origin, head.epoch, head.hops, head.sequence, tuple(gathered))


def _is_usual(publication: Publication) -> bool:
    return not (publication.retain or publication.content_type or publication.user_properties or publication.repeat)


def _go_together(one: Publication, other: Publication) -> bool:
    return one.epoch == other.epoch and one.hops == other.hops and one.origin == other.origin

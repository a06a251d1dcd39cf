"""Publications that stand together in a frame, written as one: what they have in common is said once.

A publication's identity, marks and flags take about 37 bytes, a quarter of what small payloads have. Next to each other
there are mostly publications of one origin and epoch that have come equally far. So these three, and the numbers of the
first of them, are written once for all, and of each how far its own are ahead of those: about 10 bytes. Packet ids grow
with sequences, as a rule, so that what is written of them is how far they do not. The origin is not written where it is
the frame's sender, and an epoch, a time, is written as the difference to that of the frame's conversation. A
publication with something unusual about it, such as properties, is written in full. Only `wire` knows of this: whoever
reads a frame gets publications.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from mqloom.core.ids import GatewayId
from mqloom.core.limits import FRAME_MESSAGES_MAX, HOPS_MAX, ID_LENGTH_MAX
from mqloom.core.messages import Message
from mqloom.core.publication import PayloadBytes, PlainTopicText, Publication

NUMBER_MAX: Final = 2**63 - 1
PACKET_MAX: Final = 65_535

AHEAD_MAX: Final = 2**32
"""How far sequences in one bundle are apart."""

_Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
_Difference = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class Bundled(Struct, frozen=True, array_like=True, gc=False):
    """What is one publication's own: how far it is ahead of the first, and its mark and packet id of the expected."""

    ahead: Annotated[int, Meta(ge=-AHEAD_MAX, le=AHEAD_MAX)]
    mark_ahead: _Difference
    packet_ahead: _Difference
    topic: PlainTopicText
    payload: PayloadBytes
    qos: Annotated[int, Meta(ge=0, le=2)]


class Bundle(Struct, frozen=True, array_like=True, tag=17, gc=False):
    """Publications of one origin and epoch that have crossed equally many links, in order."""

    origin: Annotated[GatewayId, Meta(max_length=ID_LENGTH_MAX)]
    """Empty: the sender of the frame."""
    epoch_behind: _Difference
    """How far its epoch is behind that of the frame's conversation."""
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    first: _Number
    mark_behind: _Difference
    packet: Annotated[int, Meta(ge=0, le=PACKET_MAX)]
    publications: Annotated[tuple[Bundled, ...], Meta(min_length=1, max_length=FRAME_MESSAGES_MAX)]


def bundle(messages: Sequence[Message], sender: GatewayId, epoch: int) -> Iterator[Message | Bundle]:
    """Yield a frame's messages in their order, with publications next to each other in bundles where that can be."""
    head: Publication | None = None
    gathered: list[Bundled] = []
    for message in messages:
        if not isinstance(message, Publication) or not _is_usual(message):
            if head is not None:
                yield _bundle(head, gathered, sender, epoch)
                head = None
            yield message
            continue
        if head is None or not _go_together(head, message):
            if head is not None:
                yield _bundle(head, gathered, sender, epoch)
            head, gathered = message, []
        ahead = message.sequence - head.sequence
        gathered.append(
            Bundled(
                ahead,
                message.low_water - head.low_water,
                message.packet - (head.packet + ahead if head.packet else 0),
                message.topic,
                message.payload,
                message.qos,
            )
        )
    if head is not None:
        yield _bundle(head, gathered, sender, epoch)


def unbundle(bundle: Bundle, sender: GatewayId, epoch: int) -> Iterator[Publication]:
    """Yield the publications of a frame's bundle; raises ValueError if there can be none with such numbers."""
    origin, epoch, hops = bundle.origin or sender, epoch - bundle.epoch_behind, bundle.hops
    first, first_mark, first_packet = bundle.first, bundle.first - bundle.mark_behind, bundle.packet
    if not 0 <= epoch <= NUMBER_MAX:
        raise ValueError(f"a bundle with the epoch {epoch}")
    for each in bundle.publications:
        sequence = first + each.ahead
        low_water = first_mark + each.mark_ahead
        packet = (first_packet + each.ahead if first_packet else 0) + each.packet_ahead
        if not (0 <= sequence <= NUMBER_MAX and 0 <= low_water <= NUMBER_MAX and 0 <= packet <= PACKET_MAX):
            raise ValueError(f"a bundle with the sequence {sequence}, the mark {low_water} and the packet id {packet}")
        yield Publication(origin, epoch, sequence, low_water, hops, each.topic, each.payload, each.qos, packet=packet)


def _bundle(head: Publication, gathered: Sequence[Bundled], sender: GatewayId, epoch: int) -> Bundle:
    return Bundle(
        GatewayId("") if head.origin == sender else head.origin,
        epoch - head.epoch,
        head.hops,
        head.sequence,
        head.sequence - head.low_water,
        head.packet,
        tuple(gathered),
    )


def _is_usual(publication: Publication) -> bool:
    return not (publication.retain or publication.content_type or publication.user_properties or publication.repeat)


def _go_together(one: Publication, other: Publication) -> bool:
    is_near = -AHEAD_MAX <= other.sequence - one.sequence <= AHEAD_MAX
    return is_near and one.epoch == other.epoch and one.hops == other.hops and one.origin == other.origin

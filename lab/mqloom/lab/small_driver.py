"""What the driver of a side does, as functions: a node's effects become queues, and what is first in one an event."""

from collections.abc import Sequence

from mqloom.core import layout
from mqloom.core.effects import (
    Acknowledge,
    AcknowledgeParked,
    CloseLink,
    ClosePark,
    Effect,
    OpenLink,
    OpenPark,
    PublishFence,
    PublishLocally,
    ReleaseIntake,
    SendAck,
    SendFrame,
)
from mqloom.core.events import (
    AcksReceived,
    Event,
    FencePassed,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
)
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Incoming
from mqloom.lab.small_side import (
    CONNECTION,
    NO_PARK,
    NOWHERE,
    PLACE,
    Names,
    Outward,
    Park,
    Publish,
    Side,
    Unread,
    discard_park,
    open_park,
    read_acknowledgements,
    read_park,
    read_publishes,
)


def carry_out(side: Side, names: Names, effects: Sequence[Effect]) -> tuple[Side, list[Outward]]:
    """Do what a node asks for; a waking is looked up in the store instead."""
    outward: list[Outward] = []
    for effect in effects:
        match effect:
            case SendFrame():
                outward.append(Outward("frame", effect.neighbour, effect.frame))
            case SendAck():
                outward.append(Outward("ack", effect.neighbour, effect.ack))
            case PublishLocally(number=number) if number:
                publish = Publish(number, effect.topic, effect.payload, _kept_by(side, names, effect.topic))
                side = side._replace(publishes=(*side.publishes, publish))
            case OpenLink() | CloseLink():
                index = names.neighbours.index(effect.neighbour)
                is_open = isinstance(effect, OpenLink)
                side = open_park(side, index) if is_open else discard_park(side, index)
                outward.append(Outward("open" if is_open else "close", effect.neighbour, b""))
            case Acknowledge():
                current = [receipt for receipt in effect.receipts if receipt // CONNECTION == side.connection]
                unread = tuple(Unread(receipt) for receipt in current)
                side = side._replace(unread=side.unread + unread)
            case PublishFence():
                fence = Unread(fence=effect.number, behind=len(side.handing))
                side = side._replace(unread=(*side.unread, fence))
            case ReleaseIntake():
                side = side._replace(is_open=True)
            case OpenPark() | ClosePark() | AcknowledgeParked():
                index = names.neighbours.index(effect.neighbour)
                parks_ = list(side.parks)
                parks_[index] = _change_park(parks_[index], effect)
                side = side._replace(parks=tuple(parks_))
    return side, outward


def _kept_by(side: Side, names: Names, topic: str) -> int:
    """Return what becomes of a message on our own broker: see `Publish.park`."""
    if topic == layout.place(names.gateway):
        return PLACE
    for index, each in enumerate(names.neighbours):
        if topic == layout.park(names.gateway, each):
            return index if side.parks[index].is_there else NOWHERE
    return NO_PARK


def _change_park(park: Park, effect: OpenPark | ClosePark | AcknowledgeParked) -> Park:
    if isinstance(effect, AcknowledgeParked):
        receipts = [receipt for receipt in effect.receipts if receipt // CONNECTION == park.openings]
        return park._replace(unread=park.unread + len(receipts)) if park.is_open else park
    park = read_park(park, park.unread)
    if isinstance(effect, OpenPark):
        return park._replace(openings=park.openings + 1, is_open=True, handed=0, settled=0)
    return park._replace(is_open=False, handed=0, settled=0)


def hand_over(side: Side, names: Names) -> tuple[Side, Event]:
    """Hand over the next publication."""
    handed, *rest = side.handing
    topic, payload = names.payloads[handed.publication]
    incoming = Incoming(
        topic=topic,
        payload=payload,
        qos=1,
        receipt=side.connection * CONNECTION + handed.packet,
        packet=handed.packet,
        again=handed.again,
    )
    unread = tuple(each._replace(behind=max(0, each.behind - 1)) for each in side.unread)
    return side._replace(handing=tuple(rest), unread=unread), PublishesReceived(publications=(incoming,))


def answer_fence(side: Side) -> tuple[Side, Event]:
    """Let the broker read up to the first fence, and answer it."""
    index, fence = next((index, each.fence) for index, each in enumerate(side.unread) if each.fence is not None)
    return read_acknowledgements(side, index + 1), FencePassed(number=fence)


def answer_publish(side: Side) -> tuple[Side, Event, list[Outward]]:
    """Let the broker acknowledge the first of what was published."""
    number = side.publishes[0].number
    side, outward = read_publishes(side, 1)
    side = side._replace(publishes=side.publishes[1:], read=side.read - 1)
    return side, LocallyPublished(numbers=(number,)), outward


def gives_back(side: Side, index: int) -> bool:
    """Whether the broker has, or may by now have, something of what is parked for a neighbour to give back."""
    park = side.parks[index]
    waits = park.handed - park.settled < len(park.messages)
    return park.is_open and (waits or any(each.park == index for each in side.publishes[side.read :]))


def give_back(side: Side, names: Names, index: int) -> tuple[Side, Event, list[Outward]]:
    """Let the broker give back the next of what is parked for a neighbour, if need be by reading it first."""
    outward: list[Outward] = []
    park = side.parks[index]
    if park.handed - park.settled == len(park.messages):
        place = next(place for place, each in enumerate(side.publishes) if place >= side.read and each.park == index)
        side, outward = read_publishes(side, place + 1)
        park = side.parks[index]
    data = park.messages[park.handed - park.settled]
    park = park._replace(handed=park.handed + 1)
    side = side._replace(parks=(*side.parks[:index], park, *side.parks[index + 1 :]))
    message = Parked(data=data, receipt=park.openings * CONNECTION + park.handed)
    return side, ParkedReceived(neighbour=names.neighbours[index], messages=(message,)), outward


def heard(neighbour: GatewayId, news: bytes | str) -> Event:
    """Return the event of what a connection to a neighbour's broker brings: an acknowledgement, or how things stand."""
    if isinstance(news, bytes):
        return AcksReceived(neighbour=neighbour, acks=(news,))
    return LinkConnected(neighbour=neighbour) if news == "connected" else LinkLost(neighbour=neighbour)


def arrived(neighbour: GatewayId, frame: bytes) -> Event:
    """Return the event of a frame."""
    return FramesReceived(sender=neighbour, frames=(frame,))

"""Actions of a small world in words."""

from collections.abc import Sequence

from mqloom.core.errors import FrameError
from mqloom.core.messages import Announce, Established, Hello, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import decode, decode_ack
from mqloom.lab.small_side import Lost, Side
from mqloom.lab.small_values import Action, State
from mqloom.lab.small_world import SmallWorld


def describe(world: SmallWorld, state: State, action: Action) -> str:
    """Return what happens in a state, in one line."""
    if action.place < 0:
        return _of_world(world, state, action)
    name = world.gateways[action.place]
    side = world.sides[action.place].sides.values[state[action.place]]
    neighbours = world.sides[action.place].names.neighbours
    match action.step:
        case ("frame", str(sender), bytes(frame)):
            return f"{name} reads a frame of {sender}: {_frame(frame)}"
        case ("news", str(neighbour), bytes(ack)):
            said = decode_ack(ack)
            return f"{name} hears of {neighbour}: {said.received} frames came, {said.done} are done {said.conversation}"
        case ("news", str(neighbour), str(news)):
            return f"{name} is told: {neighbour} {'can be reached' if news == 'connected' else 'is gone'}"
        case ("published",):
            publish = side.publishes[0]
            return f"{name} gets the PUBACK of number {publish.number} on {publish.topic}"
        case ("publication",):
            handed = side.handing[0]
            again = " again" if handed.again else ""
            return f"{name} is handed p{handed.publication + 1}{again} (packet {handed.packet})"
        case ("fence",):
            return f"{name} gets the answer to a fence"
        case ("parked", int(index)):
            return f"{name} is given back {_next_parked(side, index)} that was parked for {neighbours[index]}"
    return f"{name} {_of_gateway(side, action)}"


def _of_gateway(side: Side, action: Action) -> str:
    match action.step:
        case ("start",):
            return f"starts: {type(side.starting[0]).__name__}"
        case ("enter", int(index)):
            return f"has p{index + 1} enter its broker"
        case ("crash", Lost() as lost):
            return f"CRASHES; {_lost(side, lost)}"
        case ("break", int(read)):
            return f"LOSES its intake; its broker had read {read} of {len(side.unread)} acknowledgements and fences"
        case ("restart",):
            return f"is started again, epoch {side.epoch + 1}"
    return f"{action.step[0]}s"


def _of_world(world: SmallWorld, state: State, action: Action) -> str:
    match action.step:
        case ("time", float(seconds)):
            return f"{seconds:g} s pass"
        case ("cut", int(index)):
            return f"CUT of {_ways(world.scope.may_cut[index])}"
        case ("heal",):
            return f"{_ways(world.scope.may_cut[world.rests.values[state[-1]].cut])} are healed"
        case ("delay", (int(place), str(kind), _)):
            return f"(the next {kind} at {world.gateways[place]} is slow)"
    return str(action.step)


def _ways(ways: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{sender} -> {receiver}" for sender, receiver in ways)


def _lost(side: Side, lost: Lost) -> str:
    parts = []
    if side.publishes:
        parts.append(f"its broker had read {lost.publishes} of {len(side.publishes)} publishes")
    if side.unread:
        parts.append(f"{lost.unread} of {len(side.unread)} acknowledgements and fences")
    if any(park.unread for park in side.parks):
        parts.append(f"{lost.parks} of {tuple(park.unread for park in side.parks)} acknowledgements of parks")
    return ", ".join(parts) or "nothing was under way to its broker"


def _next_parked(side: Side, index: int) -> str:
    park = side.parks[index]
    place = park.handed - park.settled
    waiting = [each.payload for each in side.publishes[side.read :] if each.park == index]
    return _frame((*park.messages, *waiting)[place]) or "a marker"


def _frame(data: bytes) -> str:
    try:
        frame = decode(data)
    except FrameError as error:
        return f"refused: {error}"
    said = ", ".join(_message(message) for message in frame.messages)
    return f"{said} (number {frame.sequence} of {tuple(frame.conversation)})" if said else ""


def _message(message: Message) -> str:
    match message:
        case Publication():
            repeat = " repeated" if message.repeat else ""
            return f"publication {message.epoch}.{message.sequence}{repeat} low {message.low_water}"
        case Hello():
            heard = None if message.heard is None else tuple(message.heard)
            return f"Hello{'?' if message.asks else ''} heard {heard}"
        case Announce() | Established():
            return f"{type(message).__name__} {message.key.gateway}.{message.key.epoch}.{message.key.number}"
    return type(message).__name__

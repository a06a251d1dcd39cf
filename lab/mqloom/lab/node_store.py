"""Nodes as values: a node is put away as bytes, equal nodes as equal bytes, and taken out again as a copy of its own.

For a search that sees the same state by many ways, equal must be equal to the byte. So, in what is stored,

- time is relative: a stored node lives at 0, and to let time pass is to move all its times into the past;
- what cannot change (texts, keys, filters, publications) is a number by its value, and sets are so by what is in them;
  hence it does not show which of several equal objects was used;
- what holds nothing between two events (journal, outboxes, a plain overlay, codecs) is a number by its role, and
  shared;
- counters are left out: nothing is decided by them, but how busy SH is, which is none of the overlays here;
- a function that was made by another one is its code, and what it has taken from there.

`times_of` names all times of a node. A test holds it against every float that can be found in one.
"""

import copyreg
import io
import pickle  # our own objects, in our own memory
import sys
from collections.abc import Hashable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple, cast

from mqloom.core.counters import Counters
from mqloom.core.filter import Filter
from mqloom.core.ids import Conversation, GatewayId, PublicationId, SubscriptionKey
from mqloom.core.messages import (
    Announce,
    Established,
    Flush,
    Flushed,
    Freeze,
    Frozen,
    Hello,
    Parting,
    Passed,
    Synced,
    Thaw,
    Withdraw,
)
from mqloom.core.poset import Change, Poset
from mqloom.core.publication import Publication
from mqloom.core.records import Order, PlaceLink, Wish
from mqloom.core.subscription import Subscription
from mqloom.gateway.arrivals import Arrivals
from mqloom.gateway.cadence import Cadence
from mqloom.gateway.custody import FromBroker, FromGuest, FromNeighbour, FromPark
from mqloom.gateway.departures import Departures
from mqloom.gateway.flows import Mode
from mqloom.gateway.holdings import Holdings
from mqloom.gateway.links import LinkState
from mqloom.gateway.moves import Step
from mqloom.gateway.node import Node
from mqloom.gateway.subscribers import Owner

VALUES: Final = frozenset(
    (
        *(str, bytes, frozenset, FunctionType, CodeType, type),
        *(Conversation, PublicationId, SubscriptionKey, FromBroker, FromNeighbour, FromGuest, FromPark),
        *(Publication, Hello, Announce, Synced, Withdraw, Established, Flush, Flushed, Wish),
        *(Freeze, Frozen, Thaw, Passed, Parting, PlaceLink, Order),
        *(Subscription, Filter, Owner, Mode, LinkState, Step),
    )
)
"""Types of what cannot change."""

DIGITS: Final = 6
"""Of a time in seconds: what is left of sums of binary fractions is no difference."""

BUILD_AT: Final = 0.0

TIMES: Final = ("_at", "_until", "_since", "_deadline")
"""How the names of times end."""


class NoCounters(Counters):
    """Counts nothing, so that a node is not another because of its past."""

    def add(self, name: str, reason: str = "", amount: int = 1) -> None:
        """Pass over it."""


class SharedPoset(Poset[SubscriptionKey]):
    """A poset whose inside belongs to all its copies until one of them is changed."""

    wishes: tuple[tuple[SubscriptionKey, Subscription], ...] = ()

    def add(self, key: SubscriptionKey, subscription: Subscription) -> Change[SubscriptionKey]:
        """Take in a subscription."""
        self._part()
        change = super().add(key, subscription)
        self.wishes = (*self.wishes, (key, subscription))
        return change

    def remove(self, key: SubscriptionKey) -> Change[SubscriptionKey]:
        """Remove a subscription."""
        self._part()
        change = super().remove(key)
        self.wishes = tuple(wish for wish in self.wishes if wish[0] != key)
        return change

    def copy(self) -> "SharedPoset":
        """Return one with the same inside."""
        other = SharedPoset.__new__(SharedPoset)
        other.__dict__.update(self.__dict__)
        return other

    def _part(self) -> None:
        fresh: Poset[SubscriptionKey] = Poset()
        for key, subscription in self.wishes:
            fresh.add(key, subscription)
        assert sorted(fresh.covering_set()) == sorted(self.covering_set())
        self.__dict__.update(fresh.__dict__)


class Glance(NamedTuple):
    """What is looked up of a stored node without taking it out."""

    wakes_in: float | None
    holdings: Holdings
    is_up: bool
    unfinished: int
    """How far the low-water mark is behind its own publications."""
    neighbours: frozenset[GatewayId]
    is_moving: bool
    """Whether a move is under way, its own or one that it has agreed to."""


class NodeStore:
    """The states of all gateways, each by a number from 1."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._code_of_object: dict[int, int] = {}  # by id(); what is in `_objects` never goes away
        self._objects: list[object] = []
        self._numbers: dict[bytes, int] = {}
        self._data: list[bytes] = [b""]
        self._glances: list[Glance | None] = [None]

        class Writer(pickle.Pickler):
            persistent_id = staticmethod(self.code)
            reducer_override = staticmethod(_reduce)

        class Reader(pickle.Unpickler):
            persistent_load = staticmethod(self.thing)

        self._writer = Writer
        self._reader = Reader

    def prepare(self, node: Node) -> None:
        """Make a node that was just built ready to be stored: every one of a gateway and epoch alike."""
        _share_posets(node)
        life = node.gateway, node._parts.epoch
        for role, fixture in _fixtures(node).items():
            code = self._codes.get((life, role))
            self._code_of_object[id(fixture)] = self._keep((life, role), fixture) if code is None else code

    def forget(self, node: Node) -> None:
        """Called after `put` of a node that was just built: its fixtures may be others than those that are kept."""
        for fixture in _fixtures(node).values():
            code = self._code_of_object[id(fixture)]
            if self._objects[code] is not fixture:
                del self._code_of_object[id(fixture)]

    def put(self, node: Node) -> int:
        """Return the number of a node as it is now, at 0."""
        settle_times(node)
        _share_posets(node)
        file = io.BytesIO()
        self._writer(file, pickle.HIGHEST_PROTOCOL).dump(node)
        data = file.getvalue()
        number = self._numbers.get(data)
        if number is None:
            number = self._numbers[data] = len(self._data)
            self._data.append(data)
            self._glances.append(_glance(node))
        return number

    def take(self, number: int) -> Node:
        """Return a node of that number, a new one each time."""
        node = self._reader(io.BytesIO(self._data[number])).load()
        assert isinstance(node, Node)
        return node

    def glance(self, number: int) -> Glance:
        """Return what is known of a stored node."""
        glance = self._glances[number]
        assert glance is not None
        return glance

    def __len__(self) -> int:
        return len(self._data) - 1

    def code(self, thing: object) -> int | None:
        """Return the number that stands for something in what is stored; None: it is stored itself."""
        known = self._code_of_object.get(id(thing))
        if known is not None:
            return known
        kind = type(thing)
        if kind is FunctionType and "<locals>" in cast(FunctionType, thing).__qualname__:
            return None
        if kind in VALUES:
            key: Hashable = (kind, thing)
        elif kind is set:
            key = (set, frozenset(cast("set[Hashable]", thing)))
            thing = key
        elif kind is SharedPoset:
            key = (SharedPoset, cast(SharedPoset, thing).wishes)
        else:
            return None
        code = self._codes.get(key)
        return self._keep(key, thing) if code is None else code

    def _keep(self, key: Hashable, thing: object) -> int:
        code = self._codes[key] = len(self._objects)
        self._objects.append(thing)
        if type(thing) is not SharedPoset:  # that one may change yet
            self._code_of_object[id(thing)] = code
        else:
            self._objects[code] = thing.copy()
        return code

    def thing(self, code: int) -> object:
        """Return what a number stands for; a new one if it can be changed."""
        thing = self._objects[code]
        if type(thing) is tuple and thing and thing[0] is set:
            return set(thing[1])
        return thing.copy() if type(thing) is SharedPoset else thing


def _glance(node: Node) -> Glance:
    marks = node._traffic.intake._marks
    states = node.link_states()
    return Glance(
        wakes_in=node._wake_at,
        holdings=node.holdings(),
        is_up=all(state is LinkState.UP for state in states.values()),
        unfinished=marks._next - marks.low_water,
        neighbours=frozenset(states),
        is_moving=node.is_moving or not node._freezes.is_free,
    )


def _fixtures(node: Node) -> dict[str, object]:
    """Return what holds nothing between two events; without agents that is so of controls too.

    Where links can be moved, the overlay has a state, and those who were neighbours are numbered, and may write as
    guests do.
    """
    fixtures = {
        "parts": node._parts,
        "counters": node.counters,
        "journal": node._journal,
        "outbox": node._outbox,
        "urgent": node._urgent,
        "waves": node._waves,
        "contents": node._contents,
        "controls": node._controls,
    }
    if node._overlay.reach:
        return fixtures
    return fixtures | {"overlay": node._overlay, "soft links": node._soft_links, "guests": node._guests}


def _share_posets(node: Node) -> None:
    """Have all posets be such as can be shared, those for new neighbours too."""
    for announcements in node._routes._announcements.values():
        if announcements._new_poset is not SharedPoset:
            announcements._new_poset = SharedPoset
            for anchor, plain in announcements._wishes.items():
                shared = announcements._wishes[anchor] = SharedPoset()
                for key in plain:
                    shared.add(key, plain[key])


_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""The attributes of a class, in the order in which `_reduce` writes them."""


def _reduce(thing: object) -> Any:
    """Write an object as its values alone: the names are the same every time."""
    kind = type(thing)
    if isinstance(thing, FunctionType):
        cells = tuple(cell.cell_contents for cell in thing.__closure__ or ())
        return _bind, (thing.__code__, thing.__module__, cells)
    if not hasattr(thing, "__dict__") or not kind.__module__.startswith("mqloom."):
        return NotImplemented
    values = vars(thing)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(sorted(values))
    assert len(names) == len(values), kind
    return copyreg.__newobj__, (kind,), tuple([values[name] for name in names]), None, None, _restore  # type: ignore[attr-defined]


def _bind(code: CodeType, module: str, cells: tuple[object, ...]) -> FunctionType:
    return FunctionType(code, vars(sys.modules[module]), closure=tuple(CellType(each) for each in cells))


def _restore(thing: object, values: tuple[object, ...]) -> None:
    vars(thing).update(zip(_NAMES[type(thing)], values, strict=True))


# ---- time ----------------------------------------------------------------------------------------------------------


def times_of(node: Node) -> Iterator[tuple[Any, str]]:
    """Yield every place of a node that holds a time: the object, and its attribute. Names say what is a time.

    When somebody may be told again that we have parted is not among them: `Places` has that in a dictionary.
    """
    holders: list[object] = [node, node._flushes, node._traffic.intake._marks]
    for flow in node._traffic._flows.values():
        holders += flow, flow._taken
    holders += node._moves, node._soft_links, node._rosters, node._link_changes, *node._guests._arrivals.values()
    for link in node._links.values():
        holders += link, link._arrivals, link._departures
    holders += cadences_of(node)
    for holder in holders:
        for name in vars(holder):
            if name.endswith(TIMES):
                yield holder, name
    for slotted in (node._moves._move, node._freezes._agreed):
        if slotted is not None:
            yield slotted, "until"


def cadences_of(node: Node) -> list[Cadence]:
    """Return what has frames and acknowledgements wait for others."""
    ends: list[Arrivals | Departures] = [*node._guests._arrivals.values()]
    for link in node._links.values():
        ends += link._arrivals, link._departures
    return [end._cadence for end in ends]


def pass_time(node: Node, seconds: float) -> None:
    """Let time pass for a stored node."""
    for holder, name in times_of(node):
        at = getattr(holder, name)
        if at is not None:
            setattr(holder, name, round(at - seconds, DIGITS))
    told = node._neighbours.places._tell_at
    told.update({gateway: round(at - seconds, DIGITS) for gateway, at in told.items()})


def settle_times(node: Node) -> None:
    """Let times that differ without a difference be alike.

    A fence that was due in the past is due now, and so are the end of a hold and the next roster. Whom we may tell
    again that we have parted is as one whom we never told. Since when frames have been waited for does not matter while
    none is: `Departures` notes it anew when it sends the next. And when a neighbour was heard last matters only when
    all frames have come, and something in them is not taken care of: what says that they have come is heard. How much
    has just been sent does not matter while the next need not wait; so few as are sent in a small scope never do.
    """
    node._moves._hold_until = max(node._moves._hold_until, BUILD_AT)
    node._rosters._next_at = max(node._rosters._next_at, BUILD_AT)
    told = node._neighbours.places._tell_at
    for gateway in [each for each, at in told.items() if at <= BUILD_AT]:
        del told[gateway]
    marks = node._traffic.intake._marks
    marks._fence_at = max(marks._fence_at, BUILD_AT)
    for link in node._links.values():
        departures = link._departures
        if departures._again_at is None:
            departures._waiting_since = BUILD_AT
        if departures._again_at is not None or not departures._entries:
            departures._heard_at = BUILD_AT
    for cadence in cadences_of(node):
        if cadence.due_at <= BUILD_AT:
            cadence._full_at = BUILD_AT
    pass_time(node, 0.0)

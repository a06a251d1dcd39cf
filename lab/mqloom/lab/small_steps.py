"""The steps of one side of a small world, each taken once and then remembered."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from mqloom.core.events import Event, IntakeLost, Ordered, PlaceRead, RecordReceived, RecordsRead, Started, Woke
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Order, encode_order
from mqloom.core.wire import decode
from mqloom.gateway.node import Node
from mqloom.lab.node_store import NodeStore, pass_time
from mqloom.lab.small_driver import (
    answer_fence,
    answer_publish,
    arrived,
    carry_out,
    give_back,
    gives_back,
    hand_over,
    heard,
)
from mqloom.lab.small_side import (
    Lost,
    Names,
    Outward,
    Park,
    Publish,
    Side,
    break_intake,
    crash,
    enter,
    read_all,
    restart,
)

Kind = TypeVar("Kind", bound=Hashable)

Step = tuple[Hashable, ...]
"""The name of a step, and what else it takes: ("frame", "A", b"...")."""

HELD_PER_PUBLICATION: Final = 6

BuildNode = Callable[[GatewayId, int], Node]
"""Builds a node of a gateway in an epoch, at time 0."""


class ViolationError(Exception):
    """A world did what it must not do."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class Catalogue(Generic[Kind]):
    """Values, each by a number."""

    def __init__(self) -> None:
        self.values: list[Kind] = []
        self._numbers: dict[Kind, int] = {}

    def number(self, value: Kind) -> int:
        """Return the number of a value, a new one if it is new."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


class Offer(NamedTuple):
    """What may happen at a side without anything from outside."""

    steps: tuple[Step, ...]
    wakes_in: float | None


class SideSteps:
    """All steps of one gateway's side. Sides are known by their number in `sides`."""

    def __init__(self, names: Names, store: NodeStore, build: BuildNode, records: tuple[RecordReceived, ...]) -> None:
        self.names = names
        self.sides: Catalogue[Side] = Catalogue()
        self.computed = 0
        self._store = store
        self._build = build
        self._records = records
        self._taken: dict[tuple[int, Step], tuple[int, tuple[Outward, ...]]] = {}
        self._offers: dict[int, Offer] = {}

    def take(self, number: int, step: Step) -> tuple[int, tuple[Outward, ...]]:
        """Return the side after a step, and what leaves it; raises ViolationError."""
        known = self._taken.get((number, step))
        if known is None:
            self.computed += 1
            try:
                side, outward = self._compute(self.sides.values[number], step)
            except AssertionError as error:
                raise ViolationError(f"an invariant of {self.names.gateway} does not hold: {error!r}") from error
            if side.is_safe:
                side, more = read_all(side)
                outward = outward + more
            known = self._taken[number, step] = self.sides.number(side), tuple(outward)
        return known

    def offer(self, number: int) -> Offer:
        """Return what may happen at a side by itself."""
        known = self._offers.get(number)
        if known is None:
            known = self._offers[number] = self._offer(self.sides.values[number])
        return known

    def down(self) -> Side:
        """Return the side before its first start."""
        return Side(0, 0, parks=tuple(Park() for _ in self.names.neighbours))

    def _offer(self, side: Side) -> Offer:
        if not side.node:
            return Offer((), None)
        wakes_in = self._store.glance(side.node).wakes_in
        steps: list[Step] = []
        if side.starting:
            steps.append(("start",))
        if side.publishes:
            steps.append(("published",))
        if side.handing and side.is_open:
            steps.append(("publication",))
        fence = next((each for each in side.unread if each.fence is not None), None)
        if fence is not None and not fence.behind and side.is_open:
            steps.append(("fence",))
        steps += [("parked", index) for index in range(len(side.parks)) if gives_back(side, index)]
        if wakes_in is not None and wakes_in <= 0:
            steps.append(("wake",))
        return Offer(tuple(steps), wakes_in)

    def _compute(self, side: Side, step: Step) -> tuple[Side, list[Outward]]:
        match step:
            case ("enter", int(publication)):
                return enter(side, publication), []
            case ("crash", Lost() as lost):
                return crash(side, lost)
            case ("restart",):
                return self._restart(side)
            case ("settle",):
                return read_all(side)
            case ("safe",):
                return side._replace(is_safe=True), []
            case ("time", float(seconds)):
                return self._pass_time(side, seconds), []
        side, event, outward = self._event(side, step)
        node = self._store.take(side.node)
        side, more = self._handle(side, node, event)
        return side, outward + more

    def _event(self, side: Side, step: Step) -> tuple[Side, Event, list[Outward]]:
        match step:
            case ("frame", str(neighbour), bytes(frame)):
                return side, arrived(GatewayId(neighbour), frame), []
            case ("news", str(neighbour), bytes() | str() as news):
                return side, heard(GatewayId(neighbour), news), []
            case ("published",):
                return answer_publish(side)
            case ("publication",):
                return *hand_over(side, self.names), []
            case ("fence",):
                return *answer_fence(side), []
            case ("parked", int(index)):
                return give_back(side, self.names, index)
            case ("wake",):
                return side, Woke(), []
            case ("break", int(read)):
                return break_intake(side, read), IntakeLost(), []
            case ("start",):
                return side._replace(starting=side.starting[1:]), side.starting[0], []
        return side, _order(step), []

    def _handle(self, side: Side, node: Node, event: Event) -> tuple[Side, list[Outward]]:
        """Hand an event to a node, and acknowledge the markers that are first in what was published.

        A marker is nobody's duty: its PUBACK changes nothing that shows, so when it comes does not matter. A crash
        before the broker has it leaves one marker less of a life that is over, and such are passed over.
        """
        side, outward = carry_out(side, self.names, node.handle(event, 0.0))
        while side.publishes and _is_marker(side.publishes[0]):
            side, event, more = answer_publish(side)
            side, further = carry_out(side, self.names, node.handle(event, 0.0))
            outward += more + further
        node.check()
        self._check_bounds(node)
        return side._replace(node=self._store.put(node)), outward

    def _check_bounds(self, node: Node) -> None:
        """A gateway holds each publication a few times at most: by its two names, for each neighbour and client."""
        holdings = node.holdings()
        most = max(holdings.duties, holdings.intake, holdings.deliveries, *holdings.flows.values())
        if most > HELD_PER_PUBLICATION * max(1, len(self.names.payloads)):
            raise ViolationError(f"{self.names.gateway} holds more and more: {holdings}")

    def _restart(self, side: Side) -> tuple[Side, list[Outward]]:
        node = self._build(self.names.gateway, side.epoch + 1)
        self._store.prepare(node)
        place = (PlaceRead(data=side.place),) if self.names.may_move else ()
        side, outward = self._handle(restart(side, (*self._records, *place, RecordsRead())), node, Started())
        self._store.forget(node)
        return side, outward

    def _pass_time(self, side: Side, seconds: float) -> Side:
        node = self._store.take(side.node)
        pass_time(node, seconds)
        return side._replace(node=self._store.put(node))


def _order(step: Step) -> Event:
    match step:
        case ("order", str(target)):
            order = Order(number=1, move_to=GatewayId(target))
            return Ordered(client=ClientId("operator"), data=encode_order(order))
    raise AssertionError(step)


def _is_marker(publish: Publish) -> bool:
    return publish.park >= 0 and not decode(publish.payload).messages

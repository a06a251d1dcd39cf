"""Everything that can happen in a small world, tried: breadth first, each state once.

The search ends at the first state that is wrong, and tells the shortest way to it. Else it has seen every state that
can be reached, and every one of them can still come to rest: a world that goes in circles for ever is a finding too.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import Struct

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import Overlay
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.broken import Broken
from mqloom.lab.node_store import NoCounters
from mqloom.lab.small_ends import begin, check_rest
from mqloom.lab.small_map import MapOverlay
from mqloom.lab.small_scope import Scope
from mqloom.lab.small_steps import BuildNode, ViolationError
from mqloom.lab.small_values import Action, State
from mqloom.lab.small_view import describe
from mqloom.lab.small_world import SmallWorld
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

Tell = Callable[[str], None]

TELL_EVERY = 50_000


class Report(Struct, kw_only=True):
    """What was seen of a scope. `steps` were taken by gateways, all other transitions are made of those."""

    scope: str
    states: int
    transitions: int
    rests: int
    gateway_states: int
    steps: int
    is_complete: bool
    problem: str | None = None
    trace: tuple[str, ...] = ()


def builder(scope: Scope, broken: Broken | None = None) -> BuildNode:
    """Return how the gateways of a scope are built: with the plainest plugins, and broken if that is wanted."""
    codec = replace(json_codec.mqloom_codec(), decode_only=None)  # payloads are small

    def build(gateway: GatewayId, epoch: int) -> Node:
        neighbours = [other for link in scope.links for other in link if gateway in link and other != gateway]
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            peers=sorted({each for link in scope.links for each in link} - {gateway}) if scope.move else (),
            matcher=ScanMatcher(),
            overlay=_overlay(scope, gateway, neighbours),
            codecs=[("#", codec)],
            counters=NoCounters(),
        )
        node = Node(parts, 0.0)
        if broken is not None:
            broken.spoil(node)
        return node

    return build


def _overlay(scope: Scope, gateway: GatewayId, neighbours: Sequence[GatewayId]) -> Overlay:
    if not scope.move:
        return TreeOverlay(gateway, neighbours)
    mover, *way = scope.move
    return MapOverlay(gateway, neighbours, {way[-1]: way} if gateway == mover else {})


def run_exhaust(
    scope: Scope, tell: Tell | None = None, *, broken: Broken | None = None, states_max: int | None = None
) -> Report:
    """Try everything in a scope; with a bound on the states, as much as that allows."""
    world = SmallWorld(scope, builder(scope, broken), *(() if broken is None else (broken.seen,)))
    return Search(world).run(tell or (lambda _: None), states_max)


class Search:
    """The states of a world in the order in which they were found, each with the one before it."""

    def __init__(self, world: SmallWorld) -> None:
        self._world = world
        start = begin(world)
        self._number: dict[State, int] = {start: 0}
        self._states: list[State] = [start]
        self._before = array("q", [-1])
        self._action: list[Action | None] = [None]
        self._from = array("q")
        self._to = array("q")
        self._rests: list[int] = []

    def run(self, tell: Tell, states_max: int | None) -> Report:
        """Search, and return what was found."""
        current = 0
        while current < len(self._states) and (states_max is None or len(self._states) <= states_max):
            action = None
            try:
                if self._world.is_at_rest(self._states[current]):
                    self._rests.append(current)
                    check_rest(self._world, self._states[current])
                for action in self._world.actions(self._states[current]):
                    self._find(self._world.after(self._states[current], action), current, action)
            except ViolationError as error:
                return self._report(error.problem, current, action)
            current += 1
            if current % TELL_EVERY == 0:
                tell(f"{self._world.scope.name}: {current:,} of {len(self._states):,} states found so far")
        if current < len(self._states):
            return self._report(None, -1, None, is_complete=False)
        stuck = self._restless()
        return self._report(None if stuck < 0 else "it never comes to rest again", stuck, None)

    def _find(self, state: State, before: int, action: Action) -> None:
        number = self._number.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._before.append(before)
            self._action.append(action)
        self._from.append(before)
        self._to.append(number)

    def _restless(self) -> int:
        """Return the first state from which no rest can be reached, -1 if there is none."""
        into: dict[int, list[int]] = {}
        for before, after in zip(self._from, self._to, strict=True):
            into.setdefault(after, []).append(before)
        calm = bytearray(len(self._states))
        ways = list(self._rests)
        while ways:
            number = ways.pop()
            if not calm[number]:
                calm[number] = 1
                ways += into.get(number, ())
        return calm.find(0)

    def _report(self, problem: str | None, number: int, last: Action | None, *, is_complete: bool = True) -> Report:
        return Report(
            scope=self._world.scope.name,
            states=len(self._states),
            transitions=len(self._to),
            rests=len(self._rests),
            gateway_states=len(self._world.store),
            steps=sum(side.computed for side in self._world.sides),
            is_complete=is_complete and problem is None,
            problem=problem,
            trace=() if problem is None else tuple(self._trace(number, last)),
        )

    def _trace(self, number: int, last: Action | None) -> list[str]:
        actions = [] if last is None else [(number, last)]
        while number > 0:
            action = self._action[number]
            assert action is not None
            number = self._before[number]
            actions.append((number, action))
        return [describe(self._world, self._states[before], action) for before, action in reversed(actions)]

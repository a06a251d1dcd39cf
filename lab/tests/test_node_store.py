"""Nodes as values: equal ones are equal to the byte, and every time in them is known."""

from collections.abc import Iterator

from mqloom.core.events import FramesReceived
from mqloom.gateway.custody import FromUs
from mqloom.gateway.node import Node
from mqloom.lab.exhaust import Search, builder
from mqloom.lab.node_store import NodeStore, SharedPoset, pass_time, times_of
from mqloom.lab.small_ends import begin
from mqloom.lab.small_scope import A, B, N, chain, move
from mqloom.lab.small_world import SmallWorld

SCOPE = chain("any", (A, A))
DURATIONS = {"_again_s", "_every_s", "_spare_s"}


def world_at_rest() -> tuple[SmallWorld, list[Node]]:
    world = SmallWorld(SCOPE, builder(SCOPE))
    state = begin(world)
    return world, [world.store.take(side.sides.values[state[place]].node) for place, side in enumerate(world.sides)]


def nodes_that_move() -> Iterator[Node]:
    """Yield every state of every gateway in a move with a publication and, once, a crash."""
    scope = move("any", (N,), (A,), crashes=1, may_crash=(A,), delays=0)
    world = SmallWorld(scope, builder(scope))
    Search(world).run(lambda _: None, 2_000)
    yield from (world.store.take(number) for number in range(1, len(world.store) + 1))


def parts_of(node: Node) -> Iterator[tuple[object, str, object]]:
    """Yield every attribute of every object of ours that a node is made of: whose, its name, its value."""
    waiting: list[object] = [node]
    known: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in known or isinstance(thing, type):
            continue
        known.add(id(thing))
        if isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif not isinstance(thing, str | bytes) and hasattr(thing, "__iter__"):
            waiting += list(thing)
        if not type(thing).__module__.startswith("mqloom."):
            continue
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in [*getattr(thing, "__dict__", {}), *slots]:
            value = getattr(thing, name, None)
            yield thing, name, value
            waiting.append(value)


def test_every_time_in_a_node_is_known() -> None:
    _, nodes = world_at_rest()
    fresh = builder(SCOPE)(B, 1)
    for node in (*nodes, fresh, *nodes_that_move()):
        known = {(id(holder), name) for holder, name in times_of(node)}
        for holder, name, value in parts_of(node):
            is_of_overlay = type(holder).__module__.startswith("mqloom.plugins.overlay")  # S0 keeps no time
            if isinstance(value, float) and name not in DURATIONS and not is_of_overlay:
                assert (id(holder), name) in known, (type(holder), name)


def test_a_node_taken_out_and_put_back_is_the_same() -> None:
    world, nodes = world_at_rest()
    count = len(world.store)
    for node in nodes:
        number = world.store.put(node)
        assert world.store.put(world.store.take(number)) == number
    assert len(world.store) == count


def test_a_node_that_moves_is_the_same_when_it_is_put_back() -> None:
    scope = move("any", delays=0)
    world = SmallWorld(scope, builder(scope))
    assert Search(world).run(lambda _: None, None).is_complete
    for number in range(1, len(world.store) + 1):
        assert world.store.put(world.store.take(number)) == number


def test_a_function_that_a_node_waits_to_call_is_about_that_node() -> None:
    scope = move("any", delays=0)
    world = SmallWorld(scope, builder(scope))
    state = begin(world)  # its order has come: it waits until its broker keeps that it may move
    number = world.sides[0].sides.values[state[0]].node
    one, other = world.store.take(number), world.store.take(number)
    [delivery] = one._traffic._deliveries._under_way.values()
    [source] = delivery.duties[0].sources
    assert isinstance(source, FromUs)
    source.then()
    moves = one._moves._move, other._moves._move
    assert [move is not None and move.is_kept for move in moves] == [True, False]


def test_two_that_are_taken_out_have_nothing_in_common_that_changes() -> None:
    world, nodes = world_at_rest()
    number = world.store.put(nodes[1])
    one, other = world.store.take(number), world.store.take(number)
    one.handle(FramesReceived(sender=A, frames=(b"nonsense",)), 0.0)
    one._routes.remove(next(iter(one._routes._entries)), None)
    assert world.store.put(other) == number
    other.check()


def test_no_set_has_two_owners() -> None:
    # Sets are stored by what is in them: two owners of one would each get a copy.
    _, nodes = world_at_rest()
    for node in nodes:
        owned: list[int] = []
        for _, _, value in parts_of(node):
            if isinstance(value, set):
                owned.append(id(value))
        assert len(owned) == len(set(owned))


def test_time_that_passes_in_parts_has_passed_as_a_whole() -> None:
    store = NodeStore()
    node = builder(SCOPE)(A, 1)
    store.prepare(node)
    number = store.put(node)
    store.forget(node)
    at_once, by_parts = store.take(number), store.take(number)
    pass_time(at_once, 0.3)
    pass_time(by_parts, 0.1)
    pass_time(by_parts, 0.2)
    assert store.put(at_once) == store.put(by_parts) != number


def test_a_poset_changes_without_its_copies() -> None:
    _, nodes = world_at_rest()
    [poset] = next(iter(nodes[1]._routes._announcements.values()))._wishes.values()
    assert isinstance(poset, SharedPoset)
    copy = poset.copy()
    key = next(iter(copy))
    copy.remove(key)
    assert key in poset
    assert key not in copy
    poset.check()
    copy.check()

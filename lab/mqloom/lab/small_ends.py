"""How a small world begins, and what must hold whenever it has come to rest."""

from mqloom.lab.small_scope import LinkName
from mqloom.lab.small_side import read_acknowledgements
from mqloom.lab.small_steps import ViolationError
from mqloom.lab.small_values import Action, Rest, State, Way
from mqloom.lab.small_world import SmallWorld


def begin(world: SmallWorld) -> State:
    """Start everything, and let it come to rest with all subscriptions established."""
    way = Way(is_up=False) if world.scope.move else Way(is_up=True, news=("connected",))
    parts = [
        *(side.sides.number(side.down()) for side in world.sides),
        *(world.way_values.number(way) for _ in world.ways),
        *(world.clients.fresh for _ in world.scope.subscribers),
        world.rests.number(Rest()),
    ]
    for place, side in enumerate(world.sides):
        parts[place], _ = side.take(parts[place], ("restart",))
    state = tuple(parts)
    action = _next(world, state)
    while action is not None:
        state = world.after(state, action)
        action = _next(world, state)
    parts = list(state)
    for place, side in enumerate(world.sides):  # long ago: brokers have read everything
        parts[place], _ = side.take(parts[place], ("settle",))
    world.make_safe(parts)
    state = tuple(parts)
    _check_established(world, state)
    if world.scope.move:
        mover, *_, target = world.scope.move
        state = world.after(state, Action(world.gateways.index(mover), ("order", target)))
    return state


def _next(world: SmallWorld, state: State) -> Action | None:
    return next(world.ordinary(state), None) or world.wait(state)


def _check_established(world: SmallWorld, state: State) -> None:
    for place, gateway in enumerate(world.gateways):
        routes = world.store.take(world.sides[place].sides.values[state[place]].node)._routes
        here = [key for key in routes._entries if routes.source_of(key) is None]
        assert all(routes.standing_of(key) for key in here), gateway
        assert len(here) == sum(each.gateway == gateway for each in world.scope.subscribers)


def check_rest(world: SmallWorld, state: State) -> None:
    """State what must hold when everything has come to rest; raises ViolationError."""
    for index, subscriber in enumerate(world.scope.subscribers):
        missing = world.clients.missing(index, state[world.first_client + index])
        if missing:
            raise ViolationError(f"{subscriber.name} was never given {', '.join(missing)}")
    for place in range(len(world.gateways)):
        _check_gateway(world, state, place)
    _check_network(world, state)


def _check_gateway(world: SmallWorld, state: State, place: int) -> None:
    """A gateway and its broker keep nothing for ever."""
    gateway = world.gateways[place]
    side = world.sides[place].sides.values[state[place]]
    glance = world.store.glance(side.node)
    side = read_acknowledgements(side, len(side.unread))
    if side.session or side.handing or side.publishes:
        raise ViolationError(f"the broker of {gateway} keeps {len(side.session)} publications for ever")
    for other, park in zip(world.sides[place].names.neighbours, side.parks, strict=True):
        if len(park.messages) > park.unread or park.is_open != (other in glance.neighbours):
            raise ViolationError(f"{gateway} keeps something parked for {other} for ever")
    if not glance.is_up:
        raise ViolationError(f"{gateway} has a link that is not up again")
    if glance.holdings.duties or glance.holdings.intake or any(glance.holdings.flows.values()):
        raise ViolationError(f"{gateway} holds something for ever: {glance.holdings}")
    if glance.unfinished:
        raise ViolationError(f"the low-water mark of {gateway} stays {glance.unfinished} behind for ever")
    if glance.is_moving:
        raise ViolationError(f"{gateway} never comes to an end with a move")


def _check_network(world: SmallWorld, state: State) -> None:
    """The primary network is the new one; after a crash, or if time ran out, the old one; but none between the two."""
    links: set[LinkName] = set()
    for place, gateway in enumerate(world.gateways):
        glance = world.store.glance(world.sides[place].sides.values[state[place]].node)
        links |= {(gateway, other) for other in glance.neighbours}
    allowed = [world.scope.network(is_moved=bool(world.scope.move))]
    rest = world.rests.values[state[-1]]
    if rest.crashes or rest.hastes:
        allowed.append(world.scope.network(is_moved=False))
    if links not in allowed:
        told = ", ".join(f"{one} -> {other}" for one, other in sorted(links))
        raise ViolationError(f"the primary network is not what it should be: {told}")

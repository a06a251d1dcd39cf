"""A world so small that everything that can happen in it can be tried: gateways, brokers, links and clients as values.

What is modelled. Each gateway is the node that production runs, with the plainest plugins. Beside it stands a broker
that keeps its sessions (`small_side`). Each direction of a link is one connection: frames go one way in order, and
acknowledgements and news (the neighbour is there, or gone) come back in order. All of it is lost when the connection
breaks, and frames are lost when their reader is down. A broker that read what a gateway had written before it crashed
is covered by the crash coming after. Clients' sessions survive everything; a client drops repetitions by `Seen`.

Where a primary link is moved, connections are opened and closed as the node says; what was written before one is closed
still arrives. The record of its place is retained by a gateway's broker, once that has read it, and handed over at a
start. A park that belongs to a link that is given up is gone at once.

What may happen, one at a time: the first of any queue is read (frame, news, publication, PUBACK, answer to a fence,
parked message, a step of a start); a gateway wakes that is due; a publication enters; a gateway crashes, with any part
of what its broker had not answered read or lost, and is started again with the next epoch; the connection by which its
publications come in breaks, and is made anew at once; a link is cut, in one direction or both, and healed. Time passes,
to the next waking, only when nothing but faults and publications could happen without it; but `hastes` times in a run
also when something slow is still to be read, so that a timer fires too early.

What is not tried: several frames or publications handed over in one event; a broken connection between a gateway and
its own broker but for the one by which publications come in; a broker that stops or forgets. And these orders, each of
which gives nothing new:

- A client reads what it is sent at once: nobody hears of it, and nothing is lost on that way.
- Publishers at one broker publish in the order of the scope.
- PUBACKs of markers: see `SideSteps`. What a broker has read when: see `small_side`.
"""

from collections.abc import Iterator

from mqloom.core import layout
from mqloom.core.events import RecordReceived
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.seen import Seen
from mqloom.lab.node_store import NodeStore
from mqloom.lab.small_clients import Clients, record_of
from mqloom.lab.small_scope import Scope, payload_of
from mqloom.lab.small_side import Names, Outward, crashes
from mqloom.lab.small_steps import BuildNode, Catalogue, SideSteps, Step, ViolationError
from mqloom.lab.small_values import QUEUE_MAX, Action, Rest, State, Way


class SmallWorld:
    """The rules of a world of one scope: from a state to the actions that are possible, and to the state after one."""

    def __init__(self, scope: Scope, build: BuildNode, seen: type[Seen] = Seen) -> None:
        self.scope = scope
        self.store = NodeStore()
        self.gateways = scope.gateways
        self.ways = [(one, other) for pair in scope.all_links for one, other in (pair, pair[::-1])]
        self._place = {gateway: place for place, gateway in enumerate(self.gateways)}
        self._way = {pair: index for index, pair in enumerate(self.ways)}
        self._outgoing = [
            [(self._way[gateway, other], other) for one, other in self.ways if one == gateway]
            for gateway in self.gateways
        ]
        payloads = tuple((each.topic, payload_of(each)) for each in scope.publications)
        self.sides = [
            SideSteps(
                Names(gateway, tuple(other for _, other in self._outgoing[place]), payloads, bool(scope.move)),
                self.store,
                build,
                tuple(
                    RecordReceived(client=client, data=data)
                    for client, data in (record_of(each) for each in scope.subscribers if each.gateway == gateway)
                ),
            )
            for place, gateway in enumerate(self.gateways)
        ]
        self.way_values: Catalogue[Way] = Catalogue()
        self.clients = Clients(scope, seen)
        self.rests: Catalogue[Rest] = Catalogue()
        self._client = {
            layout.out(each.gateway, ClientId(each.name)): index for index, each in enumerate(scope.subscribers)
        }
        self._first_way = len(self.gateways)
        self.first_client = self._first_way + len(self.ways)

    # ---- what may happen -----------------------------------------------------------------------------------------

    def actions(self, state: State) -> list[Action]:
        """Return what may happen; none of a world at rest that has seen everything."""
        rest = self.rests.values[state[-1]]
        actions = list(self.ordinary(state))
        if self.scope.delays is not None and actions:
            actions = self._in_turn(actions, rest)
        if not actions or (rest.hastes < self.scope.hastes and all(each.queue in rest.slow for each in actions)):
            wait = self.wait(state)
            if wait is not None:
                actions.append(wait)
        actions += self._entering(rest)
        actions += self._faults(state, rest)
        return actions

    def _in_turn(self, actions: list[Action], rest: Rest) -> list[Action]:
        """Return the first that is not slow, the same being made slow, and all those that are slow."""
        slow = [action for action in actions if action.queue in rest.slow]
        first = next((action for action in actions if action.queue not in rest.slow), None)
        if first is None:
            return slow
        if rest.delays == self.scope.delays:
            return [first, *slow]
        return [first, Action(-1, ("delay", first.queue)), *slow]

    def ordinary(self, state: State) -> Iterator[Action]:
        """Yield the first of each queue, in turn."""
        for place, side in enumerate(self.sides):
            if not side.sides.values[state[place]].node:
                continue
            for step in side.offer(state[place]).steps:
                yield Action(place, step)
        for way, (sender, receiver) in enumerate(self.ways):
            value = self.way_values.values[state[self._first_way + way]]
            if value.frames:
                yield Action(self._place[receiver], ("frame", sender, value.frames[0]), way)
            if value.news:
                yield Action(self._place[sender], ("news", receiver, value.news[0]), way)

    def wait(self, state: State) -> Action | None:
        """Return that time passes to the next waking, if there is one."""
        times = [side.offer(number).wakes_in for side, number in zip(self.sides, state, strict=False)]
        seconds = min((each for each in times if each is not None), default=None)
        return None if seconds is None or seconds <= 0 else Action(-1, ("time", seconds))

    def _entering(self, rest: Rest) -> Iterator[Action]:
        seen: set[GatewayId] = set()
        for index, publication in enumerate(self.scope.publications):
            if index not in rest.entered and publication.gateway not in seen:
                seen.add(publication.gateway)
                yield Action(self._place[publication.gateway], ("enter", index))

    def _faults(self, state: State, rest: Rest) -> Iterator[Action]:
        if rest.down >= 0:
            yield Action(rest.down, ("restart",))
        elif rest.crashes < self.scope.crashes:
            for gateway in self.scope.may_crash:
                place = self._place[gateway]
                for lost in crashes(self.sides[place].sides.values[state[place]]):
                    yield Action(place, ("crash", lost))
        if rest.breaks < self.scope.breaks:
            yield from self._breaks(state)
        if rest.cut >= 0:
            yield Action(-1, ("heal",))
        elif rest.cuts < self.scope.cuts:
            for index in range(len(self.scope.may_cut)):
                yield Action(-1, ("cut", index))

    def _breaks(self, state: State) -> Iterator[Action]:
        for place in map(self._place.__getitem__, self.scope.may_break):
            if self._is_running(state, place):
                unread = self.sides[place].sides.values[state[place]].unread
                yield from (Action(place, ("break", read)) for read in range(len(unread) + 1))

    def is_at_rest(self, state: State) -> bool:
        """Whether nothing will happen any more without a further fault."""
        rest = self.rests.values[state[-1]]
        return (
            rest.down < 0
            and rest.cut < 0
            and len(rest.entered) == len(self.scope.publications)
            and next(self.ordinary(state), None) is None
            and self.wait(state) is None
        )

    # ---- what then is --------------------------------------------------------------------------------------------

    def after(self, state: State, action: Action) -> State:
        """Return the state after an action; raises ViolationError."""
        parts = list(state)
        rest = self.rests.values[state[-1]]
        match action.step:
            case ("time", _):
                self._pass_time(parts, action.step)
                if rest.slow and next(self.ordinary(state), None) is not None:
                    self._note(parts, hastes=rest.hastes + 1)
            case ("delay", queue):
                self._note(parts, delays=rest.delays + 1, slow=rest.slow | {queue})
            case ("cut", int(index)):
                self._cut(parts, index)
            case ("heal",):
                self._heal(parts)
            case _:
                if rest.slow and action.queue in rest.slow:
                    self._note(parts, slow=rest.slow - {action.queue})
                self._act(parts, action)
        return tuple(parts)

    def _act(self, parts: list[int], action: Action) -> None:
        """Let something happen at one gateway."""
        place, kind = action.place, action.step[0]
        if kind == "frame":
            self._change_way(parts, action.way, frames=self._way_of(parts, action.way).frames[1:])
        elif kind == "news":
            self._change_way(parts, action.way, news=self._way_of(parts, action.way).news[1:])
        elif kind == "enter":
            self._note(parts, entered=self.rests.values[parts[-1]].entered | {action.step[1]})
        elif kind == "crash":
            self._crash(parts, place)
        elif kind == "break":
            self._note(parts, breaks=self.rests.values[parts[-1]].breaks + 1)
        parts[place], outward = self.sides[place].take(parts[place], action.step)
        if kind == "restart":
            self._restart(parts, place)
        for each in outward:
            self._send(parts, place, each)
        if kind in ("crash", "break"):
            self.make_safe(parts)

    def _send(self, parts: list[int], place: int, outward: Outward) -> None:
        gateway = self.gateways[place]
        if outward.kind == "client":
            client = self._client.get(outward.to)
            if client is None:
                raise ViolationError(f"something was published for nobody: {outward.to}")
            index = self.first_client + client
            parts[index] = self.clients.read(client, parts[index], outward.data)
            return
        other = GatewayId(outward.to)
        way = self._way[(other, gateway) if outward.kind == "ack" else (gateway, other)]
        value = self._way_of(parts, way)
        if outward.kind in ("open", "close"):
            self._connect(parts, way, is_up=outward.kind == "open")
            return
        if not value.is_up:
            return
        if outward.kind == "ack":
            self._change_way(parts, way, news=(*value.news, outward.data))
        elif self._is_running(parts, self._place[other]):
            self._change_way(parts, way, frames=(*value.frames, outward.data))

    def _connect(self, parts: list[int], way: int, *, is_up: bool) -> None:
        """Open or close a connection; what was written before it is closed still arrives."""
        is_there = self._is_running(parts, self._place[self.ways[way][1]])
        self._change_way(parts, way, is_up=is_up, news=("connected",) if is_up and is_there else ())

    # ---- faults and time -----------------------------------------------------------------------------------------

    def _pass_time(self, parts: list[int], step: Step) -> None:
        for place, side in enumerate(self.sides):
            if side.sides.values[parts[place]].node:
                parts[place], _ = side.take(parts[place], step)

    def _crash(self, parts: list[int], place: int) -> None:
        """Its connections break, and its last will tells its neighbours, if they listen."""
        for way, other in self._outgoing[place]:
            parts[self._first_way + way] = self.way_values.number(Way(is_up=False))
            back = self._way[other, self.gateways[place]]
            value = self._way_of(parts, back)
            self._change_way(parts, back, frames=(), news=(*value.news, "lost") if value.is_up else ())
        rest = self.rests.values[parts[-1]]
        self._note(parts, crashes=rest.crashes + 1, down=place)

    def make_safe(self, parts: list[int]) -> None:
        """Who will neither crash nor lose its broker any more loses nothing of what it has written."""
        rest = self.rests.values[parts[-1]]
        for place, (gateway, side) in enumerate(zip(self.gateways, self.sides, strict=True)):
            may_crash = rest.crashes < self.scope.crashes and gateway in self.scope.may_crash
            may_break = rest.breaks < self.scope.breaks and gateway in self.scope.may_break
            if not may_crash and not may_break:
                parts[place], outward = side.take(parts[place], ("safe",))
                for each in outward:
                    self._send(parts, place, each)

    def _restart(self, parts: list[int], place: int) -> None:
        rest = self.rests.values[parts[-1]]
        self._note(parts, down=-1)
        for way, other in self._outgoing[place]:
            if not self._is_cut(rest, way) and not self.scope.move:
                parts[self._first_way + way] = self.way_values.number(Way(is_up=True, news=("connected",)))
            back = self._way[other, self.gateways[place]]
            value = self._way_of(parts, back)
            if value.is_up:
                self._change_way(parts, back, news=(*value.news, "connected"))

    def _cut(self, parts: list[int], index: int) -> None:
        rest = self.rests.values[parts[-1]]
        self._note(parts, cuts=rest.cuts + 1, cut=index)
        for pair in self.scope.may_cut[index]:
            if self._way_of(parts, self._way[pair]).is_up:
                parts[self._first_way + self._way[pair]] = self.way_values.number(Way(is_up=False, news=("lost",)))

    def _heal(self, parts: list[int]) -> None:
        rest = self.rests.values[parts[-1]]
        self._note(parts, cut=-1)
        for sender, receiver in self.scope.may_cut[rest.cut]:
            if self._is_running(parts, self._place[sender]):
                way = self._way[sender, receiver]
                news = self._way_of(parts, way).news
                is_there = self._is_running(parts, self._place[receiver])
                self._change_way(parts, way, is_up=True, news=(*news, "connected") if is_there else news)

    def _is_cut(self, rest: Rest, way: int) -> bool:
        return rest.cut >= 0 and self.ways[way] in self.scope.may_cut[rest.cut]

    def _is_running(self, parts: list[int] | State, place: int) -> bool:
        return self.sides[place].sides.values[parts[place]].node != 0

    def _way_of(self, parts: list[int], way: int) -> Way:
        return self.way_values.values[parts[self._first_way + way]]

    def _change_way(self, parts: list[int], way: int, **change: object) -> None:
        value = self._way_of(parts, way)._replace(**change)  # type: ignore[arg-type]
        if max(len(value.frames), len(value.news)) > QUEUE_MAX:
            raise ViolationError(f"over {QUEUE_MAX} messages from {self.ways[way][0]} to {self.ways[way][1]}")
        parts[self._first_way + way] = self.way_values.number(value)

    def _note(self, parts: list[int], **change: object) -> None:
        parts[-1] = self.rests.number(self.rests.values[parts[-1]]._replace(**change))  # type: ignore[arg-type]

"""Links that lose frames, connections that break, gateways that start anew: afterwards all is as if none of it were."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from mqloom.core.effects import SendFrame
from mqloom.core.events import LinkConnected, LinkLost
from mqloom.core.ids import GatewayId
from mqloom.core.limits import FLUSH_DEADLINE_S, HELLO_EVERY_S, LINK_GRACE_S
from mqloom.gateway.links import LinkState
from mqloom.lab.simulation import Client, LinkName, World, random_tree

WISHES = [
    ("stocks/#", ""),
    ("stocks/+", ""),
    ("stocks/a", ""),
    ("stocks/#", "volume > 10"),
    ("stocks/+", "volume > 20"),
    ("stocks/a", "volume BETWEEN 12 AND 18"),
    ("stocks/#", "symbol = 'a'"),
    ("stocks/#", "symbol = 'a' AND volume < 15"),
    ("stocks/#", "symbol = 'b'"),
    ("other", ""),
]
QUOTES: list[tuple[str, int]] = [("a", 5), ("a", 15), ("b", 15), ("c", 25)]
QUIET_S = 2 * FLUSH_DEADLINE_S + 2 * LINK_GRACE_S + 2 * HELLO_EVERY_S
A, B, C, D = (GatewayId(name) for name in "ABCD")
CHAIN: list[LinkName] = [(A, B), (B, C), (C, D)]

Row = tuple[str, str, str]
Tables = dict[GatewayId, list[Row]]


class FaultyWorld(World):
    """A world in which a cut link holds what is sent, as a driver does, and a gateway may never have been started."""

    def __init__(self, links: Sequence[LinkName], gateways: Sequence[GatewayId], delay: float = 0.01) -> None:
        self.randomness = random.Random(len(links))
        self.held: dict[LinkName, list[SendFrame]] = {}
        self.epochs = dict.fromkeys(gateways, 1)
        self.subscribers: list[Client] = []
        self.count = 0
        super().__init__(links, gateways, lambda: delay * (0.5 + self.randomness.random()))

    def add_client(self, gateway: GatewayId, name: str = "c") -> Client:
        client = self.client(gateway, name)
        self.subscribers.append(client)
        return client

    def is_cut(self, one: GatewayId, other: GatewayId) -> bool:
        return (one, other) in self.held and (other, one) in self.held

    def cut(self, one: GatewayId, other: GatewayId) -> None:
        for link in ((one, other), (other, one)):
            self.held.setdefault(link, [])
        super().cut(one, other)

    def heal(self, one: GatewayId, other: GatewayId) -> None:
        held = {link: self.held.pop(link) for link in ((one, other), (other, one))}
        for (sender, _), effects in held.items():
            for effect in effects:
                self._send(sender, effect)
        super().heal(one, other)

    def turn_way(self, sender: GatewayId, receiver: GatewayId) -> None:
        """Break the connection of one direction, or mend it; the other direction has its own."""
        if (sender, receiver) in self.held:
            for effect in self.held.pop((sender, receiver)):
                self._send(sender, effect)
            self.happen(sender, LinkConnected(neighbour=receiver))
        else:
            self.drop_under_way(sender, receiver)
            self.held[sender, receiver] = []
            self.happen(sender, LinkLost(neighbour=receiver))

    def restart(self, gateway: GatewayId) -> None:
        """Start a gateway anew; its broker keeps frames for it, and replays the records of its clients."""
        self.epochs[gateway] += 1
        self.start(gateway, self.epochs[gateway])
        for client in self.subscribers:
            if client.gateway == gateway and client.wishes:
                client._write()

    def wait(self, seconds: float) -> None:
        self.run(self.now + seconds)
        self.check()

    def _send(self, sender: GatewayId, effect: SendFrame) -> None:
        if (sender, effect.neighbour) in self.held:
            if not effect.urgent:
                self.held[sender, effect.neighbour].append(effect)
        elif effect.neighbour in self.nodes:
            super()._send(sender, effect)

    # ---- judging ---------------------------------------------------------------------------------------------------

    def tables(self) -> Tables:
        return {
            gateway: sorted(
                (entry.source or "", entry.subscription.topics, str(entry.subscription.where))
                for entry in node._routes._entries.values()
            )
            for gateway, node in self.nodes.items()
        }

    def fresh_tables(self) -> Tables:
        """Return the tables of a federation that has never known anything else."""
        fresh = FaultyWorld(self._links, list(self.nodes))
        fresh.wait(QUIET_S)
        for client in self.subscribers:
            twin = fresh.client(client.gateway, client.id)
            for name, wish in client.wishes.items():
                twin.subscribe(name, wish.topics, wish.where)
        fresh.wait(QUIET_S)
        return fresh.tables()

    def publish_everywhere(self) -> list[dict[str, object]]:
        published = []
        for gateway in self.nodes:
            for symbol, volume in QUOTES:
                self.count += 1
                attributes: dict[str, object] = {"id": self.count, "symbol": symbol, "volume": volume}
                published.append(attributes)
                self.publish(gateway, f"stocks/{symbol}", attributes)
        return published

    def assert_nothing_twice(self) -> None:
        for client in self.subscribers:
            got = Counter(
                (attributes["id"], name)  # type: ignore[index]
                for attributes, names in client.received
                for name in names
            )
            assert max(got.values(), default=1) == 1, client.gateway

    def judge(self) -> None:
        """All links are up, all tables are right, every subscription is established and gets everything once."""
        self.check()
        self.assert_nothing_twice()
        for node in self.nodes.values():
            up = {neighbour for neighbour, state in node.link_states().items() if state is LinkState.UP}
            assert up == {neighbour for neighbour in node.link_states() if neighbour in self.nodes}, node.gateway
        assert self.tables() == self.fresh_tables()
        for client in self.subscribers:
            client.received.clear()
            for name in client.wishes:
                assert client.answer(name) in ("established", "ended"), (client.gateway, name)  # ended: an earlier one
        published = self.publish_everywhere()
        self.wait(15)  # seven links at 1.2 seconds, and some
        for client in self.subscribers:
            for name, wish in client.wishes.items():
                got = Counter(
                    attributes["id"]  # type: ignore[index]
                    for attributes, names in client.received
                    if name in names
                )
                wanted = {each["id"]: 1 for each in published if wants(wish.topics, wish.where, each)}
                assert got == Counter(wanted), (client.gateway, name, wish)


def wants(topics: str, where: str, attributes: dict[str, object]) -> bool:
    symbol, volume = attributes["symbol"], attributes["volume"]
    assert isinstance(volume, int)
    meanings = {
        "": True,
        "volume > 10": volume > 10,
        "volume > 20": volume > 20,
        "volume BETWEEN 12 AND 18": 12 <= volume <= 18,
        "symbol = 'a'": symbol == "a",
        "symbol = 'a' AND volume < 15": symbol == "a" and volume < 15,
        "symbol = 'b'": symbol == "b",
    }
    return (topics in ("stocks/#", "stocks/+") or topics == f"stocks/{symbol}") and meanings[where]


def chain() -> FaultyWorld:
    """Return four gateways in a row, a client with wishes of its own at each, all established."""
    world = FaultyWorld(CHAIN, [A, B, C, D])
    world.wait(3)
    for index, gateway in enumerate((A, B, C, D)):
        client = world.add_client(gateway)
        for number in (index, index + 3, index + 6):
            client.subscribe(f"s{number}", *WISHES[number])
    world.wait(3)
    world.judge()
    return world


# ---- one fault at a time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gateway", [A, B, C])
def test_after_a_gateway_has_started_anew_the_federation_is_as_before(gateway: GatewayId) -> None:
    world = chain()
    world.restart(gateway)
    world.wait(QUIET_S)
    world.judge()


def test_neighbours_that_start_anew_together_find_each_other() -> None:
    world = chain()
    world.restart(B)
    world.restart(C)
    world.wait(QUIET_S)
    world.judge()


def test_a_gateway_may_start_anew_again_and_again() -> None:
    world = chain()
    for pause in (0.0, 0.005, 0.01, 0.02, 0.5, 3.0):
        world.restart(B)
        world.wait(pause)
    world.wait(QUIET_S)
    world.judge()


def test_what_clients_changed_while_their_gateway_was_away_counts() -> None:
    world = chain()
    client = world.subscribers[0]
    del client.wishes["s0"]
    world.restart(A)
    world.wait(QUIET_S)
    world.judge()


@pytest.mark.parametrize(("sender", "receiver"), [(B, C), (C, B)])
def test_frames_lost_silently_are_noticed_with_the_next_one(sender: GatewayId, receiver: GatewayId) -> None:
    world = chain()
    world.subscribers[0].unsubscribe("s0")  # the cover of much
    world.subscribers[3].unsubscribe("s3")
    world.drop_under_way(A, B)
    world.drop_under_way(D, C)
    world.wait(FLUSH_DEADLINE_S + 1)
    world.subscribers[0].subscribe("new", *WISHES[4])
    world.subscribers[3].subscribe("new", *WISHES[5])
    world.drop_under_way(sender, receiver)
    world.publish_everywhere()
    world.wait(QUIET_S)
    world.judge()
    assert sum(node.counters.total("frames_resent") for node in world.nodes.values()) > 0


def test_losing_the_greetings_of_a_beginning_only_delays_it() -> None:
    world = FaultyWorld(CHAIN, [A, B, C, D])
    world.add_client(A).subscribe("s", *WISHES[0])
    for pause in (0.0, 0.008, 0.013, HELLO_EVERY_S, 0.011, 0.02):
        world.wait(pause)
        world.drop_under_way(A, B)
        world.drop_under_way(C, B)
    world.wait(LINK_GRACE_S)
    world.subscribers[0].subscribe("t", *WISHES[9])  # a lost last frame is noticed with the next one
    world.wait(QUIET_S)
    world.judge()


@pytest.mark.parametrize("pause", [0.0, 0.02, LINK_GRACE_S - 0.1])
def test_a_break_within_the_grace_loses_no_subscription(pause: float) -> None:
    world = chain()
    world.subscribers[0].subscribe("before", *WISHES[4])  # its announcement is lost on the way
    world.wait(0.012)
    world.cut(B, C)
    world.subscribers[3].subscribe("during", *WISHES[5])
    world.wait(pause)
    world.heal(B, C)
    world.wait(QUIET_S)
    world.judge()


def test_a_break_past_the_grace_is_gone_on_without_and_healed() -> None:
    world = chain()
    world.cut(B, C)
    world.wait(LINK_GRACE_S + 1)
    assert world.nodes[B].link_states()[C] is LinkState.DOWN
    client = world.subscribers[0]
    client.subscribe("during", *WISHES[9])
    client.unsubscribe("s0")
    world.wait(1)
    assert client.answer("during") == "established"
    assert client.answer("s0") == "ended"
    world.heal(B, C)
    world.wait(QUIET_S)
    world.judge()


def test_a_side_that_gave_up_alone_is_heard_again() -> None:
    # Each direction has a connection of its own: B cannot write to C for a while, C notices nothing.
    world = chain()
    world.turn_way(B, C)
    world.wait(LINK_GRACE_S + 1)
    assert world.nodes[B].link_states()[C] is LinkState.DOWN
    assert world.nodes[C].link_states()[B] is LinkState.UP
    world.subscribers[0].subscribe("during", *WISHES[9])
    world.turn_way(B, C)
    world.wait(QUIET_S)
    world.judge()


def test_with_a_broker_never_started_subscriptions_are_established_after_the_grace() -> None:
    world = FaultyWorld([*CHAIN, (B, GatewayId("X"))], [A, B, C, D])
    client = world.add_client(A)
    client.subscribe("s", *WISHES[0])
    world.wait(LINK_GRACE_S - 0.5)
    assert client.answer("s") is None
    world.wait(1)
    assert client.answer("s") == "established"
    client.subscribe("later", *WISHES[9])
    world.wait(1)
    assert client.answer("later") == "established"
    world.judge()


def test_a_broker_that_comes_late_learns_everything() -> None:
    late = GatewayId("X")
    world = FaultyWorld([*CHAIN, (B, late)], [A, B, C, D])
    world.add_client(A).subscribe("s", *WISHES[0])
    world.wait(60)
    world.epochs[late] = 0
    world.restart(late)
    world.add_client(late).subscribe("t", *WISHES[3])
    world.wait(QUIET_S)
    world.judge()


def test_a_lost_gateway_does_not_hold_up_an_unsubscription() -> None:
    world = chain()
    world.cut(A, B)
    world.subscribers[3].unsubscribe("s3")
    world.wait(FLUSH_DEADLINE_S + 1)
    assert world.subscribers[3].answer("s3") == "ended"


# ---- storms ------------------------------------------------------------------------------------------------------


class Storm:
    """Random faults and wishes on a random tree."""

    def __init__(self, count: int, seed: int) -> None:
        self.randomness = random.Random(seed)
        self.gateways, self.links = random_tree(count, self.randomness)
        self.world = FaultyWorld(self.links, self.gateways, self.randomness.choice((0.005, 0.1, 0.8)))
        for gateway in self.gateways:
            self.world.add_client(gateway)
        self.number = 0

    def act(self) -> None:
        world, randomness = self.world, self.randomness
        kind = randomness.choice(["subscribe", "subscribe", "unsubscribe", "publish", "restart", "drop", "link", "way"])
        client = randomness.choice(world.subscribers)
        if kind == "subscribe":
            self.number += 1
            client.subscribe(f"s{self.number}", *randomness.choice(WISHES))
        elif kind == "unsubscribe" and client.wishes:
            client.unsubscribe(randomness.choice(list(client.wishes)))
        elif kind == "publish":
            world.publish_everywhere()
        elif kind == "restart":
            world.restart(randomness.choice(self.gateways))
        elif self.links:
            one, other = randomness.choice(self.links)
            if kind == "drop":
                world.drop_under_way(*randomness.choice(((one, other), (other, one))))
            elif kind == "link":
                (world.heal if world.is_cut(one, other) else world.cut)(one, other)
            else:
                world.turn_way(*randomness.choice(((one, other), (other, one))))

    def rage(self, steps: int) -> None:
        for _ in range(steps):
            self.act()
            self.world.wait(self.randomness.choice((0.0, 0.01, 0.1, 1.0, 3.0)) * self.randomness.random())

    def calm(self) -> None:
        """End all faults; every link carries something once more, so that what was lost is noticed."""
        for sender, receiver in list(self.world.held):
            self.world.turn_way(sender, receiver)
        for one, other in self.links:
            self.world.cut(one, other)
            self.world.heal(one, other)
        self.world.wait(QUIET_S)
        self.world.judge()

    def end(self) -> None:
        """After all have unsubscribed nothing is left."""
        for client in self.world.subscribers:
            for name in list(client.wishes):
                client.unsubscribe(name)
        self.world.wait(QUIET_S)
        assert all(table == [] for table in self.world.tables().values())


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 7), seed=st.integers(0, 2**32), steps=st.integers(0, 40))
def test_after_a_storm_the_federation_is_as_if_it_had_never_been(count: int, seed: int, steps: int) -> None:
    note(f"seed {seed}")
    storm = Storm(count, seed)
    storm.rage(steps)
    storm.calm()
    storm.end()


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12))])
def test_after_a_long_storm_too(seed: int) -> None:
    storm = Storm(8, seed)
    for _ in range(3):
        storm.rage(80)
        storm.calm()
    storm.end()

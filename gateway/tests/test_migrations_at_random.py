"""Moves of many clients that obey, stay, say nothing, restart or vanish as they like: every request comes to an end."""

import random
from dataclasses import dataclass, field

import msgspec
import pytest

from mqloom.core.effects import Effect, PublishLocally, WakeAt
from mqloom.core.events import OrderAnswered, Ordered, RecordReceived, RecordsRead, Started, Woke
from mqloom.core.ids import ClientId
from mqloom.core.limits import DRAIN_TRIES_MAX, ORDER_S_MAX
from mqloom.core.migration_records import (
    Bounds,
    MigrationAnswer,
    MigrationRequest,
    decode_migration_answer,
    encode_migration,
)
from mqloom.core.orders import MoveOrder, OrderAnswer, encode_order_answer, is_order, read_order
from mqloom.core.records import Record, Wish, encode_record
from mqloom.gateway.node import Node
from mqloom.lab.gate import US
from mqloom.lab.ordering_gate import EAST, KEY, NORTH, parts


@dataclass(slots=True)
class Client:
    """A client as it is, whatever the gateway believes."""

    name: ClientId
    life: int = 1
    is_here: bool = True
    order: MoveOrder | None = None


@dataclass(slots=True)
class Crowd:
    """A node, its clients and its operators, at random."""

    randomness: random.Random
    now: float = 0.0
    node: Node = field(init=False)
    clients: dict[ClientId, Client] = field(default_factory=dict)
    words: dict[str, list[MigrationAnswer]] = field(default_factory=dict)
    orders: list[MoveOrder] = field(default_factory=list)
    wake_at: float | None = None

    def __post_init__(self) -> None:
        self.node = Node(parts(), 0.0)
        self.handle(Started())
        self.handle(RecordsRead())
        for number in range(12):
            client = Client(ClientId(f"c{number}"))
            self.clients[client.name] = client
            self.write(client)

    def handle(self, event: Started | RecordsRead | Woke | RecordReceived | OrderAnswered | Ordered) -> None:
        self.take(self.node.handle(event, self.now))
        self.node.check()

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.wake_at = effect.at
            elif isinstance(effect, PublishLocally) and "/ctl/" in effect.topic:
                who = effect.topic.rsplit("/", 1)[1]
                if is_order(effect.payload):
                    self.ordered(read_order(effect.payload, [KEY.public]))
                elif who.startswith("operator"):
                    self.words.setdefault(who, []).append(decode_migration_answer(effect.payload))

    def ordered(self, order: MoveOrder) -> None:
        client = self.clients[order.client]
        assert client.is_here
        assert (order.source, order.to != US) == (US, True)
        assert order.incarnation == f"life {client.life}"
        assert order.session not in {each.session for each in self.orders}
        self.orders.append(order)
        client.order = order

    def write(self, client: Client, **fields: object) -> None:
        record = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame", incarnation=f"life {client.life}")
        record = msgspec.structs.replace(record, **fields)
        self.handle(RecordReceived(client=client.name, data=encode_record(record)))

    def answer(self, client: Client, answer: str, problem: str = "") -> None:
        assert client.order is not None
        said = msgspec.convert({"session": client.order.session, "answer": answer, "problem": problem}, OrderAnswer)
        self.handle(OrderAnswered(client=client.name, data=encode_order_answer(said)))

    def ask(self, number: int) -> None:
        drawn = self.randomness.choice(("migrate", "migrate", "drain", "undrain", "return"))
        action = drawn if number else "drain"
        request = msgspec.convert({"number": number, "action": action}, MigrationRequest)
        clients = tuple(self.randomness.sample(sorted(self.clients), 4)) if action == "migrate" else ()
        bounds = Bounds(
            rate=self.randomness.choice((0.0, 0.5, 5.0)),
            at_once=self.randomness.choice((1, 2, 50)),
            deadline_s=self.randomness.choice((5.0, 60.0)),
        )
        to = () if action == "undrain" else (self.randomness.choice((EAST, NORTH)),)
        request = msgspec.structs.replace(request, clients=clients, to=to, bounds=bounds)
        operator = ClientId(f"operator{number}")
        self.words[operator] = []
        self.handle(Ordered(client=operator, data=encode_migration(request)))

    def step(self) -> None:
        """Let one client do something."""
        client = self.randomness.choice(list(self.clients.values()))
        if not client.is_here:
            if self.randomness.random() < 0.3:  # it comes back by itself
                client.is_here, client.order, client.life = True, None, client.life + 1
                self.write(client)
            return
        order = client.order
        match self.randomness.choice(("obey", "obey", "stay", "restart", "vanish", "renew", "nothing", "nothing")):
            case "obey" if order is not None:
                self.answer(client, "moving")
                self.write(client, moving_to=order.to)
                if self.randomness.random() < 0.7:
                    self.answer(client, "arrived")
                    self.write(client, leaving_to=order.to)
                    client.is_here = False
                    self.write(client, subscriptions={}, moved_to=order.to)
                    self.answer(client, "moved")
                else:
                    self.write(client)
                    self.answer(client, "stayed", "the other broker is down")
                client.order = None
            case "stay" if order is not None:
                self.answer(client, "stayed", "no")
                client.order = None
            case "restart":
                client.life, client.order = client.life + 1, None
                self.write(client)
            case "vanish" if self.randomness.random() < 0.3:
                client.is_here, client.order = False, None
                self.handle(RecordReceived(client=client.name, data=b""))
            case "renew":
                self.write(client)

    def wait(self, seconds: float) -> None:
        """Let time pass, waking the node when it wants."""
        end = self.now + seconds
        while self.wake_at is not None and self.wake_at <= end:
            self.now, self.wake_at = max(self.now, self.wake_at), None
            self.handle(Woke())
        self.now = end


@pytest.mark.parametrize("seed", range(30))
def test_every_request_comes_to_an_end_and_is_told_so_once(seed: int) -> None:
    crowd = Crowd(random.Random(seed))
    for number in range(8):
        crowd.ask(number)
        for _ in range(crowd.randomness.randrange(30)):
            crowd.step()
            crowd.wait(crowd.randomness.choice((0.0, 0.1, 1.0, 20.0)))
    assert len(crowd.orders) > 2
    migrations = crowd.node._migrations
    crowd.wait(DRAIN_TRIES_MAX * ORDER_S_MAX)
    assert migrations.under_way == 0
    for operator, words in crowd.words.items():
        assert [word.answer for word in words[:-1]] == ["migrating"] * (len(words) - 1), operator
        assert words[-1].answer in ("done", "refused"), operator
    counters = crowd.node.counters
    ended = counters.total("migrations_made") + sum(
        counters.value("migrations_stayed", reason) for reason in ("stayed", "silent", "restarted", "gone")
    )
    assert counters.total("migrations_ordered") == len(crowd.orders) <= ended

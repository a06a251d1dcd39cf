"""The federation as a whole, in virtual time, against an oracle that floods everything and filters by plain Python."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from mqloom.core.topics import topic_matches
from mqloom.lab.simulation import Client, World, random_tree

Attributes = dict[str, object]

# Filters with many covering relations among them, and beside each what it means in plain Python.
WISHES: list[tuple[str, str, Callable[[Attributes], bool]]] = [
    ("stocks/#", "", lambda a: True),
    ("stocks/+", "", lambda a: True),
    ("stocks/a", "", lambda a: True),
    ("stocks/#", "volume > 10", lambda a: a["volume"] > 10),  # type: ignore[operator]
    ("stocks/#", "volume > 20", lambda a: a["volume"] > 20),  # type: ignore[operator]
    ("stocks/+", "volume > 20", lambda a: a["volume"] > 20),  # type: ignore[operator]
    ("stocks/a", "volume BETWEEN 12 AND 18", lambda a: 12 <= a["volume"] <= 18),  # type: ignore[operator]
    ("stocks/#", "volume = 15", lambda a: a["volume"] == 15),
    ("stocks/#", "symbol = 'a'", lambda a: a["symbol"] == "a"),
    ("stocks/#", "symbol = 'a' AND volume < 15", lambda a: a["symbol"] == "a" and a["volume"] < 15),  # type: ignore[operator]
    ("stocks/#", "symbol = 'b' OR volume > 25", lambda a: a["symbol"] == "b" or a["volume"] > 25),  # type: ignore[operator]
    ("stocks/#", "NOT symbol IN ('a', 'b')", lambda a: a["symbol"] not in ("a", "b")),
]


@dataclass
class Asked:
    """One subscription of a run, and when it was asked for and taken back."""

    client: Client
    name: str
    wish: int
    withdrawn_at: float | None = None

    def established_at(self) -> float | None:
        return next(
            (at for at, said in self.client.answers if (said.name, said.answer) == (self.name, "established")), None
        )

    def wants(self, topic: str, attributes: Attributes) -> bool:
        topics, _, predicate = WISHES[self.wish]
        return topic_matches(topics, topic) and predicate(attributes)


class Run:
    """One random run: what was asked and published, and the judgement on what was received."""

    def __init__(self, gateways: int, seed: int) -> None:
        self.randomness = random.Random(seed)
        self.gateways, links = random_tree(gateways, self.randomness)
        self.pace = self.randomness.choice((0.01, 0.1, 0.5))
        self.world = World(links, self.gateways, self.delay)
        self.clients = [self.world.client(gateway, f"c{n}") for gateway in self.gateways for n in range(2)]
        self.asked: list[Asked] = []
        self.published: list[tuple[float, str, Attributes]] = []
        self.world.run(3.0)

    def delay(self) -> float:
        return self.randomness.choice((0.001, 0.05, 0.5)) * self.randomness.random()

    def subscribe(self, client: int, wish: int) -> None:
        asked = Asked(self.clients[client % len(self.clients)], f"s{len(self.asked)}", wish % len(WISHES))
        self.asked.append(asked)
        topics, where, _ = WISHES[asked.wish]
        asked.client.subscribe(asked.name, topics, where)

    def unsubscribe(self, which: int) -> None:
        standing = [asked for asked in self.asked if asked.withdrawn_at is None]
        if standing:
            asked = standing[which % len(standing)]
            asked.withdrawn_at = self.world.now
            asked.client.unsubscribe(asked.name)

    def publish(self, gateway: int, symbol: str, volume: int) -> None:
        attributes: Attributes = {"id": len(self.published), "symbol": symbol, "volume": volume}
        self.published.append((self.world.now, f"stocks/{symbol}", attributes))
        self.world.publish(self.gateways[gateway % len(self.gateways)], f"stocks/{symbol}", attributes)

    def finish(self) -> None:
        self.world.run(self.world.now + 20)
        self.world.check()
        for asked in self.asked:
            self.judge(asked)
        forwarded = sum(node.counters.total("publications_forwarded") for node in self.world.nodes.values())
        assert forwarded <= len(self.published) * (len(self.gateways) - 1), "a publication crossed a link twice"
        while any(asked.withdrawn_at is None for asked in self.asked):
            self.unsubscribe(0)
        self.world.run(self.world.now + 20)
        self.world.check()
        left = {name: node.subscription_counts() for name, node in self.world.nodes.items()}
        assert set(left.values()) == {(0, 0)}, f"table entries left: {left}"

    def judge(self, asked: Asked) -> None:
        received = Counter(
            attributes["id"]  # type: ignore[index]
            for attributes, names in asked.client.received
            if asked.name in names
        )
        established = asked.established_at()
        assert established is not None or asked.withdrawn_at is not None, f"{asked.name} was never established"
        for at, topic, attributes in self.published:
            count = received.pop(attributes["id"], 0)
            if not asked.wants(topic, attributes):
                assert count == 0, f"{asked.name} got {attributes}, which it did not ask for"
                continue
            assert count <= 1, f"{asked.name} got {attributes} {count} times"
            if established is not None and established < at and (asked.withdrawn_at or at + 1) > at:
                assert count == 1, f"{asked.name} at {asked.client.gateway} missed {attributes}"
        assert not received


actions = st.one_of(
    st.tuples(st.just("subscribe"), st.integers(0, 23), st.integers(0, len(WISHES) - 1)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("publish"), st.integers(0, 11), st.integers(0, 90)),
    st.tuples(st.just("publish"), st.integers(0, 11), st.integers(0, 90)),
    st.tuples(st.just("wait"), st.integers(0, 9), st.just(0)),
)


def perform(run: Run, script: list[tuple[str, int, int]]) -> None:
    for kind, first, second in script:
        run.world.run(run.world.now + run.randomness.random() * run.pace)
        if kind == "subscribe":
            run.subscribe(first, second)
        elif kind == "unsubscribe":
            run.unsubscribe(first)
        elif kind == "publish":
            run.publish(first, "abc"[second % 3], second // 3)
        else:
            run.world.run(run.world.now + first / 10)
    run.finish()


@settings(max_examples=150, deadline=None)
@given(gateways=st.integers(1, 12), seed=st.integers(0, 2**32), script=st.lists(actions, max_size=60))
def test_every_subscriber_gets_exactly_what_it_asked_for(
    gateways: int, seed: int, script: list[tuple[str, int, int]]
) -> None:
    note(f"seed {seed}")
    perform(Run(gateways, seed), script)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(5, 20))])
def test_long_runs_on_twelve_gateways(seed: int) -> None:
    randomness = random.Random(seed)
    kinds = ["subscribe", "unsubscribe", "publish", "publish", "publish", "wait"]
    script = [(randomness.choice(kinds), randomness.randrange(24), randomness.randrange(90)) for _ in range(400)]
    perform(Run(12, seed), script)

"""Whole drains in virtual time, with production cores on both sides: emptied under load, and nobody loses anything."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.migration_records import MigrationAnswer, MigrationRequest, encode_migration
from mqloom.core.orders import RosterBroker
from mqloom.core.signatures import OrderKeys
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.rosters import OrderParts
from mqloom.lab import checkers, faults
from mqloom.lab.node_builders import DATA, FEDERATION
from mqloom.lab.plan import FaultPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.traveller_model import ORDER_KEY, TravellerModel
from mqloom.lab.world import Options, World
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

WEST, HUB, EAST = "WEST", "HUB", "EAST"
NAMES = (WEST, HUB, EAST)
ORDERS = OrderParts(
    federation=FEDERATION,
    keys=OrderKeys(ORDER_KEY),
    brokers={GatewayId(name): RosterBroker(host=name) for name in NAMES},
    wall_at=lambda now: now,
)


def build(gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float) -> Node:
    """Return a node that orders clients."""
    parts = NodeParts(
        gateway=gateway,
        epoch=epoch,
        neighbours=neighbours,
        matcher=ScanMatcher(),
        overlay=TreeOverlay(gateway, neighbours),
        codecs=[("#", json_codec.mqloom_codec())],
        data=DATA,
        orders=ORDERS,
    )
    return Node(parts, now)


class Town:
    """Three brokers in a chain, clients at the first, and publishers at all of them."""

    def __init__(self, clients: int, *faults_: FaultPlan, length_s: float = 20.0, rate: float = 50.0) -> None:
        publications = tuple(
            PublicationPlan(
                at=round(4.0 + number / rate, 3),
                publisher=f"at {NAMES[number % 3]}",
                number=number,
                topic="stocks/a",
                attributes={"symbol": "a", "volume": number % 100},
            )
            for number in range(int((length_s - 6.0) * rate))
        )
        self.subscribers = [f"c{number}" for number in range(clients)]
        plan = Plan(
            seed=1,
            gateways=NAMES,
            links=((WEST, HUB), (HUB, EAST)),
            publishers={f"at {name}": name for name in NAMES},
            subscribers=tuple(
                SubscriberPlan(
                    name=name, gateway=WEST, wishes={"w": ("stocks/#", f"volume > {90 + index % 9}")}, travels=True
                )
                for index, name in enumerate(self.subscribers)
            ),
            publications=publications,
            faults=faults_,
            length_s=length_s,
        )
        self.world = World(plan, Options(build=build))
        self.mended_at = faults.schedule(self.world)

    def ask(self, at: float, action: str, gateway: str = WEST, to: Sequence[str] = (), **bounds: float) -> None:
        """Have an operator ask a gateway at a time."""
        request = msgspec.convert({"number": 1, "action": action, "to": list(to), "bounds": bounds}, MigrationRequest)
        if action == "migrate":
            request = replace(request, clients=tuple(map(ClientId, self.subscribers)))
        data = encode_migration(request)
        self.world.clock.at(at, partial(self.world.gateways[gateway].ask, data))

    def run(self) -> None:
        """Run to the end, and see that every promise was kept."""
        self.world.run(max(self.world.plan.length_s, self.mended_at) + 1)
        assert list(checkers.invariants(self.world)) == []
        assert self.world.settle(), list(self.world.unsettled())[:5]
        judgement = checkers.judge(self.world)
        assert judgement.findings == []
        assert judgement.delivered == judgement.expected > 0
        assert judgement.lost == 0

    def places(self) -> Counter[str]:
        """Return how many clients are at each broker; each has a session there and nowhere else."""
        found: Counter[str] = Counter()
        for name in self.subscribers:
            model = self.world.subscribers[name]
            assert isinstance(model, TravellerModel)
            found[model.at] += 1
            kept = [each for each, broker in self.world.brokers.items() if model.mqtt_client_id in broker.sessions]
            assert kept == [model.at]
        return found

    def last_word(self, gateway: str = WEST) -> MigrationAnswer:
        """Return what the operator was told last."""
        return self.world.gateways[gateway].words[-1][1]


def test_a_broker_is_emptied_under_load_and_nobody_loses_or_gets_twice() -> None:
    town = Town(30)
    town.ask(6.0, "drain", to=(HUB, EAST), at_once=5)
    town.run()
    assert town.places() == {HUB: 15, EAST: 15}
    word = town.last_word()
    assert (word.answer, word.moved, word.left, word.stayed) == ("done", 30, 0, 0)


@pytest.mark.full
def test_five_hundred_clients_are_moved_away_at_a_rate() -> None:
    town = Town(500, length_s=30.0, rate=4.0)
    town.ask(6.0, "drain", to=(HUB, EAST), rate=50.0)
    town.run()
    assert town.places() == {HUB: 250, EAST: 250}
    assert town.last_word().left == 0
    begun, done = (town.world.gateways[WEST].words[place][0] for place in (0, -1))
    assert 9.0 < done - begun < 15.0


def test_all_come_back_when_the_broker_is_no_longer_drained() -> None:
    town = Town(10, length_s=40.0)
    town.ask(6.0, "drain", to=(HUB, EAST))
    town.ask(15.0, "undrain")
    for gateway in (HUB, EAST):
        town.ask(16.0, "return", gateway, to=(WEST,))
    town.run()
    assert town.places() == {WEST: 10}


def test_an_operators_list_of_clients_moves_and_those_of_one_target_only_there() -> None:
    town = Town(6)
    town.ask(6.0, "migrate", to=(EAST,))
    town.run()
    assert town.places() == {EAST: 6}
    assert (town.last_word().answer, town.last_word().moved) == ("done", 6)


@pytest.mark.parametrize("after_s", [0.05, 0.3, 1.0])
def test_a_drain_goes_on_when_its_gateway_crashes_meanwhile(after_s: float) -> None:
    crash = FaultPlan(kind="gateway-crash", at=6.0 + after_s, lasts_s=2.0, target=(WEST,))
    town = Town(20, crash, length_s=40.0)
    town.ask(6.0, "drain", to=(HUB, EAST), at_once=3)
    town.run()
    assert town.places()[WEST] == 0


def test_while_a_broker_is_away_some_stay_and_the_next_run_takes_them_along() -> None:
    away = FaultPlan(kind="broker-restart", at=5.5, lasts_s=100.0, target=(EAST,))
    town = Town(8, away, length_s=150.0, rate=10.0)
    town.ask(6.0, "drain", to=(EAST, HUB), deadline_s=5.0)
    town.world.run(104.0)
    word = town.last_word()
    assert (word.answer, word.moved, word.stayed > 0, word.left) == ("migrating", 0, True, 8)
    assert word.under_way + word.stayed == 8  # the others are served elsewhere, and wait for what is under way to them
    town.ask(120.0, "drain", to=(EAST, HUB))
    town.run()
    assert town.places()[WEST] == 0
    assert (town.last_word().stayed, town.last_word().left) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("gateway-crash", (HUB,)),
        ("gateway-crash", (EAST,)),
        ("broker-restart", (WEST,)),
        ("broker-restart", (HUB,)),
        ("own-cut", (WEST,)),
        ("own-cut", (HUB,)),
        ("link-cut", (WEST, HUB)),
        ("link-cut", (HUB, EAST)),
        ("client-killed", ("c0",)),
        ("client-killed", ("c9",)),
    ],
)
@pytest.mark.parametrize("after_s", [0.02, 0.4])
def test_whatever_fails_meanwhile_a_drain_that_is_run_again_ends_and_nobody_loses_anything(
    kind: str, target: tuple[str, ...], after_s: float
) -> None:
    fault = FaultPlan(kind=kind, at=6.0 + after_s, lasts_s=8.0, target=target)
    town = Town(10, fault, length_s=90.0, rate=10.0)
    town.ask(6.0, "drain", to=(HUB, EAST), at_once=3, deadline_s=10.0)
    town.ask(80.0, "drain", to=(HUB, EAST))
    town.run()
    assert town.places()[WEST] == 0
    word = town.last_word()
    assert (word.answer, word.left) == ("done", 0)

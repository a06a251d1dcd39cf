"""The model of paper 000's simulation: what it works out is what a plain simulation would find."""

import dataclasses
import random

import numpy as np
import pytest

from mqloom.core.ids import GatewayId
from mqloom.lab.clock import Clock
from mqloom.lab.padres_moves import Moves
from mqloom.lab.padres_net import PadresNet
from mqloom.lab.padres_setups import B0, CHAIN, HETEROGENEOUS, SIMULATION, BrokerSetup, Setup
from mqloom.lab.padres_workload import Workload, churn

B1, B2 = GatewayId("B1"), GatewayId("B2")
SMALL = dataclasses.replace(SIMULATION, publishers=10, subscribers=60, join_s=20.0, change_at=60.0, length_s=100.0)
SMALL_CHAIN = dataclasses.replace(CHAIN, publishers=10, subscribers=60, join_s=20.0, change_at=60.0, length_s=100.0)


class Run:
    """A model whose subscribers join, and may be moved."""

    def __init__(self, setup: Setup, seed: int = 1) -> None:
        self.clock = Clock()
        self.net = PadresNet(Workload(setup, seed), self.clock)
        self.moves = Moves(self.net, random.Random(seed))
        for subscriber, stay in enumerate(self.net.workload.stays):
            self.clock.at(stay.joins_at, lambda subscriber=subscriber: self._joins(subscriber))  # type: ignore[misc]

    def _joins(self, subscriber: int) -> None:
        stay = self.net.workload.stays[subscriber]
        self.net.subscribe(subscriber, stay.broker)
        self.clock.at(self.clock.now + 0.01, lambda: self.net.establish(subscriber, stay.broker))

    def until(self, end: float) -> None:
        while self.clock.now < end:
            self.clock.run(until=min(end, self.clock.now + 0.1))
            self.net.advance()


def test_a_workload_matches_what_its_filters_match() -> None:
    workload = Workload(SMALL, 3)
    for quote in range(0, len(workload.quotes), 37):
        wanting = [at for at, each in enumerate(workload.interests) if each.wants(workload.quotes[quote])]
        assert workload.matching(quote).tolist() == wanting
        matches = [at for at, each in enumerate(workload.subscriptions) if each.where.matches(workload.quotes[quote])]
        assert matches == wanting


@pytest.mark.parametrize("setup", [SIMULATION, HETEROGENEOUS, CHAIN], ids=lambda setup: setup.name)
def test_half_of_the_publishers_double_their_rate(setup: Setup) -> None:
    times = Workload(dataclasses.replace(setup, subscribers=5), 1).publishing.times
    assert setup.change_at is not None
    before = np.count_nonzero(times < setup.change_at) / setup.change_at
    after = np.count_nonzero(times >= setup.change_at) / (setup.length_s - setup.change_at)
    assert before == pytest.approx(setup.publishers * 0.5, rel=0.01)
    assert after == pytest.approx(setup.publishers * 0.75, rel=0.01)


def test_the_share_of_subscribers_that_sink_nothing_is_that_of_the_table() -> None:
    workload = Workload(SIMULATION, 1)
    wanted = set().union(*(workload.matching(quote).tolist() for quote in range(len(workload.quotes))))
    assert len(wanted) / SIMULATION.subscribers == pytest.approx(0.75, abs=0.04)


def test_subscribers_that_churn_stay_between_seven_and_fourteen_minutes() -> None:
    stays = churn(SIMULATION, 1, per_min=60, stay_s=(420.0, 840.0), is_grouped=True)
    assert len(stays) == 6_000
    assert all(420 <= stay.leaves_at - stay.joins_at <= 840 for stay in stays)
    assert {stay.broker for stay in stays} == set(SIMULATION.edges)
    assert len({stay.broker for stay in stays[60:120]}) == 1


@pytest.mark.parametrize("setup", [SMALL, SMALL_CHAIN], ids=["star", "chain"])
def test_everybody_gets_once_what_it_wants_while_all_are_moved_to_and_fro(setup: Setup) -> None:
    run = Run(setup)
    run.until(30.0)
    edges, moved = setup.edges, 0
    for turn in range(6):
        source = edges[0] if turn % 2 == 0 else edges[-1]
        target = edges[-1] if turn % 2 == 0 else edges[0]
        ended: list[int] = []

        def note(who: object, stayed: object, ended: list[int] = ended) -> None:
            assert isinstance(who, list)
            ended += who

        run.moves.order(source, target, list(run.net.at[source]), 100.0, note)
        run.until(run.clock.now + 8.0)
        moved += len(ended)
    assert moved == 6 * setup.subscribers
    run.until(setup.length_s + 20.0)
    ledger = run.net.ledger
    assert ledger.owed > 1_000
    assert (ledger.lost, ledger.repeated) == (0, 0)
    assert ledger.dropped > 0
    assert not run.moves.moving


def test_whoever_unsubscribes_without_waiting_for_the_mark_loses_what_its_old_broker_holds() -> None:
    slow = {**SIMULATION.brokers, B1: SIMULATION.brokers[B1]._replace(speed=1.0)}
    run = Run(dataclasses.replace(SMALL, brokers=slow))
    run.until(40.0)
    for subscriber in list(run.net.at[B1]):
        run.net.subscribe(subscriber, B2)
        run.net.establish(subscriber, B2)
        run.net.unsubscribe(subscriber, B1)
    run.until(60.0)
    assert run.net.ledger.lost > 0
    assert run.net.ledger.repeated == 0


@pytest.mark.parametrize("speed", [100.0, 4.0])
def test_queues_are_those_of_a_plain_simulation(speed: float) -> None:
    setup = dataclasses.replace(SMALL, brokers={**SIMULATION.brokers, B1: BrokerSetup(speed, 16e6, 2_000.0)})
    clock = Clock()
    net = PadresNet(Workload(setup, 5), clock)
    for subscriber in range(setup.subscribers):
        net.subscribe(subscriber, B1 if subscriber % 2 else B2)
        net.establish(subscriber, B1 if subscriber % 2 else B2)
    expected = plain_delays(net)
    while clock.now < setup.length_s + 1_000:
        clock.run(until=clock.now + 3.7)
        net.advance()
    count = sum(number for number, _ in net.ledger.delays.values())
    assert count == len(expected)
    assert sum(total_s for _, total_s in net.ledger.delays.values()) == pytest.approx(sum(expected))
    for period, (number, _) in net.ledger.delays.items():
        assert number > 0
        assert period >= 0


def plain_delays(net: PadresNet) -> list[float]:
    """Return the delay of every copy, worked out one publication after the other."""
    setup, workload = net.setup, net.workload
    free = dict.fromkeys(net.brokers, 0.0)
    sent = dict.fromkeys(net.brokers, 0.0)
    delays = []
    for at, quote in zip(workload.publishing.times, workload.publishing.quotes, strict=True):
        matching = workload.matching(int(quote)).tolist()
        free[B0] = max(float(at), free[B0]) + net.brokers[B0].delay_s
        sent[B0] = max(sent[B0], free[B0])
        for edge in (B1, B2):
            copies = sum(subscriber in net.at[edge] for subscriber in matching)
            if copies:
                sent[B0] += setup.message_bytes / setup.brokers[B0].bytes_s
                free[edge] = max(sent[B0], free[edge]) + net.brokers[edge].delay_s
                sent[edge] = max(sent[edge], free[edge])
                for _ in range(copies):
                    sent[edge] += setup.message_bytes / setup.brokers[edge].bytes_s
                    delays.append(sent[edge] - float(at))
    return delays


def test_a_sample_tells_what_the_queues_did() -> None:
    run = Run(SMALL)
    run.until(40.0)
    for broker in run.net.brokers.values():
        broker.sample(run.clock.now)
    before = run.net.messages["deliveries"]
    run.until(50.0)
    load = run.net.brokers[B1].sample(run.clock.now)
    delivered = run.net.messages["deliveries"] - before
    assert load.subscriptions == SMALL.subscribers
    assert load.delay_s == pytest.approx(SMALL.law.at(60, 100))
    assert load.input_ratio == pytest.approx(load.input_rate * load.delay_s)
    bytes_s = SMALL.brokers[B1].bytes_s
    assert load.output_ratio == pytest.approx(delivered * SMALL.message_bytes / 10 / bytes_s, rel=0.05)


def test_a_broker_that_gets_more_than_it_can_send_is_overloaded_and_late() -> None:
    narrow = {**SIMULATION.brokers, B1: SIMULATION.brokers[B1]._replace(bytes_s=500.0)}
    run = Run(dataclasses.replace(SMALL, brokers=narrow))
    run.until(60.0)
    run.net.brokers[B1].sample(run.clock.now)
    run.until(70.0)
    load = run.net.brokers[B1].sample(run.clock.now)
    assert load.output_ratio > 1.0
    run.until(2_000.0)
    assert run.net.ledger.mean_delay_s(70.0, 2_000.0) > 10.0
    assert run.net.ledger.lost == 0

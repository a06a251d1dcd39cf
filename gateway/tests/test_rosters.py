"""The roster on a broker: of the configuration, signed, with a serial that only grows; nobody else's stays there."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.effects import PublishLocally
from mqloom.core.events import RosterRead, Woke
from mqloom.core.ids import GatewayId
from mqloom.core.limits import ROSTER_BROKERS_MAX, ROSTER_EVERY_S
from mqloom.core.orders import Roster, RosterBroker, read_roster, sign_roster
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.journal import Journal
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.rosters import OrderParts, RosterKeeper
from mqloom.lab.gate import Gate, parts_of

KEY, OTHER = OrderKey(b"k" * 32), OrderKey(b"o" * 32)
WEST, EAST = GatewayId("west"), GatewayId("east")
BROKERS = {WEST: RosterBroker(host="west.example"), EAST: RosterBroker(host="east.example", port=8883, tls=True)}
PARTS = OrderParts(federation="bank", keys=OrderKeys(KEY), brokers=BROKERS, wall_at=lambda now: 1_000.0 + now)
OLD = Roster(federation="bank", serial=7, brokers=BROKERS)


class Keeper:
    """A keeper beside a broker that hands back what is written there."""

    def __init__(self, kept: bytes = b"", parts: OrderParts | None = PARTS) -> None:
        self.counters = Counters()
        self.keeper = RosterKeeper(parts, Journal(self.counters))
        self.retained = kept
        if kept:
            self.keeper.found(kept)
        assert self.write(0.0) == []
        self.keeper.start()

    def write(self, now: float) -> list[Roster]:
        written = []
        for effect in self.keeper.drain(now):
            assert (effect.topic, effect.qos, effect.retain) == (layout.roster(), 1, True)
            self.retained = effect.payload
            self.keeper.found(effect.payload)
            written.append(read_roster(effect.payload, [KEY.public, OTHER.public]))
        return written


def test_a_roster_is_of_the_configuration_and_its_serial_the_time_of_day() -> None:
    keeper = Keeper()
    assert keeper.write(5.0) == [Roster(federation="bank", serial=1_005, brokers=BROKERS)]
    assert keeper.keeper.deadline is None
    assert keeper.write(50.0) == []
    assert keeper.keeper.roster == Roster(federation="bank", serial=1_005, brokers=BROKERS)


def test_without_an_order_key_there_is_none() -> None:
    keeper = Keeper(sign_roster(OLD, KEY), None)
    assert keeper.write(0.0) == []
    assert keeper.keeper.roster is None
    assert keeper.counters.snapshot() == {}


def test_what_an_earlier_run_kept_keeps_its_serial_if_it_says_the_same() -> None:
    keeper = Keeper(sign_roster(OLD, KEY))
    assert keeper.write(0.0) == [OLD]
    assert keeper.retained == sign_roster(OLD, KEY)


@pytest.mark.parametrize(("serial", "next_one"), [(7, 1_000), (5_000, 5_001)])
def test_another_configuration_gets_a_larger_serial(serial: int, next_one: int) -> None:
    kept = Roster(federation="bank", serial=serial, brokers={WEST: BROKERS[WEST]})
    (written,) = Keeper(sign_roster(kept, KEY)).write(0.0)
    assert written == Roster(federation="bank", serial=next_one, brokers=BROKERS)


def test_another_key_signs_the_same_roster_anew() -> None:
    keeper = Keeper(sign_roster(OLD, KEY), replace(PARTS, keys=OrderKeys(OTHER, (KEY.public,))))
    assert keeper.write(0.0) == [OLD]
    assert keeper.retained == sign_roster(OLD, OTHER)


def test_a_configuration_that_is_read_again_changes_it_at_once() -> None:
    keeper = Keeper()
    (first,) = keeper.write(0.0)
    keeper.keeper.change(replace(PARTS, brokers={EAST: BROKERS[EAST]}))
    assert keeper.write(0.5) == []
    assert keeper.keeper.deadline == ROSTER_EVERY_S
    (second,) = keeper.write(ROSTER_EVERY_S)
    assert second.serial > first.serial
    assert second.brokers == {EAST: BROKERS[EAST]}
    assert keeper.counters.snapshot() == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", None),
        (b"{", "malformed"),
        (sign_roster(OLD, OTHER), "key"),
        (sign_roster(OLD, KEY).replace(b"east.example", b"evil.example"), "forged"),
        (sign_roster(OLD, KEY), "stranger"),
    ],
)
def test_what_somebody_else_writes_is_written_over_at_a_pace(data: bytes, reason: str | None) -> None:
    keeper = Keeper()
    (ours,) = keeper.write(0.0)
    for _ in range(10):
        keeper.keeper.found(data)
    assert keeper.counters.reasons("rosters_refused") == ({reason: 10} if reason else {})
    assert keeper.write(0.9) == []
    assert keeper.write(1.0) == [ours]
    assert keeper.write(9.0) == []


def test_an_earlier_roster_of_ours_that_was_put_back_with_other_brokers_does_not_hold() -> None:
    keeper = Keeper()
    keeper.write(0.0)
    keeper.keeper.found(sign_roster(Roster(federation="bank", serial=9_000, brokers={}), KEY))
    (again,) = keeper.write(1.0)
    assert again == Roster(federation="bank", serial=9_001, brokers=BROKERS)


def test_what_we_wrote_before_may_come_back_behind_the_next() -> None:
    keeper = Keeper()
    keeper.write(0.0)
    first = keeper.retained
    keeper.keeper.change(replace(PARTS, brokers={}))
    keeper.write(2.0)
    keeper.keeper.found(first)
    assert keeper.counters.snapshot() == {}
    (again,) = keeper.write(4.0)
    assert again.brokers == {}


def test_more_brokers_than_a_roster_may_have_are_told() -> None:
    many = {GatewayId(f"g{number}"): BROKERS[WEST] for number in range(ROSTER_BROKERS_MAX + 1)}
    keeper = Keeper(parts=replace(PARTS, brokers=many))
    assert keeper.write(0.0) == []
    assert keeper.counters.reasons("rosters_refused") == {"size": 1}


# ---- by a node ---------------------------------------------------------------------------------------------------


def rosters(effects: list[object]) -> Iterator[bytes]:
    return (each.payload for each in effects if isinstance(each, PublishLocally) and each.topic == layout.roster())


def test_a_node_writes_it_when_it_has_read_what_was_kept_and_again_when_it_is_reconfigured() -> None:
    gate = Gate(replace(parts_of(), orders=PARTS))
    gate.now = 10.0
    (corrected,) = rosters([*gate.handle(RosterRead(data=b"{}"))])
    assert read_roster(corrected, [KEY.public]).brokers == BROKERS
    parts = parts_of()
    changed = replace(PARTS, brokers={})
    event = Reconfigured(codecs=parts.codecs, standing=(), federate=(), data=("#",), orders=changed)
    assert list(rosters([*gate.node.handle(event, 10.5)])) == []
    (changed_one,) = rosters([*gate.node.handle(Woke(), 11.0)])
    assert read_roster(changed_one, [KEY.public]).brokers == {}
    assert gate.node.gives_orders
    assert not Gate().node.gives_orders

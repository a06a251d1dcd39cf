"""A client is moved between Mosquittos in containers, and at each step of that each of five dies and comes back.

Relays between the client and its brokers see every packet. The one that tells of a step is held back, and everything
behind it, until the victim is dead: a fault that does not fall into its step is none, and then the test fails.
"""

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pytest

from integration_tests.conftest import require_image
from integration_tests.containers import running
from integration_tests.makers import MOSQUITTO
from integration_tests.move_steps import FROM_THE_RECORD_ON, NEW, OLD, STEPS, Watch
from integration_tests.processes import wait_until
from integration_tests.travelling import Got, Publisher, Town, Traveller, running_town
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import decode_envelope

STEP_S_MAX = 20.0
SETTLE_S_MAX = 60.0
MORE = 20
"""So many publications of each publisher before the order, and when all is back."""

pytestmark = pytest.mark.timeout(240)


class Victim(NamedTuple):
    """Who dies, how it comes back, and at which steps that is tried."""

    die: Callable[[Town, Traveller], None]
    come_back: Callable[[Town, Traveller], None]
    steps: Iterable[str] = STEPS


def gateway(name: GatewayId) -> Victim:
    return Victim(lambda town, _: town.kill_gateway(name), lambda town, _: town.start_gateway(name))


def broker(name: GatewayId) -> Victim:
    return Victim(lambda town, _: town.stop_broker(name), lambda town, _: town.brokers[name].start())


def the_client(back_at: GatewayId, steps: Iterable[str] = STEPS) -> Victim:
    return Victim(lambda _, client: client.kill(), lambda _, client: client.begin(back_at), steps)


CLIENT = "client"
CLIENT_THERE = "client, back at the new broker"
VICTIMS = {
    "old gateway": gateway(OLD),
    "new gateway": gateway(NEW),
    "old broker": broker(OLD),
    "new broker": broker(NEW),
    CLIENT: the_client(OLD),
    CLIENT_THERE: the_client(NEW, FROM_THE_RECORD_ON),
}
OPERATOR_KNOWS = {"new gateway", "new broker", CLIENT}
"""Where the gateway that ordered the move, and its broker, live: whoever asked for it is told what came of it."""

IN_CI = {
    ("old gateway", "leaving"),
    ("new gateway", "asked there"),
    ("old broker", "established there"),
    ("new broker", "ended"),
    (CLIENT, "leaving"),
}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    require_image(MOSQUITTO)
    with contextlib.ExitStack() as stack:
        brokers = {name: stack.enter_context(running(MOSQUITTO)) for name in (OLD, NEW)}
        yield stack.enter_context(running_town(brokers, tmp_path_factory.mktemp("town")))


class Cell:
    """One fault at one step: a client of its own, and a publisher at each broker."""

    def __init__(self, town: Town, name: str) -> None:
        self._town = town
        town.gate.clear()
        self.client = Traveller(town, name)
        self.publishers = [Publisher(at, each.port, self.client.topic) for at, each in town.brokers.items()]

    def begin(self) -> None:
        """Return when the client gets what is published at both brokers."""
        self.client.wait_until_established()
        for each in self.publishers:
            each.start()
        self.wait_for_more()

    def end(self) -> None:
        """Leave the town as it was before."""
        self._town.gate.open()
        self.stop_publishing()
        self.client.kill()
        self._town.forget(self.client.name)

    def stop_publishing(self) -> None:
        for each in self.publishers:
            each.stop()

    def wait_for_more(self) -> None:
        """Return when each publisher has had so many more acknowledged."""
        before = [len(each.acknowledged) for each in self.publishers]

        def have_more() -> bool:
            return all(len(each.acknowledged) >= was + MORE for each, was in zip(self.publishers, before, strict=True))

        wait_until(have_more, "publications go on")

    # ---- what is promised ------------------------------------------------------------------------------------------

    def missing(self) -> list[Got]:
        """Wait until all that was acknowledged by now has come; return what has not, after SETTLE_S_MAX."""
        wanted = {Got(each.name, number) for each in self.publishers for number in list(each.acknowledged)}
        deadline = time.monotonic() + SETTLE_S_MAX
        while (missing := wanted - set(self.client.got())) and time.monotonic() < deadline:
            time.sleep(0.05)
        return sorted(missing)

    def twice(self) -> set[Got]:
        """Return what was given to the application more than once."""
        return {got for got, count in Counter(self.client.got()).items() if count > 1}

    def overtaken(self) -> int:
        """How many came to the application behind a later one of the same publisher."""
        return overtaken(self.client.got())

    def overtaken_by(self, at: GatewayId) -> int:
        """The same, of what came from one broker alone."""
        topic = layout.out(at, ClientId(self.client.name))
        envelopes = [each.payload for each in self._town.gate.passed if each.kind == "publish" and each.topic == topic]
        publications = [one.publication for envelope in envelopes for one in decode_envelope(envelope)]
        return overtaken([Got(**json.loads(one.payload)) for one in publications])

    # ---- what is left ----------------------------------------------------------------------------------------------

    def left_over(self) -> list[str]:
        """Wait until one session is left, one record and one entry in tables; return what else there is, if so."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while (problems := list(self._left_over())) and time.monotonic() < deadline:
            time.sleep(0.1)
        return problems

    def _left_over(self) -> Iterator[str]:
        client, town = self.client, self._town
        if client.at is None:
            yield "nobody serves it"
            return
        home = GatewayId(client.at)
        away = NEW if home == OLD else OLD
        record, left = town.record(home, client.name), town.record(away, client.name)
        if record is None or not record.subscriptions or record.moving_to or record.moved_from or record.leaving_to:
            yield f"its record at {home}, where it is, says {record}"
        if left is not None and (left.subscriptions or left.moved_to != home):
            yield f"its record at {away}, where it is not, says {left}"
        for at, expected in ((home, (1, {})), (away, (0, {home: 1}))):
            entries = town.entries(at, client.topic)
            if entries != expected:
                yield f"the table of {at} has {entries}, and not {expected}"
        if len(town.relays[home]) != 1 or len(town.relays[away]):
            yield f"it has {len(town.relays[home])} connections to {home}, {len(town.relays[away])} to {away}"
        elif town.has_session(away, client.name):
            yield f"it has a session at {away}, where it is not"


def overtaken(got: list[Got]) -> int:
    """How many are behind a later one of the same publisher; those that had come before do not count."""
    last: dict[str, int] = {}
    count = 0
    for publisher, number in dict.fromkeys(got):
        count += number < last.get(publisher, -1)
        last[publisher] = max(number, last.get(publisher, -1))
    return count


@pytest.fixture
def cell(town: Town, victim: str, step: str) -> Iterator[Cell]:
    cell = Cell(town, f"{victim}, {step}".replace(",", "").replace(" ", "-"))
    try:
        cell.begin()
        yield cell
    finally:
        cell.end()


@pytest.mark.parametrize(
    ("victim", "step"),
    [
        pytest.param(name, step, marks=[] if (name, step) in IN_CI else [pytest.mark.full])
        for name, victim in VICTIMS.items()
        for step in victim.steps
    ],
)
def test_whoever_dies_at_whichever_step_the_promise_holds_and_one_session_is_left(
    town: Town, cell: Cell, capsys: pytest.CaptureFixture[str], victim: str, step: str
) -> None:
    client, gate = cell.client, town.gate
    watch = Watch(ClientId(client.name), gate)
    gate.await_packet(lambda packet: STEPS[step](watch, packet))
    operator = town.commands.start("migrate", client.name, "--to", NEW)
    assert gate.wait_until_shut(STEP_S_MAX), (f"the step {step!r} has not come", operator.log, client.log)
    VICTIMS[victim].die(town, client)
    died_at = time.monotonic()
    gate.open()
    VICTIMS[victim].come_back(town, client)
    back_at = time.monotonic()

    assert cell.missing() == [], client.log
    recovered_s = time.monotonic() - back_at
    cell.wait_for_more()
    cell.stop_publishing()
    assert cell.missing() == [], client.log
    left_over, settled_s = cell.left_over(), time.monotonic() - back_at
    home, twice = client.at, cell.twice()
    by_one_way = sum(cell.overtaken_by(at) for at in town.brokers)
    with capsys.disabled():
        sys.stdout.write(
            f"\n    {victim} | {step} | {home} | {back_at - died_at:.1f} | {recovered_s:.1f} | {settled_s:.1f}"
            f" | {len(twice)} | {cell.overtaken()} | {by_one_way}\n"
        )
    assert left_over == [], client.log
    assert twice <= client.last_of_lives(), client.log  # killed in its callback, it is called with that one again
    assert by_one_way == 0
    if victim in OPERATOR_KNOWS:
        assert operator.wait() == (0 if home == NEW else 1), operator.log
    client.kill()
    assert home is not None
    assert town.has_session(GatewayId(home), client.name)


@pytest.mark.full
def test_when_all_is_over_the_gateways_know_of_nobody_and_hold_nothing(town: Town) -> None:
    def is_so() -> bool:
        process = town.commands.start("status", "--json")
        code = process.wait()
        said = json.loads("\n".join(process.output))
        counts = {
            each[key] for each in said["gateways"] for key in ("clients", "migrating", "held", "subscriptions_here")
        }
        waiting = {each[key] for each in said["links"] for key in ("waiting", "parked")}
        return code == 0 and counts == {0} and waiting == {0}

    wait_until(is_so, "all figures of mqloom status are zero")

"""What becomes of publications while the only link to their subscriber is down for an hour.

Two brokers, NEAR and FAR, and one link between their gateways, of 10 to 20 ms a way. At NEAR somebody publishes at an
even rate, twenty times a second a burst; a subscriber at each of the brokers wants everything. Then the link is cut
both ways, and healed an hour later, while publishing goes on.

Local: the subscriber at NEAR should hardly notice. It does, for a moment, if the link carries more than the gateway's
window within the 5 s after which it begins to park: then nothing is taken in until it does.
Held: what is in the gateway's memory and not taken care of, with what its broker has handed over and it has not looked
at, seen ten times a second. Its bound is the sum of all windows. All else waits in the park on NEAR's own broker,
several publications in a message.
Beyond the link: every publication comes exactly once, the hour's among them.
Drained: from the heal until nothing is parked any more, though new publications queue up behind. A gateway that has
been without its neighbour for long tries only every 15 s; from then on the bound is one link window for each way to
and fro.

The broker hands over the publications of ten seconds before it must have an acknowledgement (`max_inflight_messages`):
with Mosquitto's 20 it would stop handing over as soon as the link is down, and local delivery with it.
"""

import itertools
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mqloom.core.limits import INTAKE_WINDOW, LINK_WINDOW
from mqloom.lab import checkers
from mqloom.lab.client_model import SubscriberModel
from mqloom.lab.endpoint import DIAL_S, RETRY_S, Endpoint, Manner
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most, exactly, thinned
from mqloom.lab.packets import Publish
from mqloom.lab.plan import Plan, SubscriberPlan
from mqloom.lab.world import World

NEAR: Final = "NEAR"
FAR: Final = "FAR"
BEGIN_S: Final = 10.0
"""When publishing begins: all subscriptions count by then."""

BURST_S: Final = 0.05
LOOK_S: Final = 0.1
LATENCY_S: Final = 0.01
LOCAL_S_MAX: Final = 2.0
"""How late a local delivery may be: the gateway may take a moment to see that the link is down, and to park."""

RECONNECT_S: Final = RETRY_S[1] + DIAL_S
"""How long a gateway may take to find that its neighbour is back."""

DRAIN_S_MAX: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class Size:
    """Publications a second, and how long it goes well, goes wrong, and goes well again."""

    rate: int
    before_s: float
    outage_s: float
    after_s: float

    @property
    def cut_at(self) -> float:
        """When the link goes down."""
        return BEGIN_S + self.before_s

    @property
    def heal_at(self) -> float:
        """When it can be used again."""
        return self.cut_at + self.outage_s

    @property
    def end_at(self) -> float:
        """When publishing ends."""
        return self.heal_at + self.after_s

    @property
    def publications(self) -> int:
        """How many there are."""
        return int((self.end_at - BEGIN_S) * self.rate)

    @property
    def burst(self) -> int:
        """How many of them come at a time."""
        return int(self.rate * BURST_S)

    @property
    def broker_window(self) -> int:
        """How many messages a broker hands over before it must have an acknowledgement."""
        return 10 * self.rate

    @property
    def held_bound(self) -> int:
        """How many publications the gateway may hold: its own windows, and the broker's."""
        return INTAKE_WINDOW + LINK_WINDOW + self.broker_window

    def published_at(self, number: int) -> float:
        """Return when a publication is published."""
        return BEGIN_S + number // self.burst * BURST_S


FULL: Final = Size(rate=1_000, before_s=30.0, outage_s=3_600.0, after_s=60.0)
QUICK: Final = Size(rate=200, before_s=5.0, outage_s=30.0, after_s=10.0)


class Taker:
    """Keeps count of what a subscriber gets, and nothing else: there is too much of it."""

    def __init__(self, subscriber: SubscriberModel, size: Size) -> None:
        self._subscriber = subscriber
        self._size = size
        self._times = bytearray(size.publications)
        self.count = 0
        self.delay_max_s = 0.0

    def take(self) -> None:
        """Take what has come since the last time."""
        assert len(self._subscriber.lives) == 1
        delivered = self._subscriber.life.delivered
        for at, number, _ in delivered:
            self._times[number] = min(self._times[number] + 1, 255)
            self.delay_max_s = max(self.delay_max_s, at - self._size.published_at(number))
        self.count += len(delivered)
        delivered.clear()

    def lost(self) -> int:
        """Return how many never came."""
        return self._times.count(0)

    def duplicated(self) -> int:
        """Return how many came more than once."""
        return len(self._times) - self._times.count(0) - self._times.count(1)


@dataclass(slots=True)
class _Record:
    """What was seen over time."""

    held_max: int = 0
    parked_max: int = 0
    left_over: int = 0
    drained_at: float | None = None
    held: list[tuple[float, float]] = field(default_factory=list)
    parked: list[tuple[float, float]] = field(default_factory=list)
    local: list[tuple[float, float]] = field(default_factory=list)
    remote: list[tuple[float, float]] = field(default_factory=list)


def _subscriber(world: World, name: str) -> SubscriberModel:
    found = world.subscribers[name]
    assert isinstance(found, SubscriberModel)
    return found


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it; the small version is half a minute at 200 a second."""
    size = QUICK if quick else FULL
    world = World(_plan(seed, size))
    _publish(world, size)
    for path in (world.link_path(NEAR, FAR), world.link_path(FAR, NEAR)):
        world.clock.at(size.cut_at, lambda path=path: path.cut(lambda: 1.0))  # type: ignore[misc]
        world.clock.at(size.heal_at, path.heal)
    local, remote = (Taker(_subscriber(world, name), size) for name in ("near", "far"))
    record = _Record()
    for step in itertools.count(1):
        world.run(BEGIN_S + step * LOOK_S)
        local.take()
        remote.take()
        _look(world, size, record, local, remote)
        now = world.clock.now
        tell(min(1.0, local.count / size.publications), f"{now:,.0f} s, parked {record.parked[-1][1]:,.0f}")
        if now >= size.end_at and record.drained_at is not None and now >= record.drained_at + 5.0:
            break
        if now >= size.end_at + DRAIN_S_MAX:
            break
    world.settle()
    local.take()
    remote.take()
    record.left_over = len(list(checkers.at_rest(world)))
    return _report(size, record, local, remote)


def _plan(seed: int, size: Size) -> Plan:
    return Plan(
        seed=seed,
        topology="chain",
        gateways=(NEAR, FAR),
        links=((NEAR, FAR),),
        publishers={"exchange": NEAR},
        subscribers=tuple(
            SubscriberPlan(name=name, gateway=gateway, wishes={"all": ("stocks/#", "")}, starts_at=1.0)
            for name, gateway in (("near", NEAR), ("far", FAR))
        ),
        publications=(),
        faults=(),
        length_s=size.end_at,
        window=size.broker_window,
        link_latency_s=LATENCY_S,
    )


def _publish(world: World, size: Size) -> None:
    """Publish from the publisher's place, keeping no record of each."""
    endpoint = Endpoint(world.publishers["exchange"].endpoint.place, Manner(client_id="quotes", clean=True))
    endpoint.open()

    def burst(first: int) -> None:
        for number in range(first, first + size.burst):
            payload = msgspec.json.encode({"id": number, "symbol": "YHOO"})
            endpoint.publish(Publish("stocks/YHOO", payload, 1), number)
        later = first + size.burst
        if later < size.publications:
            world.clock.at(size.published_at(later), lambda: burst(later))

    world.clock.at(BEGIN_S, lambda: burst(0))


def _look(world: World, size: Size, record: _Record, local: Taker, remote: Taker) -> None:
    now = world.clock.now
    held = _held(world)
    park = world.brokers[NEAR].sessions[f"mqloom-{NEAR}-park-{FAR}"]
    parked = len(park.queue) + len(park.in_flight)
    record.held_max = max(record.held_max, held)
    record.parked_max = max(record.parked_max, parked)
    if now > size.heal_at:
        record.drained_at = None if parked else record.drained_at or now
    time = now - size.cut_at
    record.held.append((time, held))
    record.parked.append((time, parked))
    record.local.append((time, local.count))
    record.remote.append((time, remote.count))


def _held(world: World) -> int:
    """Return what the gateway has taken upon itself, and what its broker has handed over beside that."""
    node = world.gateways[NEAR].node
    assert node is not None
    holdings = node.holdings()
    handed_over = len(world.brokers[NEAR].sessions[f"mqloom-{NEAR}"].in_flight)
    return holdings.duties + max(0, handed_over - holdings.intake)


def _report(size: Size, record: _Record, local: Taker, remote: Taker) -> Report:
    drained_s = (record.drained_at or size.end_at + DRAIN_S_MAX) - size.heal_at
    drain_bound_s = size.outage_s * size.rate / LINK_WINDOW * 2 * LATENCY_S
    rows = (
        Row(name="publications", ours=size.publications),
        exactly("local: lost", local.lost(), 0),
        exactly("local: duplicated", local.duplicated(), 0),
        at_most("local: latest delivery", local.delay_max_s, LOCAL_S_MAX, unit="s"),
        at_most("held by the gateway, at most", record.held_max, size.held_bound, bound=size.held_bound),
        Row(name="messages parked on its broker, at most", ours=record.parked_max),
        exactly("beyond the link: lost", remote.lost(), 0),
        exactly("beyond the link: duplicated", remote.duplicated(), 0),
        at_most("drained after", drained_s, RECONNECT_S + size.outage_s / 10, bound=drain_bound_s, unit="s"),
        exactly("at rest: not as it should be", record.left_over, 0),
    )
    return Report(rows=rows, picture=_picture(size, record))


def _picture(size: Size, record: _Record) -> Picture:
    ends = (record.held[0][0], record.held[-1][0])
    bound = tuple((end, float(size.held_bound)) for end in ends)
    return Picture(
        x_label="seconds since the link went down",
        panels=(
            Panel("publications", (Curve("held in memory", thinned(record.held)), Curve("bound", bound, "bound"))),
            Panel("messages", (Curve("parked on the broker", thinned(record.parked)),)),
            Panel(
                "publications",
                (
                    Curve("delivered locally", thinned(record.local)),
                    Curve("delivered beyond the link", thinned(record.remote)),
                ),
            ),
        ),
        spans=((0.0, size.outage_s, "link down"),),
    )


experiment: Final = Experiment(
    name="custody-outage",
    summary="a link is down for an hour at 1,000 publications a second",
    source="our promise: local delivery goes on, memory is bounded, afterwards everything arrives once",
    run=run,
)

"""What it costs to move subscribers between brokers, under load: all of them, in waves, again and again.

Mosquittos in a chain, a gateway beside each; the publisher is at the first broker, and so are all subscribers at the
beginning. A wave moves all of them to the next broker, from the last to the first, by the request that `mqloom migrate`
makes. Before each wave, and after the last, nobody moves for a while: what a move adds to delays is told against that.
Every wait is bounded: past `wave_s` a wave is given up, and with it the measurement.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import AT_ONCE, MIGRATION_CLIENTS_MAX
from mqloom.core.migration_records import Bounds, MigrationAnswer, MigrationRequest
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.migrating import ask_gateways
from mqloom.gateway.key_file import ORDER_KIND, new_key, write_keys
from mqloom.gateway.migration_commands import asking_in, progress
from mqloom.lab.bench_brokers import MOSQUITTO, chain, start_gateway, start_mosquitto
from mqloom.lab.bench_load import Load
from mqloom.lab.bench_moves import Delays, Span, Travelled, delays, last_end, out_of_order
from mqloom.lab.bench_processes import BenchError, Worker
from mqloom.lab.bench_publisher import publish_for
from mqloom.lab.bench_quotes import DATA, Account, Quotes, Sent, account
from mqloom.lab.bench_travellers import ESTABLISH_S_MAX, Passenger, State, travel_for
from mqloom.lab.ports import free_ports

NAMES: Final = ("west", "middle", "east")
SETTLE_S_MAX: Final = 60.0
"""How long after the gateways' last word all subscribers may take to have left the old broker."""
SILENCE_S_MAX: Final = 20.0
"""When nothing has come for so long after the last publication, what is missing is lost."""
ARRIVE_S_MAX: Final = 600.0
"""So long it is waited for at most: brokers and gateways may have much to catch up with."""
SPREAD: Final = (0.5, 1.5)
"""Between so many times the plan's share each subscriber wants."""
FEDERATION: Final = """\
[federation]
name = "bench"
data = ["{topics}"]
key_file = "bench.keys"
"""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    subscribers: int = 1_000
    rate: float = 2_000.0
    """Publications a second, of QoS 1."""
    waves: int = 5
    brokers: int = 2
    move_rate: float = 25.0
    """Subscribers a second that are ordered to move."""
    at_once: int = AT_ONCE
    share: float = 0.002
    """Of the publications, about how many each subscriber wants. With a thousand subscribers that is 4,000 deliveries a
    second, each with its acknowledgement on a connection of its own: what two cores carry besides brokers, gateways and
    the publisher. Past that, delays tell how long queues are, and not what a move adds."""
    pause_s: float = 5.0
    """How long nobody moves, before each wave and after the last."""
    wave_s: float = 180.0
    seed: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The brokers, in their order."""
        return (*NAMES[: self.brokers - 1], NAMES[-1])


@dataclass(frozen=True, slots=True)
class Wave:
    """What became of one wave, as the gateways tell it."""

    source: str
    to: str
    moved: int
    stayed: int
    span: Span
    """From the request until everybody was at one broker again."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came out."""

    account: Account
    delays: Delays
    out_of_order: int
    moves: int
    stayed: int
    problem: str
    """Why one of those stayed."""
    took_s: float
    """Of all waves together, each from its request to the end of the last move."""
    overhead_bytes: int
    published: int
    published_per_s: float
    waves: Sequence[Wave]

    @property
    def is_kept(self) -> bool:
        """Whether everybody was moved, and got everything once and nothing else."""
        found = self.account
        return not (found.lost or found.repeated or found.wrong or self.stayed) and self.moves > 0


class _Town:
    """Brokers, gateways and subscribers; all processes."""

    def __init__(self, plan: Plan, quotes: Quotes, folder: Path, stack: contextlib.ExitStack) -> None:
        self.plan = plan
        self.ports = dict(zip(plan.names, free_ports(plan.brokers), strict=True))
        self.clients = [f"subscriber-{number}" for number in range(plan.subscribers)]
        keys, path = folder / "bench.keys", folder / "federation.toml"
        write_keys(keys, [new_key("sending"), new_key("sending", ORDER_KIND)], is_new=True)
        path.write_text(FEDERATION.format(topics=DATA) + chain(self.ports))
        self.programs = [
            start_mosquitto(name, MOSQUITTO.format(port=port), port, folder, stack) for name, port in self.ports.items()
        ]
        self.programs += [start_gateway(name, path, stack) for name in self.ports]
        self._asking, _ = asking_in(load_federation(path).configuration)
        passengers = [
            Passenger(name, interest.where) for name, interest in zip(self.clients, quotes.interests, strict=True)
        ]
        count = min(os.cpu_count() or 1, len(passengers))
        self._crowd: list[Worker] = []
        for start in range(count):
            worker = Worker("subscribers", travel_for, self.ports[plan.names[0]], keys, passengers[start::count])
            stack.callback(worker.end)
            self._crowd.append(worker)
        for worker in self._crowd:
            worker.answer(ESTABLISH_S_MAX + 30.0)

    def check(self) -> None:
        """Raise BenchError if something has ended by itself."""
        for program in self.programs:
            program.check()

    def states(self) -> list[State]:
        """Return how far the subscribers are, by process."""
        for worker in self._crowd:
            worker.ask("state")
        return [worker.answer() for worker in self._crowd]

    def report(self) -> list[Travelled]:
        """Return what became of each subscriber; they were dealt out to processes in turns."""
        for worker in self._crowd:
            worker.ask("report")
        parts = [iter(worker.answer()) for worker in self._crowd]
        return [next(parts[number % len(parts)]) for number in range(len(self.clients))]

    def wait(self, what: str, is_done: Callable[[Sequence[State]], bool], wait_s: float) -> None:
        """Return when the subscribers are so far; raises TimeoutError."""
        deadline = time.monotonic() + wait_s
        while not is_done(self.states()):
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} after {wait_s:g} s")
            time.sleep(0.1)

    def move(self, number: int, tell: Tell) -> Wave:
        """Move everybody to the next broker; raises BenchError if that does not come to an end."""
        names, plan = self.plan.names, self.plan
        source, to = names[(number - 1) % len(names)], names[number % len(names)]
        begun = time.monotonic()
        moved = stayed = 0

        def hear(_: GatewayId, answer: MigrationAnswer) -> None:
            tell(f"wave {number}, {source} to {to}: {progress(answer)}")
            if time.monotonic() > begun + plan.wave_s:
                raise BenchError(f"wave {number} is not over after {plan.wave_s:g} s: {progress(answer)}")

        bounds = Bounds(rate=plan.move_rate, at_once=plan.at_once)
        for start in range(0, len(self.clients), MIGRATION_CLIENTS_MAX):
            clients = tuple(ClientId(name) for name in self.clients[start : start + MIGRATION_CLIENTS_MAX])
            request = MigrationRequest(number=1, action="migrate", clients=clients, to=(GatewayId(to),), bounds=bounds)
            others = {each: request for each in self._asking.addresses if each != to}
            outcome = ask_gateways(self._asking, others, hear)
            for gateway, problem in outcome.problems.items():
                raise BenchError(f"wave {number}: {gateway} did not move its clients: {problem}")
            moved += sum(answer.moved for answer in outcome.answers.values())
            stayed += sum(answer.stayed for answer in outcome.answers.values())
        self._settle(number)
        return Wave(source, to, moved, stayed, (begun, time.monotonic()))

    def _settle(self, number: int) -> None:
        try:
            self.wait("they still move", lambda states: self._settled(states) == len(self.clients), SETTLE_S_MAX)
        except TimeoutError:
            left = len(self.clients) - self._settled(self.states())
            raise BenchError(f"wave {number}: {left} subscribers are at two brokers after {SETTLE_S_MAX:g} s") from None

    def _settled(self, states: Sequence[State]) -> int:
        return sum(state.settled for state in states)


def measure(plan: Plan, folder: Path, tell: Tell) -> Result:
    """Measure; raises BenchError. All processes are ended at the end, whatever happens."""
    tell(f"choosing what {plan.subscribers:,} subscribers want")
    quotes = Quotes(plan.seed, plan.subscribers, (SPREAD[0] * plan.share, SPREAD[1] * plan.share))
    with contextlib.ExitStack() as stack:
        tell(f"starting {plan.brokers} brokers, their gateways, and {plan.subscribers:,} subscribers")
        town = _Town(plan, quotes, folder, stack)
        publisher = Worker("publisher", publish_for, town.ports[plan.names[0]], plan.seed)
        stack.callback(publisher.end)
        return _measure(plan, town, quotes, Load(publisher, plan.rate), stack, tell)


def _measure(plan: Plan, town: _Town, quotes: Quotes, load: Load, stack: contextlib.ExitStack, tell: Tell) -> Result:
    stack.callback(load.stop)
    calm = [_rest(plan, load, tell)]
    waves: list[Wave] = []
    overhead = 0
    for number in range(1, plan.waves + 1):
        before = _overhead(town)
        waves.append(town.move(number, tell))
        overhead += _overhead(town) - before
        calm.append(_rest(plan, load, tell))
    sent = load.end()
    _await(town, quotes, sent, tell)
    town.check()
    crowd = town.report()
    states = town.states()
    return Result(
        account=account(quotes, sent, [one.came for one in crowd]),
        delays=delays(sent, crowd, calm),
        out_of_order=sum(out_of_order(one.came) for one in crowd),
        moves=sum(state.moved for state in states),
        stayed=sum(state.stayed for state in states) + sum(wave.stayed for wave in waves),
        problem=next((state.problem for state in states if state.problem), ""),
        took_s=sum(last_end(crowd, wave.span) - wave.span[0] for wave in waves),
        overhead_bytes=overhead,
        published=len(sent.times),
        published_per_s=len(sent.times) / sent.took_s if sent.took_s else 0.0,
        waves=waves,
    )


def _rest(plan: Plan, load: Load, tell: Tell) -> Span:
    """Let nobody move for a while; return from when to when."""
    tell(f"{plan.rate:,.0f}/s, and nobody moves")
    begun = time.monotonic()
    while time.monotonic() < begun + plan.pause_s:
        load.check()
        time.sleep(min(0.2, plan.pause_s))
    return begun, time.monotonic()


def _overhead(town: _Town) -> int:
    return sum(state.overhead_bytes for state in town.states())


def _await(town: _Town, quotes: Quotes, sent: Sent, tell: Tell) -> None:
    """Return when all has come, or is waited for no longer."""
    count = len(sent.times)
    expected = sum(len(quotes.numbers(wanted, sent.first, count)) for wanted in quotes.wanted)
    deadline = time.monotonic() + ARRIVE_S_MAX
    known, since = -1, time.monotonic()
    while known < expected and time.monotonic() < min(deadline, since + SILENCE_S_MAX):
        town.check()
        came = sum(state.deliveries for state in town.states())
        if came != known:
            known, since = came, time.monotonic()
            tell(f"{came:,} of {expected:,} have come")
        if came < expected:
            time.sleep(0.1)

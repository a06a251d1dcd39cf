"""Mosquittos with a gateway each, of which three can send their clients less or more; everybody joins the weakest.

Brokers and gateways are processes, as an operator runs them: in containers the engine's proxy would carry each byte of
three hundred clients once more, on a machine that has two processors. Clients are the production's core, all in one
event loop. Publishers are at the head of the cluster and subscribers at its edges, as the paper has it (3.1).
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from integration_tests.processes import Commands, Process
from mqloom.core.balance_records import BalanceAnswer, BalanceQuestion, Figures, SessionShown
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, Metric
from mqloom.core.signatures import PublicKey
from mqloom.gateway.command_balance import ask
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import ORDER_KIND, new_key, order_keys_in, write_keys
from mqloom.lab.demo_mosquitto import mosquitto_process
from mqloom.lab.demo_overload import Turns, expected_bytes_s
from mqloom.lab.demo_parts import DemoPublisher, DemoSubscriber, wait_for
from mqloom.lab.ports import free_ports
from mqloom.lab.stocks import SYMBOLS, Interest, Market, interest

HEAD: Final = GatewayId("HEAD")
STRENGTHS: Final = {GatewayId("SLOW"): 0.75, GatewayId("MIDDLE"): 1.05, GatewayId("FAST"): 1.45}
"""What each edge can send, in parts of all that is wanted: the weakest not all of it."""
WEAKEST: Final = GatewayId("SLOW")
BROKERS: Final = (HEAD, *STRENGTHS)
COMPANIES: Final = SYMBOLS[:4]
"""Few, so that a quote goes to many, and what it costs is well over what can be measured."""
SCALE: Final = 4.0
"""How much shorter all periods are than the paper's (Table III)."""
PERIODS: Final[dict[str, object]] = {
    "mode": "on",
    "local_pie_s": 30 / SCALE,
    "global_pie_s": 60 / SCALE,
    "local_detect_min_s": 20 / SCALE,
    "local_detect_max_s": 40 / SCALE,
    "global_detect_min_s": 50 / SCALE,
    "global_detect_max_s": 70 / SCALE,
    "stabilise_s": 30 / SCALE,
    "stabilise_share": 0.1,
    "press_samples": 100,
    "press_timeout_s": 30 / SCALE,
    "move_timeout_s": 5.0,
    "rest_s": 20.0,
}
"""Windows have as many times fewer publications, and fluctuate more: so more counts as steady, and PRESS takes as many
samples as the paper finds useful at most (4.1). How long a client may take to move is not shorter: that is its
machine's affair; and who has moved rests long enough not to be moved by the next session, but not for the whole run."""
WINDOW_S: Final = 10 / SCALE
QUIET_S: Final = 10.0
"""What has not come when nothing has come for so long counts as lost."""
STEP_S_MAX: Final = 60.0
TRIGGER: Final = 0.1
"""The difference of utilisations that begins a session (Table III): below it they are balanced."""
UTILISATIONS: Final[tuple[Metric, ...]] = ("input", "output")
LEAST: Final[dict[Metric, float]] = {"input": 0.01, "match": 0.0001, "output": 0.01}
"""Of less any error is a large share. Agents judge no delay under a millisecond; on a fast machine that is any."""
PULSE: Final = 100
LOOKS: Final = 5
"""Looks of which the mean is compared: single windows fluctuate."""


class Plan(NamedTuple):
    """How large a run is."""

    clients: int
    rate: float
    """Quotes a second."""
    joins_s: float
    """How long it takes until all have joined, while quotes are published."""
    seconds_max: float
    """By then loads are balanced."""
    still_s: float
    """For how long they must have been."""


class Seen(NamedTuple):
    """What the load agents said at one moment."""

    at_s: float
    answers: dict[GatewayId, BalanceAnswer]

    def figures(self) -> dict[GatewayId, Figures]:
        """Return what the edges measured last."""
        own = ((edge, self.answers[edge].own) for edge in STRENGTHS)
        return {edge: figures for edge, figures in own if figures is not None}

    @property
    def is_calm(self) -> bool:
        """Whether no edge is in a session, or has not settled since."""
        return all(self.answers[edge].state == "OK" for edge in STRENGTHS)


@dataclass(slots=True)
class Ledger:
    """What was published, and what each subscriber should have got of it."""

    quotes: list[tuple[dict[str, object], float]] = field(default_factory=list)
    joined: dict[DemoSubscriber, int] = field(default_factory=dict)
    """From which quote on a subscriber must get everything: the first after it was established."""

    def missing(self) -> int:
        """Return how many deliveries are still to come."""
        return sum(len(self._owed(each) - each.received.keys()) for each in self.joined)

    def _owed(self, subscriber: DemoSubscriber) -> set[int]:
        first = self.joined[subscriber]
        return {
            number for number, (quote, _) in enumerate(self.quotes[first:], first) if subscriber.interest.wants(quote)
        }

    def verdict(self) -> tuple[int, int, int]:
        """Return how many were expected, how many came twice, and how many nobody had asked for."""
        expected = sum(len(self._owed(each)) for each in self.joined)
        twice = sum(each.received.total() - len(each.received) for each in self.joined)
        unasked = sum(
            not each.interest.wants(self.quotes[number][0]) for each in self.joined for number in each.received
        )
        return expected, twice, unasked

    def delays_s(self, start: float, end: float) -> list[float]:
        """Return how long deliveries took of what was published in a span of time, the shortest first."""
        return sorted(
            at - self.quotes[number][1]
            for each in self.joined
            for number, at in each.received_at.items()
            if start <= self.quotes[number][1] < end
        )


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    ledger: Ledger
    seen: list[Seen]
    sessions: list[tuple[GatewayId, SessionShown]]
    balanced_at_s: float | None
    began: float
    ended: float
    lost: int
    moves: int
    pulses: list[tuple[float, float]]
    """What a piece of work took of processor time that is always the same, and when."""

    @property
    def fluctuation(self) -> float:
        """By what share the speed of this machine changes from one span of a prediction to the next.

        On one that does much else beside, the same work takes half as much processor time again, or twice: its caches
        and its processors' threads are others' too. That can be measured, but nobody can predict it.
        """
        spans: dict[int, list[float]] = {}
        for at, took_s in self.pulses:
            spans.setdefault(int((at - self.began) / (30 / SCALE)), []).append(took_s)
        means = [fmean(each) for each in spans.values()]
        return fmean(abs(after / before - 1) for before, after in pairwise(means))

    def means(self, last_s: float) -> dict[GatewayId, dict[Metric, float]]:
        """Return the mean of what each edge measured in the last seconds."""
        end = self.seen[-1].at_s
        last = [each.figures() for each in self.seen if each.at_s >= end - last_s]
        return {
            edge: {metric: fmean(figure_of(figures[edge], metric) for figures in last) for metric in METRICS}
            for edge in STRENGTHS
        }

    def errors(self, metric: Metric) -> list[float]:
        """Return by what share each prediction was wrong, of either side of each session."""
        found = []
        for _, session in self.sessions:
            sides = ((session.predicted, session.observed), (session.predicted_partner, session.observed_partner))
            for predicted, observed in sides:
                if session.moved > 0 and predicted is not None and observed is not None:
                    came = figure_of(observed, metric)
                    found += [abs(figure_of(predicted, metric) - came) / came] if came >= LEAST[metric] else []
        return found


def figure_of(figures: Figures, metric: Metric) -> float:
    """Return one of the figures that are balanced."""
    if metric == "input":
        return figures.input_ratio
    return figures.output_ratio if metric == "output" else figures.delay_s


class Town:
    """Brokers and gateways that run, and what to ask them."""

    def __init__(self, path: Path, gateways: dict[GatewayId, Process], keys: Sequence[PublicKey]) -> None:
        self.configuration = load_federation(path).configuration
        self.gateways = gateways
        self.keys = keys
        self.addresses = {each.id: BrokerAddress(each.host, each.port) for each in self.configuration.brokers}

    async def ask(self, question: BalanceQuestion) -> dict[GatewayId, BalanceAnswer]:
        """Return what the load agents answer; raises AssertionError if one does not."""
        answers, problems = await asyncio.to_thread(ask, self.configuration, question, STEP_S_MAX)
        assert not problems, problems
        return answers


@contextlib.contextmanager
def running_town(folder: Path, strengths: dict[GatewayId, int]) -> Iterator[Town]:
    """Start brokers and gateways, and end them."""
    ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
    path = folder / "federation.toml"
    path.write_text(_configuration(ports, strengths), encoding="utf-8")
    write_keys(folder / "federation.keys", [new_key("sending"), new_key("sending", ORDER_KIND)], is_new=True)
    keys = order_keys_in(folder / "federation.keys")
    assert keys is not None
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            file = folder / f"{name}.conf"
            lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "sys_interval 1"]
            file.write_text("\n".join([*lines, "set_tcp_nodelay true", "log_dest none"]) + "\n")
            stack.enter_context(mosquitto_process(file, port))
        commands = Commands(folder, stack)
        yield Town(path, {name: commands.gateway(name) for name in ports}, keys.public)


def _configuration(ports: dict[GatewayId, int], strengths: dict[GatewayId, int]) -> str:
    lines = ["[federation]", 'name = "town"', 'data = ["stocks/#"]', 'key_file = "federation.keys"']
    lines.append(f"load_window_s = {WINDOW_S}")
    for name, port in ports.items():
        lines += ["[[brokers]]", f'id = "{name}"', f"port = {port}", 'adapter = "mosquitto"']
        if name in strengths:
            lines.append(f"output_bytes_s_max = {strengths[name]}")
    for edge in strengths:
        lines += ["[[links]]", f'between = ["{HEAD}", "{edge}"]']
    lines.append("[plugins.settings.balance]")
    lines += [
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in PERIODS.items()
    ]
    return "\n".join(lines) + "\n"


class _Run:
    """One run: who joins, what is published, and what is seen meanwhile."""

    def __init__(self, town: Town, plan: Plan, market: Turns) -> None:
        self._town, self._plan, self._market = town, plan, market
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._ledger = Ledger()
        self._seen: list[Seen] = []
        self._is_publishing = True
        self._pulses: list[tuple[float, float]] = []

    async def play(self, wishes: Sequence[Interest]) -> Outcome:
        """Let everybody join, wait until loads are balanced, and see what has come of all that was published."""
        subscribers: list[DemoSubscriber] = []
        publisher = DemoPublisher("publisher", self._town.addresses[HEAD])
        await publisher.open()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._publish(publisher))
                group.create_task(self._feel_pulse())
                await self._join(wishes, subscribers)
                balanced_at_s = await self._watch()
                self._is_publishing = False
            ended = self._loop.time()
            await self._settle()
            sessions = await self._sessions()
        finally:
            await publisher.close()
            await asyncio.gather(*(each.close() for each in subscribers))
        return Outcome(
            ledger=self._ledger,
            seen=self._seen,
            sessions=sessions,
            balanced_at_s=balanced_at_s,
            began=self._began,
            ended=ended,
            lost=self._ledger.missing(),
            moves=sum(len(each.moved) for each in subscribers),
            pulses=self._pulses,
        )

    async def _feel_pulse(self) -> None:
        """Do the same work again and again, of the kind that a gateway does."""
        quote = json.dumps(self._market.quote(0))
        while self._is_publishing:
            began_s = time.thread_time()
            for _ in range(PULSE):
                json.loads(quote)
            self._pulses.append((self._loop.time(), time.thread_time() - began_s))
            await asyncio.sleep(0.1)

    async def _publish(self, publisher: DemoPublisher) -> None:
        """Publish at the rate, by the clock: what comes late is made up for."""
        while self._is_publishing:
            due = int((self._loop.time() - self._began) * self._plan.rate)
            while len(self._ledger.quotes) < due:
                quote = self._market.quote(len(self._ledger.quotes))
                assert publisher.publish(quote)
                self._ledger.quotes.append((quote, self._loop.time()))
            await asyncio.sleep(0.5 / self._plan.rate)

    async def _join(self, wishes: Sequence[Interest], subscribers: list[DemoSubscriber]) -> None:
        began = self._loop.time()
        for number, wish in enumerate(wishes):
            await asyncio.sleep(began + number * self._plan.joins_s / len(wishes) - self._loop.time())
            address = self._town.addresses[WEAKEST]
            subscribers.append(DemoSubscriber(f"client-{number}", WEAKEST, address, wish, self._town.keys))
            self._note_joined(subscribers)

        def all_joined() -> bool:
            self._note_joined(subscribers)
            return len(self._ledger.joined) == len(wishes)

        await wait_for(all_joined, "all are served", STEP_S_MAX)

    def _note_joined(self, subscribers: Sequence[DemoSubscriber]) -> None:
        for each in subscribers:
            if each.is_served:
                self._ledger.joined.setdefault(each, len(self._ledger.quotes))

    async def _watch(self) -> float | None:
        """Return when loads have been balanced for long enough, or time is over; and since when they are."""
        since: float | None = None
        while (now := self._loop.time() - self._began) < self._plan.seconds_max:
            seen = Seen(now, await self._town.ask(BalanceQuestion()))
            self._seen.append(seen)
            is_even = seen.is_calm and _spread(self._seen[-LOOKS:]) <= TRIGGER
            since = (since or now) if is_even else None
            if since is not None and now - since >= self._plan.still_s:
                return since
            await asyncio.sleep(WINDOW_S)
        return None

    async def _settle(self) -> None:
        missing, since = self._ledger.missing(), self._loop.time()
        while missing and self._loop.time() < since + QUIET_S:
            await asyncio.sleep(0.2)
            if (now_missing := self._ledger.missing()) != missing:
                missing, since = now_missing, self._loop.time()

    async def _sessions(self) -> list[tuple[GatewayId, SessionShown]]:
        """Return all sessions that moved somebody, as those know them who gave."""
        found = []
        for gateway, answer in (await self._town.ask(BalanceQuestion())).items():
            for each in reversed(answer.sessions):
                if each.is_offloading and each.moved:
                    whole = await self._town.ask(BalanceQuestion(ask="explain", session=each.session))
                    found.append((gateway, whole[gateway].sessions[0]))
        return sorted(found, key=lambda pair: -pair[1].began_s_ago)


def _spread(seen: Sequence[Seen]) -> float:
    """Return the largest difference between edges in a utilisation, of the means over some looks."""
    figures = [each.figures() for each in seen]
    if any(len(each) < len(STRENGTHS) for each in figures):
        return float("inf")
    spreads = []
    for metric in UTILISATIONS:
        means = [fmean(figure_of(each[edge], metric) for each in figures) for edge in STRENGTHS]
        spreads.append(max(means) - min(means))
    return max(spreads)


def overload(folder: Path, plan: Plan, seed: int = 1) -> Outcome:
    """Let everybody join the weakest, and return what came of it."""
    randomness = random.Random(seed)
    wishes = [interest(randomness, COMPANIES) for _ in range(plan.clients)]
    wanted = expected_bytes_s(wishes, plan.rate, randomness, COMPANIES)
    strengths = {edge: round(share * wanted) for edge, share in STRENGTHS.items()}
    with running_town(folder, strengths) as town:
        market = Turns(Market(randomness, COMPANIES))

        async def play() -> Outcome:
            return await _Run(town, plan, market).play(wishes)

        return asyncio.run(play())

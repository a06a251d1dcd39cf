"""The demonstration of load balancing: everybody joins the weakest of four edges, and load agents spread the load.

A head, where quotes are published, and four edges that can send their clients less or more (`output_bytes_s_max`). Load
agents run as in production, by periods of seconds in the place of half minutes. Subscribers are moved for real.
"""

import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqloom.agents.averages import mean_load
from mqloom.agents.balancer import Balancer
from mqloom.agents.decisions import Decision
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.lab.demo_federation import configuration, running_federation
from mqloom.lab.demo_trading import Trading
from mqloom.lab.stocks import SYMBOLS, Interest, Market, interest

HEAD: Final = GatewayId("HUB")
STRENGTHS: Final = {GatewayId("BIKE"): 0.85, GatewayId("CAR"): 1.0, GatewayId("VAN"): 1.25, GatewayId("TRUCK"): 1.5}
"""What each edge can send, in parts of all that is wanted: together four times as much, the weakest not all of it."""
WEAKEST: Final = GatewayId("BIKE")
LINKS: Final = tuple((HEAD, edge) for edge in STRENGTHS)
SUBSCRIBERS: Final = 24
PUBLISHERS: Final = 3
COMPANIES: Final = SYMBOLS[:8]
RATE: Final = 8.0
"""Quotes a second where nobody says: in a window of the meters one of each company, so that windows are alike."""
DELIVERY_BYTES: Final = 250
"""About what a quote takes on its way to a subscriber."""
TRIALS: Final = 2_400
"""Quotes by which it is found out how much is wanted."""
WINDOW_S: Final = 1.0
AFTER_WINDOWS: Final = 5
"""How many windows of the meters are told of at the end: their mean."""
PERIODS: Final = {
    "mode": "on",
    "local_pie_s": 1.0,
    "global_pie_s": 2.0,
    "local_detect_min_s": 2.0,
    "local_detect_max_s": 4.0,
    "global_detect_min_s": 8.0,
    "global_detect_max_s": 12.0,
    "stabilise_s": 3.0,
    "stabilise_share": 0.2,
    "move_timeout_s": 10.0,
    "press_samples": 16,
    "press_timeout_s": 5.0,
    "rest_s": 15.0,
}
"""Of the load agents: what they have in half minutes, in seconds. Windows are as much shorter, and their figures less
steady: so more fluctuation counts as steady. Clients have more time to move: a busy machine has to do it all."""


@dataclass(slots=True)
class Turns:
    """Quotes of each company in its turn, as if each had a publisher with a steady rate (paper 000, section 6.2)."""

    market: Market

    def quote(self, number: int) -> dict[str, object]:
        """Return the next quote."""
        companies = self.market.symbols
        return {**self.market.quote(number), "symbol": companies[number % len(companies)]}


@dataclass(slots=True)
class EdgeFigures:
    """One row of the table."""

    id: GatewayId
    state: str
    bytes_s_max: int
    """What it can send; 0: it is not limited."""
    load: Load | None
    subscribers: int
    sessions: int
    came: int
    left: int


@dataclass(slots=True, kw_only=True)
class Overload(Trading):
    """A running demonstration of load balancing, and its figures."""

    gateways: dict[GatewayId, GatewayDriver]
    strengths: dict[GatewayId, int]
    """What each edge can send, in bytes a second."""
    began_at: float | None = None
    """When the first quote was published."""
    before: dict[GatewayId, list[Load]] = field(default_factory=dict)
    """What was measured until the first subscribers were sent away."""
    last: dict[GatewayId, deque[Load]] = field(default_factory=dict)
    _seen: dict[GatewayId, Load] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Note what has been measured since the last look: must be called at least once in a window."""
        if self.began_at is None and self.quotes:
            self.began_at = now
        if self.began_at is None or now < self.began_at + 2 * WINDOW_S:  # a window that began before
            return
        for gateway, balancer in self.balancers().items():
            load = None if balancer.part is None else balancer.part.load
            if load is None or load is self._seen.get(gateway):
                continue
            self._seen[gateway] = load
            self.last.setdefault(gateway, deque(maxlen=AFTER_WINDOWS)).append(load)
            if not self.moved():
                self.before.setdefault(gateway, []).append(load)

    def balancers(self) -> dict[GatewayId, Balancer]:
        """Return the load agents."""
        return {
            gateway: agent
            for gateway, driver in self.gateways.items()
            for agent in driver.node.agency.controls.agents().values()
            if isinstance(agent, Balancer)
        }

    def sessions(self) -> list[tuple[GatewayId, Decision]]:
        """Return who gave load to whom, the first first: as many as agents remember."""
        decisions = [
            (gateway, decision)
            for gateway, balancer in self.balancers().items()
            for decision in balancer.decisions.last()
            if decision.is_offloading and decision.partner
        ]
        return sorted(decisions, key=lambda pair: pair[1].began_at)

    def moved(self) -> int:
        """How many moves subscribers have made."""
        return sum(len(subscriber.moved) for subscriber in self.subscribers)

    def rows(self) -> list[EdgeFigures]:
        """Return the table's rows."""
        moves = [move for subscriber in self.subscribers for move in subscriber.moved]
        sessions = self.sessions()
        rows = []
        for gateway, balancer in self.balancers().items():
            part = balancer.part
            rows.append(
                EdgeFigures(
                    id=gateway,
                    state="-" if part is None else part.state.value,
                    bytes_s_max=self.strengths.get(gateway, 0),
                    load=None if part is None else part.load,
                    subscribers=sum(subscriber.at == gateway for subscriber in self.subscribers),
                    sessions=sum(gateway in (giving, decision.partner) for giving, decision in sessions),
                    came=sum(to == gateway for _, to in moves),
                    left=sum(source == gateway for source, _ in moves),
                )
            )
        return rows

    def verdict(self) -> dict[str, object]:
        """Return what has arrived, how load was and is spread, and what was predicted against what came."""
        sessions = self.sessions()
        return Trading.verdict(self) | {
            "moved": self.moved(),
            "sessions": len(sessions),
            "brokers": [self._told(row) for row in self.rows()],
            "predictions": [
                predicted(giving, decision, self.began_at or 0.0) for giving, decision in sessions if decision.moved > 0
            ],
        }

    def _told(self, row: EdgeFigures) -> dict[str, object]:
        return {
            "id": row.id,
            "output_bytes_s_max": row.bytes_s_max,
            "state": row.state,
            "subscribers": row.subscribers,
            "before": utilisations(self.before.get(row.id, ())),
            "after": utilisations(self.last.get(row.id, ())),
        }


def utilisations(windows: Collection[Load]) -> dict[str, float] | None:
    """Return the means of some windows; None: there was none."""
    if not windows:
        return None
    mean = mean_load(list(windows))
    return {"input": round(mean.input_ratio, 3), "output": round(mean.output_ratio, 3)}


def predicted(giving: GatewayId, decision: Decision, since: float) -> dict[str, object]:
    """Return what a session was to bring, and has brought, of what it was about; None: not known (yet)."""
    metric = decision.metric
    assert metric is not None

    def figure(load: Load | BrokerEstimate | None) -> float | None:
        return None if load is None else round(load.of(metric), 3)

    return {
        "session": decision.session,
        "at_s": round(decision.began_at - since, 1),
        "from": giving,
        "to": decision.partner,
        "metric": metric,
        "overload": decision.is_overload,
        "moved": decision.moved,
        "predicted": [figure(decision.predicted), figure(decision.predicted_partner)],
        "observed": [figure(decision.observed), figure(decision.observed_partner)],
        "error": [decision.error("own", metric), decision.error("partner", metric)],
    }


def expected_bytes_s(
    wishes: Sequence[Interest], rate: float, randomness: random.Random, companies: Sequence[str] = COMPANIES
) -> float:
    """Return about how many bytes a second all of them get together."""
    market = Turns(Market(randomness, companies))
    wanted = sum(wish.wants(market.quote(number)) for number in range(TRIALS) for wish in wishes)
    return wanted / TRIALS * rate * DELIVERY_BYTES


@contextlib.asynccontextmanager
async def running_overload(
    seed: int, rate: float, tell: Callable[[str], None], spool: Path | None = None
) -> AsyncIterator[Overload]:
    """Start everything, in the order in which an operator would; end it in the reverse order."""
    randomness = random.Random(seed)  # noqa: S311 - a workload, not a secret
    wishes = [interest(randomness, COMPANIES) for _ in range(SUBSCRIBERS)]
    wanted = expected_bytes_s(wishes, rate, randomness)
    strengths = {edge: max(1_000, round(share * wanted)) for edge, share in STRENGTHS.items()}
    hint = "while it runs, what load agents see and do is told by: mqloom balance status -c {path}"
    async with contextlib.AsyncExitStack() as stack:
        federation = await stack.enter_async_context(running_federation(_federation(strengths), tell, [hint], spool))
        tell(f"waiting until {SUBSCRIBERS} content subscriptions are established, all of them at {WEAKEST}")
        joining = federation.subscribers([(WEAKEST, wish) for wish in wishes])
        subscribers = await stack.enter_async_context(joining)
        publishers = await stack.enter_async_context(federation.publishers([HEAD] * PUBLISHERS))
        yield Overload(
            gateways=federation.gateways,
            subscribers=subscribers,
            publishers=publishers,
            market=Turns(Market(randomness, COMPANIES)),
            strengths=strengths,
        )


def _federation(strengths: dict[GatewayId, int]) -> str:
    def of_broker(broker: str) -> list[str]:
        limit = strengths.get(GatewayId(broker))
        return [] if limit is None else [f"output_bytes_s_max = {limit}"]

    settings = [
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in PERIODS.items()
    ]
    return configuration(
        [HEAD, *strengths],
        LINKS,
        of_federation=[f"load_window_s = {WINDOW_S}"],
        of_broker=of_broker,
        more=["[plugins.settings.balance]", *settings],
    )

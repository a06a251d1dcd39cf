"""Which PIE a broker asks for: of everybody, or with Adaptive PIE (3.3.4) only of those with less load than itself.

There is a filter for each figure, of the federation's own language, `class = 'LOCAL_PIE' AND cluster = 'C1' AND
input < 0.5`, and its bound is equation 5: what we have, less the trigger, plus the standard deviation of what we have
published lately. Whoever is under no bound is no partner of ours, and its PIE does not come. A filter is changed only
when it is worth it (`AdaptivePie.check`).

What needs to hear of brokers with more load still does:

- Step 2 of the detection waits for others that are overloaded. PIE that says that overload began, ended or lasts is
  asked for of everybody; there is hardly any when nobody is overloaded.
- A broker that is N/A looks for anybody who is OK, however small the difference is (step 1). Its bound for input is 1
  at once: whoever is OK is under 0.9.
- Sessions between clusters end by balanced sets. An edge that does not hear of another cannot name it. So the heads,
  which take all PIE of their edges for the mean anyhow, and in a session those of the other cluster too, judge by
  figures where no name is (`balanced`).
- Who held a PIE gets the one that corrects it, and who widens a filter is told what it has missed (`pie`). What was
  heard of a broker that would not be heard any more, since a filter is narrower or it has become heavier, does not
  count: it has come true no longer, and sessions begun by it bring nothing.

By the paper's rule a filter lags behind equation 5 by up to a trigger, so that a difference of up to two triggers can
go unnoticed for ever, if load has risen slowly. So a filter is widened, too, when partners that differ by a trigger and
the share `adaptive_lag` of one would have gone unnoticed at PATIENCE checks in a row; then as far as to hear of those,
without leeway for deviation. Where load changes all the time, that costs next to nothing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import pstdev
from typing import Final, NamedTuple

from mqloom.agents.pie import ATTRIBUTES, Pie, PieAsk
from mqloom.agents.settings import BalanceSettings, Level
from mqloom.agents.states import OVERLOADED
from mqloom.core.filter.text import literal_text
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, BalanceState, Load, Metric

BOUND_MAX: Final = 1.0
"""Equation 5: a bound is between 0 and 1; of delays, in seconds. Who has more is no partner of anybody."""

PATIENCE: Final = 10
"""Checks in a row at which partners must have gone unnoticed, for a filter to be widened that lags by less than a
trigger."""

DECIMALS: Final = 6
"""Of a bound in a filter."""


class Wanted(NamedTuple):
    """What to ask for from now on, and what to say because of it."""

    wheres: tuple[str, ...]
    ask: PieAsk | None
    """For those whom we have begun to hear: their last PIE went past us."""


def all_wheres(level: Level, clusters: Sequence[str]) -> tuple[str, ...]:
    """Return the filters for all PIE: of edges without Adaptive PIE, and of heads for that of their edges.

    What others ask for comes in any case. The time to live bounds global PIE, so no cluster is named there.
    """
    scope = _scope(level, clusters)
    return f"class = '{level.upper()}_PIE'{scope}", f"class = '{level.upper()}_ASK'{scope}"


class AdaptivePie:
    """The filters of one broker (level local) or head (level global)."""

    def __init__(self, level: Level, gateway: GatewayId, clusters: Sequence[str], settings: BalanceSettings) -> None:
        self._level = level
        self._gateway = gateway
        self._settings = settings
        self._clusters = tuple(clusters)
        self._is_told = False
        self._has_moved = False
        self._history: deque[Load] = deque(maxlen=settings.pie_history)
        self._bounds: dict[Metric, float] = dict.fromkeys(METRICS, 0.0)  # 3.3.4: 0 on bootstrap
        self._blind: dict[Metric, int] = dict.fromkeys(METRICS, 0)
        """At how many checks in a row partners went unnoticed."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters of which PIE is asked for; the first is our own."""
        return self._clusters

    @property
    def bounds(self) -> Mapping[Metric, float]:
        """What is asked for: who has less."""
        return self._bounds

    @property
    def wheres(self) -> tuple[str, ...]:
        """The filters as they stand."""
        if not self._settings.adaptive_pie:
            return all_wheres(self._level, self._clusters)
        # Of a cluster that is called after us there is our neighbour alone, if that is an edge too: it is heard in any
        # case. So what changes below is about the cluster of our head, which wants all of it, and covers it.
        wide = [each for each in self._clusters if each != self._gateway or each == self._clusters[0]]
        everybody, asks = all_wheres(self._level, wide)
        lighter = (
            f"{everybody} AND {ATTRIBUTES[metric]} < {literal_text(bound)}"
            for metric, bound in self._bounds.items()
            if bound > 0  # nobody has less than nothing
        )
        neighbour = all_wheres(self._level, [self._gateway]) if len(wide) < len(self._clusters) else ()
        return (asks, f"{everybody} AND overload = TRUE", *neighbour, *lighter)

    def hears(self, pie: Pie) -> bool:
        """Tell whether a broker that has said this would be heard if it said something else: else it may have."""
        if not self._settings.adaptive_pie or pie.cluster == self._gateway:
            return True
        is_overloaded = pie.load.utilisation > self._settings.overload_high  # everybody is told when it ends
        return is_overloaded or any(pie.load.of(metric) < bound for metric, bound in self._bounds.items())

    def published(self, load: Load) -> None:
        """Remember what was published; the deviation of equation 5 is of that."""
        self._history.append(load)

    def move(self, clusters: Sequence[str]) -> None:
        """Ask for the PIE of these clusters: in a session between two, or when ours is another."""
        self._has_moved = self._has_moved or tuple(clusters) != self._clusters
        self._clusters = tuple(clusters)

    def check(self, load: Load, state: BalanceState, others: Sequence[Pie]) -> Wanted | None:
        """Return other filters, or None if they may stay.

        The first call returns them. To be called at every interval of PIE (3.3.4), and when the state has changed.
        `others` are those whom we hear.
        """
        moved, changed = self._has_moved, self._has_moved or not self._is_told
        self._has_moved, self._is_told = False, True
        if not self._settings.adaptive_pie:
            return Wanted(self.wheres, None) if changed else None
        is_in_need = state is OVERLOADED or load.utilisation > self._settings.overload_high
        widened: list[tuple[Metric, float, float]] = []
        for metric in METRICS:
            current, found = self._bounds[metric], self._worthwhile(metric, load, others)
            if is_in_need and metric == "input":
                new = BOUND_MAX
            elif moved:
                new = self._equation_5(metric, load)
            elif found is not None:
                new = found
            else:
                continue
            if new == current and not moved:
                continue
            changed = changed or new != current
            self._bounds[metric], self._blind[metric] = new, 0
            heard_below = 0.0 if moved else current  # of brokers of another cluster nothing was heard
            if new > heard_below:
                widened.append((metric, heard_below, new))
        return Wanted(self.wheres, self._ask(widened)) if changed else None

    def _equation_5(self, metric: Metric, load: Load) -> float:
        deviation = pstdev(past.of(metric) for past in self._history) if self._history else 0.0
        return self._bound(metric, load, deviation)

    def _bound(self, metric: Metric, load: Load, leeway: float) -> float:
        bound = load.of(metric) - self._trigger(metric) + leeway
        return round(min(BOUND_MAX, max(0.0, bound)), DECIMALS)

    def _trigger(self, metric: Metric) -> float:
        """Return the detection threshold in the figure's own unit: a filter compares seconds (equation 4)."""
        trigger = self._settings.trigger(self._level, metric)
        return trigger * self._settings.delay_factor_s if metric == "match" else trigger

    def _worthwhile(self, metric: Metric, load: Load, others: Sequence[Pie]) -> float | None:
        """Return another bound, if it is worth it: the validity check of 3.3.4, and what goes unnoticed for long."""
        current, new, trigger = self._bounds[metric], self._equation_5(metric, load), self._trigger(metric)
        if new < current:
            # Only if it keeps away the PIE of somebody whom we hear.
            is_worth_it = any(new < other.load.of(metric) < current for other in others)
            return new if is_worth_it else None
        if new - current >= trigger:
            return new
        needed = self._bound(metric, load, 0.0)
        is_blind = needed > current and needed - current >= trigger * self._settings.adaptive_lag
        self._blind[metric] = self._blind[metric] + 1 if is_blind else 0
        return needed if self._blind[metric] >= PATIENCE else None

    def _ask(self, widened: Sequence[tuple[Metric, float, float]]) -> PieAsk | None:
        if not widened:
            return None
        return PieAsk(level=self._level, broker=self._gateway, cluster=self._clusters[0], ranges=tuple(widened))


def _scope(level: Level, clusters: Sequence[str]) -> str:
    if level == "global":
        return ""
    names = [literal_text(cluster) for cluster in clusters]
    return f" AND cluster = {names[0]}" if len(names) == 1 else f" AND cluster IN ({', '.join(names)})"

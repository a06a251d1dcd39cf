"""PIE: what brokers tell each other about their load (paper 000, section 3.3.2), and who has said what.

A broker publishes when a period is over and a figure has changed by a threshold; at once when its state changes, or
when it passes the higher overload threshold; and at the latest after `KEEP_ALIVE_PERIODS`, because
silence means "as before" only for as long as the silent one is known to be alive. What is older than `FRESH_PERIODS` is
not counted any more.

Control publications are filtered by their subject (`subject_of`), and with Adaptive PIE (`adaptive`) a broker asks for
those of lighter ones only. Who was in a session, or has not settled since, and still is or has not, is no partner of
anybody, as those know who have heard the PIE before: there are no figures in the subject of such a PIE, so that it only
comes to who asks for all, the heads. Three things keep that from misleading anybody:

- The subject has the lesser of a figure and what it was in the PIE before, or in all since the last one with figures in
  its subject. So whoever holds a PIE gets the one that corrects it, even if by then its sender is heavier than is asked
  for.
- PIE that says that overload began, ended or lasts has `overload` in its subject, and everybody asks for that: step 2
  of the detection has to know it of brokers however heavy they are.
- Who widens what it asks for has missed what was said before. A head sees that by the filter itself, and tells what
  it was (`hearers`). Where there is none that has heard all, it is asked for with a `PieAsk`, and those who could not
  be heard until then, and only they, say it once more.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from mqloom.agents.averages import is_sound
from mqloom.agents.settings import BalanceSettings, Level, Name
from mqloom.agents.states import BUSY, STABILIZING
from mqloom.core.ids import GatewayId, GatewayName
from mqloom.core.load import METRICS, BalanceState, Load, Metric, difference
from mqloom.gateway.agent_interfaces import Subject

KEEP_ALIVE_PERIODS: Final = 10
"""A broker with nothing new says so once in so many periods."""

FRESH_PERIODS: Final = 25
"""What was said longer ago does not count: two keep-alives were lost, or the broker is gone."""

SILENT_PERIODS: Final = KEEP_ALIVE_PERIODS + 2
"""Who has said nothing for so long should have: it may be gone, and nobody waits for it any more. A broker looks once
in a period whether it has something to say, so its keep-alive may be up to a period late."""

ANSWER_PERIODS: Final = 0.1
"""Asked to say it again, a broker does so at once, but not twice in this share of a period."""

BOARD_BROKERS_MAX: Final = 1_000
"""Brokers whose PIE is kept; past that the one unheard of for longest is forgotten."""

BALANCED_MAX: Final = 1_000
"""Brokers in a balanced set; a longer one is cut."""

RELAYS_MAX: Final = 8
"""Cluster-heads without edges that hand on one global PIE; past that it goes no further."""

ENGAGED: Final = (BUSY, STABILIZING)
"""States of who can be nobody's partner; N/A is another: it is looked for as one that comes first (3.3.3)."""

ATTRIBUTES: Final[dict[Metric, str]] = {"input": "input", "match": "delay", "output": "output"}
"""What each figure is called in a subject: the paper's names."""


class Pie(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="pie"):
    """What one broker (level local), or one cluster by its head (level global), says of itself (3.3.2)."""

    level: Level
    broker: GatewayName
    cluster: Name
    load: Load
    state: BalanceState
    balanced: Annotated[tuple[GatewayName, ...], Meta(max_length=BALANCED_MAX)] = ()
    """Those whom it sees, and would not give load to: none of its figures is more by a trigger."""
    least: tuple[float, float, float] | None = None
    """The least of each figure in this and in the PIE before, or in all after the last one whose subject has figures;
    None: as in `load`."""
    is_still_engaged: bool = False
    """It could be nobody's partner before, and still cannot: it is in a session, or stabilising after one."""
    is_news_of_overload: bool = False
    """Whether overload began or ended with this, or lasts."""
    via: Annotated[tuple[GatewayName, ...], Meta(max_length=RELAYS_MAX)] = ()
    """Cluster-heads without edges that have handed it on."""


class PieAsk(Struct, frozen=True, kw_only=True, tag="ask"):
    """Brokers of a figure in one of these ranges, from the first number to below the second, please say it again."""

    level: Level
    broker: GatewayName
    cluster: Name
    ranges: Annotated[tuple[tuple[Metric, float, float], ...], Meta(max_length=len(METRICS))]

    def is_for(self, load: Load) -> bool:
        """Tell whether a broker of this load is asked."""
        return any(low <= load.of(metric) < high for metric, low, high in self.ranges)


def subject_of(message: Pie | PieAsk) -> Subject:
    """Return what the filters of `adaptive` look at."""
    kind = "PIE" if isinstance(message, Pie) else "ASK"
    subject: dict[str, str | float | bool] = {
        "class": f"{message.level.upper()}_{kind}",
        "cluster": message.cluster,
    }
    if isinstance(message, Pie):
        if not message.is_still_engaged:
            figures = least_of(message)
            subject |= {ATTRIBUTES[metric]: figure for metric, figure in zip(METRICS, figures, strict=True)}
        if message.is_news_of_overload:
            subject["overload"] = True
    return subject


def figures_of(load: Load) -> tuple[float, float, float]:
    """Return the figures that are balanced, in the order of METRICS."""
    return load.input_ratio, load.delay_s, load.output_ratio


def least_of(pie: Pie) -> tuple[float, float, float]:
    """Return the figures by which a PIE is filtered."""
    return pie.least or figures_of(pie.load)


def relayed(pie: Pie, by: GatewayId) -> Pie | None:
    """Return a global PIE as a cluster-head without edges hands it on (3.3.2), or None if it must not.

    Each publishes it one hop further. It went through whoever is in `via`, so it does not go in circles between them.
    """
    if pie.level != "global" or pie.broker == by or by in pie.via or len(pie.via) >= RELAYS_MAX:
        return None
    return replace(pie, via=(*pie.via, by))


class PiePublisher:
    """Says when one broker, or one cluster, has something to say."""

    def __init__(self, level: Level, broker: GatewayId, cluster: str, settings: BalanceSettings) -> None:
        self._level = level
        self._broker = broker
        self._settings = settings
        self._period_s = settings.pie_s(level)
        self.cluster = cluster
        """Which one it belongs to; the next PIE says so when it has changed."""
        self._last: Pie | None = None
        self._last_at = 0.0
        self._looked_at = 0.0
        self._overload_told_at = 0.0
        """When everybody was told last that we are overloaded, or are no more."""
        self._asked = False

    @property
    def last(self) -> Pie | None:
        """What was published last."""
        return self._last

    @property
    def next_at(self) -> float:
        """When to look again at the latest; a change of state is worth a look at any time."""
        if self._last is None:
            return self._looked_at
        if self._asked:
            return self._last_at + self._period_s * ANSWER_PERIODS
        return max(self._last_at, self._looked_at) + self._period_s

    def asked(self, ask: PieAsk) -> None:
        """Say it once more if what we said last is in what somebody has begun to ask for."""
        if ask.level == self._level and ask.broker != self._broker and self._last and ask.is_for(self._last.load):
            self._asked = True

    def due(
        self,
        load: Load,
        state: BalanceState,
        balanced: Sequence[GatewayId],
        now: float,
        *,
        in_global_session: bool = False,
    ) -> Pie | None:
        """Return what is to be published now, if anything; `load` is the mean of the last period, not of one window.

        The balanced set ends global sessions (3.4.1): in one, a change of it is news too. Else it is only told along,
        or two brokers about a trigger apart would tell the world of it for ever.
        """
        balanced_now = tuple(sorted(balanced)[:BALANCED_MAX])
        overloaded = load.utilisation > self._settings.overload_high
        if not self._is_due(load, state, balanced_now if in_global_session else None, now):
            return None
        before = self._last
        was_overloaded = before is not None and before.load.utilisation > self._settings.overload_high
        least = None
        if before is not None:
            held = least_of(before) if before.is_still_engaged else figures_of(before.load)
            pairs = zip(figures_of(load), held, strict=True)
            low_input, low_delay, low_output = (min(pair) for pair in pairs)
            least = (low_input, low_delay, low_output)
        lasts = overloaded and (before is None or self._asked or self._must_tell_overload(now))
        is_news = lasts or overloaded != was_overloaded
        if is_news:
            self._overload_told_at = now
        self._last = Pie(
            level=self._level,
            broker=self._broker,
            cluster=self.cluster,
            load=load,
            state=state,
            balanced=balanced_now,
            least=None if least == figures_of(load) else least,
            is_still_engaged=before is not None
            and self.cluster == before.cluster
            and state in ENGAGED
            and before.state in ENGAGED,
            is_news_of_overload=is_news,
        )
        self._last_at, self._asked = now, False
        return self._last

    def _must_tell_overload(self, now: float) -> bool:
        """Tell whether those who hear nothing else of us have to hear that overload lasts, and that we are alive."""
        return now - self._overload_told_at >= self._period_s * KEEP_ALIVE_PERIODS

    def _is_due(self, load: Load, state: BalanceState, balanced: tuple[GatewayId, ...] | None, now: float) -> bool:
        last, age_s = self._last, now - self._last_at
        if last is None:
            return True  # 3.3.2: also to let others know of our existence
        high = self._settings.overload_high
        if state != last.state or self.cluster != last.cluster:
            return True
        if load.utilisation > high >= last.load.utilisation:
            return True  # the end of overload can wait for the period: near the threshold it comes and goes
        if self._asked and now >= self._last_at + self._period_s * ANSWER_PERIODS:
            return True
        if now < max(self._last_at, self._looked_at) + self._period_s:
            return False
        self._looked_at = now
        if age_s >= self._period_s * KEEP_ALIVE_PERIODS or (balanced is not None and balanced != last.balanced):
            return True
        if load.utilisation <= high < last.load.utilisation:
            return True
        if load.utilisation > high and self._must_tell_overload(now):
            return True
        return any(self._has_changed(metric, load, last.load) for metric in METRICS)

    def _has_changed(self, metric: Metric, load: Load, before: Load) -> bool:
        # 3.3.2: only published when it differs by a threshold from what was published before.
        threshold = self._settings.pie_delay if metric == "match" else self._settings.pie_ratio
        changed = difference(metric, load.of(metric), before.of(metric), self._settings.delay_factor_s)
        return abs(changed) >= threshold


class PieBoard:
    """What others have said last, on one level, and when."""

    def __init__(self, level: Level, settings: BalanceSettings) -> None:
        self._level = level
        self._fresh_s = settings.pie_s(level) * FRESH_PERIODS
        self._silent_s = settings.pie_s(level) * SILENT_PERIODS
        self._pies: dict[GatewayId, tuple[Pie, float]] = {}  # unheard of for longest first

    def take(self, pie: Pie, now: float) -> bool:
        """Keep what a broker says in place of what it said before; False: not of this level, or no load at all.

        A PIE that was overtaken by a later one counts until the next: it is put right by the keep-alive at the latest,
        and nobody takes load by PIE alone, but answers a request.
        """
        if pie.level != self._level or not is_sound(pie.load):
            return False
        self._pies.pop(pie.broker, None)
        self._pies[pie.broker] = (pie, now)
        if len(self._pies) > BOARD_BROKERS_MAX:
            del self._pies[next(iter(self._pies))]
        return True

    def fresh(self, now: float) -> list[Pie]:
        """Return what still counts, by the broker's name; the rest is forgotten."""
        for broker in [broker for broker, (_, at) in self._pies.items() if now - at > self._fresh_s]:
            del self._pies[broker]
        return [self._pies[broker][0] for broker in sorted(self._pies)]

    def silent(self, now: float) -> frozenset[GatewayId]:
        """Return of whom a keep-alive is missing: what they said still counts, but they may be gone."""
        return frozenset(broker for broker, (_, at) in self._pies.items() if now - at > self._silent_s)

    @property
    def known(self) -> list[Pie]:
        """What has been said, as of when `fresh` was last asked."""
        return [pie for pie, _ in self._pies.values()]

    @property
    def relays(self) -> int:
        """How many cluster-heads without edges are between us and the farthest that we hear."""
        return max((len(pie.via) for pie, _ in self._pies.values()), default=0)

    def forget(self, broker: GatewayId) -> None:
        """Forget a broker: it is gone, or does not answer."""
        self._pies.pop(broker, None)

    def keep_clusters(self, clusters: Sequence[str]) -> None:
        """Forget the brokers of all other clusters: a session between clusters has ended, or ours is another now."""
        for broker in [broker for broker, (pie, _) in self._pies.items() if pie.cluster not in clusters]:
            del self._pies[broker]

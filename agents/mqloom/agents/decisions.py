"""Every decision of a load agent, kept for a while and explained: what was seen, considered, predicted, and what came.

A decision begins when the detector wants a session, or when a request is accepted. It is over when the session is, and
complete when both brokers have stabilised and it can be said how good the prediction was (6.3.6).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from msgspec.structs import replace

from mqloom.agents.detector import Action
from mqloom.agents.mediation import UNKNOWN
from mqloom.agents.pie import Pie
from mqloom.agents.sessions import NobodyFound, SessionOver
from mqloom.agents.settings import Level
from mqloom.core.balance_records import CardShown, Considered, EstimationError, Figures, SeenBroker, SessionShown
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import METRICS, Load, Metric
from mqloom.gateway.offload_interfaces import OffloadChoice, ReportCard

DECISIONS_MAX: Final = 100
"""Decisions that are kept; of more the oldest is forgotten."""

SHOWN_MAX: Final = 50
"""Brokers, cards and clients that are kept of one decision; of more, the number is."""

ERROR_FLOOR: Final[Mapping[Metric, float]] = {"input": 0.01, "match": 0.001, "output": 0.01}
"""Less than this was next to nothing, and what was predicted of it is not judged: shares of nothing tell nothing."""


@dataclass(slots=True, kw_only=True)
class Decision:
    """One session, or one attempt, with all that led to it."""

    level: Level
    is_offloading: bool
    began_at: float
    session: str = ""
    partner: GatewayId | None = None
    metric: Metric | None = None
    is_overload: bool = False
    is_advice: bool = False
    why: str = ""
    own: Load | None = None
    seen: Sequence[Pie] = ()
    actions: Sequence[Action] = ()
    answers: dict[tuple[GatewayId, Metric], str] = field(default_factory=dict)
    cards: Sequence[ReportCard] = ()
    cards_more: int = 0
    chosen: int = 0
    clients: Sequence[ClientId] = ()
    choice: str = ""
    covering_left_out: int = 0
    predicted: BrokerEstimate | None = None
    predicted_partner: BrokerEstimate | None = None
    observed: Load | None = None
    observed_partner: Load | None = None
    ended_at: float | None = None
    outcome: str = "lasts"
    reason: str = ""
    moved: int = 0
    stayed: int = 0
    stayed_why: Mapping[ClientId, str] = field(default_factory=dict)
    is_unseen: bool = False
    """Another session has begun before it was seen what came of this one."""

    def chose(self, choice: OffloadChoice) -> None:
        """An offload plugin has chosen."""
        self.cards, self.cards_more = tuple(choice.cards[:SHOWN_MAX]), max(0, len(choice.cards) - SHOWN_MAX)
        self.chosen, self.clients = len(choice.clients), tuple(choice.clients[:SHOWN_MAX])
        self.choice = choice.reason
        self.predicted, self.predicted_partner = choice.local, choice.remote

    @property
    def has_chosen_nobody(self) -> bool:
        """Whether an offload plugin has found nobody worth moving, all being known."""
        return self.predicted is not None and not self.chosen

    def stay(self, stayed: Mapping[ClientId, str]) -> None:
        """These have not moved, and why."""
        self.stayed, self.stayed_why = len(stayed), dict(islice(stayed.items(), SHOWN_MAX))

    def over(self, over: SessionOver, now: float) -> None:
        """The session has ended."""
        self.end(over.how, over.reason, now)
        self.moved = over.moved
        if over.clients:
            self.clients = tuple(over.clients[:SHOWN_MAX])

    def found_nobody(self, found: NobodyFound, now: float) -> None:
        """Nobody of the list has agreed."""
        self.session = found.session  # by which it can be asked for
        reasons = [f"{who} {why}" for (who, _), why in self.answers.items()]
        if found.not_asked:
            reasons.append(f"{found.not_asked} further ones were not asked, since that took too long")
        self.end("nobody found", "; ".join(reasons), now)

    def end(self, outcome: str, reason: str, now: float) -> None:
        """It has come to an end."""
        self.ended_at, self.outcome, self.reason = now, outcome, reason

    def error(self, whose: Literal["own", "partner"], metric: Metric) -> float | None:
        """Return by what share the prediction was wrong (6.3.6: the percentage error), if that can be told."""
        predicted, observed = (
            (self.predicted, self.observed) if whose == "own" else (self.predicted_partner, self.observed_partner)
        )
        if predicted is None or observed is None or self.moved <= 0:
            return None
        came = observed.of(metric)
        return abs(predicted.of(metric) - came) / came if came >= ERROR_FLOOR[metric] else None

    def summary(self) -> str:
        """Return a line for the log."""
        side = "to" if self.is_offloading else "from"
        parts = [f"session {self.session or '-'} {side} {self.partner or 'nobody'}: {self.outcome}"]
        if self.metric:
            parts.append(f"for {self.metric}{' (overload)' if self.is_overload else ''}")
        if self.is_offloading:
            moved = "an unknown number" if self.moved == UNKNOWN else f"{self.moved}"
            stayed = f", {self.stayed} stayed" if self.stayed else ""
            parts.append(f"would move {self.chosen} clients" if self.is_advice else f"moved {moved} clients{stayed}")
        for name, value in (("why", self.why), ("choice", self.choice), ("reason", self.reason)):
            if value:
                parts.append(f"{name}: {value}")
        if self.predicted is not None and self.predicted_partner is not None and self.metric is not None:
            here, there = self.predicted.of(self.metric), self.predicted_partner.of(self.metric)
            parts.append(f"predicted {self.metric} {here:.3g} here, {there:.3g} there")
        return "; ".join(parts)

    def outcome_text(self) -> str:
        """Return a line for the log, when both have stabilised."""
        here, there = self._errors_text("own"), self._errors_text("partner")
        return f"session {self.session} has settled; it was predicted wrong by {here} here, {there} at {self.partner}"

    def _errors_text(self, whose: Literal["own", "partner"]) -> str:
        errors = [(metric, self.error(whose, metric)) for metric in METRICS]
        return (
            ", ".join(f"{metric} {error:.0%}" for metric, error in errors if error is not None) or "nobody knows what"
        )

    def shown(self, now: float, *, is_whole: bool) -> SessionShown:
        """Return it for an operator, in short or whole."""
        short = SessionShown(
            session=self.session,
            level=self.level,
            is_offloading=self.is_offloading,
            partner=self.partner or "",
            metric=self.metric,
            is_overload=self.is_overload,
            is_advice=self.is_advice,
            began_s_ago=now - self.began_at,
            took_s=None if self.ended_at is None else self.ended_at - self.began_at,
            outcome=self.outcome,
            reason=self.reason,
            moved=self.moved,
            stayed=self.stayed,
            chosen=self.chosen,
        )
        return self._whole(short) if is_whole else short

    def _whole(self, short: SessionShown) -> SessionShown:
        return replace(
            short,
            why=self.why,
            own=None if self.own is None else figures_of(self.own),
            seen=tuple(seen_of(pie) for pie in self.seen),
            considered=tuple(self._considered()),
            cards=tuple(_card_of(card) for card in self.cards),
            cards_more=self.cards_more,
            clients=tuple(self.clients),
            stayed_why={str(client): why for client, why in self.stayed_why.items()},
            choice=self.choice,
            covering_left_out=self.covering_left_out,
            predicted=None if self.predicted is None else figures_of(self.predicted),
            predicted_partner=None if self.predicted_partner is None else figures_of(self.predicted_partner),
            observed=None if self.observed is None else figures_of(self.observed),
            observed_partner=None if self.observed_partner is None else figures_of(self.observed_partner),
            error=EstimationError(**{metric: self.error("own", metric) for metric in METRICS}),
            error_partner=EstimationError(**{metric: self.error("partner", metric) for metric in METRICS}),
        )

    def _considered(self) -> list[Considered]:
        return [
            Considered(
                broker=action.partner,
                metric=action.metric,
                difference=action.difference,
                answer=self.answers.get((action.partner, action.metric), "not asked"),
            )
            for action in self.actions
        ]


class Decisions:
    """The last decisions of one agent, by time."""

    def __init__(self) -> None:
        self._kept: deque[Decision] = deque(maxlen=DECISIONS_MAX)

    def add(self, decision: Decision) -> Decision:
        """Keep one more."""
        self._kept.append(decision)
        return decision

    def find(self, session: str) -> Decision | None:
        """Return the decision about a session, if it is still known."""
        return next((each for each in reversed(self._kept) if each.session == session), None)

    def last(self) -> list[Decision]:
        """Return all that are kept, the last first."""
        return list(reversed(self._kept))


def figures_of(load: Load | BrokerEstimate) -> Figures:
    """Return what an operator is shown of a load, or of an estimate."""
    return Figures(
        input_ratio=load.input_ratio,
        delay_s=load.delay_s,
        output_ratio=load.output_ratio,
        utilisation=load.utilisation,
        subscriptions=load.subscriptions,
    )


def seen_of(pie: Pie) -> SeenBroker:
    """Return what an operator is shown of another broker."""
    return SeenBroker(broker=pie.broker, cluster=pie.cluster, state=pie.state.value, figures=figures_of(pie.load))


def _card_of(card: ReportCard) -> CardShown:
    return CardShown(
        clients=card.number,
        difference=card.difference,
        is_covered=card.is_covered,
        rate_reduced=card.rate_reduced,
        rate_added=card.rate_added,
        bytes_s_each=card.bytes_s_each,
    )

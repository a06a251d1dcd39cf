"""The offloading side of one session, from the partner's yes to the order: PRESS, an offload plugin, a move.

    Agreed -> Compute (read the partner's covering set) -> TakeProfile (4.1) -> Compute (offload, section 5)
           -> MoveClients (3.4.2) -> ClientsMoved

Each step is an effect, and its answer comes with the token of this session and step; any other answer is old, and
dropped. A step that is never answered ends with the session, by its deadline.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mqloom.agents.decisions import Decision
from mqloom.agents.mediation import SessionId, covering_of
from mqloom.agents.own_memory import with_memory
from mqloom.agents.press import calibrated, profile_of
from mqloom.agents.sessions import Agreed
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import BrokerEstimate, informed
from mqloom.core.ids import ClientId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    ClientsMoved,
    Compute,
    Computed,
    MoveClients,
    ProfileTaken,
    Sample,
    TakeProfile,
)
from mqloom.gateway.offload_interfaces import OffloadBounds, OffloadChoice, OffloadKind, OffloadTask

COMPUTE_S_MAX: Final = 120.0
"""How long a computation may take, before the session is given up."""

MOVE_S_MAX: Final = 1_800.0
"""How long a move of any number of clients may take."""

REVERSAL: Final = 0.5
"""How much of what begins a session an offload may leave, the other way round, in a metric that it is not about."""

GRACE_S: Final = 10.0
"""How much later than its own time limit an effect may be answered."""


class Ready(NamedTuple):
    """What is known when the profile has been taken, of our own side."""

    estimate: BrokerEstimate
    wishes: Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]
    movable: Sequence[ClientId]
    moves_max: int
    randomness: random.Random


class GaveUp(NamedTuple):
    """Nobody will be moved, and why."""

    reason: str
    is_failure: bool = False
    """Whether something is broken, so that an operator should know."""


class Giving:
    """One session. Every step returns the next effect, or why there is none."""

    def __init__(self, agreed: Agreed, kind: OffloadKind, settings: BalanceSettings, decision: Decision) -> None:
        assert agreed.estimate is not None
        self.session: SessionId = agreed.session
        self.decision = decision
        self._candidate = agreed.candidate
        self._remote: BrokerEstimate = agreed.estimate
        self._texts = agreed.covering
        self._kind = kind
        self._settings = settings
        self._covering: Sequence[Subscription] = ()
        self._movable: frozenset[ClientId] = frozenset()
        self._moves_max = 0

    @property
    def deadline_s(self) -> float:
        """How long it takes at most until clients are ordered to move."""
        return self._settings.press_timeout_s + GRACE_S + 2 * COMPUTE_S_MAX

    def move_s(self, clients: int) -> float:
        """Return for how long to wait for so many clients (3.4.2: as many times the migration timeout)."""
        return min(MOVE_S_MAX, clients * self._settings.move_timeout_s)

    def begin(self) -> AgentEffect:
        """Read the covering set, beside the event loop: there may be thousands."""
        return Compute(self._token("covering"), partial(covering_of, self._texts))

    def take(
        self, event: ProfileTaken | Computed | ClientsMoved, ready: Callable[[], Ready]
    ) -> AgentEffect | GaveUp | None:
        """Take an answer; None: it is not for the step that this session is at."""
        match event:
            case Computed(token) if token == self._token("covering"):
                return self._sample(event)
            case ProfileTaken(token) if token == self._token("profile"):
                return self._choose(event, ready())
            case Computed(token) if token == self._token("choice"):
                return self._order(event)
        return None

    def is_end(self, event: ClientsMoved) -> bool:
        """Whether the clients of this session have moved."""
        return event.token == self._token("move")

    def _sample(self, event: Computed) -> AgentEffect | GaveUp:
        if event.problem or not isinstance(event.result, list):
            return GaveUp(f"the partner's covering set could not be read: {event.problem}", is_failure=True)
        self._covering = event.result
        # 4.1: the partner's covering set is subscribed locally while publications are sampled.
        settings = self._settings
        return TakeProfile(self._token("profile"), self._covering, self._samples, settings.press_timeout_s)

    @property
    def _samples(self) -> int:
        """Return how many publications to sample: those of a window of the meters, between two bounds.

        The paper takes 50, or 30 s. Of many publications a second 50 are over in a moment. Most clients have got
        nothing by then, look as if they took no output along, and hundreds of them are moved as those who take least:
        what all of them take is missed by a quarter.
        """
        settings, own = self._settings, self.decision.own
        wanted = round(own.input_rate * settings.window_s) if own is not None else 0
        return max(settings.press_samples, min(settings.press_samples_max, wanted))

    def _choose(self, event: ProfileTaken, ready: Ready) -> AgentEffect | GaveUp:
        if not event.samples:
            return GaveUp("no publication has come in, so nobody is known to be worth moving")
        if not ready.movable:
            return GaveUp(
                "nobody can be moved: clients are on their way, have just moved, or are of a kind that cannot"
            )
        if not ready.moves_max:
            return GaveUp("the budget of moves is used up for now")
        self._movable, self._moves_max = frozenset(ready.movable), ready.moves_max
        # 4.1: the rate in the sampling period. A short one says little, and then the meters' window says more.
        is_long = event.took_s >= self._settings.window_s
        rate = len(event.samples) / event.took_s if is_long else ready.estimate.input_rate
        bounds = OffloadBounds(
            overload=self._settings.overload_low,
            balance=self._settings.balance,
            delay_factor_s=self._settings.delay_factor_s,
            reversal=REVERSAL * min(self._settings.local_ratio, self._settings.local_delay),
            moves_max=ready.moves_max,
        )
        function = partial(self._answer, tuple(event.samples), ready, tuple(self._covering), rate, bounds)
        return Compute(self._token("choice"), function)

    def _answer(  # runs beside the event loop, and changes nothing
        self,
        samples: Sequence[Sample],
        ready: Ready,
        covering: Sequence[Subscription],
        rate: float,
        bounds: OffloadBounds,
    ) -> OffloadChoice:
        profile = profile_of(samples, ready.wishes, ready.movable, covering, rate)
        profile = calibrated(profile, ready.estimate.output_bytes_s, ready.estimate.deliveries_s)
        task = OffloadTask(
            metric=self._candidate.metric,
            profile=profile,
            local=ready.estimate,
            remote=with_memory(informed(self._remote, ready.estimate), ready.estimate),
            is_overloaded=self._candidate.is_overload,
            bounds=bounds,
            randomness=ready.randomness,
        )
        return self._kind.choose(task)

    def _order(self, event: Computed) -> AgentEffect | GaveUp:
        choice = event.result
        if event.problem or not isinstance(choice, OffloadChoice):
            problem = event.problem or f"it answers {choice!r:.100}"
            return GaveUp(f"offload {self._kind.name} failed: {problem}", is_failure=True)
        chosen = set(choice.clients)
        if len(chosen) != len(choice.clients) or not chosen <= self._movable or len(chosen) > self._moves_max:
            problem = "chose somebody twice, somebody who cannot be moved, or more than may be"
            return GaveUp(f"offload {self._kind.name} failed: it {problem}", is_failure=True)
        self.decision.chose(choice)
        if not choice.clients:
            return GaveUp(f"nobody is worth moving: {choice.reason}")
        if self.decision.is_advice:
            return GaveUp("it is only said what would be done")
        timeout_s = self.move_s(len(choice.clients))
        return MoveClients(self._token("move"), tuple(choice.clients), self._candidate.partner, timeout_s)

    def _token(self, step: str) -> str:
        return f"{self.session}/{step}"

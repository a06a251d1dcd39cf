"""Where a session stands, and what a mediator has to tell about it (paper 000, section 3.4.1)."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple

from mqloom.agents.mediation import Mediation, SessionId, Text
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import BalanceState, Metric
from mqloom.core.subscription import Subscription


class Stage(Enum):
    """Where a mediator stands."""

    FREE = "free"
    ASKING = "asking"
    """Waits for the answer of one of its list."""
    GIVING = "giving"
    """In session: finds out whom to move."""
    MOVING = "moving"
    """In session: clients are under way from here."""
    TAKING = "taking"
    """In session as the accepting one."""
    RECEIVING = "receiving"
    """In session as the accepting one, and clients are under way to here."""


Occurrence = Literal["asked", "refused", "exhausted", "agreed", "moving", "accepted", "over"]

TRANSITIONS: Final[dict[tuple[Stage, Occurrence], Stage]] = {
    (Stage.FREE, "asked"): Stage.ASKING,
    (Stage.ASKING, "refused"): Stage.ASKING,
    (Stage.ASKING, "exhausted"): Stage.FREE,
    (Stage.ASKING, "agreed"): Stage.GIVING,
    (Stage.GIVING, "moving"): Stage.MOVING,
    (Stage.GIVING, "over"): Stage.FREE,
    (Stage.MOVING, "over"): Stage.FREE,
    (Stage.FREE, "accepted"): Stage.TAKING,
    (Stage.TAKING, "moving"): Stage.RECEIVING,
    (Stage.TAKING, "over"): Stage.FREE,
    (Stage.RECEIVING, "over"): Stage.FREE,
}
"""What is not here does not happen: it would be a mistake of ours, and raises KeyError."""


class Candidate(NamedTuple):
    """Somebody to ask, and for what."""

    partner: GatewayId
    metric: Metric
    is_overload: bool


class Offer(NamedTuple):
    """What the accepting side has to say to a request."""

    state: BalanceState
    refusal: str = ""
    estimate: BrokerEstimate | None = None
    covering: Sequence[Subscription] = ()
    edges: int = 0
    """How many there are, between clusters."""


class Send(NamedTuple):
    """To do: send this."""

    partner: GatewayId
    message: Mediation


class Refused(NamedTuple):
    """A candidate said no, or nothing."""

    candidate: Candidate
    why: str
    is_silent: bool = False
    """It has not answered at all."""
    is_lasting: bool = False
    """It takes nobody for a reason that its state does not tell, so PIE will not say when that is over."""


class NobodyFound(NamedTuple):
    """The list is at its end, or it has taken too long to go through it."""

    session: SessionId
    """Under what name the last of them was asked."""
    not_asked: int = 0
    """How many further ones were not."""


class Agreed(NamedTuple):
    """A candidate said yes: now find out whom to move."""

    session: SessionId
    candidate: Candidate
    estimate: BrokerEstimate | None
    covering: Sequence[Text]
    left_out: int
    cluster: str = ""
    """The partner's, between clusters."""
    edges: int = 0
    """How many that has; 0: it has not told."""


class Accepted(NamedTuple):
    """We said yes."""

    session: SessionId
    partner: GatewayId
    metric: Metric
    cluster: str = ""
    """The partner's, between clusters."""
    is_advice: bool = False
    """Nobody will be moved, whatever our own mode is."""
    is_overload: bool = False
    """The partner is overloaded, or its edges ask for help."""


How = Literal["done", "cancelled", "silent", "overdue", "gone"]


class SessionOver(NamedTuple):
    """A session is over, on this side."""

    session: SessionId
    partner: GatewayId
    is_offloading: bool
    how: How
    moved: int
    """Clients that have moved; UNKNOWN if they were under way when the other side fell silent, or time was up."""
    clients: Sequence[ClientId] = ()
    reason: str = ""


class CameLate(NamedTuple):
    """A session had ended here because nothing was heard; now it has been, and so many had come."""

    session: SessionId
    moved: int
    clients: Sequence[ClientId] = ()


News = Send | Refused | NobodyFound | Agreed | Accepted | SessionOver | CameLate

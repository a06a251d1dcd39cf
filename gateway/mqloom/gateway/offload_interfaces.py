"""What an offload plugin is asked, and what it answers: whom to move to another broker (paper 000, section 5)."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId
from mqloom.core.load import Metric

Bits = NDArray[np.uint64]
"""Bit vectors, 64 samples to a word: the first sample is the lowest bit of the first word."""


class Group(NamedTuple):
    """Clients that want the same: to move one or the other makes no difference."""

    clients: Sequence[ClientId]
    """Those that may be moved, in the order in which they would be."""
    subscribers: int
    """How many there are, those included that must stay: input falls only when all are gone."""
    subscriptions: int
    """How many subscriptions each of them has."""
    bytes_each: float
    """What one publication that matches puts on the line to one of them."""
    is_maximal: bool
    """Whether nobody else at this broker covers what they want: it belongs to the covering set."""
    is_covered: bool
    """Whether what they want is covered by the covering set of the accepting broker, or equal to part of it."""
    covers: Sequence[int]
    """Groups (by their place in the profile) that hang below this one: covered by what it wants."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What PRESS has seen (4.1): which of the sampled publications each group and the accepting broker want."""

    groups: Sequence[Group]
    bits: Bits
    """A row for each group."""
    accepting: Bits
    """One row: what the accepting broker receives already."""
    samples: int
    input_rate: float
    """Publications a second that came in meanwhile."""
    staying: Bits | None = None
    """One row: what comes in at the offloading broker whoever goes; None: nothing."""
    deliveries_factor: float = 1.0
    """How many deliveries there were, as the broker has counted them, for each that the samples make up."""


class OffloadBounds(NamedTuple):
    """Parameters of Table III that bound what may be moved."""

    overload: float = 0.9
    """The lower overload threshold: no resource of the accepting broker may pass it."""
    balance: float = 0.005
    """The balance threshold: a smaller difference is none."""
    delay_factor_s: float = 0.1
    reversal: float = 0.05
    """By how much the accepting broker may get more than is left here of a metric that is not the one to balance: half
    of the difference that would begin a session to give it back, so that load may vary by the other half."""
    moves_max: int = 10_000


class ReportCard(NamedTuple):
    """What moving some clients of one group would do (5.1)."""

    group: int
    number: int
    """How many of its clients."""
    difference: float
    """By how much the offloading broker's metric would still be more than the other's."""
    is_covered: bool
    rate_reduced: float
    """Publications a second that the offloading broker would no longer receive."""
    rate_added: float
    """Publications a second that the accepting broker would receive in addition."""
    bytes_s_each: float
    """Output that each of the clients takes along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadTask:
    """One session's question."""

    metric: Metric
    profile: Profile
    local: BrokerEstimate
    remote: BrokerEstimate
    is_overloaded: bool
    """Whether it is asked because the offloading broker is overloaded, not for balance."""
    bounds: OffloadBounds
    randomness: random.Random


class OffloadChoice(NamedTuple):
    """The answer: who goes, by which report cards, and what is predicted for both brokers."""

    clients: Sequence[ClientId]
    cards: Sequence[ReportCard]
    local: BrokerEstimate
    remote: BrokerEstimate
    reason: str
    """Why it ends there, for people."""


@dataclass(frozen=True, slots=True)
class OffloadKind:
    """A way to choose whom to move, by name: `input`, `match`, `output`, `random`, or an operator's own.

    `choose` is pure: all it may use is in the task. It runs beside the event loop, and may take seconds.
    """

    name: str
    choose: Callable[[OffloadTask], OffloadChoice]

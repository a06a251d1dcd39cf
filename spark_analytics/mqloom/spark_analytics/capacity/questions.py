"""What is asked of an analysis beyond what every report answers: scenarios, and interests to find a place for."""

from dataclasses import dataclass
from typing import Final

from mqloom.core.errors import LocalError, RemoteError
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.thresholds import FULL
from mqloom.spark_analytics.capacity.what_if import Scenario, WhatIf

GROWTHS: Final = (25.0, 50.0, 100.0)
"""By how much publications grow where nobody asks, in percent."""

STRENGTHS: Final = (1.0,)

FAILS_MAX: Final = 30
"""Of so many brokers it is told what happens when they fail: the fullest ones."""

GROWTH_RANGE: Final = (-100.0, 10_000.0)
STRENGTH_RANGE: Final = (0.01, 1_000.0)


@dataclass(frozen=True, slots=True)
class Move:
    """Subscribers to move in a scenario."""

    source: str
    target: str
    topics: str = "#"
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Empty ones stand for what is usually asked."""

    full: float = FULL
    fails: tuple[str, ...] = ()
    grows: tuple[float, ...] = ()
    adds: tuple[float, ...] = ()
    moves: tuple[Move, ...] = ()
    interests: tuple[Subscription, ...] = ()


def parse_move(text: str) -> Move:
    """Return the move in `SOURCE:TARGET[:TOPICS[ WHERE ...]]`; raises LocalError."""
    source, _, rest = text.partition(":")
    target, _, what = rest.partition(":")
    if not source or not target:
        raise LocalError(f"--moves {text}: write SOURCE:TARGET, or SOURCE:TARGET:TOPICS WHERE ...")
    if not what:
        return Move(source, target)
    subscription = parse_interest(what)
    return Move(source, target, subscription.topics, str(subscription.where) if subscription.where else "")


def parse_interest(text: str) -> Subscription:
    """Return the subscription in `TOPICS[ WHERE ...]`; raises LocalError."""
    topics, _, where = text.strip().partition(" ")
    where = where.strip()
    if where[:5].upper() == "WHERE":
        where = where[5:].strip()
    try:
        return Subscription.parse(topics, where)
    except RemoteError as error:
        raise LocalError(f"{text}: {error}") from None


def scenarios_of(what_if: WhatIf, questions: Questions) -> list[Scenario]:
    """Return an answer to each question; raises LocalError if it is about a broker that does not exist."""
    asked = bool(questions.fails or questions.grows or questions.adds or questions.moves)
    for broker in (*questions.fails, *(each for move in questions.moves for each in (move.source, move.target))):
        if broker not in what_if.brokers:
            raise LocalError(
                f"there is no broker {broker!r} at the end of this telemetry; there are {', '.join(what_if.brokers)}"
            )
    usual = sorted(what_if.brokers, key=lambda each: (-what_if.utilisation(each), each))[:FAILS_MAX]
    fails = questions.fails if asked else tuple(usual if len(what_if.brokers) > 1 else ())
    grows = questions.grows if asked else GROWTHS
    adds = questions.adds if asked else STRENGTHS
    moves = questions.moves if asked else _usual_moves(what_if)
    return [
        *(what_if.fails(each) for each in fails),
        *(what_if.grows(each) for each in grows),
        *(what_if.adds(each) for each in adds),
        *(what_if.moves(each.source, each.target, each.topics, each.where) for each in moves),
    ]


def _usual_moves(what_if: WhatIf) -> tuple[Move, ...]:
    """Return the largest group of the fullest broker, to the emptiest."""
    order = sorted(what_if.members, key=lambda each: (what_if.utilisation(each), each))
    group = what_if.largest(order[-1])
    if len(order) < 2 or group is None:
        return ()
    return (Move(order[-1], order[0], group.topics, group.where),)

"""Whether what an agent answers can be done at all: one that answers nonsense has failed, and nothing of it is done."""

import math
from collections.abc import Mapping

import msgspec

from mqloom.core.filter import Filter
from mqloom.core.limits import CONTROL_WHERE_TEXT_MAX, CONTROL_WHERES_MAX, PROFILE_SAMPLES_MAX
from mqloom.core.messages import SubjectTold
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    Agent,
    AgentEffect,
    AgentEvent,
    AgentLog,
    AnswerOperator,
    Compute,
    MoveClients,
    PublishControl,
    TakeProfile,
    WakeAgentAt,
    WantControls,
)


def ask(agent: Agent, event: AgentEvent, now: float) -> list[AgentEffect]:
    """Return what an agent wants done; raises TypeError, ValueError or FilterError if it answers nonsense."""
    effects = list(agent.handle(event, now))
    for effect in effects:
        match effect:
            case PublishControl():
                if not isinstance(effect.body, bytes) or not isinstance(effect.hops, int):
                    raise TypeError(f"a control publication is bytes and a number of hops, not {effect!r:.100}")
                if effect.subject:
                    subject_of(effect.subject)
            case WantControls():
                _check_want(effect)
            case WakeAgentAt():
                if not math.isfinite(effect.at):
                    raise ValueError(f"{effect.at} is no time to wake at")
            case TakeProfile() | Compute() | MoveClients() | AnswerOperator():
                _check_order(effect)
            case AgentLog():
                pass
            case _:
                raise TypeError(f"an agent answers with its effects, not {effect!r:.100}")
    return effects


def subject_of(subject: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """Return a subject as it is told; raises ValueError if it cannot be."""
    told: dict[str, bool | int | float | str] = msgspec.convert(dict(subject), SubjectTold)
    for value in told.values():
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"{value:.3g} is too large a number for a subject")
    return told


def _check_order(order: TakeProfile | Compute | MoveClients | AnswerOperator) -> None:
    match order:
        case TakeProfile():
            if not 1 <= order.samples <= PROFILE_SAMPLES_MAX or not 0 < order.timeout_s < math.inf:
                raise ValueError(f"a profile of {order.samples} samples in {order.timeout_s} s cannot be taken")
            if not all(isinstance(each, Subscription) for each in order.covering):
                raise TypeError("a covering set is of subscriptions")
        case Compute():
            if not callable(order.function):
                raise TypeError(f"{order.function!r:.100} cannot be run")
        case MoveClients():
            if not 0 < order.timeout_s < math.inf:
                raise ValueError(f"{order.timeout_s} s is no time to move clients in")
        case AnswerOperator():
            if not isinstance(order.body, bytes):
                raise TypeError(f"an answer is bytes, not {order.body!r:.100}")


def _check_want(effect: WantControls) -> None:
    if not isinstance(effect.hops, int):
        raise TypeError(f"from how many hops away is a number, not {effect.hops!r:.100}")
    if len(effect.wheres) > CONTROL_WHERES_MAX:
        raise ValueError(f"{len(effect.wheres)} filters: at most {CONTROL_WHERES_MAX} may be wanted")
    for where in effect.wheres:
        if len(where) > CONTROL_WHERE_TEXT_MAX:
            raise ValueError(f"a filter of {len(where)} characters: at most {CONTROL_WHERE_TEXT_MAX} may be")
        Filter.parse(where)

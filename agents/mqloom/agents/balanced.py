"""Who is balanced with whom, and when a session between two clusters is over (3.3.2, 3.4.1)."""

from collections.abc import Sequence

from mqloom.agents.pie import Pie
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import BUSY, STABILIZING
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, Load, difference


def is_heavier(load: Load, other: Load, settings: BalanceSettings) -> bool:
    """Tell whether a figure is more than the other's by more than its local trigger: a reason for a session."""
    return any(
        difference(metric, load.of(metric), other.of(metric), settings.delay_factor_s)
        > settings.trigger("local", metric)
        for metric in METRICS
    )


def balanced_with(load: Load, others: Sequence[Pie], settings: BalanceSettings) -> tuple[GatewayId, ...]:
    """Return the balanced set of an edge: whom it sees, and would give no load to.

    One-sided, since with Adaptive PIE an edge does not see who has more. Two are balanced when neither is heavier.
    """
    return tuple(pie.broker for pie in others if not is_heavier(load, pie.load, settings))


def are_balanced(edges: Sequence[Pie], settings: BalanceSettings) -> bool:
    """Tell whether all edges of the two clusters of a session are balanced with each other, so that it is over.

    Asked by their heads, who get all PIE of both. By its balanced set an edge judges with what it measures itself; of
    those whom it does not see, the head judges with what both have said last. While somebody is in a session, or has
    not settled since, it is too early to tell.
    """
    if any(edge.state in (BUSY, STABILIZING) for edge in edges):
        return False
    return all(
        two.broker in one.balanced or not is_heavier(one.load, two.load, settings)
        for one in edges
        for two in edges
        if one.broker != two.broker
    )

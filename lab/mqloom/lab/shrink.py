"""Making a failing plan smaller: parts are left out, larger pieces first, as long as it still fails."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import structs

from mqloom.lab.plan import ControlsPlan, Plan

TRIES_MAX: Final = 120
"""Runs that shrinking may take; then what it has is small enough."""

PARTS: Final = ("faults", "moves", "migrations", "joins", "subscribers", "publications")
"""What of a plan may be left out."""

Fails = Callable[[Plan], bool]


class _Budget:
    """A question that is asked so often at most; then the answer is no."""

    def __init__(self, fails: Fails, tries_max: int) -> None:
        self._fails = fails
        self.left = tries_max

    def __call__(self, plan: Plan) -> bool:
        if not self.left:
            return False
        self.left -= 1
        return self._fails(plan)


def shrink(plan: Plan, fails: Fails, tries_max: int = TRIES_MAX) -> Plan:
    """Return a plan that fails too, with less in it; the plan itself if nothing can be left out."""
    ask = _Budget(fails, tries_max)
    while ask.left:
        before = plan
        for calmer in (structs.replace(plan, is_balanced=False), structs.replace(plan, controls=ControlsPlan())):
            if plan.is_balanced and calmer != plan and ask(calmer):
                plan = calmer
        for part in PARTS:
            plan = _without(plan, part, ask)
        if plan == before:
            break
    return plan


def _without(plan: Plan, part: str, fails: Fails) -> Plan:
    """Leave out pieces of one part: halves, then quarters, and so on to single ones."""
    size = len(getattr(plan, part))
    while size:
        start = 0
        while start < len(getattr(plan, part)):
            smaller = _cut_out(plan, part, start, start + size)
            if fails(smaller):
                plan = smaller
            else:
                start += size
        size //= 2
    return plan


def _cut_out(plan: Plan, part: str, start: int, end: int) -> Plan:
    items: Sequence[Any] = getattr(plan, part)
    plan = structs.replace(plan, **{part: (*items[:start], *items[end:])})
    if part != "subscribers":
        return plan
    names = {subscriber.name for subscriber in plan.subscribers}
    kept = tuple(fault for fault in plan.faults if not fault.kind.startswith("client-") or fault.target[0] in names)
    migrations = tuple(migration for migration in plan.migrations if migration.subscriber in names)
    return structs.replace(plan, faults=kept, migrations=migrations)

"""Times as people read them, all in UTC. Nothing here looks at a clock."""

from datetime import UTC, datetime

DAY_S = 86_400


def moment(at: float) -> str:
    """Return a time to the minute: `2026-03-01 14:05`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def day(at: float) -> str:
    """Return a day: `1 March 2026`."""
    found = datetime.fromtimestamp(at, UTC)
    return f"{found.day} {found.strftime('%B %Y')}"


def iso(at: float) -> str:
    """Return a time for programs."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def naive(at: float) -> datetime:
    """Return a time as plots take it: in UTC, without saying so."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def length(seconds: float) -> str:
    """Return how long something takes, in the unit that fits."""
    for unit, size in (("day", DAY_S), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size):,} {unit}s"
    return f"{seconds:.0f} seconds" if seconds >= 2 or seconds == 0 else f"{seconds:.1f} seconds"

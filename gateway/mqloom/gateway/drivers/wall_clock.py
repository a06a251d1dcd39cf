"""The time of day, for what is signed: clients compare it with their own."""

import time


def wall_at(now: float) -> float:
    """Return the time of day, in seconds since 1970, at a moment of the clock by which a gateway's core lives."""
    return time.time() + (now - time.monotonic())

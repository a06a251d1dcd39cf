"""How often something small may leave, so that under load more goes together, and without load nothing waits.

A bucket: so many may leave at once, and one more each `every_s`, or so long after one as that asks for. Whoever leaves
in spite of that, because it must, is counted too, but nobody waits for longer.
"""


class Cadence:
    """When the next of a kind may leave."""

    def __init__(self, every_s: float, at_once: int) -> None:
        self._every_s = every_s
        self._spare_s = every_s * (at_once - 1)
        self._full_at = 0.0  # when as many as ever may leave at once

    @property
    def due_at(self) -> float:
        """From when on the next may leave."""
        return self._full_at - self._spare_s

    def went(self, now: float, every_s: float | None = None) -> None:
        """One has left; the next may in the usual time, or in this one."""
        wait_s = self._every_s if every_s is None else every_s
        self._full_at = min(max(self._full_at, now), now + self._spare_s) + wait_s

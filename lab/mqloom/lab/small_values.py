"""What the state of a small world is made of, besides sides and clients; and what can happen to it."""

from collections.abc import Hashable
from typing import Final, NamedTuple

from mqloom.lab.small_steps import Step

State = tuple[int, ...]
"""The number of each part: sides, ways, clients, and the rest."""

QUEUE_MAX: Final = 64
"""Frames or news on one way; more is a flood."""


class Way(NamedTuple):
    """One direction of a link: a gateway's connection to its neighbour's broker."""

    is_up: bool
    frames: tuple[bytes, ...] = ()
    news: tuple[bytes | str, ...] = ()


class Rest(NamedTuple):
    """What has happened of what may happen only so often."""

    entered: frozenset[int] = frozenset()
    crashes: int = 0
    cuts: int = 0
    breaks: int = 0
    hastes: int = 0
    delays: int = 0
    slow: frozenset[Hashable] = frozenset()
    down: int = -1
    cut: int = -1


class Action(NamedTuple):
    """Something that can happen: where, and which step; for a link, the gateway at its other end."""

    place: int
    step: Step
    way: int = -1

    @property
    def queue(self) -> Hashable:
        """What it is the first of."""
        return self.place, self.step[0], self.step[1] if self.step[0] == "parked" else self.way

"""Plays several runs of paper 000's model beside each other, on as many processors as there are.

Runs share nothing, and each is drawn from its own seed: what comes out is the same on one processor and on many.
"""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import NamedTuple, TypeVar

from mqloom.lab.experiment import Tell, tell_nobody
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_play import play
from mqloom.lab.padres_setups import Setup
from mqloom.lab.padres_workload import Stay

T = TypeVar("T")


class Play(NamedTuple):
    """One run: what `play` is given, and what it is called."""

    name: str
    setup: Setup
    seed: int
    settings: Mapping[str, object] | None = None
    stays: Sequence[Stay] | None = None


def play_all(plays: Sequence[Play], tell: Tell, digest: Callable[[Outcome], T]) -> list[T]:
    """Return what `digest` makes of each outcome, in the order of the plays.

    `digest` is a function of a module: other processes find it by its name. Raises whatever a run has raised.
    """
    processes = min(len(plays), os.cpu_count() or 1)
    if processes <= 1:
        return [_told(each, done, len(plays), tell, digest) for done, each in enumerate(plays)]
    # Spawned: a fork would take along whatever threads this process has, halfway through what they do.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures: dict[Future[T], str] = {pool.submit(_played, each, digest): each.name for each in plays}
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            tell(done / len(plays), f"{futures[future]}: done")
        return [future.result() for future in futures]


def whole(outcome: Outcome) -> Outcome:
    """Return all of it: the digest of those who want to look at everything."""
    return outcome


def _played(each: Play, digest: Callable[[Outcome], T], tell: Tell = tell_nobody) -> T:
    return digest(play(each.setup, each.seed, tell, each.settings, stays=each.stays))


def _told(each: Play, done: int, count: int, tell: Tell, digest: Callable[[Outcome], T]) -> T:
    return _played(each, digest, lambda share, text: tell((done + share) / count, f"{each.name}: {text}"))

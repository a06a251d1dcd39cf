"""Offload `random`: as many subscriptions as a rule of three gives, of clients drawn at random (paper 000, 5.4).

It is there for comparison: it looks neither at what clients want nor at what they take, and may overload or oscillate.
What its moves would do is reckoned up and reported, as for the others, but decides nothing.

The number of subscriptions is the mean of two, after either broker's load for each subscription; or the first alone, if
the second is more than there are, or the accepting broker has no load to go by. Clients move with all that they want,
so they are drawn until that number is reached.
"""

from itertools import chain, repeat

import numpy as np

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId
from mqloom.core.load import Metric
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask
from mqloom.plugins.offload.aims import Balance
from mqloom.plugins.offload.ledger import Ledger


@hookimpl
def mqloom_offload() -> OffloadKind:
    """Offer it."""
    return OffloadKind(name="random", choose=choose)


def number_of(metric: Metric, local: BrokerEstimate, remote: BrokerEstimate) -> int:
    """Return how many subscriptions to move (equations 13 and 14)."""
    here, there = local.of(metric), remote.of(metric)
    if here <= there:
        return 0
    average = (here + there) / 2
    by_ours = local.subscriptions - average * local.subscriptions / here
    if there == 0:
        return round(by_ours)
    by_theirs = average * remote.subscriptions / there - remote.subscriptions
    return round(by_ours if by_theirs > local.subscriptions else (by_ours + by_theirs) / 2)


def choose(task: OffloadTask) -> OffloadChoice:
    """Return whom to move."""
    ledger, aim = Ledger(task), Balance(task.metric, task.bounds)
    wanted = number_of(task.metric, task.local, task.remote)
    groups = task.profile.groups
    everyone = list(chain.from_iterable(zip(repeat(place), group.clients) for place, group in enumerate(groups)))
    task.randomness.shuffle(everyone)
    drawn: dict[int, list[ClientId]] = {}
    subscriptions = 0
    for place, client in everyone[: task.bounds.moves_max]:
        if subscriptions >= wanted:
            break
        drawn.setdefault(place, []).append(client)
        subscriptions += groups[place].subscriptions
    for place, clients in drawn.items():
        outlooks = ledger.trial(np.array([place]), np.array([len(clients)]))
        ledger.move(place, len(clients), float(aim.difference(*outlooks)[0]), clients)
    return ledger.choice(f"{subscriptions} of {wanted} subscriptions drawn: {aim.describe(*ledger.now())}")

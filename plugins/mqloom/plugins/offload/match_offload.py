"""Offload `match`: to balance matching delays, those with the least traffic go (paper 000, 5.2).

All groups are candidates, by ascending output of one client; of the same output, what brings the accepting broker the
least additional input goes first. Each group gives as many as balance needs and as the accepting broker has room for.

A broker whose processor, input or memory is overloaded goes on until all three are below the lower overload threshold,
instead of until delays are balanced. As with balance, a move must bring the two brokers nearer to each other, here in
the fullest of the three: or two brokers that are both nearly full would swap their roles. Memory falls only as far as
it is known what a subscription takes.
"""

import numpy as np

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask
from mqloom.plugins.offload.aims import Balance, Relief
from mqloom.plugins.offload.ledger import Ledger
from mqloom.plugins.offload.report_cards import offload


@hookimpl
def mqloom_offload() -> OffloadKind:
    """Offer it."""
    return OffloadKind(name="match", choose=choose)


def choose(task: OffloadTask) -> OffloadChoice:
    """Return whom to move; the matching delay is what it balances, whatever the task names."""
    ledger = Ledger(task)
    even = Balance("match", task.bounds, ("input", "output"), ledger.now())
    aim = Relief("match", task.bounds) if task.is_overloaded else even
    everyone = np.ones(len(ledger.groups), dtype=np.bool_)
    return ledger.choice(offload(ledger, aim, candidates=everyone, by_traffic=True))

"""Offload `input`: to balance input utilisation, those whose wishes make publications come in go (paper 000, 5.1).

Only groups of the covering set are candidates: for all others the publications come in anyway. When all subscribers of
such a group are gone, those that it covered are candidates in their turn. The profile does not say which of these
covers which, so all are; what would no longer come in without them is told by the bits.

Of these, only groups count of which all go, so that fewer publications come in here: to make the two alike by raising
the other's input alone relieves nobody. The one that leaves the smallest difference goes first: that moves few clients,
and so changes matching little. It goes on until the input utilisations are balanced, the offloading broker's is the
smaller one, or no move makes the difference smaller. Of groups that leave the same difference, the one of which fewer
clients have to go is chosen; the paper leaves that open. A group that would leave the other broker with more than may
be reversed does not go: what follows comes nearer.

Often somebody wants everything, at both brokers: then nothing else brings input, and its difference is one of matching
delays. The paper leaves that to the match offload, so that the two do not work against each other. But input is the
delay times a rate, and may differ by more than a trigger while delays do not, for ever. So for what is left of the
difference those with the least traffic go, as with the match offload; that the two do not work against each other is
seen to by what may be reversed.
"""

import numpy as np

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask
from mqloom.plugins.offload.aims import Balance
from mqloom.plugins.offload.ledger import Ledger
from mqloom.plugins.offload.report_cards import offload


@hookimpl
def mqloom_offload() -> OffloadKind:
    """Offer it."""
    return OffloadKind(name="input", choose=choose)


def choose(task: OffloadTask) -> OffloadChoice:
    """Return whom to move; input utilisation is what it balances, whatever the task names."""
    ledger = Ledger(task)
    aim = Balance("input", task.bounds, () if task.is_overloaded else ("match", "output"), ledger.now())
    reason = offload(ledger, aim, candidates=None, by_traffic=False)
    if not aim.is_reached(*ledger.now())[0]:
        everyone = np.ones(len(ledger.groups), dtype=np.bool_)
        reason = offload(ledger, aim, candidates=everyone, by_traffic=True)
    return ledger.choice(reason)

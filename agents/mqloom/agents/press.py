"""PRESS: what each subscriber takes of the publications that come in, sampled as bits (paper 000, section 4.1).

PRESS is the paper's Publish/subscribe Real-time Event-to-Subscription Spectrum. For each of the sampled publications
there is one bit: whether it was matched. Rates, and what would come in additionally elsewhere, are numbers of bits.

The paper has a vector for each subscription, and each client one subscription. Ours may have several and move with
all of them, so the unit is the *group*: clients with the same set of subscriptions, whose vector is the OR of these. A
group belongs to the covering set (CSS: covering subscription set) if one of its subscriptions does; of equal
subscriptions in different groups, those of the group with most subscriptions stand for all.

`profile_of` is pure, and meant to run beside the event loop: it builds the order by covering anew, which for 10,000
different subscriptions takes tenths of a second. What is handed in must not change meanwhile.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.core.covering_index import CoveringIndex
from mqloom.core.estimators import correction_of
from mqloom.core.ids import ClientId, SubscriptionKey
from mqloom.core.poset import Poset
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import Sample
from mqloom.gateway.offload_interfaces import Bits, Group, Profile

WORD_BITS: Final = 64

Wishes = Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]

_Wanted = frozenset[Subscription]


def profile_of(
    samples: Sequence[Sample],
    wishes: Wishes,
    movable: Sequence[ClientId],
    covering: Iterable[Subscription],
    input_rate: float,
) -> Profile:
    """Return what the samples tell about each group, and about the accepting broker, whose covering set is `covering`.

    Those of `movable` may be moved, in that order; whoever has no subscription is in no group. `input_rate` is what
    came in while the samples were taken, in publications a second.
    """
    members = _members(wishes)
    matched, accepting = _match(samples, members, wishes)
    staying = np.array([[sample.comes_anyway for sample in samples]], dtype=np.bool_)
    maximal, below = _order(list(members))
    index = _index_of(covering)
    places = {client: place for place, client in enumerate(movable)}
    groups = [
        Group(
            clients=sorted((client for client in clients if client in places), key=places.__getitem__),
            subscribers=len(clients),
            subscriptions=len(wishes[clients[0]]),
            bytes_each=bytes_each,
            is_maximal=is_maximal,
            is_covered=all(index.find_covering(each) is not None for each in wanted),
            covers=covers,
        )
        for (wanted, clients), bytes_each, is_maximal, covers in zip(
            members.items(), _bytes_each(matched, samples), maximal, below, strict=True
        )
    ]
    rows = pack(matched), pack(accepting[np.newaxis, :])[0]
    return Profile(groups, *rows, len(samples), input_rate, pack(staying)[0])


def calibrated(profile: Profile, output_bytes_s: float, deliveries_s: float | None = None) -> Profile:
    """Return the profile with what a publication puts on the line, so that all groups together make what was measured.

    The size of a publication is not what goes to a client: there are envelopes, and topics of the client's own. And a
    few samples make the whole look more or less than it is. Where clients get much else, each seems to take more along
    than it does: then too few are moved, rather than too many; and `correction_of` bounds it. The same goes for how
    many deliveries there are, where they are counted.
    """
    if not profile.samples:
        return profile
    rates = profile.input_rate * count(profile.bits) / profile.samples
    gets = [group.subscribers * float(rate) for group, rate in zip(profile.groups, rates, strict=True)]
    sent = sum(rate * group.bytes_each for group, rate in zip(profile.groups, gets, strict=True))
    if deliveries_s:
        profile = replace(profile, deliveries_factor=correction_of(deliveries_s, sum(gets)))
    if sent <= 0 or output_bytes_s <= 0:
        return profile
    factor = correction_of(output_bytes_s, sent)
    groups = [group._replace(bytes_each=group.bytes_each * factor) for group in profile.groups]
    return replace(profile, groups=groups)


def pack(matched: NDArray[np.bool_]) -> Bits:
    """Return rows of yes and no as rows of words: the first is the lowest bit of the first word."""
    rows, samples = matched.shape
    words = max(1, -(-samples // WORD_BITS))
    padded = np.zeros((rows, words * WORD_BITS), dtype=np.bool_)
    padded[:, :samples] = matched
    octets = np.packbits(padded, axis=1, bitorder="little")
    return octets.view("<u8").astype(np.uint64, copy=False)


def count(bits: Bits) -> NDArray[np.int64]:
    """Return how many bits are set, in the last dimension."""
    octets = np.ascontiguousarray(bits).view(np.uint8)
    numbers: NDArray[np.int64] = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int64)
    return numbers


def _members(wishes: Wishes) -> dict[_Wanted, list[ClientId]]:
    """Return clients by what they want, those with most subscriptions first: these stand for others with the same."""
    members: dict[_Wanted, list[ClientId]] = {}
    for client, wanted in wishes.items():
        if wanted:
            members.setdefault(frozenset(wanted.values()), []).append(client)
    return dict(sorted(members.items(), key=lambda item: -len(item[0])))


def _match(
    samples: Sequence[Sample], members: Mapping[_Wanted, Collection[ClientId]], wishes: Wishes
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each group, and for the accepting broker, which of the samples it wants."""
    group_of = {
        key: number
        for number, (_, clients) in enumerate(members.items())
        for client in clients
        for key in wishes[client]
    }
    matched = np.zeros((len(members), len(samples)), dtype=np.bool_)
    for place, sample in enumerate(samples):
        # Who has gone since the sample was taken is not among the wishes.
        matched[[group_of[key] for key in sample.keys if key in group_of], place] = True
    return matched, np.array([sample.is_wanted_there for sample in samples], dtype=np.bool_)


def _bytes_each(matched: NDArray[np.bool_], samples: Sequence[Sample]) -> list[float]:
    """Return the mean size of what each group matched; if it matched nothing, of all."""
    if not samples:
        return [0.0] * len(matched)
    sizes = np.array([sample.size for sample in samples], dtype=np.float64)
    numbers = matched.sum(axis=1)
    return [float(each) for each in np.where(numbers, matched @ sizes / np.maximum(numbers, 1), sizes.mean())]


def _order(groups: Sequence[_Wanted]) -> tuple[list[bool], list[list[int]]]:
    """Return whether each group belongs to the covering set, and which groups hang below it.

    A group hangs below another if that alone covers everything it wants. What several cover together hangs below none
    of them: to move one of these does not cover it elsewhere.
    """
    owners: dict[Subscription, int] = {}
    for number, wanted in enumerate(groups):
        for each in wanted:
            owners.setdefault(each, number)
    poset = Poset[Subscription]()
    for each in sorted(owners, key=generality):  # the order of a set says nothing; and most are covered at once so
        poset.add(each, each)
    maximal = [False] * len(groups)
    for each in poset.covering_set():
        maximal[owners[each]] = True
    below: list[list[int]] = [[] for _ in groups]
    for number, wanted in enumerate(groups):
        above = {owners[poset.cover(each)] for each in wanted}
        if len(above) == 1 and number not in above:
            below[above.pop()].append(number)
    return maximal, below


def generality(subscription: Subscription) -> tuple[int, int, str, str]:
    """Return by what subscriptions are sorted, so that those that ask least come first. Nothing is promised by it."""
    wildcards = 0 if subscription.topics.endswith("#") else 1
    where = str(subscription.where)
    return len(subscription.where.witness.form.traits), wildcards, subscription.topics, where


def _index_of(covering: Iterable[Subscription]) -> CoveringIndex:
    index = CoveringIndex()
    for each in dict.fromkeys(covering):
        index.add(each)
    return index

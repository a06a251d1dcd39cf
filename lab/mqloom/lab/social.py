"""People who follow each other, at brokers: a graph with the skew of social networks.

A newcomer makes FRIENDS friends: the first by how many friends they have already (preferential attachment, Barabasi and
Albert), each further one with probability CLOSED among the friends of the one before it (closed triads, Holme and Kim),
else like the first. So few have very many friends, and friends have friends in common. Friends follow each other: that
is two subscriptions.

Everybody is at some broker, all brokers alike, and publishes there, all equally often; their brokers want what friends
publish. With 120,000 subscriptions at 120 brokers that is 6.2% of the brokers for a publication.
"""

import random
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.overlay_workload import Workload, random_tree

FRIENDS: Final = 4
CLOSED: Final = 0.5


def social_workload(seed: int, *, gateways: int, subscriptions: int) -> Workload:
    """Return a federation with as many people as make so many subscriptions; topics are people."""
    randomness = random.Random(f"{seed} social workload")  # noqa: S311 - an experiment, not a secret
    names = [GatewayId(f"g{number}") for number in range(gateways)]
    friends = friendships(subscriptions // 2, randomness)
    homes = [randomness.choice(names) for _ in friends]
    return Workload(
        gateways=names,
        links=random_tree(names, randomness),
        wanting=tuple(frozenset(homes[other] for other in each) for each in friends),
        homes=homes,
    )


def friendships(pairs: int, randomness: random.Random) -> list[dict[int, None]]:
    """Return the friends of each person, the first made first; those who came before have lower numbers."""
    people = max(FRIENDS + 1, pairs // FRIENDS)
    friends: list[dict[int, None]] = [{} for _ in range(people)]
    ends: list[int] = []
    """Everybody as often as they have friends."""

    def befriend(one: int, other: int) -> None:
        friends[one][other] = friends[other][one] = None
        ends.extend((one, other))

    befriend(1, 0)
    for newcomer in range(2, people):
        last: int | None = None
        while len(friends[newcomer]) < min(FRIENDS, newcomer):
            common = list(friends[last]) if last is not None and randomness.random() < CLOSED else ends
            other = randomness.choice(common)
            if other != newcomer and other not in friends[newcomer]:
                befriend(newcomer, other)
                last = other
    while len(ends) < 2 * pairs:  # what is left over by rounding
        one, other = randomness.choice(ends), randomness.choice(ends)
        if one != other and other not in friends[one]:
            befriend(one, other)
    return friends

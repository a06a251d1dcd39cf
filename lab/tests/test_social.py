"""The graph of people: what it is said to be."""

import random
from itertools import combinations

from mqloom.lab.social import FRIENDS, friendships, social_workload


def test_friends_are_mutual_and_as_many_as_asked_for() -> None:
    friends = friendships(2_000, random.Random(1))
    assert sum(map(len, friends)) == 4_000
    assert all(one in friends[other] for one, others in enumerate(friends) for other in others)
    assert all(one not in others for one, others in enumerate(friends))
    assert min(map(len, friends)) >= FRIENDS


def test_few_have_very_many_friends() -> None:
    counts = sorted(map(len, friendships(20_000, random.Random(2))))
    assert counts[len(counts) // 2] < sum(counts) / len(counts)
    assert counts[-1] > 10 * counts[len(counts) // 2]


def test_friends_have_friends_in_common() -> None:
    friends = friendships(10_000, random.Random(3))
    pairs = [(one, other) for each in friends[1_000:2_000] for one, other in combinations(each, 2)]
    closed = sum(other in friends[one] for one, other in pairs) / len(pairs)
    assert closed > 20 * 2 * 10_000 / len(friends) ** 2, "much more often than any two are friends"


def test_publications_begin_where_people_are_and_are_wanted_where_their_friends_are() -> None:
    workload = social_workload(1, gateways=120, subscriptions=120_000)
    assert 0.06 < workload.wishes / len(workload.wanting) / 120 < 0.065
    assert workload == social_workload(1, gateways=120, subscriptions=120_000)
    known = dict.fromkeys(zip(workload.homes, workload.wanting, strict=True))
    drawn = workload.publications(random.Random(4))
    assert all(next(drawn) in known for _ in range(500))

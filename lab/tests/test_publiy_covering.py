"""Covering sets by links: the paper's example, and maps and anchors as overlays have them."""

import random

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.subscription import Subscription
from mqloom.lab.covering_workload import TOPICS, Wish, draw_contents, draw_wishes, share_matched
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import publiy_covering
from mqloom.lab.experiments.publiy_covering import Cost, anchors_of, cost, covering_set, map_around
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_workload import Links, random_tree
from mqloom.lab.report_view import as_json
from mqloom.plugins.overlay.working_map import WorkingMap

A, B, C, D = (GatewayId(name) for name in "abcd")
FORK: Links = [(A, B), (B, C), (B, D)]


def wish(kind: int, **over: float) -> Wish:
    where = " AND ".join([f"kind = {kind}", *(f"{measure} > {least}" for measure, least in over.items())])
    return Wish(kind, tuple(over.items()), Subscription.parse(TOPICS, where))


S1, S2, S3 = wish(1), wish(1, price=0.2), wish(1, price=0.2, size=0.5)


def test_maps_and_anchors_are_those_that_overlays_make_of_what_they_tell_each_other() -> None:
    randomness = random.Random(1)
    names = [GatewayId(f"g{number}") for number in range(60)]
    links = random_tree(names, randomness)
    settings: dict[str, object] = {"strategy": "S2"}
    net = OverlayNet(links, dict.fromkeys(names, settings))
    net.start()
    net.run(1.0)
    for name in names:
        master = map_around(name, links)
        assert sorted(master.gateways) == sorted(net.overlays[name]._map.gateways)
        anchors = {other: master.gateways[number] for other, number in anchors_of(master, links).items()}
        assert anchors == net.anchors()[name]


def test_the_papers_example_has_one_covering_subscription_with_one_link_and_two_with_two() -> None:
    master = map_around(A, FORK)
    anchors = anchors_of(master, FORK)
    wishes = {B: [], C: [S1], D: [S2, S3]}
    content = {"kind": 1, "price": 0.1, "size": 0.9}
    assert cost(WorkingMap(master), anchors, wishes, [content]) == Cost(1, 1)
    assert cost(WorkingMap(master, [D]), anchors, wishes, [content]) == Cost(2, 1 + 2)


def test_predicates_are_evaluated_until_one_fails_or_all_hold() -> None:
    assert S3.evaluated({"kind": 2, "price": 0.9, "size": 0.9}) == (1, False)
    assert S3.evaluated({"kind": 1, "price": 0.1, "size": 0.9}) == (2, False)
    assert S3.evaluated({"kind": 1, "price": 0.9, "size": 0.9}) == (3, True)


def test_wishes_mean_what_the_filter_language_says_and_some_cover_others() -> None:
    randomness = random.Random(2)
    wishes = draw_wishes(300, randomness)
    contents = draw_contents(40, randomness)
    for each in wishes:
        for content in contents:
            assert each.evaluated(content)[1] == each.subscription.where.matches(content)
    left = covering_set(wishes)
    assert 20 < len(left) < 200
    assert not any(one.subscription.covers(other.subscription) for one in left for other in left if one != other)
    assert all(any(one.subscription.covers(each.subscription) for one in left) for each in wishes)
    assert 0.03 < share_matched(wishes, contents) < 0.06


@pytest.mark.full
def test_the_same_seed_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publiy_covering, "PUBLICATIONS", 3)
    monkeypatch.setattr(publiy_covering, "SUBSCRIPTIONS_EACH", 3)
    experiment = publiy_covering.experiment
    first, again = (experiment.run(1, True, tell_nobody) for _ in range(2))
    assert as_json(experiment, 1, True, first) == as_json(experiment, 1, True, again)
    assert first.picture == again.picture is not None

"""The experiments of paper 001: they count right, and notice what they are for.

That each reaches its targets with `--quick`, and gives the same bytes for a seed, `test_command_lab` sees to, in
`tox -e full` for those that take long. Here they run at sizes of seconds.
"""

import random
from collections import Counter
from itertools import pairwise
from types import ModuleType

import pytest

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Experiment, tell_nobody
from mqloom.lab.experiments import publiy_capped, publiy_delay, publiy_hops, publiy_social, publiy_throughput
from mqloom.lab.overlay_check import check_rows
from mqloom.lab.overlay_flow import LATENCY_S, flow
from mqloom.lab.overlay_hops import run_strategy
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import DEGREE, TOPICS, Workload, topic_workload
from mqloom.lab.report_view import as_json

A, B, C = (GatewayId(name) for name in "abc")
CHAIN = Workload(gateways=(A, B, C), links=((A, B), (B, C)), wanting=(frozenset({B, C}),))


def chain_net() -> OverlayNet:
    settings: dict[str, object] = {"strategy": "S0"}
    return OverlayNet(CHAIN.links, dict.fromkeys((A, B, C), settings))


def test_the_workload_is_that_of_the_paper() -> None:
    workload = topic_workload(1, gateways=120, subscriptions=6_552)
    assert workload.wishes == 6_552
    assert len(workload.wanting) == TOPICS
    links = [end for link in workload.links for end in link]
    assert max(links.count(gateway) for gateway in workload.gateways) == DEGREE
    assert len(workload.links) == 119
    assert workload == topic_workload(1, gateways=120, subscriptions=6_552)
    assert workload != topic_workload(2, gateways=120, subscriptions=6_552)


def test_a_flow_without_limits_takes_its_hops() -> None:
    found = flow(chain_net(), CHAIN, Load(per_s=10.0, length_s=20.0), None, 1, tell_nobody)
    assert found.deliveries == found.wanted
    assert found.mean_delay_s - LATENCY_S * found.mean_hops < 1e-9


def test_an_uplink_sends_no_more_than_it_can() -> None:
    load, per_s = Load(per_s=100.0, length_s=10.0), 20.0
    uplinks = dict.fromkeys((A, B, C), per_s)
    found = flow(chain_net(), CHAIN, load, uplinks, 1, tell_nobody)
    assert found.deliveries + found.pure_forwards <= 3 * per_s * load.length_s
    assert found.deliveries < found.wanted
    assert found.mean_delay_s > 1.0


def test_nothing_is_lost_while_links_are_woven_and_the_tally_adds_up() -> None:
    workload = topic_workload(2, gateways=40, subscriptions=400, topics=100)
    base, woven = (
        run_strategy(workload, each, Load(per_s=20.0, length_s=100.0), 2, tell_nobody) for each in ("S0", "S2")
    )
    assert base.wrong == woven.wrong == 0
    assert base.deliveries == woven.deliveries == woven.lengths.total()
    assert sum(woven.over_time) == woven.pure_forwards < base.pure_forwards
    assert woven.curve()[-1][1] == 100


@pytest.mark.parametrize(
    ("module", "experiment"),
    [
        (publiy_hops, publiy_hops.sparse),
        (publiy_hops, publiy_hops.dense),
        (publiy_delay, publiy_delay.experiment),
        (publiy_capped, publiy_capped.experiment),
        (publiy_throughput, publiy_throughput.experiment),
        (publiy_social, publiy_social.experiment),
    ],
    ids=lambda each: each.name if isinstance(each, Experiment) else "",
)
def test_the_same_seed_gives_the_same_report(
    module: ModuleType, experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUICK", Load(per_s=5.0, length_s=22.0))
    monkeypatch.setattr(publiy_hops, "check_rows", lambda seed: [])
    for overloaded in (publiy_throughput, publiy_social):
        monkeypatch.setattr(overloaded, "QUICK_WARM", Load(per_s=3.0, length_s=2.0))
    monkeypatch.setattr(publiy_throughput, "QUICK_FANOUTS", (35,))
    first, again = (experiment.run(1, True, tell_nobody) for _ in range(2))
    assert as_json(experiment, 1, True, first) == as_json(experiment, 1, True, again)
    assert first.picture == again.picture is not None


def test_whole_gateways_do_what_joined_overlays_do() -> None:
    assert [row for row in check_rows(3) if not row.ok] == []


def test_where_some_publish_far_more_than_others_the_best_placed_publishes_most() -> None:
    line = [GatewayId(f"g{number}") for number in range(9)]
    links = tuple(pairwise(line))
    workload = publiy_capped.skewed(Workload(gateways=line, links=links, wanting=(frozenset(line),)), 1)
    assert workload.origins[0] == line[4]  # all others are within delta hops
    drawn = workload.publications(random.Random(1))
    counts = Counter(next(drawn)[0] for _ in range(3_000))
    for origin, rate in zip(workload.origins, workload.rates, strict=True):
        assert abs(counts[origin] / 3_000 - rate / sum(workload.rates)) < 0.03

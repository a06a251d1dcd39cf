"""How much more is delivered among people who follow each other (paper 001, section 7, Facebook data set).

C1's tree of 120 brokers, 120,000 subscriptions, 3,600 publications a minute for ten minutes, fanout 20. "S1 and S2
outperform S0 by 37% and 115%" stands in the paper among its throughput: taken as deliveries within the ten minutes.

The paper's graph comes from traces of Facebook; here it is a synthetic one of 15,000 people (`mqloom.lab.social`): few
have very many friends, friends have friends in common, a publication begins at the broker of whoever publishes it, and
the brokers of all friends want it. That is 6.2% of all; the paper's data have 6.5%.

Capacity, waiting, and the 100 s before anything counts are those of `publiy-throughput`: the busiest core is full under
S0 at a third of the rate, and matching takes longer in proportion to the subscriptions. With 18 times as many as there
it takes as long as 18 copies; and a twentieth of the rate is as much to do. The bound is what would be delivered if
nothing had to wait, over what S0 delivers.

`--quick` is 120 s after 60 s; S1 must deliver three tenths more than S0, and S2 as much more as S0.
"""

from typing import Final

from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_least
from mqloom.lab.overlay_cores import QUICK_WARM, THIRD, WARM, Overload
from mqloom.lab.overlay_flow import Flow
from mqloom.lab.overlay_flows import rate_picture, under_each
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import Workload
from mqloom.lab.social import social_workload

STRATEGIES: Final = ("S0", "S1", "S2")
SUBSCRIPTIONS: Final = 120_000
FANOUT: Final = 20
FULL: Final = Load(per_s=60.0, length_s=600.0)
QUICK: Final = Load(per_s=60.0, length_s=120.0)
PRINTED: Final = {"S1": 0.37, "S2": 1.15}
"""How much more than S0 each delivers."""

QUICK_TARGETS: Final = {"S1": 0.3, "S2": 1.0}


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    load, warm = (QUICK, QUICK_WARM) if quick else (FULL, WARM)
    workload = social_workload(seed, gateways=120, subscriptions=SUBSCRIPTIONS)
    overload = Overload(workload, SUBSCRIPTIONS, (warm, load), seed)
    flows = under_each(lambda strategy, told: overload.run(strategy, FANOUT, THIRD, told), tell, STRATEGIES)
    rows = _rows(workload, flows, QUICK_TARGETS if quick else PRINTED)
    return Report(rows=tuple(rows), picture=rate_picture(flows, load))


def _rows(workload: Workload, flows: dict[str, Flow], targets: dict[str, float]) -> list[Row]:
    base = flows["S0"]
    bound = base.wanted / base.deliveries - 1
    share = workload.wishes / len(workload.wanting) / len(workload.gateways)
    rows = [
        Row(name="brokers that want a publication", ours=share, paper=0.065),
        Row(name="most brokers that want one", ours=max(map(len, workload.wanting))),
        Row(name="deliveries wanted", ours=base.wanted),
        Row(name="S0: deliveries", ours=base.deliveries),
    ]
    for strategy, target in targets.items():
        more = flows[strategy].deliveries / base.deliveries - 1
        rows.append(at_least(f"{strategy}: more than S0", more, target, paper=PRINTED[strategy], bound=bound))
    return rows


experiment: Final = Experiment(
    name="publiy-social",
    summary="soft links deliver more among people who follow each other",
    source="paper 001, section 7, Facebook data set",
    run=run,
)

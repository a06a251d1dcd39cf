"""Whether SH delivers more than S2 where an uplink is too narrow for S2 (paper 001, section 7, Figure 14).

The federation and the subscriptions of `publiy-sparse`, 7,200 publications a minute for ten minutes, and uplinks that
send 150 copies a second, one after the other; what is not sent waits, and what has not come when the time is over is
not delivered.

The paper says that some hot spots form, and not where. If publications began at all brokers alike, none would: under
S2 the busiest uplink would be used by 63%. Here all begin at one broker, the one that has most others within delta
hops: its own uplink is the hot spot, because under S2 it sends most copies itself. The first soft links are learned in
the time that counts.

The bound is what would be delivered if every uplink sent all, over what S2 delivers.

`--quick` is 100 s; SH must deliver 1.05 times what S2 does, because both use no soft links at first.
"""

import dataclasses
from typing import Final

from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_least
from mqloom.lab.overlay_flow import Flow
from mqloom.lab.overlay_flows import flow_on_uplinks, rate_picture, under_each
from mqloom.lab.overlay_hops import DELTA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import BEGIN_S, Load
from mqloom.lab.overlay_workload import Workload, topic_workload

UPLINK_PER_S: Final = 150.0
PRINTED: Final = "1.12 to 1.14"
FULL: Final = Load(per_s=120.0, length_s=600.0)
QUICK: Final = Load(per_s=120.0, length_s=100.0)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    load = QUICK if quick else FULL
    workload = _with_one_publisher(topic_workload(seed, gateways=120, subscriptions=6_552))
    flows = under_each(
        lambda strategy, told: flow_on_uplinks(workload, strategy, load, UPLINK_PER_S, seed, told)[0], tell
    )
    return Report(rows=tuple(_rows(flows, 1.05 if quick else 1.1)), picture=rate_picture(flows, load))


def _with_one_publisher(workload: Workload) -> Workload:
    settings: dict[str, object] = {"strategy": "S2", "delta": DELTA}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings))
    net.start()
    net.run(BEGIN_S)
    central = max(workload.gateways, key=lambda gateway: len(set(net.anchors()[gateway].values())))
    return dataclasses.replace(workload, origins=(central,))


def _rows(flows: dict[str, Flow], target: float) -> list[Row]:
    rows = [Row(name="deliveries wanted", ours=flows["S0"].wanted)]
    for strategy, each in flows.items():
        rows.append(Row(name=f"{strategy}: deliveries", ours=each.deliveries))
        rows.append(Row(name=f"{strategy}: hops of a delivery", ours=each.mean_hops))
    ratio = flows["SH"].deliveries / flows["S2"].deliveries
    bound = flows["S2"].wanted / flows["S2"].deliveries
    rows.append(at_least("SH: deliveries over S2's", ratio, target, paper=PRINTED, bound=bound))
    return rows


experiment: Final = Experiment(
    name="publiy-capped",
    summary="SH delivers more than S2 where an uplink is too narrow",
    source="paper 001, section 7, Figure 14",
    run=run,
)

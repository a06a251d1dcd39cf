"""How long deliveries take under each strategy, and what overlays say to each other (paper 001, section 7, Figure 10).

The workload of `publiy-dense`. Each link takes 1 ms, which is the delay that the paper injects. What a broker needs for
a copy it does not say; here an uplink sends 5,000 copies a second, one after the other, so a copy takes 0.2 ms, and
S2, which sends more copies at once, waits for them: overlays say in which order copies leave, the one with the most
behind it first. All 36,000 publications count: those before the first soft
link, too. So does everything that overlays say, maps and loads, against copies of 200 bytes each.

The bound is that of a single link to everybody: a millisecond, and a copy's 0.2 ms.

`--quick` is a ninth of the publications in 200 s, where learning weighs more: a tenth more is allowed.
"""

from typing import Final

from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most
from mqloom.lab.overlay_flow import LATENCY_S, Flow
from mqloom.lab.overlay_flows import flow_on_uplinks, under_each
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import topic_workload

PRINTED_MS: Final = {"S0": 14.0, "S1": 12.5, "S2": 9.3, "SH": 9.3}
UPLINK_PER_S: Final = 5_000.0
COPY_BYTES: Final = 200
SAID_MAX: Final = 0.02
FULL: Final = Load(per_s=60.0, length_s=600.0)
QUICK: Final = Load(per_s=20.0, length_s=200.0)
QUICK_MORE: Final = 1.1


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    load = QUICK if quick else FULL
    workload = topic_workload(seed, gateways=120, subscriptions=19_472)
    said: dict[str, float] = {}

    def run_one(strategy: str, told: Tell) -> Flow:
        found, net = flow_on_uplinks(workload, strategy, load, UPLINK_PER_S, seed, told)
        said[strategy] = net.body_bytes / (net.body_bytes + COPY_BYTES * found.sent.total())
        return found

    flows = under_each(run_one, tell)
    rows = _rows(flows, said, QUICK_MORE if quick else 1.0)
    return Report(rows=tuple(rows), picture=_picture(flows, load))


def _rows(flows: dict[str, Flow], said: dict[str, float], more: float) -> list[Row]:
    base = flows["S0"].mean_delay_s
    least = 1000 * (LATENCY_S + 1 / UPLINK_PER_S)
    rows = [Row(name="publications", ours=flows["S0"].publications, paper=36_000)]
    for strategy, each in flows.items():
        name, paper = f"{strategy}: mean delay", PRINTED_MS[strategy]
        rows.append(Row(name=name, ours=1000 * each.mean_delay_s, paper=paper, bound=least, unit="ms"))
        if strategy != "S0":
            ratio = paper / PRINTED_MS["S0"]
            rows.append(
                at_most(f"{strategy}: share of S0's delay", each.mean_delay_s / base, more * ratio, paper=ratio)
            )
            rows.append(
                at_most(f"{strategy}: overlays' own bytes", said[strategy], SAID_MAX * more, paper="under 0.02")
            )
    return rows


def _picture(flows: dict[str, Flow], load: Load) -> Picture:
    curves = tuple(
        Curve(
            strategy,
            tuple(
                (load.period_s * (period + 1), 1000 * delay / count)
                for period, (delay, count) in enumerate(zip(each.delay_over_time, each.over_time, strict=True))
                if count
            ),
        )
        for strategy, each in flows.items()
    )
    return Picture(x_label="seconds", panels=(Panel("mean delay, ms", curves),))


experiment: Final = Experiment(
    name="publiy-delay",
    summary="soft links shorten the delay of deliveries",
    source="paper 001, section 7, Figure 10 and network traffic",
    run=run,
)

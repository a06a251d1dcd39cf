"""How many pure forwards soft links spare, where few want a publication and where many (paper 001, section 7, Table 2).

The overlays that gateways run, joined to each other directly (`mqloom.lab.overlay_net`): what is left out, brokers and
frames, does not change where publications go. To see that, `publiy-sparse` runs 30 whole gateways with brokers and
clients, too, and compares (`mqloom.lab.overlay_check`).

120 gateways of degree 3, delta 4, fanout 35, links judged every 20 s, 36,000 publications in 600 s, all of them
counted: those before the first soft link, too. `publiy-sparse` has 6,552 subscriptions, so that 8% of the brokers want
a publication, and `publiy-dense` 19,472, which is 24%.

Chosen, where the paper is silent: 680 topics, published equally often; a random tree of at most 3 links each; which
topics a broker wants follows Zipf's law with exponent 1.3 (`mqloom.lab.overlay_workload` says why); publications
begin at all brokers alike; up to 70 links are profiled, `max_links`; a soft link takes 0.1 s to open. A delivery is a
copy that came to another broker that wanted it, a pure forward one that came to a broker that did not.

The bound is the least that any choice of links could reach, however many, if a link spans at most delta hops: an
optimum found for one of twenty publications (`mqloom.lab.overlay_bound`). The fanout is not in it, nor that S2 sends
everything through the nearest that wants it, nor that links must be learned.

`--quick` is a ninth of the publications in 200 s, where learning weighs more: targets are the paper's own shares.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from mqloom.lab.experiment import Experiment, Report, Tell
from mqloom.lab.overlay_check import check_rows
from mqloom.lab.overlay_hops import Printed, bound_per_publication, picture, rows, run_all
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import topic_workload

SPARSE: Final[Mapping[str, Printed]] = {
    "S0": Printed(pure_forwards=559_000, deliveries=348_000, share_delivered=0.38),
    "S1": Printed(pure_forwards=348_000, deliveries=348_000, share_delivered=0.5, target=0.5, quick_target=0.62),
    "S2": Printed(pure_forwards=216_000, deliveries=348_000, share_delivered=0.61, target=0.3, quick_target=0.39),
    "SH": Printed(pure_forwards=195_000, deliveries=348_000, share_delivered=0.64, target=0.3, quick_target=0.35),
}
DENSE: Final[Mapping[str, Printed]] = {
    "S0": Printed(pure_forwards=1_010_000, deliveries=1_034_000, share_delivered=0.5),
    "S1": Printed(pure_forwards=687_000, deliveries=1_034_000, share_delivered=0.6, target=0.6, quick_target=0.68),
    "S2": Printed(pure_forwards=325_000, deliveries=1_034_000, share_delivered=0.76, target=0.25, quick_target=0.32),
    "SH": Printed(pure_forwards=300_000, deliveries=1_034_000, share_delivered=0.77, target=0.25, quick_target=0.3),
}
FULL: Final = Load(per_s=60.0, length_s=600.0)
QUICK: Final = Load(per_s=20.0, length_s=200.0)


def run(
    seed: int, quick: bool, tell: Tell, *, subscriptions: int, printed: Mapping[str, Printed], whole: bool = False
) -> Report:
    """Run it; `whole` if whole gateways are to be compared, too."""
    load = QUICK if quick else FULL
    workload = topic_workload(seed, gateways=120, subscriptions=subscriptions)
    tallies = run_all(workload, load, seed, tell)
    bound = bound_per_publication(workload, load.publications, seed)
    found = rows(tallies, printed, bound, quick=quick)
    if whole:
        found += check_rows(seed)
    return Report(rows=tuple(found), picture=picture(tallies))


sparse: Final = Experiment(
    name="publiy-sparse",
    summary="soft links spare most pure forwards where few want a publication",
    source="paper 001, section 7, Figure 9(a) and Table 2(a)",
    run=partial(run, subscriptions=6_552, printed=SPARSE, whole=True),
)
dense: Final = Experiment(
    name="publiy-dense",
    summary="soft links spare most pure forwards where many want a publication",
    source="paper 001, section 7, Figure 9(b) and Table 2(b)",
    run=partial(run, subscriptions=19_472, printed=DENSE),
)

"""What `publiy-delay`, `publiy-capped` and `publiy-social` have in common: the same flow under each strategy."""

from collections.abc import Callable, Sequence

from mqloom.lab.experiment import Curve, Panel, Picture, Tell
from mqloom.lab.overlay_flow import Flow, flow
from mqloom.lab.overlay_hops import DELTA, FANOUT, STRATEGIES
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import Workload


def under_each(run: Callable[[str, Tell], Flow], tell: Tell, strategies: Sequence[str] = STRATEGIES) -> dict[str, Flow]:
    """Run something under one strategy after the other."""
    flows: dict[str, Flow] = {}
    for done, strategy in enumerate(strategies):

        def told(share: float, text: str, done: int = done, strategy: str = strategy) -> None:
            tell((done + share) / len(strategies), f"{strategy}: {text}")

        flows[strategy] = run(strategy, told)
    return flows


def flow_on_uplinks(
    workload: Workload, strategy: str, load: Load, uplink_per_s: float, seed: int, tell: Tell
) -> tuple[Flow, OverlayNet]:
    """Let publications flow where all uplinks are equally fast; return the federation as it was in the end, too."""
    settings = {"strategy": strategy, "delta": DELTA, "fanout": FANOUT, "uplink_per_s": uplink_per_s}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings))
    uplinks = dict.fromkeys(workload.gateways, uplink_per_s)
    return flow(net, workload, load, uplinks, seed, tell), net


def rate_picture(flows: dict[str, Flow], load: Load) -> Picture:
    """Return the deliveries a second in each period."""
    curves = tuple(
        Curve(name, tuple((load.period_s * (at + 1), count / load.period_s) for at, count in enumerate(each.over_time)))
        for name, each in flows.items()
    )
    return Picture(x_label="seconds", panels=(Panel("deliveries a second", curves),))

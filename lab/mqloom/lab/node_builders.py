"""The nodes of a simulated federation: plain, with soft links that come and go, with a key, with load agents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mqloom.agents.balancer import Balancer
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, Metric
from mqloom.core.orders import RosterBroker
from mqloom.core.seals import NONCE_BYTES, SECRET_BYTES, Keyring, key_of
from mqloom.core.signatures import OrderKeys
from mqloom.gateway.interfaces import Overlay
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.sealing import SealParts
from mqloom.lab.capacity import Capacity
from mqloom.lab.plan import Plan
from mqloom.lab.poor_hearing import PoorHearing
from mqloom.lab.restless import RestlessOverlay
from mqloom.lab.traveller_model import ORDER_KEY
from mqloom.plugins import json_codec
from mqloom.plugins.offload import input_offload, match_offload, output_offload, random_offload
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

DATA: Final = ("stocks/#",)
"""What takes part in the federation."""

FEDERATION_KEY: Final = key_of(bytes(SECRET_BYTES))
"""Of a federation that has one; there is nobody from whom it would be kept."""

FEDERATION: Final = "lab"

BALANCE_WINDOW_S: Final = 1.0
"""How often load is measured where there are load agents."""

OFFLOADS: Final = (input_offload, match_offload, output_offload, random_offload)


def build_node(
    gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float, seals: SealParts | None = None
) -> Node:
    """Return a node with the plainest plugins: every subscription is tried, and the overlay is a tree."""
    return Node(_parts(gateway, epoch, neighbours, TreeOverlay(gateway, neighbours), seals), now)


def _parts(
    gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], overlay: Overlay, seals: SealParts | None
) -> NodeParts:
    return NodeParts(
        gateway=gateway,
        epoch=epoch,
        neighbours=neighbours,
        matcher=ScanMatcher(),
        overlay=overlay,
        codecs=[("#", json_codec.mqloom_codec())],
        data=DATA,
        seals=seals,
    )


def weaving_settings(plan: Plan, gateway: str) -> dict[str, object]:
    """Return the settings of an overlay that opens and closes soft links by gain."""
    federation = plan.randomness("overlay")
    federation.random()  # it decides whether there are any
    return {
        "delta": federation.randint(2, 5),
        "fanout": federation.choice((3, 5, 35)),
        "weave_s": federation.choice((1.0, 5.0, 20.0)),
        "strategy": plan.randomness(f"strategy {gateway}").choice(("S1", "S2", "SH")),
        "uplink_per_s": 5.0,
    }


def build_restless(
    plan: Plan,
    gateway: GatewayId,
    epoch: int,
    neighbours: Sequence[GatewayId],
    now: float,
    seals: SealParts | None = None,
) -> Node:
    """Return a node whose overlay opens and closes soft links while publications come: at random, or by gain."""
    return Node(_restless_parts(plan, gateway, epoch, neighbours, seals), now)


def _restless_parts(
    plan: Plan, gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], seals: SealParts | None
) -> NodeParts:
    overlay: Overlay
    if plan.randomness("overlay").random() < 0.5 and not plan.moves and not plan.joins:
        randomness = plan.randomness(f"restless {gateway} {epoch}")
        overlay = RestlessOverlay(gateway, plan.neighbours, randomness, plan.length_s)
    else:
        overlay = TreeOverlay(gateway, neighbours, weaving_settings(plan, gateway))
    peers = [GatewayId(name) for name in plan.gateways if name != gateway]
    return replace(_parts(gateway, epoch, neighbours, overlay, seals), peers=peers)


class BalancedNodes:
    """Nodes with load agents that look every second or so and move whoever can be moved, by the plan's seed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        randomness = plan.randomness("balance")
        kinds: dict[Metric, str] = {metric: metric for metric in METRICS}
        self._settings = BalanceSettings(
            mode="on",
            local_pie_s=1.0,
            global_pie_s=2.0,
            stabilise_s=3.0,
            local_detect_min_s=1.0,
            local_detect_max_s=2.0,
            global_detect_min_s=2.0,
            global_detect_max_s=3.0,
            delay_factor_s=1.0,
            press_samples=5,
            press_timeout_s=3.0,
            move_timeout_s=randomness.choice((1.0, 5.0)),
            window_s=BALANCE_WINDOW_S,
            rest_s=randomness.choice((0.0, 5.0, 60.0)),
            adaptive_pie=randomness.random() < 0.5,
            offload=kinds if randomness.random() < 0.5 else "random",
        )
        brokers = {GatewayId(name): RosterBroker(host=name) for name in plan.gateways}
        self._orders = OrderParts(
            federation=FEDERATION, keys=OrderKeys(ORDER_KEY), brokers=brokers, wall_at=lambda now: now
        )
        self.agents: dict[str, Balancer] = {}
        """The agent of each gateway that was started, in its last life."""
        self.spoilt: Counter[str] = Counter()
        """Control publications to agents that were lost, doubled and late by the plan, in all lives."""

    def __call__(
        self,
        gateway: GatewayId,
        epoch: int,
        neighbours: Sequence[GatewayId],
        now: float,
        seals: SealParts | None = None,
    ) -> Node:
        """Return a node."""
        if self._plan.is_restless:
            parts = _restless_parts(self._plan, gateway, epoch, neighbours, seals)
        else:
            parts = _parts(gateway, epoch, neighbours, TreeOverlay(gateway, neighbours), seals)
        randomness = self._plan.randomness(f"balance {gateway} {epoch}")
        agent = self.agents[gateway] = Balancer(gateway, self._settings, randomness)
        hearing = PoorHearing(
            agent,
            self._plan.controls,
            self._plan.randomness(f"controls {gateway} {epoch}"),
            self._plan.length_s,
            self.spoilt,
        )
        return Node(replace(parts, agents=[hearing], orders=self._orders, offloads=offloads()), now)

    def work_of(self, gateway: str) -> Capacity:
        """Return what a gateway can do: some are strong, some weak."""
        randomness = self._plan.randomness(f"work {gateway}")
        return Capacity(randomness.choice((0.002, 0.01, 0.04)), randomness.choice((1_000.0, 4_000.0, 20_000.0)))


def offloads() -> dict[str, OffloadKind]:
    """Return the ways to choose whom to move that ship with MQLoom, by name."""
    kinds = [module.mqloom_offload() for module in OFFLOADS]
    return {kind.name: kind for kind in kinds}


def build_sealed(
    plan: Plan,
    balanced: BalancedNodes | None,
    gateway: GatewayId,
    epoch: int,
    neighbours: Sequence[GatewayId],
    now: float,
) -> Node:
    """Return a node of a federation that has a key; its nonce is of this start, and by the plan's seed."""
    nonce = plan.randomness(f"nonce {gateway} {epoch}").randbytes(NONCE_BYTES)
    seals = SealParts(Keyring(FEDERATION_KEY), nonce)
    if balanced is not None:
        return balanced(gateway, epoch, neighbours, now, seals)
    if plan.is_restless:
        return build_restless(plan, gateway, epoch, neighbours, now, seals)
    return build_node(gateway, epoch, neighbours, now, seals)

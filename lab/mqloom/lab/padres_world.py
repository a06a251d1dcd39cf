"""A whole run of paper 000's model: brokers, subscribers, and the production's load agent on every broker."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqloom.agents.mediation import decode
from mqloom.agents.pie import Pie
from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.core.messages import Control, Want
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.lab.clock import Clock
from mqloom.lab.experiment import Tell
from mqloom.lab.padres_host import Host
from mqloom.lab.padres_moves import Moves
from mqloom.lab.padres_net import PadresNet
from mqloom.lab.padres_setups import Setup
from mqloom.lab.padres_workload import AnyWorkload, Stay, Workload

TICK_S: Final = 0.1
"""How often it is looked for the end of a profile or of a move's drain."""

TELL_EACH_S: Final = 100.0

MakeAgent = Callable[[GatewayId, Sequence[GatewayId], random.Random], Agent]
"""From a broker, its neighbours and randomness to its agent."""


class PadresWorld:
    """Virtual time from 0 on; `run` lets it pass, `loads` and `net` tell what happened."""

    def __init__(
        self,
        setup: Setup,
        seed: int,
        make: MakeAgent,
        kinds: Mapping[str, OffloadKind],
        *,
        window_s: float = 10.0,
        stays: Sequence[Stay] | None = None,
        workload: AnyWorkload | None = None,
    ) -> None:
        self.setup, self.clock = setup, Clock()
        self.net = PadresNet(Workload(setup, seed, stays) if workload is None else workload, self.clock)
        self.moves = Moves(self.net, random.Random(f"{seed} padres moves"))  # noqa: S311 - an experiment
        self.loads: dict[GatewayId, list[tuple[float, Load]]] = {name: [] for name in self.net.brokers}
        """What the meters said at the end of each window."""
        self.counted: list[tuple[float, Counter[str]]] = [(0.0, Counter())]
        """What had crossed links by the end of each window, by kind."""
        near: dict[GatewayId, list[GatewayId]] = {name: [] for name in self.net.brokers}
        for one, other in setup.links:
            near[one].append(other)
            near[other].append(one)
        self.hosts: dict[GatewayId, Host] = {}
        for name, neighbours in near.items():
            agent = make(name, neighbours, random.Random(f"{seed} padres agent {name}"))  # noqa: S311 - as above
            self.hosts[name] = Host(name, agent, self.net, self.moves, neighbours, kinds, self._send)
        self._window_s = window_s
        self._begin()

    def _begin(self) -> None:
        for subscriber, stay in enumerate(self.net.workload.stays):
            self.clock.at(stay.joins_at, lambda subscriber=subscriber: self._joins(subscriber))  # type: ignore[misc]
            if stay.leaves_at < self.setup.length_s:
                self.clock.at(stay.leaves_at, lambda subscriber=subscriber: self.net.leave(subscriber))  # type: ignore[misc]
        for host in self.hosts.values():
            self.clock.at(0.0, host.start)
        self.clock.at(self._window_s, self._sample)
        self.clock.at(TICK_S, self._tick)

    def run(self, tell: Tell) -> None:
        """Let the whole experiment happen, and whatever is under way arrive."""
        while self.clock.now < self.setup.length_s:
            self.clock.run(until=min(self.setup.length_s, self.clock.now + TELL_EACH_S))
            tell(self.clock.now / self.setup.length_s, f"{self.clock.now:,.0f} s")
        self.net.advance()

    def _joins(self, subscriber: int) -> None:
        broker = self.net.workload.stays[subscriber].broker
        self.net.subscribe(subscriber, broker)
        after_s = self.setup.link_s * self.net.hops(broker)
        self.clock.at(self.clock.now + after_s, lambda: self.net.establish(subscriber, broker))

    def _sample(self) -> None:
        self.net.advance()
        now = self.clock.now
        for name, host in self.hosts.items():
            load = self.net.brokers[name].sample(now)
            self.loads[name].append((now, load))
            host.sampled(load)
        self.counted.append((now, self.net.messages.copy()))
        self.clock.at(now + self._window_s, self._sample)

    def _tick(self) -> None:
        if self.moves.marks or self.net.profiled:
            self.net.advance()
            for host in self.hosts.values():
                host.check_profile()
        self.clock.at(self.clock.now + TICK_S, self._tick)

    def _send(self, sender: GatewayId, target: GatewayId, message: Control | Want) -> None:
        self.net.messages[_kind(message)] += 1
        self.clock.at(self.clock.now + self.setup.link_s, lambda: self.hosts[target].receive(message, sender))


def _kind(message: Control | Want) -> str:
    if isinstance(message, Want):
        return "PIE subscriptions"
    about = str(message.subject.get("class", ""))
    if about.endswith("_ASK"):
        return "PIE asks"
    # A head answers for its edges with PIE that is for one alone.
    is_pie = about.endswith("_PIE") or isinstance(decode(message.body), Pie)
    return "PIE" if is_pie else "coordination"

"""What must hold in every run, whatever goes wrong: the promise, and that nothing is left behind.

The promise. A QoS 1 publication enters the federation when its broker takes it for the gateway's session. If that is
after a subscriber received the complete `established` of a subscription that it matches (by brute force), and before
the subscriber withdrew that, it is delivered to the subscriber exactly once. Any other that matches comes at most once,
and nothing else ever comes. A publication that its broker took twice, because the PUBACK was lost, is two of them.

What may be missing:
- What a broker lost with its store, and nobody else had: publications in a session of its gateway, unless that had
  taken them in and lived on, or in a park (for all subscribers), or in a subscriber's session (for that one). A
  subscription is kept by its own broker too: when that loses its store, the subscription counts again from the next
  `established`, and what entered before may be missing only if its gateway, which alone still knew it, crashed before
  that.
- To who withdrew: what was then under way, held by some broker, if no gateway had taken it in yet, if something had
  gone wrong, or if the subscriber did not wait for `ended`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from mqloom.client.journey import journey_in
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.lab.client_model import Life
from mqloom.lab.plan import FaultPlan
from mqloom.lab.publisher_model import Sent
from mqloom.lab.world import Losses, World

AFTERMATH_S: Final = 45.0
"""How long after a fault is mended its traces may show: connections are noticed as broken, and tried again, late."""

FINDINGS_MAX: Final = 20
"""Findings that a report names; more are counted."""


class Judgement(Struct, kw_only=True):
    """What became of the publications of a run, in pairs of a publication and a subscriber."""

    expected: int = 0
    delivered: int = 0
    beyond: int = 0
    lost: int = 0
    lost_with_subscription: int = 0
    missed_when_leaving: int = 0
    findings: list[str] = []

    def find(self, text: str) -> None:
        """Note a violation."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(text)
        elif len(self.findings) == FINDINGS_MAX:
            self.findings.append("and more")


def judge(world: World) -> Judgement:
    """Compare what every subscriber got with what it was promised."""
    judgement = Judgement(findings=[])
    losses = world.losses()
    for subscriber in world.subscribers.values():
        for life in subscriber.lives:
            _judge_life(world, life, losses, judgement)
    return judgement


def _judge_life(world: World, life: Life, losses: Losses, judgement: Judgement) -> None:
    subscriptions = {name: Subscription.parse(wish.topics, wish.where) for name, wish in life.wishes.items()}
    got: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
    for _, number, names in life.delivered:
        got[number].append(names)
    for number, sent in world.sent.items():
        deliveries = got.pop(number, [])
        matching = [name for name, subscription in subscriptions.items() if _matches(subscription, sent)]
        judgement.delivered += len(deliveries)
        for names in deliveries:
            if not set(names) <= set(matching):
                judgement.find(f"{life.client} got p{number} for {', '.join(names)}, which did not ask for it")
        if len(deliveries) > len(sent.entries):
            text = f"{life.client} got p{number} {len(deliveries)} times; it entered {len(sent.entries)} times"
            judgement.find(text)
        promised = _promised(world, life, sent, matching)
        judgement.expected += promised
        judgement.beyond += max(0, len(deliveries) - promised)
        if len(deliveries) < promised:
            _missed(world, life, sent, losses, judgement)
    for number in got:
        judgement.find(f"{life.client} got p{number}, which nobody published")


def _matches(subscription: Subscription, sent: Sent) -> bool:
    return topic_matches(subscription.topics, sent.topic) and subscription.where.matches(sent.attributes)


def _promised(world: World, life: Life, sent: Sent, matching: Sequence[str]) -> int:
    """Return how many times a publication entered for which its delivery is promised."""
    if not sent.qos or sent.acknowledged_at is None:
        return 0
    return sum(any(_stands(world, life, name, at) for name in matching) for at in sent.entries)


def _stands(world: World, life: Life, name: str, at: float) -> bool:
    """Whether a subscription counted at a time."""
    if life.withdrawn_at is not None and at >= life.withdrawn_at:
        return False
    before = [time for time in life.established.get(name, ()) if time < at]
    return bool(before) and not any(
        before[-1] <= lost_at <= at for lost_at in _times(world, "broker-loses-store", life.gateway)
    )


def _times(world: World, kind: str, target: str) -> list[float]:
    """Return when faults of a kind befell somebody: each when it began, and when it ended."""
    return [at for fault in _faults(world, kind, target) for at in (fault.at, fault.at + fault.lasts_s)]


def _faults(world: World, kind: str, target: str) -> list[FaultPlan]:
    return [fault for fault in world.plan.faults if fault.kind == kind and fault.target[0] == target]


def _missed(world: World, life: Life, sent: Sent, losses: Losses, judgement: Judgement) -> None:
    """Note a publication that did not come: as lost, as withdrawn, or as a violation."""
    number = sent.number
    is_lost = number in losses.publications and not _was_in_custody(world, sent)
    if is_lost or number in losses.parked or (number, life.client) in losses.for_client:
        judgement.lost += 1
    elif life.withdrawn_at is not None and _left_in_a_hurry(world, life, sent, losses):
        judgement.missed_when_leaving += 1
    elif _was_forgotten(world, life, sent):
        judgement.lost_with_subscription += 1
    else:
        entered = ", ".join(f"{at:.4f}" for at in sent.entries)
        judgement.find(
            f"{life.client} at {life.gateway} missed p{number}, which entered at {sent.gateway} at {entered}"
        )


def _was_in_custody(world: World, sent: Sent) -> bool:
    """Whether a gateway had taken over a publication before its broker lost it, and did not crash with it."""
    if sent.taken_in_at is None or len(sent.entries) > 1:  # of two, it is not known which was taken in
        return False
    losses = _faults(world, "broker-loses-store", sent.gateway)
    crashes = _faults(world, "gateway-crash", sent.gateway)
    return sent.taken_in_at < max((loss.at for loss in losses), default=-math.inf) and not any(
        crash.at + crash.lasts_s >= sent.taken_in_at for crash in crashes
    )


def _was_forgotten(world: World, life: Life, sent: Sent) -> bool:
    """Whether a subscriber's broker and its gateway both forgot it, before or while this was under way."""
    answers = sorted(at for times in life.established.values() for at in times)
    for loss in _faults(world, "broker-loses-store", life.gateway):
        until = next((at for at in answers if at > loss.at + loss.lasts_s), math.inf)
        crashes = _faults(world, "gateway-crash", life.gateway)
        if sent.at <= until and any(each.at <= until and each.at + each.lasts_s >= loss.at for each in crashes):
            return True
    return False


def _left_in_a_hurry(world: World, life: Life, sent: Sent, losses: Losses) -> bool:
    assert life.withdrawn_at is not None
    # What is under way some broker holds; only if that lost it, a gateway alone.
    if sent.number not in life.under_way and sent.number not in losses.publications:
        return False
    if set(life.ended) < set(life.wishes):
        return True
    if sent.taken_in_at is None or sent.taken_in_at >= life.withdrawn_at:
        return True
    until = max(life.ended.values())
    return any(fault.at <= until and fault.at + fault.lasts_s + AFTERMATH_S >= sent.at for fault in world.plan.faults)


# ---- at rest -------------------------------------------------------------------------------------------------------


def invariants(world: World) -> Iterator[str]:
    """Yield what the parts themselves find wrong; asked now and then during a run."""
    for check in _checks(world):
        try:
            check()
        except AssertionError as error:
            yield f"an invariant does not hold: {error or check}"
    for name, gateway in world.gateways.items():
        failures = {} if gateway.node is None else gateway.node.counters.reasons("plugin_failures")
        # Gateways live on when a plugin or an agent raises: a storm would not notice.
        yield from (f"gateway {name}: {plugin} raised, {count} times" for plugin, count in sorted(failures.items()))


def _checks(world: World) -> Iterator[Callable[[], None]]:
    for broker in world.brokers.values():
        yield broker.check
    for gateway in world.gateways.values():
        yield gateway.check
    for subscriber in world.subscribers.values():
        yield subscriber.check
    if world.balanced is not None:
        for agent in world.balanced.agents.values():
            yield agent.check


def at_rest(world: World) -> Iterator[str]:
    """Yield what is not as it should be when everything is mended and nothing happens any more."""
    yield from world.unsettled()
    yield from invariants(world)
    yield from _network(world)


def _network(world: World) -> Iterator[str]:
    """Yield where the primary network is no tree: a move ended between the old network and the new one."""
    nodes = {name: gateway.node for name, gateway in world.gateways.items() if gateway.node is not None}
    links = {name: set(node.link_states()) for name, node in nodes.items()}
    for name, neighbours in links.items():
        for each in sorted(neighbours):
            if name not in links[each]:
                yield f"{name} has {each} for a neighbour, but not the other way"
    if sum(map(len, links.values())) != 2 * (len(links) - 1):
        yield f"the primary network is no tree: {links}"
    reached, frontier = set[str](), [world.plan.gateways[0]]
    while frontier:
        name = frontier.pop()
        if name not in reached:
            reached.add(name)
            frontier += links[name]
    yield from (f"the primary network does not reach {name}" for name in links if name not in reached)


def when_all_have_left(world: World) -> Iterator[str]:
    """Yield what is left behind of subscribers who are all gone."""
    for name, gateway in world.gateways.items():
        if gateway.node is not None and gateway.node.subscription_counts() != (0, 0):
            yield f"gateway {name} has table entries without an owner: {gateway.node.subscription_counts()}"
    for broker in world.brokers.values():
        for client_id in broker.sessions:
            if client_id.startswith("sub-"):
                yield f"broker {broker.name} keeps a session of {client_id}"
        for topic, kept in broker.retained.items():
            if "/sub/" in topic and not _is_pointer(kept.payload):
                yield f"broker {broker.name} keeps the record {topic}"


def _is_pointer(data: bytes) -> bool:
    """Whether a record only says where its client has gone: that stays."""
    journey = journey_in(data)
    return journey is not None and bool(journey.moved_to)

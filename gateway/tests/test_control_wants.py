"""Control publications by subject: they go where they are wanted, and what is wanted is known where it must be."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, CONTROL_WANTS_MAX, CONTROL_WHERE_TEXT_MAX, CONTROL_WHERES_MAX
from mqloom.core.messages import Control, Message, Want
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentEvent,
    AgentWoke,
    ControlReceived,
    ControlsWanted,
    PublishControl,
    Subject,
    WantControls,
)
from mqloom.gateway.controls import Controls
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.plugins.tree_overlay import TreeOverlay

PIE = {"class": "PIE"}
ALL_PIE = "class = 'PIE'"
LOW_PIE, HIGH_PIE = "class = 'PIE' AND load < 0.5", "class = 'PIE' AND load > 0.5"
WHERES = {ALL_PIE: [0.2, 0.7], LOW_PIE: [0.2], HIGH_PIE: [0.7], "load > 0.5": [0.7], "class = 'X'": list[float]()}
"""Filters, and which of two loads each is for."""
A, B, C, D, E, F = (GatewayId(name) for name in "ABCDEF")


class Listener:
    """An agent that does what it is told to, and remembers what it has heard."""

    name = "pie"

    def __init__(self) -> None:
        self.heard: list[ControlReceived] = []
        self.wanted: list[ControlsWanted] = []
        self.orders: list[AgentEffect] = []

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        if isinstance(event, ControlReceived):
            self.heard.append(event)
        if isinstance(event, ControlsWanted):
            self.wanted.append(event)
        orders, self.orders = self.orders, []
        return orders if isinstance(event, AgentWoke) else []


class Net:
    """Gateways joined back to back: links are lists of messages."""

    def __init__(self, *links: str) -> None:
        self.links = [(GatewayId(link[0]), GatewayId(link[1])) for link in links]
        self.epochs = dict.fromkeys(sorted({end for link in self.links for end in link}), 0)
        self.agents: dict[GatewayId, Listener] = {}
        self.counters: dict[GatewayId, Counters] = {}
        self.controls: dict[GatewayId, Controls] = {}
        self.outboxes: dict[GatewayId, Outbox] = {}
        self.up: set[tuple[GatewayId, GatewayId]] = set()
        self.crossed: list[tuple[GatewayId, GatewayId, Message]] = []
        for name in self.epochs:
            self.start(name)
        for one, other in self.links:
            self.open(one, other)

    def neighbours(self, name: GatewayId) -> list[GatewayId]:
        return [end for link in self.links if name in link for end in link if end != name]

    def start(self, name: GatewayId) -> None:
        self.epochs[name] += 1
        self.agents[name], self.counters[name], self.outboxes[name] = Listener(), Counters(), Outbox()
        journal = Journal(self.counters[name])
        near = self.neighbours(name)
        overlay = GuardedOverlay(name, TreeOverlay(name, near), near, journal)
        agents, outbox = [self.agents[name]], self.outboxes[name]
        self.controls[name] = Controls(name, self.epochs[name], agents, overlay, outbox, journal)
        self.controls[name].start(0.0)

    def open(self, one: GatewayId, other: GatewayId) -> None:
        self.up |= {(one, other), (other, one)}
        self.controls[one].wants.open_link(other)
        self.controls[other].wants.open_link(one)
        self.run()

    def cut(self, one: GatewayId, other: GatewayId) -> None:
        self.up -= {(one, other), (other, one)}
        self.controls[one].wants.close_link(other)
        self.controls[other].wants.close_link(one)
        self.run()

    def crash(self, name: GatewayId) -> None:
        for neighbour in self.neighbours(name):
            self.up -= {(name, neighbour), (neighbour, name)}
            self.controls[neighbour].wants.close_link(name)
        self.start(name)
        self.run()

    def tell(self, name: GatewayId, *orders: AgentEffect) -> None:
        self.agents[name].orders = list(orders)
        self.controls[name].start(0.0)
        self.run()

    def run(self) -> None:
        busy = True
        while busy:
            busy = False
            for name, outbox in self.outboxes.items():
                for target, messages in outbox.drain().items():
                    for message in messages if (name, target) in self.up else ():
                        busy = True
                        self.crossed.append((name, target, message))
                        assert isinstance(message, Control | Want)
                        self.controls[target].receive(message, name, 0.0)
        for controls in self.controls.values():
            controls.wants.check()

    def publish(self, name: GatewayId, subject: Subject = PIE, hops: int = 9) -> tuple[str, list[str]]:
        """Return who has heard it, and which links it has crossed."""
        for agent in self.agents.values():
            agent.heard.clear()
        self.crossed.clear()
        self.tell(name, PublishControl(b"body", hops, subject))
        ways = [f"{one}{other}" for one, other, message in self.crossed if isinstance(message, Control)]
        assert len(ways) == len(set(ways))
        heard = [each for each, agent in self.agents.items() for _ in agent.heard]
        return "".join(sorted(heard)), sorted(ways)

    def total(self, counter: str) -> int:
        return sum(counters.total(counter) for counters in self.counters.values())


def line() -> Net:
    return Net(*(one + other for one, other in pairwise("ABCDEF")))


def test_it_goes_only_over_links_that_lead_to_somebody_who_wants_it() -> None:
    net = Net("AB", "BC", "BD", "DE", "DF")
    net.tell(E, WantControls([ALL_PIE], 9))
    assert net.publish(A) == ("E", ["AB", "BD", "DE"])
    assert net.agents[E].heard == [ControlReceived(A, b"body", PIE)]
    assert net.publish(F) == ("E", ["DE", "FD"])


def test_nobody_gets_what_nobody_wants() -> None:
    net = line()
    assert net.publish(A) == ("", [])
    net.tell(C, WantControls(["class = 'OTHER'"], 9))
    assert net.publish(A) == ("", [])


def test_without_a_subject_it_goes_to_everybody() -> None:
    net = line()
    net.tell(C, WantControls(["class = 'OTHER'"], 9))
    assert net.publish(C, {}, 2)[0] == "ABDE"


def test_an_agent_hears_what_one_of_its_filters_matches() -> None:
    net = line()
    net.tell(C, WantControls(["load > 0.5", "class = 'REQUEST' AND to = 'C'"], 9))
    assert net.publish(A, {"load": 0.6})[0] == "C"
    assert net.publish(A, {"load": 0.4})[0] == ""
    assert net.publish(A, {"class": "REQUEST", "to": "C"})[0] == "C"
    assert net.publish(A, {"class": "REQUEST", "to": "D"})[0] == ""


@pytest.mark.parametrize("wanted_from", range(6))
@pytest.mark.parametrize("goes", range(6))
def test_it_goes_as_far_as_both_allow_and_crosses_no_link_in_vain(wanted_from: int, goes: int) -> None:
    net = line()
    for name in (B, D, F):
        net.tell(name, WantControls([ALL_PIE], wanted_from))
    reach = min(wanted_from, goes)
    heard = "".join(name for distance, name in ((1, "B"), (3, "D"), (5, "F")) if distance <= reach)
    crossed = [f"{one}{other}" for one, other in pairwise("ABCDEF")][: {"": 0, "B": 1, "D": 3, "F": 5}[heard[-1:]]]
    assert net.publish(A, hops=goes) == (heard, crossed)


def test_it_passes_one_who_wants_it_from_nearer() -> None:
    net = line()
    net.tell(C, WantControls([ALL_PIE], 1))
    net.tell(D, WantControls([ALL_PIE], 3))
    assert net.publish(A) == ("D", ["AB", "BC", "CD"])


def test_a_want_replaces_the_one_before() -> None:
    net = line()
    net.tell(A, WantControls([ALL_PIE], 9))
    net.tell(A, WantControls(["class = 'OTHER'"], 9))
    assert net.publish(F) == ("", [])
    assert net.publish(F, {"class": "OTHER"})[0] == "A"
    assert net.total("wants_sent") == 10
    assert net.total("wants_withdrawn") == 0


def test_the_same_want_again_is_not_told_again() -> None:
    net = line()
    for _ in range(3):
        net.tell(A, WantControls([ALL_PIE], 9))
    assert net.total("wants_sent") == net.total("wants_received") == 5


@pytest.mark.parametrize("nothing", [WantControls([], 9), WantControls([ALL_PIE], 0), WantControls([ALL_PIE], -1)])
def test_who_wants_nothing_any_more_is_forgotten_everywhere(nothing: WantControls) -> None:
    net = line()
    net.tell(A, nothing)
    assert net.total("wants_sent") == 0
    net.tell(A, WantControls([ALL_PIE], 9))
    net.tell(A, nothing)
    assert net.publish(F) == ("", [])
    assert net.total("wants_withdrawn") == 5
    assert [len(controls.wants) for controls in net.controls.values()] == [0] * 6


def test_counters_tell_publications_wants_and_withdrawals_apart() -> None:
    net = line()
    net.tell(C, WantControls([ALL_PIE], 9))
    net.publish(A)
    net.tell(C, WantControls([], 9))
    names = ("controls_published", "controls_sent", "controls_received")
    assert [net.total(name) for name in names] == [1, 2, 2]
    assert [net.total(name) for name in ("wants_sent", "wants_withdrawn", "wants_received")] == [5, 5, 10]


def test_what_is_wanted_behind_a_lost_link_is_withdrawn_and_told_again_when_it_is_back() -> None:
    net = line()
    for name in (A, F):
        net.tell(name, WantControls([ALL_PIE], 9))
    net.cut(C, D)
    assert net.total("wants_withdrawn") == 4
    assert net.publish(B) == ("A", ["BA"])
    assert net.publish(E) == ("F", ["EF"])
    net.open(C, D)
    assert net.publish(B)[0] == net.publish(E)[0] == "AF"


def test_a_gateway_that_restarts_and_says_nothing_wants_nothing() -> None:
    net = line()
    net.tell(C, WantControls([ALL_PIE], 9))
    net.crash(C)
    for neighbour in (B, D):
        net.open(C, neighbour)
    assert net.publish(A) == ("", [])
    net.tell(C, WantControls([ALL_PIE], 9))  # its numbers begin anew, in a later epoch
    assert net.publish(A)[0] == "C"


def test_what_a_neighbour_said_before_it_began_anew_does_not_count() -> None:
    net = line()
    net.tell(F, WantControls([ALL_PIE], 9))
    net.controls[C].wants.doubt(D)
    net.run()
    assert net.publish(A) == ("", [])
    assert net.publish(D)[0] == "F"


def test_a_cycle_of_links_is_gone_round_once_and_outlives_a_cut() -> None:
    net = Net("AB", "BC", "CD", "DE", "EA")
    net.tell(A, WantControls([ALL_PIE], 9))
    assert net.publish(D)[0] == "A"
    net.cut(E, A)
    assert net.publish(E) == ("A", ["BA", "CB", "DC", "ED"])
    net.tell(A, WantControls([], 9))
    assert [len(controls.wants) for controls in net.controls.values()] == [0] * 5


@pytest.mark.parametrize("seed", range(40))
def test_after_whatever_happened_it_reaches_exactly_those_in_reach_who_want_it(seed: int) -> None:
    rng = random.Random(seed)
    names = [GatewayId(name) for name in "ABCDEFGH"]
    net = Net(*(rng.choice(names[:place]) + names[place] for place in range(1, len(names))))
    wanted: dict[GatewayId, tuple[list[str], int]] = {}
    subjects: list[Subject] = [{"class": "PIE", "load": load} for load in (0.2, 0.7)]
    for _ in range(60):
        name, happening = rng.choice(names), rng.random()
        if happening < 0.5:
            wheres, hops = rng.sample(list(WHERES), rng.choice([1, 1, 2])), rng.randrange(5)
            net.tell(name, WantControls(wheres, hops))
            wanted[name] = (wheres, hops)
        elif happening < 0.6:
            net.crash(name)
            wanted.pop(name, None)
        else:
            one, other = rng.choice(net.links)
            (net.cut if (one, other) in net.up else net.open)(one, other)
    for subject in subjects:
        origin, hops = rng.choice(names), rng.randrange(1, 6)
        expected = [
            name
            for name, distance in distances(net, origin).items()
            if name != origin and name in wanted and distance <= min(hops, wanted[name][1])
            if subject["load"] in {load for where in wanted[name][0] for load in WHERES[where]}
        ]
        assert net.publish(origin, subject, hops)[0] == "".join(sorted(expected))


def test_what_a_head_wants_covers_what_its_edges_do_so_that_their_changes_go_no_further() -> None:
    net = Net("AB", "AC", "AD")
    net.tell(A, WantControls([ALL_PIE], 2))
    net.tell(B, WantControls([LOW_PIE, "to = 'B'"], 2))
    assert net.publish(C, {"class": "PIE", "load": 0.2}) == ("AB", ["AB", "CA"])
    net.crossed.clear()
    net.tell(B, WantControls([HIGH_PIE, "to = 'B'"], 2))
    assert [(one, other) for one, other, _ in net.crossed] == [(B, A)]
    assert net.publish(C, {"class": "PIE", "load": 0.2}) == ("A", ["CA"])
    assert net.publish(C, {"class": "PIE", "load": 0.7}) == ("AB", ["AB", "CA"])
    assert net.publish(D, {"to": "B"}) == ("B", ["AB", "DA"])


def test_what_was_covered_is_told_before_a_head_wants_less() -> None:
    net = Net("AB", "AC")
    net.tell(A, WantControls([ALL_PIE], 2))
    net.tell(B, WantControls([LOW_PIE], 2))
    net.crossed.clear()
    net.tell(A, WantControls(["class = 'OTHER'"], 2))
    told = [message.origin for _, other, message in net.crossed if isinstance(message, Want) and other == C]
    assert told == [B, A]
    assert net.publish(C, {"class": "PIE", "load": 0.2}) == ("B", ["AB", "CA"])


def test_one_who_wants_it_from_nearer_covers_nobody_who_wants_it_from_further() -> None:
    net = Net("AB", "BC", "CD")
    net.tell(B, WantControls([ALL_PIE], 1))
    net.tell(A, WantControls([LOW_PIE], 3))
    assert net.publish(D, {"class": "PIE", "load": 0.2}) == ("A", ["BA", "CB", "DC"])


def test_on_a_cycle_nothing_is_left_out_that_the_other_side_would_miss() -> None:
    net = Net("AB", "BC", "CD", "DA")
    net.tell(B, WantControls([ALL_PIE], 9))
    for wheres in ([LOW_PIE], [LOW_PIE, "to = 'A'"], [LOW_PIE]):
        net.tell(A, WantControls(wheres, 9))
    net.cut(D, A)
    assert net.publish(D, {"class": "PIE", "load": 0.2})[0] == "AB"
    net.tell(B, WantControls([], 9))
    assert net.publish(D, {"class": "PIE", "load": 0.2})[0] == "A"


def distances(net: Net, origin: GatewayId) -> dict[GatewayId, int]:
    found, edge = {origin: 0}, [origin]
    while edge:
        one = edge.pop(0)
        for name, other in net.up:
            if name == one and other not in found:
                found[other] = found[one] + 1
                edge.append(other)
    return found


# ---- what neighbours say wrongly ---------------------------------------------------------------------------------


def test_a_filter_that_cannot_be_read_is_refused_and_what_was_wanted_before_stays() -> None:
    net = line()
    net.tell(C, WantControls([ALL_PIE], 9))
    net.controls[B].receive(Want(C, 1, 2, "pie", ("class = = 1",), 0, 9), C, 0.0)
    net.run()
    assert net.counters[B].reasons("wants_refused") == {"filter": 1}
    assert net.publish(A)[0] == "C"


def test_what_has_come_further_than_it_may_is_refused() -> None:
    net = line()
    net.controls[B].receive(Want(C, 1, 2, "pie", (ALL_PIE,), 3, 3), C, 0.0)
    assert net.counters[B].reasons("wants_refused") == {"hops": 1}
    assert len(net.controls[B].wants) == 0


def test_an_older_want_does_not_replace_a_newer_one() -> None:
    net = line()
    for where in (ALL_PIE, "class = 'NEW'"):
        net.tell(F, WantControls([where], 9))
    net.controls[B].receive(Want(F, 1, 1, "pie", (ALL_PIE,), 0, 9), A, 0.0)
    net.run()
    assert net.publish(A)[0] == ""
    assert net.publish(A, {"class": "NEW"})[0] == "F"


def test_nobody_can_say_what_we_want() -> None:
    net = line()
    net.tell(B, WantControls([ALL_PIE], 9))
    net.controls[B].receive(Want(B, 9, 9, "pie", (), 0, 9), C, 0.0)
    net.run()
    assert net.publish(A)[0] == "B"


def test_a_flood_of_agents_is_bounded_and_costs_those_known_nothing() -> None:
    net = Net("AB", "BC")
    net.tell(A, WantControls([ALL_PIE], 9))
    for number in range(CONTROL_WANTS_MAX + 10):
        net.controls[B].receive(Want(GatewayId(f"X{number}"), 1, 1, "pie", ("class = 'X'",), 0, 1), C, 0.0)
    net.run()
    assert net.counters[B].reasons("wants_refused") == {"many": 11}
    assert len(net.controls[B].wants) == CONTROL_WANTS_MAX
    assert net.publish(C)[0] == "A"
    net.cut(B, C)
    assert len(net.controls[B].wants) == 1


@pytest.mark.parametrize(
    "mistake",
    [
        WantControls(["class = = 1"], 1),
        WantControls(["x = 1"] * (CONTROL_WHERES_MAX + 1), 1),
        WantControls([f"x = '{'y' * CONTROL_WHERE_TEXT_MAX}'"], 1),
        WantControls(["x = 1"], 0.5),  # type: ignore[arg-type]
        PublishControl(b"", 1, {"x": 1 << 64}),
        PublishControl(b"", 1, {"x": [1]}),  # type: ignore[dict-item]
        PublishControl(b"", 1, {"x": "y" * 300}),
        PublishControl(b"", 1, {f"x{number}": 1 for number in range(17)}),
    ],
)
def test_an_agents_mistake_is_its_failure_and_nobody_hears_of_it(mistake: AgentEffect) -> None:
    net = line()
    net.tell(B, WantControls(["x IS NOT NULL"], 9))
    net.crossed.clear()
    net.tell(A, mistake)
    assert net.counters[A].reasons("plugin_failures") == {"pie": 1}
    assert net.crossed == []


def test_an_agent_wants_from_no_further_than_the_bound() -> None:
    net = line()
    net.tell(A, WantControls([ALL_PIE], 10**9))
    (want,) = [message for one, _, message in net.crossed if one == A]
    assert isinstance(want, Want)
    assert want.hops_max == CONTROL_HOPS_MAX


# ---- what agents are told of each other's wishes -----------------------------------------------------------------


def test_an_agent_is_told_what_those_of_neighbours_want_and_not_of_those_further_away() -> None:
    net = Net("AB", "BC")
    net.tell(A, WantControls([LOW_PIE], 9))
    net.tell(A, WantControls([ALL_PIE], 9))
    net.tell(A, WantControls([], 0))
    assert net.agents[B].wanted == [
        ControlsWanted(A, (LOW_PIE,), is_new=True),
        ControlsWanted(A, (ALL_PIE,), is_new=False),
        ControlsWanted(A, (), is_new=False),
    ]
    assert net.agents[C].wanted == []
    assert net.agents[A].wanted == []


def test_what_a_neighbour_wants_is_new_after_its_link_was_down_and_when_it_has_begun_anew() -> None:
    net = Net("AB")
    net.tell(A, WantControls([LOW_PIE], 9))
    net.cut(A, B)
    net.open(A, B)
    net.crash(A)
    net.open(A, B)
    net.tell(A, WantControls([ALL_PIE], 9))
    assert net.agents[B].wanted == [
        ControlsWanted(A, (LOW_PIE,), is_new=True),
        ControlsWanted(A, (LOW_PIE,), is_new=True),
        ControlsWanted(A, (ALL_PIE,), is_new=True),
    ]


def test_an_agent_that_has_not_begun_is_told_nothing() -> None:
    agent, counters, outbox = Listener(), Counters(), Outbox()
    overlay = GuardedOverlay(B, TreeOverlay(B, [A]), [A], Journal(counters))
    controls = Controls(B, 1, [agent], overlay, outbox, Journal(counters))
    controls.receive(Want(A, 1, 1, "pie", (ALL_PIE,), 0, 9), A, 0.0)
    assert agent.wanted == []
    assert controls.wants.wheres_of("pie", A) == (ALL_PIE,)

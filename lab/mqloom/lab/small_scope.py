"""How small a small world is: its gateways, clients and publications, and which faults may happen how often.

Orders. With `delays` None every order of everything is tried. The states of that are too many for more than one
publication and one fault. So otherwise the queues are read in turn, and up to `delays` times in a run one of them
becomes slow: it is not read for as long as one likes, with everything else going on meanwhile. Publications and
faults still come at any moment. That finds what takes no more than so many slow connections.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.topics import topic_matches

LinkName = tuple[GatewayId, GatewayId]


@dataclass(frozen=True, slots=True)
class SmallPublication:
    """Somebody publishes at a gateway's broker, QoS 1."""

    gateway: GatewayId
    topic: str
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SmallSubscriber:
    """A client at a gateway's broker with one subscription, established before anything happens."""

    gateway: GatewayId
    name: str
    topics: str
    where: str = ""

    def wants(self, publication: SmallPublication) -> bool:
        """Whether it is to be given a publication."""
        return topic_matches(self.topics, publication.topic) and Filter.parse(self.where).matches(
            publication.attributes
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What is in a small world, and what may happen to it. A cut breaks the given directions of links at once."""

    name: str
    gateways: tuple[GatewayId, ...]
    links: tuple[LinkName, ...]
    subscribers: tuple[SmallSubscriber, ...]
    publications: tuple[SmallPublication, ...]
    crashes: int = 0
    may_crash: tuple[GatewayId, ...] = ()
    may_break: tuple[GatewayId, ...] = ()
    cuts: int = 0
    may_cut: tuple[tuple[LinkName, ...], ...] = ()
    breaks: int = 0
    """How often the connection by which publications come in may break."""
    delays: int | None = None
    """How often a queue may be slow in one run; None: always, so that every order is tried."""
    hastes: int = 0
    """How often in one run time may pass although something waits to be read."""
    move: tuple[GatewayId, ...] = ()
    """The path of a move that is ordered before anything else happens: the first leaves the second for the last."""

    @property
    def all_links(self) -> tuple[LinkName, ...]:
        """The links that there are, or may be."""
        return (*self.links, (self.move[0], self.move[-1])) if self.move else self.links

    def network(self, *, is_moved: bool) -> set[LinkName]:
        """Return the primary links before the move or after it, both directions of each."""
        gone = {*self.move[:2]} if is_moved else {*self.move[:1], *self.move[-1:]}
        links = [link for link in self.all_links if {*link} != gone]
        return {way for link in links for way in (link, link[::-1])}


def payload_of(publication: SmallPublication) -> bytes:
    """Return the bytes that are published."""
    return json.dumps(publication.attributes).encode()


A, B, C, N = GatewayId("A"), GatewayId("B"), GatewayId("C"), GatewayId("N")
CHAIN = (A, B), (B, C)
CUTS_BOTH = tuple((link, link[::-1]) for link in CHAIN)
CUTS_ONE = tuple((way,) for link in CHAIN for way in (link, link[::-1]))


def chain(
    name: str, entrances: Sequence[GatewayId] = (A,), *, wishes: bool = False, **faults: Any
) -> Scope:  # named like the fields of Scope
    """Return three gateways in a row: publications enter at the entrances, in this order at each of them.

    Clients are at B and C, and want everything; but with `wishes` they are at A and C, and the one at C does not want
    the second publication.
    """
    wide = SmallSubscriber(A if wishes else B, "c1", "s/#")
    narrow = SmallSubscriber(C, "c2", "s/#", "x <> 2" if wishes else "x > 0")
    publications = tuple(SmallPublication(gateway, "s/t", {"x": number}) for number, gateway in enumerate(entrances, 1))
    return Scope(name, (A, B, C), CHAIN, (wide, narrow), publications, **faults)


def move(
    name: str, entrances: Sequence[GatewayId] = (), clients_at: Sequence[GatewayId] = (A, N, B), **faults: Any
) -> Scope:
    """Return three gateways in a row, A - N - B, of which A is to leave N for B. The clients want everything."""
    clients = tuple(SmallSubscriber(gateway, f"c{gateway}", "s/#") for gateway in clients_at)
    publications = tuple(SmallPublication(gateway, "s/t", {"x": number}) for number, gateway in enumerate(entrances, 1))
    return Scope(name, (A, N, B), ((A, N), (N, B)), clients, publications, move=(A, N, B), **faults)


def _crash(*gateways: GatewayId) -> dict[str, Any]:
    return {"crashes": 1, "may_crash": gateways or (A, B, C)}


def _cut(*cuts: tuple[LinkName, ...]) -> dict[str, Any]:
    return {"cuts": 1, "may_cut": cuts or CUTS_BOTH + CUTS_ONE}


def _break(times: int) -> dict[str, Any]:
    return {"breaks": times, "may_break": (A,)}


QUICK: Final = (
    chain("2 publications, every order", (A, A)),
    chain("2 publications, 2 wishes, every order", (A, A), wishes=True),
    chain("2 publications, a crash", (A, A), **_crash(), delays=0),
    chain("2 publications, a cut", (A, A), **_cut(), delays=0),
    chain("2 publications from both ends, a crash", (A, C), **_crash(), delays=0),
    chain("2 publications, a broken intake, every order", (A, A), **_break(1)),
    chain("2 publications, a broken intake and a crash of the first", (A, A), **_break(1), **_crash(A), delays=0),
    chain("1 publication, a cut of one direction, every order", **_cut(*CUTS_ONE)),
    chain("1 publication, a crash at an end, 1 slow queue", **_crash(A, C), delays=1),
    chain("1 publication, a cut, 1 slow queue", **_cut(*CUTS_BOTH), delays=1),
    chain("1 publication, a crash of the first and a cut", **_crash(A), **_cut(CUTS_BOTH[0]), delays=0),
    move("a move, every order"),
    move("a move, 1 publication for its gateway, 1 slow queue", (N,), (A,), delays=1),
    move("a move, a crash of its gateway, 1 slow queue", **_crash(A), delays=1),
)
"""For every change: a minute."""

DEEP: Final = (
    chain("1 publication, a crash in the middle, 1 slow queue", **_crash(B), delays=1),
    chain("1 publication, a crash of the first, every order", **_crash(A)),
    chain("1 publication, a cut of the first link, every order", **_cut(CUTS_BOTH[0])),
    chain("1 publication, a crash and a cut", **_crash(), **_cut(), delays=0),
    chain("1 publication, a crash at an end, 2 slow queues", **_crash(A, C), delays=2),
    chain("1 publication, a crash at an end, 1 slow queue, an early timer", **_crash(A, C), delays=1, hastes=1),
    chain("2 publications, a cut, 1 slow queue, an early timer", (A, A), **_cut(*CUTS_BOTH), delays=1, hastes=1),
    chain("2 publications, an intake broken twice, every order", (A, A), **_break(2)),
    chain("2 publications, a crash of the first, 1 slow queue", (A, A), **_crash(A), delays=1),
    chain("2 publications from both ends, a crash of the first, 1 slow queue", (A, C), **_crash(A), delays=1),
    chain("2 publications, a crash of the first and a cut", (A, A), **_crash(A), **_cut(CUTS_BOTH[0]), delays=0),
    chain("2 publications, a crash in the middle and a cut", (A, A), **_crash(B), **_cut(CUTS_BOTH[0]), delays=0),
    move("a move, a crash of another gateway, 1 slow queue", **_crash(N, B), delays=1),
    move("a move, 1 publication for its gateway, a crash", (N,), (A,), **_crash(A, N, B), delays=0),
    move("a move, 1 publication for its gateway by the new one, a crash", (B,), (A,), **_crash(A, N, B), delays=0),
    move("a move, 1 publication from its gateway, a crash", (A,), (N, B), **_crash(A, N, B), delays=0),
    move("a move, 1 publication for its gateway by the new one, 2 slow queues", (B,), (A,), delays=2),
    move("a move, 1 publication from its gateway, 2 slow queues", (A,), (N, B), delays=2),
    move("a move, 1 publication from its gateway, a crash of it, 1 slow queue", (A,), (N, B), **_crash(A), delays=1),
    move("a move, 2 publications, a crash of its gateway", (A, B), **_crash(A), delays=0),
)
"""For `tox -e full`, besides."""

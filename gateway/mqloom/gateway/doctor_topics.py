"""What a gateway reads and writes, topic by topic, so that a doctor can try each: on its own broker, and on another's.

A probe must not be taken for the real thing. What a running gateway reads on these topics it refuses, and counts; a
record of no bytes is no record. Its status, place, portrait, report and roster are never written: only asked for.
"""

from typing import NamedTuple

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.key_file import order_keys_in

PROBE = b"?"


class Reading(NamedTuple):
    """A topic filter that is read; with a topic inside that may be written to see whether anything comes, and what."""

    topics: str
    through: str = ""
    payload: bytes = PROBE


class Writing(NamedTuple):
    """A topic that is written; `topic` is the one that is tried, `topics` what that stands for."""

    topics: str
    topic: str
    payload: bytes = PROBE


class Needs(NamedTuple):
    """All that one gateway needs on one broker."""

    readings: tuple[Reading, ...]
    writings: tuple[Writing, ...]


def needs_at_home(configuration: Configuration, broker: BrokerTable, mark: str) -> Needs:
    """Return what the gateway beside a broker needs there; `mark` is part of every topic that is made up."""
    gateway, client, other = broker.id, ClientId(mark), GatewayId(mark)
    own = f"{layout.ROOT}/{layout.level(gateway)}"
    about_orders = (
        Reading(layout.client_answers(gateway), layout.client_answer(gateway, client)),
        Reading(layout.roster()),
        Reading(layout.drain(gateway)),
    )
    readings = [
        Reading(layout.records(gateway), layout.record(gateway, client), b""),
        Reading(layout.questions(gateway), layout.question(gateway, client)),
        Reading(layout.orders(gateway), layout.order(gateway, client)),
        *(about_orders if gives_orders(configuration) else ()),
        *(
            Reading(topics, layout.link(gateway, other, urgent=urgent))
            for topics, urgent in zip(layout.links(gateway), (False, True), strict=True)
        ),
        Reading(layout.park(gateway, other), layout.park(gateway, other)),
        Reading(layout.mirrors(gateway)),
        Reading(layout.status(gateway)),
        Reading(layout.place(gateway)),
        *(Reading(topics) for topics in configuration.data),
    ]
    writings = [
        Writing(f"{own}/out/+", layout.out(gateway, client)),
        Writing(f"{own}/ctl/+", layout.control(gateway, client)),
        Writing(f"{own}/link/+/ack", layout.ack(gateway, other)),
        Writing(f"{own}/park/+", layout.park(gateway, other)),
        Writing(f"{own}/fence", layout.fence(gateway), b""),
        Writing(f"{own}/dead/#", layout.dead(gateway, mark)),
    ]
    intos = dict.fromkeys(table.into for table in configuration.subscriptions if table.broker == gateway)
    writings += [Writing(f"{into}/#", f"{into}/{mark}") for into in intos]
    return Needs(tuple(readings), tuple(writings))


def gives_orders(configuration: Configuration) -> bool:
    """Whether the federation has an order key; raises ConfigurationError."""
    return configuration.key_path is not None and order_keys_in(configuration.key_path) is not None


def needs_abroad(gateway: GatewayId, visitor: GatewayId) -> Needs:
    """Return what another gateway needs on a broker; what it reads there, the gateway beside the broker writes."""
    return Needs(
        (Reading(layout.ack(gateway, visitor), layout.ack(gateway, visitor)), Reading(layout.status(gateway))),
        tuple(
            Writing(topic, topic)
            for topic in (layout.link(gateway, visitor), layout.link(gateway, visitor, urgent=True))
        ),
    )

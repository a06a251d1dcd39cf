"""What a gateway reads and writes, topic by topic, so that a doctor can try each: on its own broker, and on another's.

A probe must not be taken for the real thing. What a running gateway reads on these topics it refuses, and counts; a
record of no bytes is no record. Its status, place, portrait, report, roster, intake and so on are never written, nor
are data topics unless somebody names one where that harms nobody: those are listed, so that nobody takes them for
tried.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.topics import topic_matches
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.key_file import order_keys_in

PROBE = b"?"


class Reading(NamedTuple):
    """A topic filter that is read; with a topic inside that may be written to see whether anything comes, and what."""

    topics: str
    through: str = ""
    payload: bytes = PROBE


class Writing(NamedTuple):
    """A topic that is written; `topic` is the one that is tried, if one can be, `topics` what that stands for."""

    topics: str
    topic: str = ""
    payload: bytes = PROBE


class Needs(NamedTuple):
    """All that one gateway needs on one broker."""

    readings: tuple[Reading, ...]
    writings: tuple[Writing, ...]


def needs_at_home(
    configuration: Configuration, broker: BrokerTable, mark: str, data_topics: Sequence[str] = ()
) -> Needs:
    """Return what the gateway beside a broker needs there; `mark` is part of every topic that is made up.

    Data topics are tried by those that are given, as far as they match.
    """
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
        Reading(layout.mirrors(gateway), layout.trial(gateway)),
        Reading(layout.status(gateway)),
        Reading(layout.place(gateway)),
        Reading(layout.intake(gateway)),
        *(Reading(topics, _one_of(data_topics, topics)) for topics in configuration.data),
    ]
    if broker.adapter == "mosquitto":
        readings += [Reading(layout.interest(gateway)), Reading(layout.interest_read(gateway))]
    writings = [
        Writing(f"{own}/out/+", layout.out(gateway, client)),
        Writing(f"{own}/ctl/+", layout.control(gateway, client)),
        Writing(f"{own}/link/+/ack", layout.ack(gateway, other)),
        Writing(f"{own}/park/+", layout.park(gateway, other)),
        Writing(f"{own}/fence", layout.fence(gateway), b""),
        Writing(f"{own}/dead/#", layout.dead(gateway, mark)),
    ]
    writings.append(Writing(layout.mirrors(gateway), layout.trial(gateway)))
    kept = [layout.status, layout.place, layout.intake, layout.portrait, layout.report]
    kept += [layout.drain] if gives_orders(configuration) else []
    kept += [layout.interest, layout.interest_read] if broker.adapter == "mosquitto" else []
    writings += [Writing(topic(gateway)) for topic in kept]
    writings += [Writing(layout.here()), *([Writing(layout.roster())] if gives_orders(configuration) else ())]
    if broker.republishes:
        writings += [Writing(topics, _one_of(data_topics, topics)) for topics in configuration.federation.data]
    writings += [Writing(topics) for topics in configuration.alerts]
    intos = dict.fromkeys(table.into for table in configuration.subscriptions if table.broker == gateway)
    writings += [Writing(f"{into}/#", f"{into}/{mark}") for into in intos]
    return Needs(tuple(readings), tuple(writings))


def _one_of(data_topics: Sequence[str], topics: str) -> str:
    """Return a topic that may be written to and that a filter matches; nothing if there is none."""
    return next((topic for topic in data_topics if topic_matches(topics, topic)), "")


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

"""Which core a client has: one that is never moved has a subscriber's, for one broker; any other has a traveller's."""

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from mqloom.client.federation import Federation
from mqloom.client.legs import Forgotten, OnLeg, Referred, TravelEffect, TurnedAway
from mqloom.client.limits import LEASE_S, SESSION_LEASE_S
from mqloom.client.party import Manner
from mqloom.client.subscriber import Subscriber
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import CloseRequested, Effect, Event, Note, WishAdded, WishRemoved, Woke
from mqloom.client.ways import Happening
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import OrderDesk
from mqloom.core.records import Wish
from mqloom.core.seen import Seen

Core = Subscriber | Traveller


def is_moved(settings: Federation) -> bool:
    """Whether these settings let a client be moved."""
    return bool(settings.keys) or (settings.moves and settings.follows_strangers)


def new_core(
    client: ClientId,
    settings: Federation,
    wishes: Mapping[str, Wish],
    seen: Seen,
    *,
    is_kept: bool,
    moves: bool,
    has_tls: bool,
) -> Core:
    """Return the core of a new life, whose session its broker keeps or does not, and that is moved or is not.

    One that has TLS is moved to brokers that have it, too, if its settings do not say otherwise.
    """
    lease_s = settings.lease_s
    if lease_s is None:
        lease_s = SESSION_LEASE_S if is_kept else LEASE_S
    gateway = GatewayId(settings.gateway) if settings.gateway else None
    if not moves:
        return Subscriber(
            client,
            {},
            lease_s=lease_s,
            gateway=gateway,
            token=settings.token,
            lasting=True,
            seen=seen,
            adopts=is_kept,
        )
    incarnation = secrets.token_hex(8)
    desk = OrderDesk(client=client, incarnation=incarnation, keys=settings.keys, federation=settings.name)
    return Traveller(
        client,
        wishes,
        incarnation=incarnation,
        desk=desk,
        manner=Manner(lease_s=lease_s, token=settings.token, adopts=is_kept, gateway=gateway),
        seen=seen,
        follows_strangers=settings.follows_strangers,
        needs_tls=has_tls and not settings.moves_without_tls,
    )


def handled(core: Core, leg: int | None, event: Event | Happening) -> Sequence[Effect | TravelEffect]:
    """Let either core handle an event; one that is never moved has one leg, and need not be told which.

    The time of day is read anew each time: it is set right, and goes on while a machine sleeps.
    """
    now, wall = time.monotonic(), time.time()
    if isinstance(core, Subscriber):
        if isinstance(event, Forgotten | TurnedAway):  # of an earlier one
            return []
        if isinstance(event, Referred):
            core.counts["references"] += 1
            return [Note(text=f"the broker refers us to {event.reference!r}, and we are never moved: ignored")]
        return core.handle(event, now)
    if isinstance(event, Happening):
        assert leg is not None
        return core.handle(OnLeg(leg=leg, event=event), now, wall)
    assert isinstance(event, WishAdded | WishRemoved | CloseRequested | Woke)
    return core.handle(event, now, wall)


def counts_of(core: Core | None) -> Counter[str]:
    """Return what a core, or each leg of it, has counted; while another thread counts, for all is copied at once."""
    if core is None:
        return Counter()
    if isinstance(core, Subscriber):
        return Counter(core.counts)
    legs = list(core.legs.values())
    return sum((Counter(leg.core.counts) for leg in legs), Counter(core.counts))

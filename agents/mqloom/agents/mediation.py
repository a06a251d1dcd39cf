"""What load agents say to each other, above all in sessions of two (paper 000, section 3.4.1).

    offloading                     accepting
    Request  ------------------->            "will you take load?"
             <-------------------  Reply     its state; if OK: how loaded it is, and its covering set, in parts
    Keep     ------------------->            every few seconds while the session lasts
             <-------------------  Kept      it lasts here too, or it does not
    Done, Cancel --------------->            who has moved, or that nobody has
             <-------------------  Ended     heard

And afterwards, for who wants to know how good the prediction was:

             <-------------------  Settled   what the load is now

Beside that an edge asks its head for help (Help), and heads of clusters in session tell their edges whom else to hear
(Hear). Every message of a session names it. All can be lost, doubled, late and in any order: `mediator` says what
then. Times in messages are durations, since clocks of different machines tell different times.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Final, Literal, NewType

import msgspec
from msgspec import Meta, Struct

from mqloom.agents.averages import FIGURE_MAX, is_sound
from mqloom.agents.pie import Pie, PieAsk
from mqloom.agents.press import generality
from mqloom.agents.settings import Level
from mqloom.agents.settings import Name as ClusterName
from mqloom.core.errors import FilterError, RemoteError, TopicError
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.filter import Scalar
from mqloom.core.filter.text import literal_text
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.load import BalanceState, Load, Metric
from mqloom.core.subscription import Subscription

PART_BYTES_MAX: Final = 48 * 1024
"""Texts of subscriptions in one part of a covering set, so that a message stays under CONTROL_BYTES_MAX."""

PARTS_MAX: Final = 8
"""Parts of a covering set. A larger set is cut, its most general subscriptions first: then the accepting broker seems
to receive less than it does, and what would come in there additionally is overestimated, which is safe."""

COVERING_MAX: Final = 2_000
"""Subscriptions in a covering set, likewise: they stand in the offloading broker's matcher while it samples."""

CAME_MAX: Final = 256
"""Clients named in Done; of more the number is told."""

UNKNOWN: Final = -1
"""The number of clients that moved, where that is not known."""

REASON_MAX: Final = 500
"""Characters in a reason; longer ones are cut."""

SESSION_CLASS: Final = "SESSION"
"""The class, in their subjects, of messages of sessions."""

SessionId = NewType("SessionId", str)
Name = Annotated[SessionId, Meta(min_length=1, max_length=ID_LENGTH_MAX + 64)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]
Text = tuple[str, str]
"""A subscription as its topic filter and its WHERE."""


class Request(Struct, frozen=True, tag="request", kw_only=True):
    """Asks whether the other takes load of ours."""

    session: Name
    metric: Metric
    is_overload: bool = False
    is_advice: bool = False
    """Nobody will be moved: the sender only says what it would do."""
    cluster: ClusterName = ""
    """The sender's, between clusters."""
    estimate: BrokerEstimate | None = None
    """The sender's, if it knows what a delivery costs and the other may not."""


class Reply(Struct, frozen=True, tag="reply", kw_only=True):
    """Yes, if the state is OK and there is no reason why not; then we are BUSY, and this is what you must know."""

    session: Name
    state: BalanceState
    refusal: Reason = ""
    estimate: BrokerEstimate | None = None
    covering: Annotated[tuple[Text, ...], Meta(max_length=COVERING_MAX)] = ()
    part: Annotated[int, Meta(ge=0, lt=PARTS_MAX)] = 0
    parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = 1
    left_out: Annotated[int, Meta(ge=0)] = 0
    """Subscriptions of the covering set that are in no part."""
    cluster: ClusterName = ""
    """The sender's, between clusters."""
    edges: Annotated[int, Meta(ge=0)] = 0
    """How many edges the sender's cluster has, between clusters; 0: it does not tell."""

    @property
    def is_accepted(self) -> bool:
        """Whether the session begins. Any state but OK is a refusal (3.4.1)."""
        return self.state is BalanceState.OK and not self.refusal


class Keep(Struct, frozen=True, tag="keep", kw_only=True):
    """The session lasts; clients are being moved, or not yet."""

    session: Name
    is_moving: bool = False


class Kept(Struct, frozen=True, tag="kept", kw_only=True):
    """It lasts here too; or we know nothing of it, or no more."""

    session: Name
    is_known: bool


class Done(Struct, frozen=True, tag="done", kw_only=True):
    """The session is over; so many have come to you (3.4.2: which the paper's accepting broker tells).

    UNKNOWN: nobody has come yet for all that is known, but clients are under way.
    """

    session: Name
    moved: Annotated[int, Meta(ge=UNKNOWN)]
    stayed: Annotated[int, Meta(ge=0)] = 0
    clients: Annotated[tuple[ClientId, ...], Meta(max_length=CAME_MAX)] = ()
    """Who has come, and then who may still: none of them is to be sent on soon."""


class Cancel(Struct, frozen=True, tag="cancel", kw_only=True):
    """The session is over, and nobody has been moved."""

    session: Name
    reason: Reason = ""


class Ended(Struct, frozen=True, tag="ended", kw_only=True):
    """We have heard that it is over."""

    session: Name


class Settled(Struct, frozen=True, tag="settled", kw_only=True):
    """The accepting broker has stabilised since the session, and this is its load now."""

    session: Name
    load: Load


class Help(Struct, frozen=True, tag="help", kw_only=True):
    """An edge that is N/A finds nobody in its cluster: a global load balancing request (3.3.3)."""

    cluster: ClusterName
    number: Annotated[int, Meta(ge=0)]
    """Another one for each request of an edge: by it a copy is told."""


class Hear(Struct, frozen=True, tag="hear", kw_only=True):
    """A head tells its edges to hear the local PIE of another cluster too, for so long; 0: no longer (3.4.1)."""

    session: Name
    cluster: ClusterName
    other: ClusterName
    lease_s: Annotated[float, Meta(ge=0, le=3_600)]


Mediation = Request | Reply | Keep | Kept | Done | Cancel | Ended
Farewell = Done | Cancel
Said = Mediation | Settled | Help | Hear | Pie | PieAsk
"""All that load agents say to each other."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Said)


def encode(message: Said) -> bytes:
    """Return the body of a control publication."""
    return _encoder.encode(message)


def decode(body: bytes) -> Said:
    """Return what a body says; raises RemoteError."""
    try:
        message: Said = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(f"no message of a load agent: {error}") from error
    if isinstance(message, Request | Reply) and message.estimate is not None and not _is_sound(message.estimate):
        raise RemoteError(f"an estimate that no broker can have: {message.estimate}")
    if isinstance(message, Settled) and not is_sound(message.load):
        raise RemoteError(f"a load that nobody can have measured: {message.load}")
    return message


def _is_sound(estimate: BrokerEstimate) -> bool:
    """Tell whether every figure can be one of a broker: what is absurd would spoil our own estimate, which we tell on.

    The line of the delay alone may pass below nothing.
    """
    figures = (*(getattr(estimate, field.name) for field in fields(estimate) if field.name != "delay"),)
    slope_s, base_s = estimate.delay
    return -FIGURE_MAX <= base_s <= FIGURE_MAX and all(
        figure is None or 0 <= figure <= FIGURE_MAX for figure in (*figures, slope_s)
    )


def subject_to(level: Level, partner: GatewayId) -> Mapping[str, Scalar]:
    """Return the subject of what is for one agent alone."""
    return {"class": SESSION_CLASS, "level": level, "to": partner}


def want_of(gateway: GatewayId) -> str:
    """Return the filter of everything that is for this agent alone."""
    return f"class = '{SESSION_CLASS}' AND to = {literal_text(gateway)}"


def subject_in(message: Help | Hear) -> Mapping[str, Scalar]:
    """Return the subject of what is for the head of a cluster (Help), or for its edges (Hear)."""
    return {"class": "HELP" if isinstance(message, Help) else "HEAR", "cluster": message.cluster}


def want_in(kind: Literal["HELP", "HEAR"], cluster: str) -> str:
    """Return the filter of that."""
    return f"class = '{kind}' AND cluster = {literal_text(cluster)}"


def parts_of(covering: Sequence[Subscription]) -> tuple[list[tuple[Text, ...]], int]:
    """Return a covering set in parts, at least one, and how many subscriptions are in none."""
    chosen = sorted(covering, key=generality)[:COVERING_MAX] if len(covering) > COVERING_MAX else covering
    parts: list[list[Text]] = [[]]
    free, taken = PART_BYTES_MAX, 0
    for each in chosen:
        text = (each.topics, str(each.where))
        size = sum(len(word.encode()) for word in text) + 8  # what MessagePack writes around the two words
        if size > free:
            if size > PART_BYTES_MAX or len(parts) == PARTS_MAX:
                continue
            parts.append([])
            free = PART_BYTES_MAX
        parts[-1].append(text)
        free -= size
        taken += 1
    return [tuple(part) for part in parts], len(covering) - taken


def covering_of(texts: Iterable[Text]) -> list[Subscription]:
    """Return the subscriptions; what cannot be read is left out, as what was cut is."""
    found = []
    for topics, where in texts:
        try:
            found.append(Subscription.parse(topics, where))
        except (TopicError, FilterError):
            continue
    return found

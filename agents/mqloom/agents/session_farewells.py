"""What is said at the end of sessions, until it is heard, and what is known of sessions that are over.

Who does not hear of the end frees itself after a while; but then it does not know who came. So a farewell is said
again until it is answered, though not for ever. And whoever asks about a session that is over is told how it ended.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from mqloom.agents.mediation import Farewell, SessionId
from mqloom.agents.sessions import Send
from mqloom.core.ids import GatewayId

RETRY_S: Final = 2.0
"""After so long without an answer a request or farewell is sent again."""

TRIES_MAX: Final = 4
"""So often it is sent; then a partner counts as away, and a farewell as not heard."""

SESSIONS_REMEMBERED_MAX: Final = 64
"""Sessions that are over and still known; messages about others are answered as if they had never been."""

FAREWELLS_MAX: Final = 32
"""Farewells that are sent again; of more the oldest is not, and its partner frees itself."""


class Past(NamedTuple):
    """A session that is over: what its farewell was, if any was said or heard, and whether it was ours to say."""

    farewell: Farewell | None
    is_ours: bool


@dataclass(slots=True)
class _Leaving:
    partner: GatewayId
    farewell: Farewell
    tries: int
    again_at: float


class Farewells:
    """The ends of one mediator's sessions."""

    def __init__(self) -> None:
        self._leaving: dict[SessionId, _Leaving] = {}
        self._past: dict[SessionId, Past] = {}

    @property
    def next_at(self) -> float | None:
        """When `wake` must be called."""
        return min((leaving.again_at for leaving in self._leaving.values()), default=None)

    def past(self, session: SessionId) -> Past | None:
        """Return what is known of a session that is over."""
        return self._past.get(session)

    def remember(self, session: SessionId, past: Past) -> None:
        """A session is over."""
        self._past.pop(session, None)
        if len(self._past) >= SESSIONS_REMEMBERED_MAX:
            del self._past[next(iter(self._past))]
        self._past[session] = past

    def say(self, partner: GatewayId, farewell: Farewell, now: float) -> Send:
        """End a session of ours."""
        self.remember(farewell.session, Past(farewell, is_ours=True))
        if len(self._leaving) >= FAREWELLS_MAX:
            del self._leaving[next(iter(self._leaving))]
        self._leaving[farewell.session] = _Leaving(partner, farewell, 1, now + RETRY_S)
        return Send(partner, farewell)

    def heard(self, session: SessionId, sender: GatewayId) -> None:
        """The other side knows."""
        leaving = self._leaving.get(session)
        if leaving is not None and leaving.partner == sender:
            del self._leaving[session]

    def wake(self, now: float) -> list[Send]:
        """Say again what is due."""
        sends = []
        for session, leaving in list(self._leaving.items()):
            if now < leaving.again_at:
                continue
            if leaving.tries >= TRIES_MAX:
                del self._leaving[session]
                continue
            leaving.tries += 1
            leaving.again_at = now + RETRY_S
            sends.append(Send(leaving.partner, leaving.farewell))
        return sends

    def check(self) -> None:
        """State the invariants."""
        assert len(self._past) <= SESSIONS_REMEMBERED_MAX
        assert len(self._leaving) <= FAREWELLS_MAX

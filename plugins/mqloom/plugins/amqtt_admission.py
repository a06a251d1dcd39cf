"""Who may connect to the embedded broker: everybody.

amqtt has that too, but keeps nothing for whoever comes that way: a persistent session of theirs is no session.
"""

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class Everybody(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no types
    """Admits everybody, and lets sessions be kept."""

    async def authenticate(self, *, session: Session) -> bool:
        """Say yes."""
        return True
